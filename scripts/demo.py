"""Makes a loop, a branch and a recursion model, runs them with Heddle, checks the results and measures.
usage: python demo.py [--heddle PATH] [--keep DIR] [--seconds S]

In f32 the outputs are compared with ONNX Runtime's where it accepts the model, with numpy's where
it does not; with --f64 they are compared with numpy in float64. Measured are the same operators with
control flow run by the host, Heddle, the trace without control flow, and ONNX Runtime, on as many
threads each."""
import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnxruntime

from demo_models import DEMOS
from heddle import HEDDLE, bench_heddle, relative_error, run_heddle

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


def milliseconds(times: dict) -> str:
    """A median as `heddle bench` has it, or a dash where it was not measured."""
    if not times:
        return "-"
    interpreted = " (interpreted)" if times.get("interpreted") else ""
    return f"{times['median_ms']:.3g}{interpreted}"


def measure_onnx_runtime(session, inputs, seconds) -> dict:
    """The median of its runs, in the form that `heddle bench` prints."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 6:
        begin = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    return {"median_ms": statistics.median(times[1:])}


def worst(got: dict, names, wants) -> float:
    """The largest relative error over all outputs."""
    return max(relative_error(got[n], w) for n, w in zip(names, wants, strict=True))


def show(demo, heddle, folder, seconds) -> list[tuple]:
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
            single, _ = run_heddle(heddle, path, inputs)
            double, _ = run_heddle(heddle, path, inputs, f64=True)
            bench = bench_heddle(heddle, path, inputs, seconds)
        except RuntimeError as error:
            print(f"{demo.name}: {error}")
            rows.append((demo.name, demo.control, words, *"-----", verdict, "FAILED"))
            continue
        peer = session.run(None, inputs) if session else expected
        errors = worst(single, names, peer), worst(double, names, expected)
        good = errors[0] <= LIMIT_F32 and errors[1] <= LIMIT_F64
        measured = measure_onnx_runtime(session, inputs, seconds) if session else {}
        rows.append((demo.name, demo.control, words, f"{errors[0]:.1e}", f"{errors[1]:.1e}",
                     milliseconds(bench.get("host")), milliseconds(bench),
                     milliseconds(bench.get("trace")),
                     milliseconds(measured) if session else verdict,
                     "ok" if good else "FAILED"))
    return rows


def main():
    """Prints each model's inspection, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--keep", type=Path, help="leave the models in this folder")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each is measured")
    args = parser.parse_args()
    rows = [("model", "control flow", "what it did", "f32 error", "f64 error", "host ms",
             "Heddle ms", "trace ms", "ONNX Runtime ms", "")]
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for make in DEMOS:
            rows += show(make(), args.heddle, folder, args.seconds)
    widths = [max(map(len, column)) for column in zip(*rows)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    failed = sum(row[-1] == "FAILED" for row in rows)
    print("\nf32 error: against ONNX Runtime, or numpy where it refuses; f64 error: against numpy")
    print("host: the same operators, dispatched one by one by a host that runs the control flow; "
          "trace: without control flow, which is the bound")
    print(f"{len(rows) - 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
