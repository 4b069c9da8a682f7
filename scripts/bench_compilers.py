"""Times of the zoo's models by the C compiler that made their programs, in turns, as a table.
usage: python bench_compilers.py OUT --compilers gcc-12 clang-19 "python -m ziglang cc"
           [--heddle HEDDLE] [--threads N] [--runs N] [--only NAME,NAME]

OUT is what the zoo's make.py wrote. Each time is the median of so many runs, and the last column the
slowest compiler's by the fastest's. Models whose name contains one of NAME. Exit status 1 if a
model's times lie more than a tenth apart."""
import argparse
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

from turns import Turns, in_turns

APART, TURNS = 1.1, 5


def models(args):
    """(path, inputs) of each model; inputs are those of set 0."""
    for path in sorted(args.out.glob("*.onnx")):
        name, batch = re.fullmatch(r"(.+)_[a-z]+_(b\d+)", path.stem).groups()
        if any(word in path.stem for word in args.only.split(",")):
            with np.load(args.out / f"{name}_{batch}_s0.npz") as arrays:
                yield path, {k[len("in_"):]: v for k, v in arrays.items() if k.startswith("in_")}


def measure(args, model, data):
    """Medians in ms, by compiler."""
    def start(compiler):
        return Turns.heddle(args.heddle, model, data, args.threads, ["env", f"HEDDLE_CC={compiler}"])
    starts = {compiler: lambda compiler=compiler: start(compiler) for compiler in args.compilers}
    return in_turns(starts, args.runs, max(1, args.runs // TURNS))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compilers", nargs="+", required=True)
    parser.add_argument("--heddle", default="target/release/heddle")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    columns = ["model", *args.compilers, "apart"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    worst = 1.0
    with tempfile.NamedTemporaryFile(suffix=".npz") as data:
        for model, inputs in models(args):
            np.savez(data.name, **inputs)
            medians = measure(args, model, data.name)
            apart = max(medians.values()) / min(medians.values())
            worst = max(worst, apart)
            cells = [f"{medians[compiler]:.3g}" for compiler in args.compilers]
            print(f"| {model.stem} | {' | '.join(cells)} | {apart:.2f} |", flush=True)
    return int(worst > APART)


if __name__ == "__main__":
    sys.exit(main())
