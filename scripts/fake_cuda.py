"""Runs a command with the fake CUDA driver and compiler of tests/fake-cuda, and checks what it left.
usage: python fake_cuda.py COMMAND ...

The libraries are built by g++ into target/fake-cuda. The command's exit status is passed on; it fails, too, if the driver was used
wrongly, or memory of the device was not given back."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES, SIM = ROOT / "tests/fake-cuda", ROOT / "crates/heddle-runtime/include/sim.h"
FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden",
         "-U_FORTIFY_SOURCE", "-Wall", "-Wextra", "-Werror", f'-DSIM_H="{SIM}"')


def build(name: str) -> Path:
    """The library of a source, which is built if it is older."""
    source, product = SOURCES / f"{name}.cpp", ROOT / "target/fake-cuda" / f"{name}.so"
    if not product.exists() or product.stat().st_mtime < source.stat().st_mtime:
        product.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", *FLAGS, source, "-o", product, "-ldl"], check=True)
    return product


def main(command) -> int:
    """Runs it; its exit status, or 1 for a fault that the driver found."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = filter(None, (os.environ.get("HEDDLE_FAKE_CUDA"), f"log={log}"))
        environment = os.environ | {
            "HEDDLE_LIBCUDA": str(build("libcuda")), "HEDDLE_NVRTC": str(build("nvrtc")),
            "HEDDLE_FAKE_CUDA": ",".join(settings)}
        status = subprocess.run(command, env=environment, check=False).returncode
        text = log.read_text() if log.exists() else "the driver was not used"
    launches = re.search(r"cuLaunchKernelEx \d+", text)
    left = re.search(r"mistakes (\d+)\nunfreed (\d+)\nleft modules (\d+), streams (\d+), "
                     r"reservations (\d+), pages (\d+)\n", text)
    print(f"fake CUDA driver: {launches and launches[0]}", file=sys.stderr)
    if not launches or not left or any(int(n) for n in left.groups()):
        print(text, file=sys.stderr)
        return status or 1
    return status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
