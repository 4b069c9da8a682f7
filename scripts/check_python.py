"""Installs the wheel into a new environment outside of the repo and runs the tests of the Python package there.
usage: python check_python.py WHEELS [torch | installed | free-threaded]

With `torch` it installs PyTorch, too, and runs the tests of what comes from PyTorch in two processes. With `installed` it installs the wheel
for each CPython from 3.10 to 3.14 that this machine has, and once with the extra `cc` where no C compiler is found, and runs tests/python/installed.py. With `free-threaded` it first builds a wheel in WHEELS for the CPython
without GIL that PYTHON_FREE_THREADED names, or that this machine has, and runs the tests twice, the second time each in several threads at once."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What tests need besides the wheel and what it depends on; of packages that the other tests use, the same versions.
PINNED = dict(line.split("==") for line in (ROOT / "scripts/requirements.txt").read_text().split())
TOOLS = (
    "pytest==9.2.0", "pytest-xdist==3.8.0", "ml_dtypes==0.6.0", "tqdm==4.70.1",
    *(f"{name}=={PINNED[name]}" for name in ("numpy", "onnx", "onnxruntime")),
)
# Arrays of JAX are tested beside those of NumPy, and its control flow by way of ONNX.
JAX = ("jax==0.10.2", "jax2onnx==0.17.1")
PARALLEL = ("pytest-run-parallel==0.10.0",)
# Tests that call these run in one thread: handlers of signals belong to the main thread, and some count what another thread does in a given time.
ALONE = ("signal.signal", "os.kill", "os.fork", "threading.Event")
# Ray Serve asks descriptors for what protobuf 7 no longer has.
RAY = ("ray[data,serve]==2.55.1", "protobuf<7")

# Modules become bytecode where they are imported; most are not.
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")

FROM_TORCH = ROOT / "tests" / "python" / "from_torch"
WITH_RAY = FROM_TORCH / "test_ray.py"
# Pytest's exit status where it found none.
NO_TESTS = 5
# From `requires-python` on, to the newest one.
VERSIONS = tuple(f"3.{minor}" for minor in range(10, 15))


# What pip is told by its files and variables, and the variable that tells uv the same.
SETTINGS = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "cert": "SSL_CERT_FILE", "trusted-host": "UV_INSECURE_HOST", "no-index": "UV_NO_INDEX"}


def settings_of_pip() -> dict[str, str]:
    """Variables for uv with pip's settings."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    # Variables, which are listed first, override files.
    lines = sorted(listed.splitlines(), key=lambda line: line.startswith(":env:"))
    found = dict(re.findall(r"""^[^=\n]*\.([a-z-]+)=['"](.*)['"]$""", "\n".join(lines), re.MULTILINE))
    values = ((SETTINGS[name], value.replace("\\n", " ").split()) for name, value in found.items() if name in SETTINGS)
    return {name: ("," if name == "UV_FIND_LINKS" else " ").join(value) for name, value in values}


def install(python: str, *what: str) -> None:
    """Installs packages for an interpreter, by uv: pip takes two minutes of a processor for PyTorch. Where uv fails, pip has the last word."""
    fast = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *what]
    if subprocess.run(fast, env={**settings_of_pip(), **os.environ}).returncode != 0:
        print("uv does not install this; pip is tried", flush=True)
        subprocess.run([python, *INSTALL, *what], check=True)


def free_threaded() -> str:
    """A CPython of 3.14 or later that has no GIL; exits where there is none."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(map(str, folder.glob("3.*t*/bin/python")), reverse=True)
    named = os.environ.get("PYTHON_FREE_THREADED")
    for candidate in filter(shutil.which, [named] if named else ["python3.15t", "python3.14t", *found]):
        question = "import sys, sysconfig, venv, ensurepip; sys.exit(not sysconfig.get_config_var('Py_GIL_DISABLED') or sys.version_info < (3, 14))"
        if subprocess.run([candidate, "-c", question], capture_output=True).returncode == 0:
            return candidate
    sys.exit(f"{named or 'none that is found'} is no CPython of 3.14 or later without GIL; the wheel for it is not built. Install one, for instance with\n"
             "    pyenv install 3.14t\nand name it: make wheel-free-threaded PYTHON_FREE_THREADED=~/.pyenv/versions/3.14t/bin/python")


def check_free_threaded(wheels: Path) -> int:
    """Builds the wheel and runs the tests, one after the other and in threads; prints how many passed and failed."""
    interpreter = free_threaded()
    command = [sys.executable, "-m", "maturin", "build", "--release", "--interpreter", interpreter, "--out", str(wheels)]
    subprocess.run(command, cwd=ROOT, check=True)
    wheel = max(wheels.glob("heddle_compiler-*t-*.whl"), key=os.path.getmtime)
    print(wheel.name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        install = [python, *INSTALL]
        subprocess.run([*install, str(wheel), *TOOLS[:4], f"numpy=={PINNED['numpy']}", *PARALLEL], check=True)
        if subprocess.run([*install, *TOOLS[5:]]).returncode != 0:
            print("onnx and onnxruntime are not to be had for this Python; their tests are left out")
        # An import that turned the GIL on again would make the rest meaningless.
        question = "import sys, heddle, numpy; sys.exit(sys._is_gil_enabled())"
        subprocess.run([python, "-c", question], cwd=folder, check=True)
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--ignore={FROM_TORCH}"]
        outputs, status = [], 0
        for more in ([], ["--parallel-threads=4", "-o", "thread_unsafe_functions=" + "\n".join(ALONE)]):
            done = subprocess.run([*tests, *more, str(ROOT / "tests" / "python")], cwd=folder, text=True, stdout=subprocess.PIPE)
            print(done.stdout, end="")
            outputs.append(done.stdout)
            status = status or done.returncode
    passed, failed = counts("".join(outputs))
    print(f"{passed} passed, {max(failed, int(status != 0))} failed")
    return status


def counts(output: str) -> tuple[int, int]:
    """Tests that passed, and that failed or could not be run, by pytest's last lines."""
    return tuple(sum(map(int, re.findall(rf"(\d+) {word}", output))) for word in ("passed", "(?:failed|errors?)"))


