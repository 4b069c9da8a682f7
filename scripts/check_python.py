"""Installs the wheel into a new environment outside of the repo and runs the tests of the Python package there.
usage: python check_python.py WHEELS [torch]

With `torch` it installs PyTorch, too, and runs the tests of what comes from PyTorch."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What tests need besides the wheel and what it depends on; of packages that the other tests use, the same versions.
PINNED = dict(line.split("==") for line in (ROOT / "scripts/requirements.txt").read_text().split())
TOOLS = ("pytest==9.2.0", "ml_dtypes==0.6.0", *(f"{name}=={PINNED[name]}" for name in ("numpy", "onnx", "onnxruntime")))


FROM_TORCH = ROOT / "tests" / "python" / "from_torch"


def main(wheels: str, extra: str = "") -> int:
    wheel = max(Path(wheels).resolve().glob("heddle_compiler-*.whl"), key=os.path.getmtime, default=None)
    if wheel is None:
        sys.exit(f"{wheels} holds no wheel; `make test STAGES=wheel` builds one")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, str(wheel), *TOOLS], check=True)
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        if extra == "torch":
            requirements = ROOT / "scripts" / "requirements-torch.txt"
            subprocess.run([*install, "-r", str(requirements)], check=True)
            tests.append(str(FROM_TORCH))
        else:
            tests += [str(ROOT / "tests" / "python"), f"--ignore={FROM_TORCH}"]
        # Not in the repo, whose folder `python` would be found before the wheel.
        done = subprocess.run(tests, cwd=folder, text=True, stdout=subprocess.PIPE)
    print(done.stdout, end="")
    passed, failed = (sum(map(int, re.findall(rf"(\d+) {word}", done.stdout))) for word in ("passed", "(?:failed|errors?)"))
    print(f"{passed} passed, {max(failed, int(done.returncode != 0))} failed")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
