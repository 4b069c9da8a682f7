"""Checks the kit for GPU machines on one without a GPU: what it holds and needs, and that no part's failure costs the others' results.
usage: python check.py HEDDLE CASES

Builds a small kit, without a zoo, in target/gpu-kit-check. The dry run uses the driver of tests/fake-cuda; ways of PyTorch and JAX run in it
where this Python has them."""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KIT = ROOT / "target/gpu-kit-check"
PROGRAM = ROOT / "target/debug/examples/program"
FIGURES = ROOT / "crates/heddle-machine/h200.json"
# Libraries that every Linux with glibc has.
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
MOST_FILES, MOST_BYTES = 8, 16 << 20
sys.path[:0] = [str(HERE), str(HERE / "kit"), str(HERE.parent)]
import build  # noqa: E402
import driver  # noqa: E402
import fake_cuda  # noqa: E402
import micro  # noqa: E402
import run  # noqa: E402
from driver import Nvrtc  # noqa: E402


def require(holds: bool, text: str):
    """Ends a check that fails, with what was seen."""
    if not holds:
        raise AssertionError(text)


class Run:
    """A run of run.py: its output, exit status, and the folder of results."""

    def __init__(self, folder: Path, *arguments: str, kit=KIT, python=(sys.executable,), prepare=None, environment=None):
        self.results, work = folder / "results", folder / "work"
        if prepare:
            self.results.mkdir(parents=True)
            prepare(self.results)
        command = [*python, kit / "run.py", self.results, "--work", work, "--dry-run", *arguments]
        fake = {"HEDDLE_LIBCUDA": str(fake_cuda.build("libcuda")), "HEDDLE_NVRTC": str(fake_cuda.build("nvrtc")), "HEDDLE_BUILD_LEVEL": "0"}
        done = subprocess.run([str(word) for word in command], env=os.environ | fake | (environment or {}), capture_output=True, text=True)
        self.text, self.status = done.stdout + done.stderr, done.returncode
        log = self.results / "log.txt"
        self.log = log.read_text() if log.is_file() else ""

    def outcome(self, part: str) -> str:
        """What the table says of a part."""
        found = re.findall(rf"^{part} +[\d.]+  (.*)$", self.text, re.MULTILINE)
        return found[-1] if found else f"not in the table: {self.text}"

    def ends(self, **outcomes: str):
        """Compares the parts' outcomes, which may be patterns."""
        for part, want in outcomes.items():
            require(re.fullmatch(want, self.outcome(part)) is not None, f"{part}: {self.outcome(part)}\n{self.log}")
        good = all(want == "ok" for want in outcomes.values())
        require(self.status == (0 if good else 1), f"exit status {self.status}\n{self.text}")


def changed(folder: Path, **files: str) -> Path:
    """The kit with other texts in some of its parts."""
    kit = folder / "kit"
    kit.mkdir()
    for path in KIT.iterdir():
        if path.suffix == ".py":
            shutil.copyfile(path, kit / path.name)
        else:
            (kit / path.name).symlink_to(path)
    for name, text in files.items():
        (kit / f"{name}.py").write_text(text)
    return kit


# ---------------------------------------------------------------- checks, each in a folder of its own

def newest_glibc() -> tuple[int, ...]:
    """That of the kit, or of this machine, for which the program that is checked was built."""
    own = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    return max(build.GLIBC, tuple(map(int, own.split("."))))


def size_and_program(_):
    """Less than 60 MB; the program is for x86-64, needs no glibc after 2.36, and no library that may be missing."""
    total = build.size(KIT)
    require(total < build.MOST_BYTES, f"{total} bytes")
    glibc = build.needed_glibc(KIT / "heddle")
    require(glibc <= newest_glibc(), f"glibc {glibc}")
    dynamic = subprocess.run(["readelf", "-d", KIT / "heddle"], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"Shared library: \[(.*?)\]", dynamic))
    require("libc.so.6" in needed and needed <= LIBRARIES, f"it needs {needed}")
    ran = subprocess.run([KIT / "heddle", "--version"], capture_output=True, text=True)
    require(ran.returncode == 0, ran.stderr)


