"""Writes the control-flow corpus: OUT/cases/NAME in ONNX's test layout and OUT/errors/NAME.
usage: python make_corpus.py OUT [--verify]

Each program is ONNX text with the same computation in plain Python beside it, which gives the
expected values. --verify also runs the programs in ONNX Runtime, reports where that refuses or
disagrees, and asks evaluate.py instead."""
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
import defaults  # noqa: F401
import functions  # noqa: F401
import loops  # noqa: F401
import nested
import recursion  # noqa: F401
import scans  # noqa: F401
import sequences  # noqa: F401
import deep
import errors
from evaluate import Evaluator
from program import PROGRAMS


def same(got, want) -> bool:
    """Whether two values agree as ONNX's own runner compares them."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if want is None or got is None:
        return got is want
    got, want = np.asarray(got), np.asarray(want)
    alike = got.shape == want.shape and got.dtype == want.dtype
    return alike and np.allclose(got, want, 1e-3, 1e-7)


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
    """Checks every program; what ONNX Runtime cannot confirm, evaluate.py must."""
    verdicts, passed, failed = Counter(), 0, 0
    for number, program in enumerate(PROGRAMS):
        verdict = in_child(ask_onnx_runtime, number)
        verdicts[verdict.split()[0].rstrip(":")] += 1
        if verdict == "ok":
            passed += 1
            continue
        second = in_child(ask_evaluator, number)
        good = second == "ok" and (program.dissent or not verdict.startswith("differs"))
        passed, failed = passed + bool(good), failed + (not good)
        if not program.recursive or not good:
            print(f"  {program.name}: {verdict[:200]} {program.dissent}")
        if second != "ok":
            print(f"  {program.name}: evaluate.py: {second[:200]}")
    print("ONNX Runtime:", ", ".join(f"{n} {v}" for v, n in verdicts.items()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def in_child(ask, number: int) -> str:
    """The answer of a process of its own, since some programs make ONNX Runtime crash."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        try:
            return pool.submit(ask, number).result()
        except BrokenProcessPool:
            return "crashed"


def ask_onnx_runtime(number: int) -> str:
    """'ok', or what ONNX Runtime did instead with the program of that number."""
    import onnxruntime

    model = PROGRAMS[number].model(typed=False)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    try:
        data = model.SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=providers)
    except Exception as error:
        return "refused: " + str(error).splitlines()[0]
    names = [i.name for i in model.graph.input]

    def run(inputs):
        return session.run(None, {k: v for k, v in zip(names, inputs) if v is not None})
    return compare(PROGRAMS[number], model, run)


def ask_evaluator(number: int) -> str:
    """'ok', or where evaluate.py disagrees."""
    model = PROGRAMS[number].model(typed=False)
    sys.setrecursionlimit(100_000)
    return compare(PROGRAMS[number], model, Evaluator(model).run)


def compare(program, model, run) -> str:
    """Runs all data sets and compares with what the plain Python gave."""
    for number, (inputs, wants) in enumerate(program.data_sets(model)):
        try:
            got = run(inputs)
        except Exception as error:
            return f"failed on set {number}: " + str(error).splitlines()[0]
        for info, g, w in zip(model.graph.output, got, wants, strict=True):
            if not same(g, w):
                text = f"differs on set {number}, {info.name}: {g} instead of {w}"
                return text.replace("\n", " ")
    return "ok"


if __name__ == "__main__":
    sys.exit(main())
