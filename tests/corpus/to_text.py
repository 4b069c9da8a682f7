"""Writes the corpus as text IR: each case with model.heddle in place of model.onnx, and its test data.
usage: python to_text.py CASES OUT [--heddle PATH]

`heddle test OUT` then runs what was printed, so that every program of the corpus goes through the
text form's printer and parser."""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

HEDDLE = Path(__file__).resolve().parents[2] / "target/release/heddle"


def defaults(model: Path) -> set[str]:
    """Inputs with default values; none for models that nest deeper than Python's reader goes."""
    try:
        graph = onnx.load(model).graph
    except DecodeError:
        return set()
    return {t.name for t in graph.initializer} & {i.name for i in graph.input}


def name(file: Path) -> str:
    """The name of the tensor in a file; that of another value makes no difference here."""
    try:
        return onnx.TensorProto.FromString(file.read_bytes()).name
    except DecodeError:
        return ""


def convert(case: Path, out: Path, heddle: Path) -> str | None:
    """Converts one case; what went wrong, if anything."""
    out.mkdir(parents=True)
    constants = defaults(case / "model.onnx")
    for data in case.glob("test_data_set_*"):
        # The text form has no default values: they are constants.
        if constants.isdisjoint(map(name, data.glob("input_*.pb"))):
            shutil.copytree(data, out / data.name)
            inputs = sorted((out / data.name).glob("input_*.pb")) if constants else []
            for number, file in enumerate(inputs):
                file.rename(file.with_name(f"input_{number}.pb"))
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