def newer_glibc(folder):
    """A program that needs more than may be is refused, with the remedy."""
    try:
        build.place_binary(KIT / "heddle", folder, (2, 3))
    except SystemExit as error:
        require("the kit must run with 2.3" in str(error) and "debian:12" in str(error), str(error))
    else:
        raise AssertionError("it was taken")


def texts(_):
    """NVRTC compiles the micro-benchmarks for sm_90a."""
    done = micro.compile_all(Nvrtc(), (KIT / "cuda.h").read_text())
    require(len(done) >= 3, str(done))
    print("; ".join(done))


def fields(_):
    """Measured figures have the names of the public ones; all parts together have less than 8 minutes."""
    require(sum(run.LIMITS.values()) <= 470, str(run.LIMITS))
    names = list(json.loads(FIGURES.read_text())["figures"])
    require(names == list(micro.FIGURES), str(set(names) ^ set(micro.FIGURES)))


class IdleDriver(driver.Driver):
    """A driver whose calls do nothing. Each iteration of a kernel and each node of a graph counts as a nanosecond, a launch as 7 more."""

    def __init__(self):
        self.stream = self.context = ctypes.c_void_p(1)
        self.device, self.cost, self.inside = 0, 0, 0

    def call(self, name, *arguments):
        if name == "cuLaunchKernelEx":
            first = arguments[2].held[:1]
            self.cost += 7 + (first[0].value if first else 0)
        if name == "cuGraphAddNode":
            self.body = (ctypes.c_void_p * 1)(1)
            node = arguments[-1]._obj
            node.graphs = ctypes.cast(self.body, ctypes.POINTER(ctypes.c_void_p))
        if name == "cuGraphAddKernelNode_v2":
            values = ctypes.cast(arguments[-1]._obj.arguments, ctypes.POINTER(ctypes.c_void_p))
            self.inside += ctypes.c_uint.from_address(values[2]).value if values[0] else 1
        if name == "cuGraphCreate":
            self.inside = 0
        if name == "cuGraphLaunch":
            self.cost += self.inside
        if name == "cuOccupancyMaxActiveClusters":
            arguments[0]._obj.value = 16

    def attribute(self, number):
        return {75: 9, 76: 0}.get(number, 132)

    def timed(self, work):
        self.cost = 0
        work()
        return 1000.0 + self.cost


def figures(_):
    """Every figure beside those of emitted programs is measured where the driver does what it is asked for, as a slope."""
    measures = micro.Measures(lambda: None)
    micro.measure_device(IdleDriver(), Nvrtc(), measures)
    own = {"grid_barrier_ns", "grid_barrier_lean_ns", "grid_barrier_flags_ns", "loop_head_ns", "flag_in_data_ns"}
    absent = {name for name in micro.FIGURES if name not in measures.values and name not in own and not name.startswith("wait_")}
    # The header of cooperative groups comes with a toolkit.
    require(absent <= {"grid_barrier_groups_ns"}, f"{absent}: {measures.reasons}")
    slopes = {"warp_barrier_ns": 1, "block_barrier_ns": 1, "cluster_barrier_16_ns": 1, "cluster_word_ns": 0.5, "launch_ns": 7, "graph_node_ns": 1,
              "while_iteration_ns": 1, "hbm_latency_ns": 1, "clusters_of_16": 16}
    wrong = {name: measures.values[name] for name, want in slopes.items() if abs(measures.values[name] - want) > 1e-9}
    require(not wrong, str(wrong))


def dry_run(folder):
    """All parts, a few cases each; as many result files, and as small, as may be."""
    ran = Run(folder)
    ran.ends(micro="ok", draw="ok", right="ok", race="ok")
    files = list(ran.results.rglob("*"))
    require(len(files) <= MOST_FILES and all(file.stat().st_size <= MOST_BYTES for file in files), str(files))
    figures = json.loads((ran.results / "h200.json").read_text())["figures"]
    require(figures["grid_barrier_ns"]["source"] == "simulated", str(figures))
    counts = json.loads((ran.results / "right.json").read_text())["counts"]
    require(all(counts[kind]["passed"] and not counts[kind]["failed"] for kind in ("model", "random", "corpus")), str(counts))
    rows = json.loads((ran.results / "times.json").read_text())["rows"]
    require(len(rows) == 2 and all(row["peers"]["heddle"]["median_ms"] > 0 for row in rows), str(rows))
    require(all("no" in row["peers"]["nodes"] for row in rows), str(rows))
    require((ran.results / "table.txt").read_text() in ran.text, ran.text)


