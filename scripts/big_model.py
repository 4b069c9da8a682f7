"""Writes a 3 GB ONNX model with external data and measures what `heddle inspect` needs for it.
usage: python big_model.py OUT [--heddle PATH]

The weights are a sparse file of zeros, so the disk hardly notices. With --heddle the import's wall
time and peak resident memory are printed beside their targets; exit status 0 if both are met."""
import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

LAYERS, WIDTH = 48, 4096  # 48 matrices of 64 MiB: 3 GiB
MAX_SECONDS, MAX_MEGABYTES = 1.0, 200


def write_model(out: Path) -> Path:
    """x -> relu(x W_i) ..., each W_i a slice of big.weights."""
    out.mkdir(parents=True, exist_ok=True)
    size, nodes, weights = WIDTH * WIDTH * 4, [], []
    for i in range(LAYERS):
        weight = TensorProto(name=f"w{i}", dims=(WIDTH, WIDTH), data_type=TensorProto.FLOAT,
                             data_location=TensorProto.EXTERNAL)
        place = {"location": "big.weights", "offset": i * size, "length": size}
        for key, value in place.items():
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"h{i}"]))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"x{i + 1}"]))
    with open(out / "big.weights", "wb") as file:
        file.truncate(LAYERS * size)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH])
             for name in ("x0", f"x{LAYERS}")]
    graph = helper.make_graph(nodes, "big", ports[:1], ports[1:], weights)
    opset = helper.make_opsetid("", 17)
    path = out / "big.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8)
                     .SerializeToString())
    onnx.checker.check_model(str(path))
    return path


def measure(heddle, model: Path) -> bool:
    """Runs `heddle inspect` once; prints wall time and peak resident memory (which Linux does not
    let fall below this script's own, about 45 MB, from which the child is started)."""
    begin = time.perf_counter()
    child = subprocess.Popen([heddle, "inspect", model], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds, megabytes = time.perf_counter() - begin, usage.ru_maxrss / 1024
    good = child.returncode == 0 and seconds < MAX_SECONDS and megabytes < MAX_MEGABYTES
    gigabytes = LAYERS * WIDTH * WIDTH * 4 / 1e9
    print(f"import of {gigabytes:.1f} GB of external data (exit status {child.returncode})")
    print(f"  wall time {seconds:7.3f} s   target < {MAX_SECONDS:.0f} s")
    print(f"  peak RSS  {megabytes:7.1f} MB  target < {MAX_MEGABYTES} MB")
    print(f"{int(good)} passed, {int(not good)} failed")
    return good


def main():
    """Writes the model and, if asked to, measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--heddle", type=Path)
    args = parser.parse_args()
    model = write_model(args.out)
    print(f"wrote {model}")
    return 0 if args.heddle is None or measure(args.heddle, model) else 1


if __name__ == "__main__":
    sys.exit(main())
