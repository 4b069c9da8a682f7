"""Runs all tests, two stages at a time, and adds up what passed and failed.
usage: python run_stages.py [STAGE ...]

Without names it runs all but those that have a target of their own in the Makefile. A stage that prints no counts of its own is one case. Exit status 0 only if
nothing failed. The output of a stage follows that of the stages that began before it, so that no lines of two are mixed."""
import os
import platform
import re
import shlex
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
PYTHON = shlex.quote(sys.executable)
# Programs and tests are built once, in cargo's profile for tests, which checks arithmetic and assertions.
HEDDLE, CASES, CORPUS = "target/debug/heddle", "target/onnx-cases", "target/corpus"
OPSETS, MODELS, WHEELS = "target/opset-cases", "target/models", "target/debug/wheels"
# Most time goes to the C compiler. The stages without this build as users do, with -O3: onnx-cpu,
# the random programs, models, demos and others.
QUICK = "env HEDDLE_BUILD_LEVEL=0"
# Models for many instances, with the inputs that differ.
BATCHED = " ".join(f"tests/models/batching/{name}" for name in (
    "treelstm.heddle@left,right,word", "drnn.heddle@x,ha", "berxit.heddle@x",
    "birnn.heddle@word"))
# A case of each kind of control flow, for the simulated GPU.
SAMPLE = " ".join(f"{CORPUS}/cases/{name}" for name in (
    "loop_while", "loop_trip_count_and_condition", "loop_rotates_three", "loop_stacks_matrices",
    "if_in_loop_in_loop_bubble_sort", "if_in_scan_running_maximum", "scan_directions",
    "nest_branch_in_loop_in_branch", "nest_loop_in_loop_in_loop", "nest_call_in_loop_in_branch",
    "nest_recursion_in_loop_recursive", "nest_scan_in_recursion_recursive",
    "even_odd_mutually_recursive", "tree_sum_and_depth_recursive", "quicksort_recursive",
    "loop_grows_by_concat", "sequence_folded_by_loop"))
# A few of these, for the device `cuda` on the driver of tests.
FEW = " ".join(f"{CORPUS}/cases/{name}" for name in (
    "loop_while", "if_in_loop_in_loop_bubble_sort", "nest_recursion_in_loop_recursive",
    "loop_grows_by_concat"))
