"""Runs all tests, stage by stage, and adds up what passed and failed.
usage: python run_stages.py [STAGE ...]

Without names it runs all but those that have a target of their own in the Makefile. A stage that prints no counts of its own is one case. Exit status 0 only if
nothing failed."""
import os
import platform
import re
import shlex
import subprocess
import sys
from collections import deque
from pathlib import Path

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
STAGES = {
    "format": "cargo fmt --all --check",
    "clippy": "cargo clippy --workspace --all-targets -- -D warnings",
    "rustdoc": "cargo doc --workspace --no-deps",
    # Programs for many instances have a stage of their own.
    "cargo-test": f"{QUICK} HEDDLE_BATCHED=6 cargo test --workspace --no-fail-fast",
    "random": "env HEDDLE_PROGRAMS=2000 cargo test --workspace --test emit random::",
    "batched": f"{QUICK} HEDDLE_BATCHED=120 HEDDLE_SANITIZED=10 cargo test --workspace"
               " --test emit --test opt random_instances::",
    **({"vectors-32": f"{QUICK} HEDDLE_MAPS=5 HEDDLE_CC='gcc -mno-avx512f' {KERNELS}",
        "vectors-16": f"{QUICK} HEDDLE_MAPS=5 HEDDLE_CC='gcc -mno-avx' {KERNELS}"}
       if platform.machine() == "x86_64" else {}),
    "build": "cargo build --workspace",
    "onnx-dump": f"{PYTHON} scripts/dump_onnx_cases.py {CASES}",
    "onnx-suite": f"{HEDDLE} test {CASES} --known tests/onnx/known.txt --device interp",
    "onnx-cpu": f"{HEDDLE} test {CASES} --known tests/onnx/known.txt --min-compiled 99 --verify"
                " --check-text",
    "opset-dump": f"{PYTHON} tests/onnx/opset_cases.py {OPSETS}",
    "opset-cases": f"{QUICK} {HEDDLE} test {OPSETS} --check-text",
    # Behind those that compile the same cases.
    "wheel": f"{PYTHON} -m maturin build --profile dev --out {WHEELS}",
    "python": f"{PYTHON} scripts/check_python.py {WHEELS}",
    "python-installed": f"{PYTHON} scripts/check_python.py {WHEELS} installed",
    "python-torch": f"env HEDDLE_BUILD_LEVEL=1 {PYTHON} scripts/check_python.py {WHEELS} torch",
    "corpus-dump": f"{PYTHON} tests/corpus/make_corpus.py {CORPUS} --verify",
    "corpus": f"{HEDDLE} test {CORPUS}/cases --device interp",
    "corpus-cpu": f"{HEDDLE} test {CORPUS}/cases --verify --check-text",
    "corpus-to-text": f"{PYTHON} tests/corpus/to_text.py {CORPUS}/cases {CORPUS}/text --heddle {HEDDLE}",
    "corpus-text": f"{HEDDLE} test {CORPUS}/text",
    "models-dump": f"{PYTHON} tests/models/make_models.py {MODELS}",
    "models": f"{HEDDLE} test {MODELS} --device interp",
    "models-cpu": f"{HEDDLE} test {MODELS} --device cpu --verify --check-text",
    "exported": f"{PYTHON} tests/models/check_exported.py {HEDDLE}",
    "cuda": f"{PYTHON} scripts/cuda_check.py {HEDDLE} target/cuda {MODELS} {BATCHED} tests/models/halves.heddle",
    "sass": f"{PYTHON} scripts/sass_check.py {HEDDLE} target/sass",
    "sim": f"{HEDDLE} test {MODELS} {SAMPLE} --device sim --verify",
    "fake-cuda": f"{QUICK} {FAKE} {HEDDLE} test {FEW} --device cuda --verify",
    "gpu-kit": f"{PYTHON} scripts/gpu_kit/check.py {HEDDLE} {CORPUS}/cases",
    "faults": f"{PYTHON} tests/faults/check_faults.py {HEDDLE} {MODELS}",
    "errors": f"{PYTHON} tests/corpus/check_errors.py {CORPUS}/errors --heddle {HEDDLE}",
    "demo": f"{PYTHON} scripts/demo.py --heddle {HEDDLE}",
    "demo-python": f"{PYTHON} scripts/demo_python.py {WHEELS}",
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
COUNTS = re.compile(r"(\d+) passed[,;] (\d+) failed")
# Lines that say what failed, in the words of cargo, pytest, `heddle test` and our scripts.
BAD = re.compile(r"\bFAILED\b|^failed|^error|^E  |\bpanicked at\b|^Diff in|Error:")


def run(name: str, command: str) -> tuple[int, int, list[str]]:
    """Runs one stage with its output passed on; how many passed and failed, and the lines that say what failed."""
    print(f"\n=== {name}: {command.replace(PYTHON, 'python')}", flush=True)
    environment = os.environ | {"RUSTDOCFLAGS": "-D warnings", "PYTHONUNBUFFERED": "1"}
    # Nothing is built twice here, and incremental builds take twice the room.
    environment.setdefault("CARGO_INCREMENTAL", "0")
    cargo_test, passed, failed = "cargo test" in command, 0, 0
    bad, after, last = [], 0, deque(maxlen=5)
    try:
        child = subprocess.Popen(shlex.split(command), cwd=ROOT, env=environment, text=True,
                                 errors="replace", stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
    except OSError as error:
        print(error)
        return 0, 1, [str(error)]
    for line in child.stdout:
        print(line, end="", flush=True)
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
    if child.wait():
        return passed, max(failed, 1), [*bad[:20], *(line for line in last if line not in bad[:20])]
    return (passed, failed, []) if passed or failed else (1, 0, [])


def main(chosen) -> int:
    """Runs the chosen stages, or all, to the end whatever fails."""
    stages = STAGES | NAMED_ONLY
    unknown = [name for name in chosen if name not in stages]
    if unknown:
        sys.exit(f"no stage named {', '.join(unknown)}; there are {', '.join(stages)}")
    rows, found = [], []
    for name, command in (stages if chosen else STAGES).items():
        if not chosen or name in chosen:
            begin = os.times()
            passed, failed, lines = run(name, command)
            end = os.times()
            processors = sum(end[2:4]) - sum(begin[2:4])
            rows.append((name, end.elapsed - begin.elapsed, processors, passed, failed))
            found += [f"{name}: {line.rstrip()[:300]}" for line in lines]
    print(f"\n{'stage':20} {'seconds':>8} {'cpu':>8} {'passed':>7} {'failed':>7}")
    for name, seconds, processors, passed, failed in rows:
        print(f"{name:20} {seconds:8.1f} {processors:8.1f} {passed:7} {failed:7}")
    if found:
        # Once more at the end: whoever sees the last lines alone sees what to mend.
        print("", "what failed:", *found, sep="\n")
    seconds, processors, passed, failed = (sum(row[i] for row in rows) for i in (1, 2, 3, 4))
    print(f"{'total':20} {seconds:8.1f} {processors:8.1f}\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
