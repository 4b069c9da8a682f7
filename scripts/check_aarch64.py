"""Builds the wheel for aarch64, installs it beside a CPython of that processor, and runs it there, emulated by qemu.
usage: python check_aarch64.py FOLDER

FOLDER is filled by setup_aarch64.sh, which this calls. Wheels are built by zig, for glibc 2.17 and later. Models are compiled by a C compiler of this machine for the other processor: gcc, and zig
as the extra `cc` would find it. A process under qemu starts programs of this machine as they are."""
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
TARGET, TAG, WHEELS = "aarch64-unknown-linux-gnu", "manylinux_2_17", ROOT / "target" / "wheels-aarch64"
NUMPY = next(line for line in (ROOT / "scripts/requirements.txt").read_text().split() if line.startswith("numpy=="))
# The other size of pages that Linux for aarch64 has.
LARGE_PAGES = ("-p", str(64 << 10))
# Older versions of qemu keep some bytes for each page of addresses that a process reserves, and programs whose arrays grow reserve terabytes where nothing limits them.
ADDRESSES = 12 << 30


class Foreign:
    """A CPython of the other processor, with the wheel."""

    def __init__(self, folder: Path):
        self.folder, self.site = folder, folder / "site"
        self.qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
        self.root = folder / "root"

    def python(self, *flags: str) -> list[str]:
        """The command that starts it."""
        return [self.qemu, *flags, "-L", str(self.root), str(self.root / "usr" / "bin" / "python3")]

    def environment(self, compiler: str, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.site), "HEDDLE_CC": compiler, "HEDDLE_CACHE": str(self.folder / "cache"), **more}

    def install(self, wheel: Path) -> str:
        """Installs the wheel as pip does on such a machine; the CPython's version."""
        question = "import platform, sys; print(platform.machine(), '%d.%d' % sys.version_info[:2])"
        machine, version = subprocess.check_output([*self.python(), "-c", question], text=True).split()
        if machine != "aarch64":
            sys.exit(f"{self.root} has a CPython for {machine}")
        shutil.rmtree(self.site, ignore_errors=True)
        # NumPy's wheels ask for a later glibc than ours.
        platforms = ("--platform", f"{TAG}_aarch64", "--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(self.site)]
        subprocess.run([*install, *platforms, "--only-binary=:all:", "--python-version", version, str(wheel), NUMPY], check=True)
        return version


def limit_addresses():
    """In a child, before it starts."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES if hard == resource.RLIM_INFINITY else min(ADDRESSES, hard), hard))


def build(folder: Path) -> Path:
    """The wheel."""
    environment = {**os.environ, "PATH": f"{folder}/venv/bin:{os.environ['PATH']}", "VIRTUAL_ENV": f"{folder}/venv"}
    command = [f"{folder}/venv/bin/python", "-m", "maturin", "build", "--release", "--zig", "--target", TARGET]
    subprocess.run([*command, "--compatibility", TAG, "--out", str(WHEELS)], check=True, cwd=ROOT, env=environment)
    return max(WHEELS.glob(f"heddle_compiler-*-abi3-*{TAG}_aarch64*.whl"), key=os.path.getmtime)


def main(folder: str) -> int:
    folder = Path(folder).resolve()
    environment = {**os.environ, "PYTHON": sys.executable}
    if subprocess.run([ROOT / "scripts" / "setup_aarch64.sh", str(folder)], env=environment).returncode:
        return 1
    foreign = Foreign(folder)
    wheel = build(folder)
    version = foreign.install(wheel)
    print(f"{wheel.name} on CPython {version} for aarch64")

    gcc, zig = "aarch64-linux-gnu-gcc", f"{folder}/venv/bin/python -m ziglang cc -target aarch64-linux-gnu"
    python, wide, models = foreign.python(), foreign.python(*LARGE_PAGES), TESTS / "models" / "pt2"
    heddle = [*python, "-m", "heddle"]
    loops = [f"{models}/recurrent.pt2", "-i", f"{models}/recurrent.1.in.npz", "--expect", f"{models}/recurrent.1.out.npz", "--threads", "2"]
    # Most models are compiled without optimisation: what is tried is the code's meaning.
    quick = {"HEDDLE_BUILD_LEVEL": "1"}
    cases = [
        ("an installation, with gcc", [*python, TESTS / "python" / "installed.py"], gcc, {}),
        ("an installation, with zig", [*python, TESTS / "python" / "installed.py"], zig, {}),
        ("models, with gcc", [*python, TESTS / "python" / "installed_models.py", models], gcc, quick),
        ("models, pages of 64 KiB", [*wide, TESTS / "python" / "installed_models.py", models], gcc, quick),
        ("heddle check, with gcc", [*heddle, "check", *loops], gcc, {}),
        ("heddle check, with zig", [*heddle, "check", *loops], zig, {}),
        ("heddle test, exported models", [*heddle, "test", TESTS / "models" / "exported", "--check-text", "--verify"], gcc, quick),
    ]
    failed = 0
    for title, command, compiler, more in cases:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        done = subprocess.run(list(map(str, command)), cwd=folder, env=foreign.environment(compiler, **more), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=limit_addresses)
        is_right = done.returncode == 0
        failed += not is_right
        output = done.stdout.strip()
        last = output.splitlines()[-1] if is_right and output else f"status {done.returncode}, {output}"
        print(f"{title}: {'ok' if is_right else 'FAILED'}, {last}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
