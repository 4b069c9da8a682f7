"""Measures each step of compiling on the program in benches/steps where it pays.
usage: python bench_steps.py [STEP ...] [--heddle PATH] [--threads N] [--seconds S] [--rounds N]

For each step two processes take turns: the program compiled with all steps, and with all but this
one. The gain is the ratio of the medians; exit status 1 if a step gains less than 10 %. The last
column is the resident memory of the two processes."""
import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from heddle import HEDDLE

PROGRAMS = Path(__file__).resolve().parent.parent / "benches/steps"
WANTED = 1.1
# These change programs for GPUs alone, where `heddle bench --device cuda` measures them.
ON_GPUS = {"align_gathered", "gather_state", "join_lanes", "keep_resident", "keep_state", "mirror_state", "spread_shares"}


class Turns:
    """A `heddle bench --turns` process: it measures as many runs as it is asked for."""

    def __init__(self, args, step: str, without: bool):
        command = [args.heddle, "bench", PROGRAMS / f"{step}.heddle", "--random", "0", "--turns"]
        command += ["--threads", str(args.threads)] * bool(args.threads)
        command += ["--without", step] * without
        self.messages = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.messages)
        if not self.process.stdout.readline():
            raise RuntimeError(f"{step}: `heddle bench` ended with status {self.process.wait()}: "
                               f"{self.notes()}")

    def run(self, count: int):
        """The times of so many runs, in milliseconds."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def memory(self) -> float:
        """Resident memory in MB, or NaN on a system without /proc."""
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmRSS:\s*(\d+)", status.read_text()) if status.exists() else None
        return int(found[1]) / 1024 if found else float("nan")

    def notes(self) -> str:
        """The messages of the process so far."""
        self.messages.seek(0)
        return self.messages.read().strip()

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()
        self.messages.close()


def measure(args, step: str):
    """Times, memory and messages with and without a step; the times are of rounds in which both take
    as long together as asked."""
    subjects = [Turns(args, step, without) for without in (False, True)]
    counts = []
    for subject in subjects:
        once = statistics.median(subject.run(3))
        counts.append(max(1, int(args.seconds * 1000 / args.rounds / 2 / max(once, 1e-3))))
    times = [[], []]
    for _ in range(args.rounds):
        for subject, count, into in zip(subjects, counts, times):
            into += subject.run(count)
    memory = [subject.memory() for subject in subjects]
    notes = [subject.notes() for subject in subjects]
    for subject in subjects:
        subject.close()
    return times, memory, notes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*")
    parser.add_argument("--heddle", type=Path, default=HEDDLE)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    steps = args.steps or sorted({path.stem for path in PROGRAMS.glob("*.heddle")} - ON_GPUS)
    print("| step | with, ms: median (least) | without | gain by medians | by least times | memory, MB |")
    print("|---|---|---|---|---|---|")
    poor, messages = 0, []
    for step in steps:
        times, memory, notes = measure(args, step)
        for way, note in zip(("with", "without"), notes):
            messages += [f"{way} {step}: {note}"] * bool(note)
        (with_it, without), (least, bare) = ([f(t) for t in times] for f in (statistics.median, min))
        poor += without / with_it < WANTED
        print(f"| {step} | {with_it:.4g} ({least:.4g}) | {without:.4g} ({bare:.4g}) "
              f"| {without / with_it:.2f} | {bare / least:.2f} "
              f"| {memory[0]:.0f}, without {memory[1]:.0f} |", flush=True)
    print("\n".join(["", *messages]))
    return 1 if poor else 0


if __name__ == "__main__":
    sys.exit(main())