def interpreters() -> dict[str, str]:
    """Programs of CPython by version, of those that this machine has."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in VERSIONS:
        own = sorted(str(path) for path in folder.glob(f"{version}.*/bin/python"))
        candidates = [*own[-1:], shutil.which(f"python{version}")]
        if sys.version.startswith(f"{version}."):
            candidates.insert(0, sys.executable)
        for candidate in filter(None, candidates):
            # One that is found may be a stub for a version that is not installed, or lack the means to make environments.
            if subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                found[version] = candidate
                break
    return found


def is_fine(wheel: Path, title: str, python: str, extra: str, path: str | None) -> bool:
    """Installs the wheel for one interpreter and runs tests/python/installed.py; prints the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = f"{folder}/bin/python"
        subprocess.run([own, *INSTALL, f"{wheel}{extra}"], check=True)
        environment = {**os.environ, "PATH": path or f"{folder}/bin"}
        environment.pop("HEDDLE_CC", None)
        done = subprocess.run([own, str(ROOT / "tests" / "python" / "installed.py")], cwd=folder, env=environment,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(f"{title}: {'ok' if done.returncode == 0 else 'FAILED'}, {done.stdout.strip()}", flush=True)
    return done.returncode == 0


def check_installed(wheel: Path) -> int:
    """The wheel in clean environments, one for each interpreter; prints how many passed and failed."""
    found = interpreters()
    cases = [(f"CPython {version}", python, "", os.environ["PATH"]) for version, python in found.items()]
    cases.append(("without a C compiler, with ziglang", sys.executable, "[cc]", None))
    with ThreadPoolExecutor(2) as pool:
        failed = list(pool.map(lambda case: is_fine(wheel, *case), cases)).count(False)
    absent = [version for version in VERSIONS if version not in found]
    if absent:
        print(f"not on this machine: CPython {', '.join(absent)}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main(wheels: str, extra: str = "") -> int:
    if extra == "free-threaded":
        return check_free_threaded(Path(wheels).resolve())
    wheel = max(Path(wheels).resolve().glob("heddle_compiler-*.whl"), key=os.path.getmtime, default=None)
    if wheel is None:
        sys.exit(f"{wheels} holds no wheel; `make test STAGES=wheel` builds one")
    if extra == "installed":
        return check_installed(wheel)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        install(python, str(wheel), *TOOLS)
        # Most of the time is Python's, on one processor for each process.
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal", "--durations=20"]
        environment = dict(os.environ)
        runs = [tests]
        if extra == "torch":
            requirements = ROOT / "scripts" / "requirements-torch.txt"
            install(python, "-r", str(requirements))
            try:
                install(python, *RAY)
            except subprocess.CalledProcessError:
                print("Ray is not to be had for this Python; the tests of examples/ray are left out")
            also = (str(ROOT / "tests" / "python" / name) for name in ("test_frameworks.py", "test_batches.py"))
            # PyTorch's own threads would wait for each other on the processors of the other process.
            # Ray starts processes of its own, which have no time to lose: its tests come when the others have ended.
            runs.append([*tests, str(WITH_RAY), "-n", "0"])
            tests += [str(FROM_TORCH), *also, f"--ignore={WITH_RAY}"]
            environment["OMP_NUM_THREADS"] = "1"
        else:
            install(python, *JAX)
            tests += [str(ROOT / "tests" / "python"), f"--ignore={FROM_TORCH}"]
        # Not in the repo, whose folder `python` would be found before the wheel.
        outputs, status = [], 0
        for run in runs:
            done = subprocess.run(run, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE)
            print(done.stdout, end="")
            outputs.append(done.stdout)
            # Without Ray its file has no tests, which is a status of its own.
            if done.returncode != NO_TESTS or run is tests:
                status = status or done.returncode
    passed, failed = counts("".join(outputs))
    print(f"{passed} passed, {max(failed, int(status != 0))} failed")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