def hanging(folder):
    """A part that hangs, with a child, is cut off; the next one runs."""
    text = "import subprocess, sys, time\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\ntime.sleep(600)\n"
    begin = time.monotonic()
    ran = Run(folder, "--only", "micro", "--only", "draw", "--limit", "micro=1", kit=changed(folder, micro=text))
    ran.ends(micro="cut off after 1 s", draw="ok")
    require(time.monotonic() - begin < 300, "it was not cut off")
    child = int(re.search(r"^\d+$", ran.log, re.MULTILINE)[0])
    require(not Path(f"/proc/{child}").exists() or "zombie" in Path(f"/proc/{child}/status").read_text(), "its child lives")


def failing(folder):
    """A part that fails says why, and keeps what it had written; the others' results are there."""
    text = "import sys\nfrom pathlib import Path\nPath(sys.argv[1], 'h200.json').write_text('{}')\nraise ValueError('a planted error')\n"
    ran = Run(folder, "--only", "micro", "--only", "draw", kit=changed(folder, micro=text))
    ran.ends(micro=r"failed \(1\): ValueError: a planted error", draw="ok")
    require((ran.results / "h200.json").exists() and "== draw" in ran.text, ran.text)


def full_disk(folder):
    """A result that can't be written is named with the reason; so is a log."""
    def prepare(results):
        for name in ("h200.json", "log.txt"):
            (results / f"{name}.part").symlink_to("/dev/full")
    ran = Run(folder, "--only", "micro", "--only", "draw", prepare=prepare)
    ran.ends(micro=r"failed \(1\): WriteError: .*/h200.json was not written: No space left on device", draw="ok")


def no_folder(folder):
    """Results that have no place are named."""
    (folder / "results").write_text("")
    ran = Run(folder, "--only", "draw")
    require(ran.status == 1 and f"{folder}/results: File exists" in ran.text, ran.text)


def missing_module(folder):
    """A missing module is named, and the part that needs it not begun."""
    ran = Run(folder, "--only", "draw", python=(sys.executable, "-S"))
    ran.ends(draw="the Python module numpy, onnx is missing")


def no_driver(folder):
    """A machine without a driver is told so."""
    ran = Run(folder, "--only", "micro", environment={"HEDDLE_LIBCUDA": "/nonexistent/libcuda.so"})
    ran.ends(micro=r"failed \(1\): CudaError: no CUDA driver: /nonexistent/libcuda.so.*")


def wrong_result(folder):
    """A wrong reference fails its case."""
    kit = changed(folder)
    (kit / "references").unlink()
    shutil.copytree(KIT / "references", kit / "references")
    import zoo
    from draw import save_data
    for path in (kit / "references").glob("small_*.npz"):
        inputs, outputs, decisions = zoo.data(path)
        save_data(path, inputs, [outputs[0] + 0.01, *outputs[1:]], decisions)
    ran = Run(folder, "--only", "right", kit=kit)
    ran.ends(draw="ok", right=r"failed \(1\): 2 passed, 1 failed, 0 without time")


CHECKS = (size_and_program, newer_glibc, texts, fields, figures, dry_run, hanging, failing, full_disk, no_folder, missing_module, no_driver,
          wrong_result)


def main(heddle: Path, cases: Path) -> int:
    """Builds the kit and checks it; prints how many passed and failed."""
    subprocess.run(["cargo", "build", "--workspace", "--example", "program"], cwd=ROOT, check=True)
    some = ROOT / "target/gpu-kit-cases"
    shutil.rmtree(some, ignore_errors=True)
    for name in ("loop_while", "loop_trip_count_and_condition"):
        shutil.copytree(cases / name, some / name)
    subprocess.run([sys.executable, HERE / "build.py", KIT, "--heddle", heddle, "--program", PROGRAM, "--cases", some, "--random", "3",
                    "--glibc", ".".join(map(str, newest_glibc()))], check=True)
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            try:
                check(Path(folder))
                verdict = "ok"
            except Exception as error:  # a check that cannot run is one that failed
                failed += 1
                verdict = f"FAILED: {type(error).__name__}: {error}"
        print(f"{check.__name__:18} {time.monotonic() - begin:6.1f} s  {verdict}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
