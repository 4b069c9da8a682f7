"""Runs Heddle on the models of the zoo for batches and compares the results with the float64 references.
usage: python check_batching.py OUT [--models a,b] [--batches 1,8,64] [--f64] [--heddle PATH] [--programs DIR]

OUT is what make.py of the zoo for batches wrote. Each model runs in both languages that it is written
in (`MODEL.heddle`, `MODEL.hl`). Floats agree within 1e-4, or 1e-9 with --f64, relative or absolute;
integers must be equal. The exit status is 0 only if all agree."""
import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench_batching import LARGEST, MODELS, PROGRAMS
from heddle import HEDDLE


def check(args, program, model, batch):
    """The text of the first fault, or none, of one program on one batch."""
    stem = args.out / f"{model}_b{batch}"
    limit = "1e-9" if args.f64 else "1e-4"
    command = [args.heddle, "check", program, "--batch", f"{stem}.in.npz", "--weights",
               args.out / f"{model}.weights.npz", "--expect", f"{stem}.want.npz",
               "--rtol", limit, "--atol", limit, *["--f64"] * args.f64]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if "agrees" not in line]
    return " ".join((lines or done.stderr.strip().splitlines() or ["no message"])[0].split())


def main() -> int:
    """Prints a row for each program and batch, and the summary line of the tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default="", help="separated by commas; default: all ten")
    parser.add_argument("--batches", default="1,8,64")
    parser.add_argument("--f64", action="store_true")
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--programs", type=Path, default=PROGRAMS)
    args = parser.parse_args()
    passed = failed = 0
    print(f"{'program':18} {'batch':>5} {'seconds':>8}")
    for model in filter(None, args.models.split(",")) if args.models else MODELS:
        for program in sorted(args.programs.glob(f"{model}.h*")):
            for batch in map(int, args.batches.split(",")):
                if batch > LARGEST.get(model, batch):
                    continue
                begin = time.perf_counter()
                fault = check(args, program, model, batch)
                passed, failed = passed + (fault is None), failed + (fault is not None)
                print(f"{program.name:18} {batch:5} {time.perf_counter() - begin:8.2f} "
                      f"{'ok' if fault is None else 'FAILED: ' + fault}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
