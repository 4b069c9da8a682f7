"""Writes the control-flow corpus: OUT/cases/NAME in ONNX's test layout and OUT/errors/NAME.
usage: python make_corpus.py OUT [--verify]

Each program is ONNX text with the same computation in plain Python beside it, which gives the expected
values. --verify also runs the programs in ONNX Runtime and reports where it refuses or disagrees."""
import argparse
import shutil
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import branches  # noqa: F401  (these register their programs)
import functions  # noqa: F401
import loops  # noqa: F401
import nested
import recursion  # noqa: F401
import scans  # noqa: F401
import sequences  # noqa: F401
import deep
import errors
from program import PROGRAMS


def same(got, want) -> bool:
    """Whether two values agree as ONNX's own runner compares them."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if want is None or got is None:
        return got is want
    return got.shape == want.shape and got.dtype == want.dtype and np.allclose(got, want, 1e-3, 1e-7)


def verify(number: int) -> str:
    """'ok', or what ONNX Runtime did instead with the program of that number."""
    import onnxruntime

    program = PROGRAMS[number]
    model = program.model(typed=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return "refused: " + str(error).splitlines()[0]
    for number, (inputs, wants) in enumerate(program.data_sets(model)):
        names = (i.name for i in model.graph.input)
        try:
            got = session.run(None, {k: v for k, v in zip(names, inputs) if v is not None})
        except Exception as error:
            return f"failed on set {number}: " + str(error).splitlines()[0]
        for name, g, w in zip((o.name for o in model.graph.output), got, wants):
            if not same(g, w):
                return f"differs on set {number}, {name}: {g} instead of {w}".replace("\n", " ")
    return "ok"


def main():
    """Writes everything; every second program carries value_info."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--verify", action="store_true")
    args = arguments.parse_args()
    cases, broken = args.out / "cases", args.out / "errors"
    for folder in (cases, broken):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    nested.register()
    for number, program in enumerate(PROGRAMS):
        program.write(cases, typed=number % 2 == 1)
    extra = deep.write(cases)
    count = errors.write(broken)
    print(f"{len(PROGRAMS) + extra} programs and {count} broken models written to {args.out}")
    return verify_all() if args.verify else 0


def verify_all() -> int:
    """Runs every program in ONNX Runtime, each in a process of its own: some make it crash."""
    verdicts, passed, failed = Counter(), 0, 0
    for number, program in enumerate(PROGRAMS):
        with ProcessPoolExecutor(1, get_context("fork")) as pool:
            try:
                verdict = pool.submit(verify, number).result()
            except BrokenProcessPool:
                verdict = "crashed"
        verdicts[verdict.split()[0].rstrip(":")] += 1
        if verdict != "ok" and not program.recursive:
            print(f"  {program.name}: {verdict[:300]} {program.dissent}")
        wrong = verdict.startswith("differs") and not program.dissent
        passed, failed = passed + (verdict == "ok"), failed + wrong
    print("ONNX Runtime:", ", ".join(f"{n} {v}" for v, n in verdicts.items()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
