"""Part `right`: models, the corpus and random programs on the device `cuda`, compared with references that came along.
usage: python right.py RESULTS WORK [--dry-run] [--seconds S]

Writes RESULTS/right.json. Each case is a process of its own, with a time limit, so that a kernel that faults or hangs ends its own case only.
What there is no time for is listed as such. With compute-sanitizer a few cases run under memcheck, too."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import report
import zoo
from driver import nvrtc_places, toolkits

HEDDLE = zoo.HERE / "heddle"
LIMIT = 1e-4  # of the relative error of a model's outputs
CORPUS_CHUNK = 6
# NVRTC alone takes a minute on the largest models.
SECONDS = {"model": 110, "random": 40, "corpus": 60, "memcheck": 60}
SAMPLE = {"corpus": 1, "random": 4}  # cases under memcheck


def environment(work: Path) -> dict:
    """What Heddle is to find: NVRTC, and a cache of this run's own."""
    found = [place for place in nvrtc_places() if Path(place).exists()]
    return {"HEDDLE_CACHE": str(work / "cache")} | os.environ | ({"HEDDLE_NVRTC": found[0]} if found else {})


class Case:
    """One process: its command, and what it is to say."""

    def __init__(self, kind: str, name: str, command, count=1, compare=None):
        self.kind, self.name, self.count, self.compare = kind, name, count, compare
        self.command = [str(word) for word in command]

    def run(self, env, deadline: float) -> dict:
        """Its outcome: how many passed and failed, and what was said of the failures."""
        left = min(SECONDS[self.kind], deadline - time.monotonic())
        if left < 1:
            return {"passed": 0, "failed": 0, "skipped": self.count, "said": []}
        begin = time.monotonic()
        try:
            done = subprocess.run(self.command, env=env, capture_output=True, text=True, errors="replace", timeout=left)
            passed, said = self.judge(done)
        except subprocess.TimeoutExpired:
            passed, said = 0, [f"took over {left:.0f} s"]
        except OSError as error:
            passed, said = 0, [f"{self.command[0]}: {error.strerror}"]
        return {"passed": passed, "failed": self.count - passed, "skipped": 0, "said": said,
                "seconds": round(time.monotonic() - begin, 2)}

    def judge(self, done) -> tuple[int, list[str]]:
        """(cases that passed, what was said of the others)."""
        lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
        if self.kind == "corpus":
            counts = re.search(r"(\d+) passed[,;] (\d+) failed", done.stdout)
            passed = min(int(counts[1]), self.count) if counts else 0
            bad = [line for line in lines if re.match(r"(fail|error|wrong)", line, re.IGNORECASE)]
            return passed, [] if passed == self.count else (bad or lines)[-8:]
        if done.returncode:
            return 0, [f"exit status {done.returncode}", *lines[-4:]]
        if self.compare:
            error = self.compare()
            if not error <= LIMIT:
                return 0, [f"relative error {error:.1e}"]
        return self.count, []


def model_cases(work: Path, dry: bool):
    """Each kind of each model on each set of inputs with references."""
    references = zoo.HERE / "references"
    # Those that take longest to compile first.
    for name in (["small"] if dry or not zoo.names() else reversed(zoo.names())):
        for data in sorted(references.glob(f"{name}_b1_s*.npz")):
            inputs, want, _ = zoo.data(data)
            given = work / f"{data.stem}.in.npz"
            np.savez(given, **inputs)
            for model in sorted(work.glob(f"{name}_*_b1.onnx")):
                out = work / f"{model.stem}.{data.stem}.out.npz"

                def compare(model=model, out=out, want=want):
                    import onnx
                    names = [o.name for o in onnx.load(model, load_external_data=False).graph.output]
                    with np.load(out) as arrays:
                        return zoo.relative_error([arrays[name] for name in names], want)
                yield Case("model", f"{model.stem} {data.stem[-2:]}", [
                    HEDDLE, "run", model, "--input", given, "--output", out, "--device", "cuda"], compare=compare)


