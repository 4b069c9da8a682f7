"""Measures each step of compiling on the program in benches/steps where it pays.
usage: python bench_steps.py [STEP ...] [--heddle PATH] [--threads N] [--seconds S] [--rounds N]

For each step two processes take turns: the program compiled with all steps, and with all but this
one. The gain is the ratio of the medians; exit status 1 if a step gains less than 10 %."""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from heddle import HEDDLE

PROGRAMS = Path(__file__).resolve().parent.parent / "benches/steps"
WANTED = 1.1


class Turns:
    """A `heddle bench --turns` process: it measures as many runs as it is asked for."""

    def __init__(self, args, step: str, without: bool):
        command = [args.heddle, "bench", PROGRAMS / f"{step}.heddle", "--random", "0", "--turns"]
        command += ["--threads", str(args.threads)] * bool(args.threads)
        command += ["--without", step] * without
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        if not self.process.stdout.readline():
            raise RuntimeError(f"{step}: `heddle bench` ended with status {self.process.wait()}")

    def run(self, count: int):
        """The times of so many runs, in milliseconds."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def measure(args, step: str):
    """Times with and without a step, of rounds in which both take as long together as asked."""
    subjects = [Turns(args, step, without) for without in (False, True)]
    counts = []
    for subject in subjects:
        once = statistics.median(subject.run(3))
        counts.append(max(1, int(args.seconds * 1000 / args.rounds / 2 / max(once, 1e-3))))
    times = [[], []]
    for _ in range(args.rounds):
        for subject, count, into in zip(subjects, counts, times):
            into += subject.run(count)
    for subject in subjects:
        subject.close()
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*")
    parser.add_argument("--heddle", type=Path, default=HEDDLE)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    steps = args.steps or sorted(path.stem for path in PROGRAMS.glob("*.heddle"))
    print("| step | with, ms: median (least) | without | gain by medians | by least times |")
    print("|---|---|---|---|---|")
    poor = 0
    for step in steps:
        times = measure(args, step)
        (with_it, without), (least, bare) = ([f(t) for t in times] for f in (statistics.median, min))
        poor += without / with_it < WANTED
        print(f"| {step} | {with_it:.4g} ({least:.4g}) | {without:.4g} ({bare:.4g}) "
              f"| {without / with_it:.2f} | {bare / least:.2f} |", flush=True)
    return 1 if poor else 0


if __name__ == "__main__":
    sys.exit(main())
