"""Runs Heddle on the broken models and checks that each ends in a clean error.
usage: python check_errors.py DIR [--heddle PATH]

Clean: exit status 1 to 125, but not 2 (the command line is wrong), 70 (an error inside Heddle) or
101 (Rust's panic); no signal; within the time limit, in 3 GiB of address space; with every TEXT of
expect.txt's `error: TEXT` lines in the message, whatever its case."""
import argparse
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS, ADDRESS_SPACE, UNCLEAN = 30, 3 << 30, (2, 70, 101)
LIMITS = ["--max-iterations", "100000", "--max-depth", "2000", "--timeout", "20",
          "--max-memory", str(1 << 30)]


def limit_memory():
    """Runs in the child before Heddle starts."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(heddle, folder: Path):
    """(what is wrong with the way this model ends or '', seconds, the message's first line)."""
    lines = (folder / "expect.txt").read_text().splitlines()
    needles = [line[len("error: "):] for line in lines if line.startswith("error: ")]
    command = [heddle, "run", folder / "model.onnx", "--random", "0", *LIMITS]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=SECONDS, preexec_fn=limit_memory)
    except subprocess.TimeoutExpired:
        return f"still running after {SECONDS} s", SECONDS, ""
    seconds, message = time.perf_counter() - begin, done.stderr.lower()
    first = done.stderr.strip().splitlines()[0] if done.stderr.strip() else ""
    problems = []
    if done.returncode < 0:
        problems.append(f"killed by signal {-done.returncode}")
    elif done.returncode == 0 and "may succeed" not in lines:
        problems.append("succeeded")
    elif done.returncode > 125 or done.returncode in UNCLEAN:
        problems.append(f"exit status {done.returncode}")
    if "panicked" in message:
        problems.append("panicked")
    if done.returncode:
        missing = [n for n in needles if n.lower() not in message]
        problems += [f"does not say {n!r}" for n in missing]
        problems += ["says nothing"] * (not message.strip())
    return "; ".join(problems), seconds, first


def main():
    """Prints a line for each failure and for each slow case, then the runner's summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--heddle", default=ROOT / "target/release/heddle")
    parser.add_argument("--verbose", action="store_true", help="show every message")
    args = parser.parse_args()
    folders = sorted(path.parent for path in args.dir.glob("*/expect.txt"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda folder: check(args.heddle, folder), folders))
    for folder, (problem, seconds, first) in zip(folders, results):
        if problem or args.verbose:
            print(f"{'FAILED' if problem else 'ok':6} {folder.name} ({seconds:.1f} s): {problem}")
            print(f"       {first[:160]}")
    failed = sum(bool(problem) for problem, _, _ in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 0 if results and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
