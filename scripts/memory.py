"""Measures the memory that a model's weights take, and prints a table as Markdown.
usage: python memory.py [--heddle PATH] [--out DIR] [MODEL ...]

MODEL is a name of large_models.py, which is written to DIR (default: target/large), or a path of a
model beside an .npz of its inputs. Figures are in MB, and as multiples of the file without scratch
memory, outputs and 30 MB for the rest of a process:

    peak    the most that one process ever had resident, of a program that is in the cache
    second  what a second process adds, both with `--packed cache`: PSS of both, less that of the
            first alone

Bars: a peak of 1.3 files for a program compiled as a whole, 1.5 in parts; a second process 0.3.
Exit status 0 only if all are met. Needs numpy and onnx."""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from heddle import HEDDLE
from large_models import MODELS, write
from turns import Turns

BARS = {"whole": 1.3, "parts": 1.5}
SECOND = 0.3
REST = 30e6
OUT = HEDDLE.parents[1] / "large"


def resident(turns, file, field) -> float:
    """A figure of a process from its files in /proc, in bytes."""
    text = Path(f"/proc/{turns.process.pid}/{file}").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


def measure(heddle, model):
    """(form, scratch memory and outputs, peak, memory of a second process), in bytes."""
    inputs = model.with_suffix(".npz")
    command = [heddle, "run", model, "--input", inputs, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    said = json.loads(done.stdout)
    form = "parts" if said["interpreted"] else "whole"
    with Turns.heddle(heddle, model, inputs) as one:
        one.run(3)
        peak = resident(one, "status", "VmHWM")
    cached = ["--packed", "cache"]
    with Turns.heddle(heddle, model, inputs, options=cached) as one:
        one.run(3)
        alone = resident(one, "smaps_rollup", "Pss")
        with Turns.heddle(heddle, model, inputs, options=cached) as two:
            two.run(3)
            both = sum(resident(turns, "smaps_rollup", "Pss") for turns in (one, two))
    return form, said["held_bytes"], peak, both - alone


def row(heddle, model) -> bool:
    """Prints a model's row; are its bars met?"""
    size = sum(f.stat().st_size for f in (model, model.with_suffix(".weights")) if f.exists())
    try:
        form, held, peak, second = measure(heddle, model)
    except RuntimeError as error:
        print(f"| {model.stem} | {size / 1e6:.0f} | {str(error).splitlines()[0]} |", flush=True)
        return False
    one, two = ((bytes - held - REST) / size for bytes in (peak, second))
    good = one <= BARS[form] and two <= SECOND
    cells = [model.stem, f"{size / 1e6:.0f}", form, f"{held / 1e6:.1f}",
             f"{peak / 1e6:.0f}", f"{one:.2f} (≤ {BARS[form]})",
             f"{second / 1e6:.0f}", f"{two:.2f} (≤ {SECOND})", "PASS" if good else "FAIL"]
    print(f"| {' | '.join(cells)} |", flush=True)
    return good


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        default=[name for name in MODELS if name != "deq"])
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    print("| model | file | compiled as | scratch | peak | files | second | files | |")
    print("|---|---|---|---|---|---|---|---|---|")
    paths = (write(args.out, name) if name in MODELS else Path(name) for name in args.models)
    failed = sum(not row(args.heddle, path) for path in paths)
    print(f"{len(args.models) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