def random_cases():
    """Random programs, whose inputs their seeds draw; names say the seed."""
    for program in sorted((zoo.HERE / "random").glob("*.heddle"), key=lambda path: int(path.stem)):
        yield Case("random", program.stem, [
            HEDDLE, "check", program, "--random", program.stem, "--expect", program.with_suffix(".npz"),
            "--device", "cuda", "--rtol", "1e-3", "--atol", "1e-5"])


def corpus_cases(only=None):
    """The corpus, a few cases a process."""
    folders = [path for path in sorted((zoo.HERE / "corpus").iterdir()) if only is None or path.name in only]
    for at in range(0, len(folders), CORPUS_CHUNK):
        some = folders[at:at + CORPUS_CHUNK]
        yield Case("corpus", f"{some[0].name} … {some[-1].name}", [
            HEDDLE, "test", *some, "--device", "cuda", "--timeout", "30", "--jobs", "2"], count=len(some))


def sanitizer():
    """NVIDIA's checker of memory, or None."""
    places = [str(home / "compute-sanitizer") for home in toolkits("bin")]
    return next(filter(None, map(shutil.which, ["compute-sanitizer", *places])), None)


def checked(case: Case, tool: str) -> Case:
    """The case under memcheck, which slows kernels down, so that waits take longer than a watchdog likes."""
    command = [tool, "--tool", "memcheck", "--error-exitcode", "99", *case.command, "--watchdog", "600"]
    return Case("memcheck", f"{case.kind} {case.name}", command, compare=case.compare)


def cases(work: Path, dry: bool):
    """All cases, most valuable first."""
    models, programs, corpus = list(model_cases(work, dry)), list(random_cases()), list(corpus_cases())
    if dry:
        return [models[0], programs[0], *corpus_cases({"loop_while"})]
    tool = sanitizer()
    sample = [*corpus[:SAMPLE["corpus"]], *programs[:SAMPLE["random"]]] if tool else []
    # A few of each kind first: if nothing runs, that is known in seconds.
    return [*corpus[:2], *models, *programs[:40], *corpus[2:], *programs[40:], *(checked(case, tool) for case in sample)]


def main(results: Path, work: Path, dry: bool, seconds: float) -> int:
    """Runs all cases that there is time for."""
    deadline = time.monotonic() + seconds
    env, outcomes, kept = environment(work), [], 0.0
    order = cases(work, dry)
    tally = {kind: [0, 0, 0] for kind in ("model", "random", "corpus", "memcheck")}

    def document():
        return {"counts": {kind: dict(zip(("passed", "failed", "skipped"), row, strict=True)) for kind, row in tally.items()},
                "memcheck": sanitizer() or "compute-sanitizer was not found", "cases": outcomes}
    with ThreadPoolExecutor(max(2, min(12, (os.cpu_count() or 2) - 2))) as pool:
        for case, outcome in zip(order, pool.map(lambda case: case.run(env, deadline), order), strict=True):
            outcomes.append({"kind": case.kind, "name": case.name} | outcome)
            for place, key in enumerate(("passed", "failed", "skipped")):
                tally[case.kind][place] += outcome[key]
            if outcome["said"]:
                print(f"{case.kind} {case.name}: {'; '.join(outcome['said'])}", flush=True)
            if time.monotonic() - kept > 2:
                kept = time.monotonic()
                report.write(results / "right.json", document())
    report.write(results / "right.json", document())
    passed, failed, skipped = (sum(row[place] for row in tally.values()) for place in range(3))
    rows = [(kind, *row) for kind, row in tally.items() if any(row)]
    if not sanitizer():
        rows.append(("memcheck", "compute-sanitizer was not found", "", ""))
    report.table(work, "right", f"{passed} passed, {failed} failed, {skipped} without time",
                 ("cases", "passed", "failed", "no time"), rows)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(report.part(main, __doc__, ("seconds", 120.0)))
