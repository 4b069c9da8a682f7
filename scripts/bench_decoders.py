"""Times of decoders on Heddle and on ONNX Runtime, in turns, as a table.
usage: python bench_decoders.py FOLDER [--heddle HEDDLE] [--threads N] [--runs N]

FOLDER keeps the exported models. The last column is ONNX Runtime's better median (threads that
spin or sleep) by Heddle's; where ONNX Runtime cannot run a model or its results differ from
PyTorch's, it says so. Needs torch, onnx and onnxruntime."""
import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from exported import decoders
from exported.table import TABLE, TORCHSCRIPT
from exported.write import export, flat
from turns import Turns

TURN = 10


def write(folder: Path, program, module, inputs):
    """The model's path, the inputs' path, and PyTorch's results."""
    torch.manual_seed(0)
    network = torch.jit.script(module(decoders.LARGE).eval())
    program.runs = [inputs]
    with torch.no_grad():
        results = [np.asarray(r) for r in flat(network(*inputs))]
    path, data = folder / f"{program.name}.onnx", folder / f"{program.name}.npz"
    model = export(network, program, TORCHSCRIPT)
    onnx.save(model, path)
    places = [int(i.name.removeprefix("in")) for i in model.graph.input]
    np.savez(data, **{f"in{k}": np.asarray(inputs[k]) for k in places})
    return path, data, results


def same(outputs, results):
    return all(a.shape == b.shape and np.allclose(a, b, 1e-3, 1e-3)
               for a, b in zip(outputs, results))


def by_onnx_runtime(path, data, results):
    """An error, or nothing if its results are PyTorch's."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, dict(np.load(data)))
    except Exception as error:  # whatever it refuses
        return "refuses: " + type(error).__name__
    return "" if same(outputs, results) else "wrong results"


def by_heddle(heddle, path, data, results, threads):
    """What it says of what it interprets; raises an error if a result is not PyTorch's."""
    out = path.with_suffix(".out.npz")
    done = subprocess.run([heddle, "run", path, "--input", data, "--output", out, "--device", "cpu",
                           "--threads", str(threads)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{path}: {done.stderr}")
    with np.load(out) as outputs:
        if not same([outputs[k] for k in outputs], results):
            raise RuntimeError(f"{path}: results differ from PyTorch's")
    return "in part" if "interpreter" in done.stderr else "whole"


def medians(programs, runs):
    times = {name: [] for name in programs}
    for _ in range(max(1, runs // TURN)):
        for name, program in programs.items():
            program.run(1)
            times[name] += program.run(TURN)
    return {name: float(np.median(all_)) for name, all_ in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heddle", default="target/release/heddle")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=50)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print("| decoder | compiled | heddle | ort | ort, spinning | ratio |\n|---|---|---|---|---|---|")
    for module, inputs in decoders.INPUTS.items():
        program = next(p for p in TABLE if p.make is module)
        path, data, results = write(args.folder, program, module, inputs)
        how = by_heddle(args.heddle, path, data, results, args.threads)
        refusal = by_onnx_runtime(path, data, results)
        programs = {"heddle": Turns.heddle(args.heddle, path, data, args.threads)}
        if not refusal:
            for name, spin in (("ort", False), ("spin", True)):
                programs[name] = Turns.onnx_runtime(path, data, args.threads, spin)
        times = medians(programs, args.runs)
        for turns in programs.values():
            turns.__exit__()
        peers = [times[name] for name in ("ort", "spin") if name in times]
        cells = [f"{t:.3g}" for t in peers] or [refusal, ""]
        ratio = f"{min(peers) / times['heddle']:.2f}" if peers else ""
        print(f"| {program.name} | {how} | {times['heddle']:.3g} | {' | '.join(cells)} | {ratio} |",
              flush=True)


if __name__ == "__main__":
    sys.exit(main())
