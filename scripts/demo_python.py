"""Installs the wheel into a new environment and runs a TreeLSTM from Python there.
usage: python demo_python.py WHEELS"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(wheels: str) -> int:
    wheel = max(Path(wheels).resolve().glob("heddle_compiler-*.whl"), key=os.path.getmtime, default=None)
    if wheel is None:
        sys.exit(f"{wheels} holds no wheel; `make wheel` builds one")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        print(f"\n$ pip install {wheel.relative_to(ROOT) if wheel.is_relative_to(ROOT) else wheel}", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
        script = ROOT / "scripts" / "python" / "demo_tree_lstm.py"
        print(f"$ python {script.relative_to(ROOT)}", flush=True)
        return subprocess.run([python, str(script)], cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
