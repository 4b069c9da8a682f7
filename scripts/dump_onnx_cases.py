"""Dumps all node cases of the installed `onnx` package into folders that `heddle test` reads.
usage: python dump_onnx_cases.py OUT"""
import sys
import warnings
from pathlib import Path

from onnx_case import write_case

DEFAULT_TOLERANCE = (1e-3, 1e-7)


def main(out: str):
    """Writes OUT/CASE/ for each case; the cases are made in memory while the loader runs."""
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    cases = load_model_tests(kind="node")
    for case in cases:
        tolerance = (case.rtol, case.atol)
        special = tolerance if tolerance != DEFAULT_TOLERANCE else None
        write_case(Path(out, case.name), case.model, case.data_sets, special)
    print(f"{len(cases)} cases written to {out}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
