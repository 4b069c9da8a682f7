"""Measures latency beside other work on the machine, and prints tables as Markdown.
usage: python load.py [--heddle PATH] [--base PATH] [--models DIR] [--only a,b] [--runs N]

DIR holds what the zoo's make.py wrote, with seq2seq_nmt (default: target/zoo); a model that is not
there is left out and named. deq comes from large_models.py. Times are medians (99th percentiles) in
ms of N runs (default 300; fewer where ONNX Runtime takes over four times as long). All programs of
a row are measured in turns:

    heddle            as many threads as it chooses
    one               Heddle with one thread
    base              as many threads as it chooses, of another binary
    ort1, ort2, spin  ONNX Runtime with 1 thread, 2 threads, 2 threads that spin

Busy processes are endless loops that this script starts and ends. Bars:

    busy 0   median 1.02 base
    busy 1   median 1.15 one
    busy 2   median 1.3 one
    each     99th percentile 1.3 one; median and 99th percentile 1.05 of ONNX Runtime's best
    spin     heddle and ONNX Runtime's spinning threads, a run each by turns: median 1.45, 99th
             percentile 2.5 of those of heddle on a quiet machine
    twins    two processes at the same time, against two of one thread: median and 99th percentile 1
    quota    in a control group of 1.5 CPUs, against one there: median and 99th percentile 1.1

Exit status 0 only if all are met. Needs numpy, onnx and onnxruntime, and for quotas the right to
make control groups."""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from heddle import HEDDLE
from large_models import write
from turns import Turns

TARGET = HEDDLE.parents[1]
ZOO = {"seq2seq": "seq2seq_loop_b1", "lstm": "lstm_loop_b1", "attention": "attention_loop_b1",
       "nmt": "seq2seq_nmt_static_b1"}
ORT = {"ort1": (1, "ort"), "ort2": (2, "ort"), "spin": (2, "spin")}
# Runs of a program before the next one's turn.
TURN = 20
# Bars on median and 99th percentile against one thread, by the number of busy processes.
BUSY = {0: (None, 1.3), 1: (1.15, 1.3), 2: (1.3, 1.3)}
BASE, BEST, SPIN, TWINS, QUOTA = (1.02, None), (1.05, 1.05), (1.45, 2.5), (1, 1), (1.1, 1.1)


class Times(list):
    """The times of some runs."""

    def figures(self):
        """Median and 99th percentile."""
        return float(np.median(self)), float(np.percentile(self, 99))

    def __str__(self):
        median, p99 = self.figures()
        return f"{median:.3g} ({p99:.3g})"


class Verdicts:
    """Bars that are met, and those that are not."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, times, figures, bars) -> str:
        """Compares median and 99th percentile with multiples of `figures`."""
        pairs = zip(("median", "p99"), times.figures(), figures, bars)
        wrong = [f"{name} {got / figure:.3f} > {bar}" for name, got, figure, bar in pairs
                 if bar and got > bar * figure]
        good = sum(bar is not None for bar in bars) - len(wrong)
        self.passed, self.failed = self.passed + good, self.failed + len(wrong)
        return ", ".join(wrong)


@contextlib.contextmanager
def busy(count):
    """So many processes that do nothing but take a core."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@contextlib.contextmanager
def quota(name):
    """The command that runs another one in a new control group of 1.5 CPUs; raises OSError where
    none can be made."""
    root = Path("/sys/fs/cgroup")
    v2 = (root / "cgroup.controllers").exists()
    group = (root if v2 else root / "cpu") / f"heddle-load-{os.getpid()}-{name}"
    group.mkdir()
    try:
        if v2:
            (group / "cpu.max").write_text("150000 100000")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("150000")
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group / "cgroup.procs"]
    finally:
        group.rmdir()


