"""Runs the `heddle` command on arrays, and measures how far outputs are from what is wanted."""
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

HEDDLE = Path(__file__).resolve().parent.parent / "target/release/heddle"


def relative_error(got, want) -> float:
    """max|got - want| / max|want|; infinite where shapes, integers or NaNs differ."""
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind in "iub":
        return 0.0 if np.array_equal(got, want) else float("inf")
    if not want.size:
        return 0.0
    scale = max(float(np.abs(want).max()), 1e-30)
    error = float(np.abs(got.astype(np.float64) - want).max()) / scale
    return error if np.isfinite(error) else float("inf")


def run_heddle(heddle, model, inputs, f64=False, more=()):
    """The outputs of `heddle run` by name, and its wall time in seconds; raises with its stderr."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **inputs)
        command = [heddle, "run", model, "--input", source, "--output", target, *more]
        begin = time.perf_counter()
        done = subprocess.run(command + ["--f64"] * f64, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
        with np.load(target) as arrays:
            return dict(arrays), seconds


def bench_heddle(heddle, model, inputs, seconds, compare=("host", "trace"), threads=None, more=()):
    """What `heddle bench --json` says, compared with as much as the model allows of what is asked
    for; raises with its stderr."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.npz")
        np.savez(source, **inputs)
        command = [heddle, "bench", model, "--input", source, "--seconds", str(seconds), *more]
        command += ["--json", "-"] + ["--threads", str(threads)] * bool(threads)
        for count in range(len(compare), -1, -1):
            which = ["--compare", ",".join(compare[:count])] if count else []
            done = subprocess.run(command + which, capture_output=True, text=True)
            if done.returncode == 0:
                return json.loads(done.stdout)
        raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
