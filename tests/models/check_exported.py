"""Runs the small exported programs on both devices; all are right, and all but those listed compiled whole.
usage: python check_exported.py HEDDLE

The cases and the list, known.txt, are in exported/ beside this file."""
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "exported"


def run(heddle: str, device: str):
    """The report of `heddle test` on all cases."""
    command = [heddle, "test", FOLDER, "--device", device, "--json"]
    if device == "cpu":
        command += ["--verify", "--check-text"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)


def main(heddle: str) -> int:
    """Prints each fault; the exit status is 1 if there is one."""
    lines = (FOLDER / "known.txt").read_text().splitlines()
    known = {line.split()[0] for line in lines if line and not line.startswith("#")}
    passed = failed = 0
    for device in ("interp", "cpu"):
        for case in run(heddle, device)["cases"]:
            fault = None if case["verdict"] == "passed" else case["reason"]
            if device == "cpu" and case["compiled"] == (case["name"] in known):
                fault = fault or case["interpreted"] or "compiled whole: take it off the list"
            passed, failed = passed + (fault is None), failed + (fault is not None)
            if fault:
                print(f"FAILED  {case['name']} on {device}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
