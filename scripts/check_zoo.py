"""Runs Heddle on the zoo's models and compares its outputs with the float64 references.
usage: python check_zoo.py OUT [--heddle PATH] [--models a,b] [--f64]

OUT is what the zoo's make.py wrote: MODEL_KIND_bBATCH.onnx and, for each, MODEL_bBATCH_sSEED.npz
with the inputs `in_NAME` and the references `out_I`. An output's error is max|got - want| /
max|want|; integers must be equal. Each schedule is proven sound. Exit status 0 only if all errors are
within 1e-4, or 1e-9 with --f64."""
import argparse
import re
import sys
from pathlib import Path

import numpy as np
import onnx

from heddle import HEDDLE, relative_error, run_heddle

LIMIT_F32, LIMIT_F64 = 1e-4, 1e-9
LIMIT_ROUNDED = 1.2e-7  # a reference stored as float32 is itself only this good


def check_set(args, model, data):
    """(error, limit, note, seconds) of one model on one set of inputs."""
    graph = onnx.load(model, load_external_data=False).graph
    with np.load(data) as arrays:
        inputs = {k[len("in_"):]: v for k, v in arrays.items() if k.startswith("in_")}
        wants = [arrays[f"out_{i}"] for i in range(len(graph.output))]
    rounded = any(w.dtype == np.float32 for w in wants)
    limit = (LIMIT_ROUNDED if rounded else LIMIT_F64) if args.f64 else LIMIT_F32
    note = "reference rounded to float32" if rounded and args.f64 else ""
    try:
        # What the interpreter runs has no schedule to prove.
        more = () if args.f64 else ("--verify",)
        got, seconds = run_heddle(args.heddle, model, inputs, args.f64, more)
    except RuntimeError as error:
        return float("inf"), limit, str(error).splitlines()[0], 0.0
    missing = [o.name for o in graph.output if o.name not in got]
    if missing:
        return float("inf"), limit, f"no output named {', '.join(missing)}", seconds
    error = max(relative_error(got[o.name], w) for o, w in zip(graph.output, wants, strict=True))
    return error, limit, note, seconds


def main():
    """Prints one row for each model and set, and the runner's summary line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--models", default="", help="names, separated by commas; default: all")
    parser.add_argument("--f64", action="store_true")
    args = parser.parse_args()
    wanted = set(filter(None, args.models.split(",")))
    passed = failed = 0
    print(f"{'model':26} {'set':>3} {'seconds':>8} {'rel. error':>10}")
    for model in sorted(args.out.glob("*.onnx")):
        match = re.fullmatch(r"(.+)_([a-z]+)_b(\d+)", model.stem)
        if not match or wanted and match[1] not in wanted:
            continue
        for data in sorted(args.out.glob(f"{match[1]}_b{match[3]}_s*.npz")):
            error, limit, note, seconds = check_set(args, model, data)
            good = error <= limit
            passed, failed = passed + good, failed + (not good)
            seed = data.stem.rsplit("_s", 1)[1]
            verdict = "ok" if good else f"FAILED (limit {limit:.1e})"
            row = f"{model.stem:26} {seed:>3} {seconds:8.2f} {error:10.1e} {verdict} {note}"
            print(row.rstrip(), flush=True)
    if args.f64:
        print(f"references over 1 MiB are stored as float32: checked to {LIMIT_ROUNDED:.1e} only")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