FAKE = f"{PYTHON} scripts/fake_cuda.py"
# Kernels and maps in shorter vectors than this processor has: those of AVX2, and those of NEON's length.
KERNELS = "cargo test --workspace --test emit -- contract:: convolutions:: framed:: turned:: random_maps::"
# In the order in which they begin: what takes one processor runs beside cargo's tests, what takes both comes last.
STAGES = {
    "format": "cargo fmt --all --check",
    "clippy": "cargo clippy --workspace --all-targets -- -D warnings",
    "rustdoc": "cargo doc --workspace --no-deps",
    "build": "cargo build --workspace",
    # Programs for many instances have a stage of their own.
    "cargo-test": f"{QUICK} HEDDLE_BATCHED=6 cargo test --workspace --no-fail-fast",
    "onnx-dump": f"{PYTHON} scripts/dump_onnx_cases.py {CASES}",
    "onnx-suite": f"{HEDDLE} test {CASES} --known tests/onnx/known.txt --device interp",
    "onnx-cpu": f"{HEDDLE} test {CASES} --known tests/onnx/known.txt --min-compiled 99 --verify"
                " --check-text",
    "opset-dump": f"{PYTHON} tests/onnx/opset_cases.py {OPSETS}",
    "opset-cases": f"{QUICK} {HEDDLE} test {OPSETS} --check-text",
    "corpus-dump": f"{PYTHON} tests/corpus/make_corpus.py {CORPUS} --verify",
    "corpus": f"{HEDDLE} test {CORPUS}/cases --device interp",
    "corpus-cpu": f"{HEDDLE} test {CORPUS}/cases --verify --check-text",
    "corpus-to-text": f"{PYTHON} tests/corpus/to_text.py {CORPUS}/cases {CORPUS}/text --heddle {HEDDLE}",
    "corpus-text": f"{HEDDLE} test {CORPUS}/text",
    "models-dump": f"{PYTHON} tests/models/make_models.py {MODELS}",
    "models": f"{HEDDLE} test {MODELS} --device interp",
    "models-cpu": f"{HEDDLE} test {MODELS} --device cpu --verify --check-text",
    "loops": f"{PYTHON} scripts/check_loops.py {HEDDLE} {MODELS}",
    "wheel": f"{PYTHON} -m maturin build --profile dev --out {WHEELS}",
    "python-torch": f"env HEDDLE_BUILD_LEVEL=1 {PYTHON} scripts/check_python.py {WHEELS} torch",
    "faults": f"{PYTHON} tests/faults/check_faults.py {HEDDLE} {MODELS}",
    "python": f"{PYTHON} scripts/check_python.py {WHEELS}",
    "python-installed": f"{PYTHON} scripts/check_python.py {WHEELS} installed",
    "exported": f"{PYTHON} tests/models/check_exported.py {HEDDLE}",
    "cuda": f"{PYTHON} scripts/cuda_check.py {HEDDLE} target/cuda {MODELS} {BATCHED} tests/models/halves.heddle",
    "sass": f"{PYTHON} scripts/sass_check.py {HEDDLE} target/sass",
    "sim": f"{HEDDLE} test {MODELS} {SAMPLE} --device sim --verify",
    "fake-cuda": f"{QUICK} {FAKE} {HEDDLE} test {FEW} --device cuda --verify",
    "gpu-kit": f"{PYTHON} scripts/gpu_kit/check.py {HEDDLE} {CORPUS}/cases",
    "errors": f"{PYTHON} tests/corpus/check_errors.py {CORPUS}/errors --heddle {HEDDLE}",
    "demo": f"{PYTHON} scripts/demo.py --heddle {HEDDLE}",
    "demo-python": f"{PYTHON} scripts/demo_python.py {WHEELS}",
    "batched": f"{QUICK} HEDDLE_BATCHED=60 HEDDLE_SANITIZED=10 cargo test --workspace"
               " --test emit --test opt random_instances::",
    "random": "env HEDDLE_PROGRAMS=2000 cargo test --workspace --test emit random::",
    **({"vectors-32": f"{QUICK} HEDDLE_MAPS=5 HEDDLE_CC='gcc -mno-avx512f' {KERNELS}",
        "vectors-16": f"{QUICK} HEDDLE_MAPS=5 HEDDLE_CC='gcc -mno-avx' {KERNELS}"}
       if platform.machine() == "x86_64" else {}),
}
# Stages that build the package anew, for another processor and another kind of CPython, and those of `make test-gpu`.
SIM = "--device sim --verify --timeout 60"
# Three orders of threads, warps of both kinds, and launches in clusters.
GRIDS = ((1, "seed=1"), (2, "seed=2,warp=64"), (3, "seed=3,cluster=2"))
# A grid of threads of the system, in two clusters.
WATCHED = "blocks=4,threads=8,warp=8,cluster=2"
NAMED_ONLY = {
    "gpu-random": "env HEDDLE_SIMULATED=500 cargo test --workspace --test emit simulated",
    "gpu-mutants": "env HEDDLE_MUTANTS=all cargo test --workspace --test emit mutants",
    **{f"gpu-models-{k}": f"{HEDDLE} test {MODELS} {SIM} --sim {grid}" for k, grid in GRIDS},
    **{f"gpu-corpus-{k}": f"{HEDDLE} test {CORPUS}/cases {SIM} --sim {grid}" for k, grid in GRIDS},
    "gpu-thread": f"{HEDDLE} test {SAMPLE} --device sim --sanitize thread --sim {WATCHED}",
    "gpu-address": f"{HEDDLE} test {SAMPLE} --device sim --sanitize address --sim {WATCHED}",
    "gpu-cuda": f"{QUICK} {FAKE} {HEDDLE} test {CORPUS}/cases --device cuda --verify --timeout 60",
    "gpu-onnx": f"{HEDDLE} test {CASES} --known tests/onnx/known.txt {SIM} --sim blocks=3,seed=3",
    "wheel-aarch64": f"{PYTHON} scripts/check_aarch64.py target/aarch64",
    "wheel-free-threaded": f"{PYTHON} scripts/check_python.py target/wheels-free-threaded free-threaded",
}
# What a stage's command names, and the stage that makes it.
MADE_BY = {HEDDLE: "build", WHEELS: "wheel", CASES: "onnx-dump", OPSETS: "opset-dump", CORPUS: "corpus-dump", f"{CORPUS}/text": "corpus-to-text", MODELS: "models-dump"}
# Stages that wait for others all the same: for binaries that most others need, and for cases that are then compiled.
WAIT_FOR = {"cargo-test": ("build",), "python": ("onnx-cpu", "opset-cases", "corpus-cpu", "models-cpu")}
COUNTS = re.compile(r"(\d+) passed[,;] (\d+) failed")
# Lines that say what failed, in the words of cargo, pytest, `heddle test` and our scripts.
BAD = re.compile(r"\bFAILED\b|^failed|^error|^E  |\bpanicked at\b|^Diff in|Error:")


def needs(name: str, command: str) -> list[str]:
    """The stages that must end before this one begins."""
    made = [stage for what, stage in MADE_BY.items() if what in command and stage != name]
    return made + list(WAIT_FOR.get(name, ()))


