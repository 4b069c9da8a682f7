"""Makes a loop, a branch and a recursion model, runs them with Heddle and checks the results.
usage: python demo.py [--heddle PATH] [--keep DIR]

In f32 the outputs are compared with ONNX Runtime's where it accepts the model, with numpy's where
it does not; with --f64 they are compared with numpy in float64."""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import onnxruntime

from demo_models import DEMOS
from heddle import HEDDLE, relative_error, run_heddle

LIMIT_F32, LIMIT_F64 = 1e-4, 1e-9


def onnx_runtime(path):
    """(a session or None, what ONNX Runtime says)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(str(path), options, providers=providers), "runs it"
    except Exception as error:
        text = str(error)
        at = text.find("must not be recursive")
        return None, "refuses: functions " + text[at:at + 21] if at >= 0 else "refuses"


def worst(got: dict, names, wants) -> float:
    """The largest relative error over all outputs."""
    return max(relative_error(got[n], w) for n, w in zip(names, wants, strict=True))


def show(demo, heddle, folder) -> list[tuple]:
    """One row of the table for each input set."""
    path = folder / f"{demo.name}.onnx"
    path.write_bytes(demo.model.SerializeToString())
    print(f"\n$ heddle inspect {path.name}", flush=True)
    subprocess.run([heddle, "inspect", path], check=False)
    session, verdict = onnx_runtime(path)
    names, rows = [o.name for o in demo.model.graph.output], []
    for inputs in demo.inputs:
        expected, words = demo.expected(inputs)
        try:
            single, seconds = run_heddle(heddle, path, inputs)
            double, _ = run_heddle(heddle, path, inputs, f64=True)
        except RuntimeError as error:
            print(f"{demo.name}: {error}")
            rows.append((demo.name, demo.control, words, "-", "-", "-", verdict, "FAILED"))
            continue
        peer = session.run(None, inputs) if session else expected
        errors = worst(single, names, peer), worst(double, names, expected)
        good = errors[0] <= LIMIT_F32 and errors[1] <= LIMIT_F64
        rows.append((demo.name, demo.control, words, f"{errors[0]:.1e}", f"{errors[1]:.1e}",
                     f"{seconds * 1e3:.0f}", verdict, "ok" if good else "FAILED"))
    return rows


def main():
    """Prints each model's inspection, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--keep", type=Path, help="leave the models in this folder")
    args = parser.parse_args()
    rows = [("model", "control flow", "what it did", "f32 error", "f64 error", "ms",
             "ONNX Runtime", "")]
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for make in DEMOS:
            rows += show(make(), args.heddle, folder)
    widths = [max(map(len, column)) for column in zip(*rows)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    failed = sum(row[-1] == "FAILED" for row in rows)
    print("\nf32 error: against ONNX Runtime, or numpy where it refuses; f64 error: against numpy")
    print(f"{len(rows) - 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
