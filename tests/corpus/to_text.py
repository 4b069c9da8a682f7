"""Writes the corpus as text IR: each case with model.heddle in place of model.onnx, and its test data.
usage: python to_text.py CASES OUT [--heddle PATH]

`heddle test OUT` then runs what was printed, so that every program of the corpus goes through the
text form's printer and parser."""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HEDDLE = Path(__file__).resolve().parents[2] / "target/release/heddle"


def convert(case: Path, out: Path, heddle: Path) -> str | None:
    """Converts one case; what went wrong, if anything."""
    out.mkdir(parents=True)
    for data in case.glob("test_data_set_*"):
        shutil.copytree(data, out / data.name)
    command = [heddle, "compile", case / "model.onnx", "--emit", "ir", "--no-opt",
               "-o", out / "model.heddle"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--heddle", type=Path, default=HEDDLE)
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    cases = sorted(p.parent for p in args.cases.glob("*/model.onnx"))
    failed = 0
    for case in cases:
        error = convert(case, args.out / case.name, args.heddle)
        if error:
            failed += 1
            print(f"{case.name}: {error}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