def in_turns(programs, runs):
    """The times of each program by name. One that is slow makes fewer runs, so that its turn takes
    at most four times as long as the first one's."""
    times = {name: Times() for name in programs}
    typical = {name: float(np.median(program.run(5))) for name, program in programs.items()}
    longest = 4 * TURN * next(iter(typical.values()))
    for _ in range(-(-runs // TURN)):
        for name, program in programs.items():
            # Threads of the one before may spin on for tens of milliseconds.
            time.sleep(0.1)
            program.run(2)
            times[name] += program.run(min(TURN, max(1, round(longest / typical[name]))))
    return times


def at_once(programs, runs):
    """The times of programs that run side by side, all together."""
    times = Times()
    for _ in range(-(-runs // TURN)):
        for program in programs:
            program.ask(TURN)
        times += [time for program in programs for time in program.answer()]
    return times


class Subject:
    """A model with its inputs."""

    def __init__(self, args, name, model, inputs):
        self.args, self.name, self.model, self.inputs = args, name, model, inputs

    def heddle(self, threads=None, binary=None, within=()):
        return Turns.heddle(binary or self.args.heddle, self.model, self.inputs, threads, within)

    def busy(self, verdicts):
        """A row for each number of busy processes; heddle's times on a quiet machine."""
        with contextlib.ExitStack() as stack:
            ready = stack.enter_context
            programs = {"heddle": ready(self.heddle()), "one": ready(self.heddle(1))}
            if self.args.base:
                programs["base"] = ready(self.heddle(binary=self.args.base))
            for name, how in ORT.items():
                programs[name] = ready(Turns.peer(self.model, self.inputs, *how))
            for count, bars in BUSY.items():
                with busy(count):
                    times = in_turns(programs, self.args.runs)
                heddle, one = times["heddle"], times["one"]
                if count == 0:
                    quiet = heddle
                best = [min(pair) for pair in zip(*(times[name].figures() for name in ORT))]
                wrong = {"one": verdicts.check(heddle, one.figures(), bars),
                         "ORT's best": verdicts.check(heddle, best, BEST)}
                if count == 0 and self.args.base:
                    wrong["base"] = verdicts.check(heddle, times["base"].figures(), BASE)
                others = [times.get(name, "") for name in ("base", *ORT)]
                self.row([self.name, count, heddle, one, *others], wrong)
        return quiet

    def beside(self, verdicts, quiet):
        """A row each for spinning threads, two processes and a quota."""
        with self.heddle() as one, Turns.peer(self.model, self.inputs, 2, "spin") as other:
            times = Times()
            for _ in range(self.args.runs):
                times += one.run(1)
                other.run(1)
        wrong = verdicts.check(times, quiet.figures(), SPIN)
        self.row([self.name, "spin", times, quiet], {"quiet": wrong})
        twins = []
        for threads in (None, 1):
            with self.heddle(threads) as one, self.heddle(threads) as two:
                at_once([one, two], TURN)
                twins.append(at_once([one, two], self.args.runs))
        self.compared("twins", twins, verdicts, TWINS)
        with contextlib.ExitStack() as stack:
            try:
                groups = [stack.enter_context(quota(name)) for name in ("heddle", "one")]
            except OSError as error:
                print(f"| {self.name} | quota | no control group: {error} |", flush=True)
                return
            with self.heddle(within=groups[0]) as many, self.heddle(1, within=groups[1]) as one:
                times = in_turns({"heddle": many, "one": one}, self.args.runs)
        self.compared("quota", list(times.values()), verdicts, QUOTA)

    def compared(self, what, pair, verdicts, bars):
        """A row of heddle against one thread."""
        heddle, one = pair
        wrong = verdicts.check(heddle, one.figures(), bars)
        self.row([self.name, what, heddle, one], {"one": wrong})

    @staticmethod
    def row(cells, wrong):
        """Prints a row with a verdict on each figure that it was compared with."""
        verdict = "; ".join(f"{name}: {what}" for name, what in wrong.items() if what)
        cells = [*map(str, cells), f"FAIL {verdict}" if verdict else "PASS"]
        print(f"| {' | '.join(cells)} |", flush=True)


def subjects(args, folder):
    """The models that are there."""
    only = set(filter(None, args.only.split(",")))
    for name, stem in ZOO.items():
        if only and name not in only:
            continue
        model = args.models / f"{stem}.onnx"
        data = args.models / f"{stem.rsplit('_', 2)[0]}_b1_s0.npz"
        if not (model.exists() and data.exists()):
            print(f"left out: {name}, for want of {model} or {data}")
            continue
        with np.load(data) as arrays:
            given = [key for key in arrays if key.startswith("in_")]
            inputs = {key[len("in_"):]: arrays[key] for key in given}
        np.savez(folder / f"{name}.npz", **inputs)
        yield Subject(args, name, model, folder / f"{name}.npz")
    if not only or "deq" in only:
        model = write(TARGET / "large", "deq")
        yield Subject(args, "deq", model, model.with_suffix(".npz"))


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--base")
    parser.add_argument("--models", type=Path, default=TARGET / "zoo")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--runs", type=int, default=300)
    args = parser.parse_args()
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        chosen = list(subjects(args, Path(folder)))
        print(f"\n| model | busy | heddle | one | base | {' | '.join(ORT)} | |\n|{'---|' * 9}")
        quiet = [subject.busy(verdicts) for subject in chosen]
        print(f"\n| model | beside | heddle | against | |\n|{'---|' * 5}")
        for subject, times in zip(chosen, quiet):
            subject.beside(verdicts, times)
    print(f"\n{verdicts.passed} passed, {verdicts.failed} failed")
    return 1 if verdicts.failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