class Stage:
    """A stage that runs: its process, the output that nobody has printed yet, and its result."""

    def __init__(self, name: str, command: str):
        self.name, self.command = name, command
        self.lines = SimpleQueue()
        self.passed = self.failed = 0
        self.seconds = self.processors = 0.0
        # Lines that say what failed.
        self.found = []

    def run(self) -> None:
        """Runs it to its end, its lines into the queue, which a None closes."""
        self.lines.put(f"\n=== {self.name}: {self.command.replace(PYTHON, 'python')}\n")
        begin = time.monotonic()
        try:
            self.read()
        except Exception as error:  # Whatever it is, the others go on and the summary says it.
            self.failed, self.found = 1, [repr(error)]
            self.lines.put(f"{error!r}\n")
        self.seconds = time.monotonic() - begin
        self.lines.put(None)

    def read(self) -> None:
        environment = os.environ | {"RUSTDOCFLAGS": "-D warnings", "PYTHONUNBUFFERED": "1"}
        # Nothing is built twice here, and incremental builds take twice the room.
        environment.setdefault("CARGO_INCREMENTAL", "0")
        child = subprocess.Popen(shlex.split(self.command), cwd=ROOT, env=environment, text=True,
                                 errors="replace", stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
        cargo_test, passed, failed = "cargo test" in self.command, 0, 0
        bad, after, last = [], 0, deque(maxlen=5)
        for line in child.stdout:
            self.lines.put(line)
            last.append(line)
            # What a panic says stands in the lines behind it.
            after = 3 if BAD.search(line) else after - 1
            if after > 0:
                bad.append(line)
            counts = COUNTS.search(line)
            if counts and (not cargo_test or line.startswith("test result")):
                good, wrong = map(int, counts.groups())
                # cargo prints one summary for each test program, the others one at their end
                passed, failed = (passed + good, failed + wrong) if cargo_test else (good, wrong)
        # Its own processes' time, not that of the stage beside it.
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.processors = used.ru_utime + used.ru_stime
        if child.returncode:
            self.found = [*bad[:20], *(line for line in last if line not in bad[:20])]
            failed = max(failed, 1)
        self.passed, self.failed = (passed, failed) if passed or failed else (1, 0)


class Stages:
    """Stages that are run in their order, but for those that wait for others: two at a time, since most use one processor for a good part of theirs."""

    def __init__(self, stages: dict[str, str]):
        self.chosen, self.waiting = stages, dict(stages)
        self.ended = set()
        self.begun = []
        self.changed = threading.Condition()

    def next(self) -> Stage | None:
        """The first stage for which all is there, once there is one; None when all have begun."""
        with self.changed:
            while self.waiting:
                for name, command in self.waiting.items():
                    if not any(self.is_to_come(other) for other in needs(name, command)):
                        del self.waiting[name]
                        stage = Stage(name, command)
                        self.begun.append(stage)
                        self.changed.notify_all()
                        return stage
                self.changed.wait()
            return None

    def is_to_come(self, name: str) -> bool:
        """It is one of those to be run, and has not ended."""
        return name in self.chosen and name not in self.ended

    def work(self) -> None:
        """Runs stages until none is left."""
        while stage := self.next():
            stage.run()
            with self.changed:
                self.ended.add(stage.name)
                self.changed.notify_all()

    def print(self) -> None:
        """Passes on what the stages write, in the order in which they begin, until all have ended."""
        at = 0
        while True:
            with self.changed:
                while at == len(self.begun) and self.waiting:
                    self.changed.wait()
                if at == len(self.begun):
                    return
                stage = self.begun[at]
            at += 1
            for line in iter(stage.lines.get, None):
                print(line, end="", flush=True)


def main(chosen) -> int:
    """Runs the chosen stages, or all, to the end whatever fails."""
    known = STAGES | NAMED_ONLY
    unknown = [name for name in chosen if name not in known]
    if unknown:
        sys.exit(f"no stage named {', '.join(unknown)}; there are {', '.join(known)}")
    begin = time.monotonic()
    stages = Stages({name: command for name, command in known.items() if name in chosen} if chosen else STAGES)
    for _ in range(2):
        # A run that is interrupted need not wait for them.
        threading.Thread(target=stages.work, daemon=True).start()
    stages.print()
    print(f"\n{'stage':20} {'seconds':>8} {'cpu':>8} {'passed':>7} {'failed':>7}")
    for stage in stages.begun:
        print(f"{stage.name:20} {stage.seconds:8.1f} {stage.processors:8.1f} {stage.passed:7} {stage.failed:7}")
    found = [f"{stage.name}: {line.rstrip()[:300]}" for stage in stages.begun for line in stage.found]
    if found:
        # Once more at the end: whoever sees the last lines alone sees what to mend.
        print("", "what failed:", *found, sep="\n")
    processors, passed, failed = (sum(getattr(stage, of) for stage in stages.begun) for of in ("processors", "passed", "failed"))
    print(f"{'total':20} {time.monotonic() - begin:8.1f} {processors:8.1f}\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
