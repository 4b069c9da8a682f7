"""Measures Heddle on the zoo's dynamic models, and prints the figures as Markdown.
usage: python bench_zoo.py OUT [--heddle PATH] [--models a,b] [--batch N] [--threads N] [--seconds S] [--ablate]

OUT is what the zoo's make.py wrote. For each model: the same operators with control flow run by the
host, Heddle, the trace without control flow, and what control flow costs over that; with --ablate
what each step of compiling brings. Peers are measured by the zoo's own peers.py."""
import argparse
import re
import sys
from pathlib import Path

import numpy as np

from heddle import HEDDLE, bench_heddle

DYNAMIC = {"lstm", "nasrnn", "attention", "seq2seq", "blockdrop", "skipnet", "rae"}


def models(args):
    """(path, inputs) of each dynamic model of this batch size; inputs are those of set 0."""
    wanted = set(filter(None, args.models.split(","))) or DYNAMIC
    for path in sorted(args.out.glob(f"*_b{args.batch}.onnx")):
        match = re.fullmatch(r"(.+)_([a-z]+)_b\d+", path.stem)
        if match and match[1] in wanted:
            with np.load(args.out / f"{match[1]}_b{args.batch}_s0.npz") as arrays:
                yield path, {k[len("in_"):]: v for k, v in arrays.items() if k.startswith("in_")}


def cell(times) -> str:
    """Median, and least and greatest in brackets."""
    if not times:
        return ""
    return f"{times['median_ms']:.3g} ({times['min_ms']:.3g}–{times['max_ms']:.3g})"


def compare(args) -> int:
    """A row for each model; how many could not be measured."""
    failed = 0
    print("| model | host ms | Heddle ms | trace ms | control flow | compiled in |")
    print("|---|---|---|---|---|---|")
    for path, inputs in models(args):
        try:
            row = bench_heddle(args.heddle, path, inputs, args.seconds, threads=args.threads)
        except RuntimeError as error:
            failed += 1
            print(f"| {path.stem} | {str(error).splitlines()[-1]} |")
            continue
        overhead = row.get("overhead_percent")
        cells = [path.stem, cell(row.get("host")), cell(row), cell(row.get("trace")),
                 "" if overhead is None else f"{overhead:+.1f} %",
                 "interpreted" if row.get("interpreted") else f"{row['compile_s']:.2f} s"]
        print(f"| {' | '.join(cells)} |", flush=True)
    return failed


def ablate(args) -> int:
    """A table for each model; how many could not be measured."""
    failed = 0
    for path, inputs in models(args):
        print(f"\n{path.stem}\n\n| step | ms | speedup |\n|---|---|---|")
        try:
            rows = bench_heddle(args.heddle, path, inputs, args.seconds, compare=(),
                                threads=args.threads, more=["--ablate"])["ablation"]
        except RuntimeError as error:
            failed += 1
            print(f"| {str(error).splitlines()[-1]} |")
            continue
        before = None
        for row in rows:
            if row["changed"]:
                speedup = f"{before / row['median_ms']:.2f}" if before else ""
                print(f"| {row['name']} | {cell(row)} | {speedup} |", flush=True)
                before = row["median_ms"]
    return failed


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--models", default="", help="names, separated by commas; default: all")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--ablate", action="store_true")
    args = parser.parse_args()
    return 1 if (ablate if args.ablate else compare)(args) else 0


if __name__ == "__main__":
    sys.exit(main())
