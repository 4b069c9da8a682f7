"""Agreement and times of Heddle and its peers on one model, in turns."""
import argparse
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from turns import Turns, in_turns


def arguments(about, runs, of_runs=None):
    """The parser of a script that measures models in a folder, with so many runs if none are asked for."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heddle", default="target/release/heddle")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=runs, help=of_runs)
    return parser


def same(outputs, results):
    """Are arrays equal, floats up to rounding?"""
    def agree(a, b):
        exact = np.issubdtype(b.dtype, np.integer) or b.dtype == bool
        return np.array_equal(a, b) if exact else np.allclose(a, b, 1e-3, 1e-3)
    return len(outputs) == len(results) and all(
        a.shape == b.shape and agree(a, b) for a, b in zip(outputs, results))


def by_onnx_runtime(path, data):
    """ONNX Runtime's results; raises its error where it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    with np.load(data) as arrays:
        return session.run(None, dict(arrays))


def by_heddle(heddle, path, data, results, threads):
    """What it says of what it interprets; raises an error if its results are others."""
    out = path.with_suffix(".out.npz")
    done = subprocess.run([heddle, "run", path, "--input", data, "--output", out, "--device", "cpu",
                           "--threads", str(threads)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{path}: {done.stderr}")
    with np.load(out) as outputs:
        if not same([outputs[k] for k in outputs], results):
            raise RuntimeError(f"{path}: Heddle's results differ")
    return "in part" if "interpreter" in done.stderr else "whole"


PEERS = {"ort": "ort", "spin": "ort, spinning", "openvino": "openvino"}
BY_ONNX_RUNTIME = ("ort", "spin")


def times(heddle, path, data, threads, runs, turn, peers=BY_ONNX_RUNTIME):
    """Medians in ms of Heddle and of these peers, `turn` runs at a time. ONNX Runtime's threads sleep
    or spin while they wait."""
    starts = {"heddle": lambda: Turns.heddle(heddle, path, data, threads)}
    for peer in peers:
        starts[peer] = lambda peer=peer: Turns.peer(path, data, threads, peer)
    return in_turns(starts, runs, turn)


def beside_peers(args, name, made, inputs, turn):
    """Checks a model and measures it, whose files go to the folder; prints a row, and gives medians in ms."""
    path, data = args.folder / f"{name}.onnx", args.folder / f"{name}.npz"
    onnx.save(made, path)
    np.savez(data, **inputs)
    how = by_heddle(args.heddle, path, data, by_onnx_runtime(path, data), args.threads)
    # Models that are run one at a time take long.
    runs = args.runs if turn > 1 else args.runs // 20
    medians = times(args.heddle, path, data, args.threads, runs, turn, PEERS)
    print(row(name, how, medians, PEERS), flush=True)
    return medians


def row(name, how, medians, peers=BY_ONNX_RUNTIME, refusal=""):
    """A line of a table: name, how much is compiled, times, and the best peer's by Heddle's."""
    there = [medians[peer] for peer in peers if peer in medians]
    cells = [f"{t:.3g}" for t in there] or [refusal] + [""] * (len(peers) - 1)
    ratio = f"{min(there) / medians['heddle']:.2f}" if there else ""
    return f"| {name} | {how} | {medians['heddle']:.3g} | {' | '.join(cells)} | {ratio} |"


def head(name, peers=BY_ONNX_RUNTIME):
    """The head of such a table."""
    columns = [name, "compiled", "heddle", *(PEERS[peer] for peer in peers), "ratio"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
