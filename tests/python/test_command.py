"""The `heddle` command that the package installs."""
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest

import heddle

SCRIPT = [str(Path(sysconfig.get_path("scripts")) / "heddle")]
MODULE = [sys.executable, "-m", "heddle"]
LOOP = "fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n]) {\n  %y = loop trip %k carry (%h: f32[n] = %x) {\n    continue carry tanh(%h)\n  }\n  return %y\n}\n"


def ran(command, *arguments, **more):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, **more)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "loop.heddle").write_text(LOOP)
    np.savez(tmp_path / "in.npz", x=np.float32([0.5, -1]), k=np.int64(3))
    return tmp_path


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_it_runs_models(command, folder):
    done = ran(command, "run", "loop.heddle", "--input", "in.npz", "--output", "out.npz", cwd=folder)
    assert done.returncode == 0, done.stderr
    wanted = np.tanh(np.tanh(np.tanh(np.float32([0.5, -1]))))
    np.testing.assert_allclose(np.load(folder / "out.npz")["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_exit_codes_and_texts_are_the_command_s(command, folder):
    version = ran(command, "--version")
    assert (version.returncode, version.stdout) == (0, f"heddle {heddle.__version__}\n")
    wrong = ran(command, "run", cwd=folder)
    assert wrong.returncode == 2 and "Usage: heddle run" in wrong.stderr
    absent = ran(command, "run", "nope.onnx", "--random", "0", cwd=folder)
    assert absent.returncode == 6 and "nope.onnx" in absent.stderr
    (folder / "out.npz").write_bytes(b"no archive")
    invalid = ran(command, "run", "loop.heddle", "--input", "out.npz", cwd=folder)
    assert invalid.returncode == 3 and "out.npz" in invalid.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_it_at_once(folder):
    # A loop without an end. The command is at work once it keeps something in its cache.
    (folder / "endless.heddle").write_text(LOOP.replace(", %k: i64[]", "").replace("loop trip %k", "loop trip 9000000000000000000"))
    arguments = ["run", "endless.heddle", "--random", "0", "--size", "n=4", "--max-iterations", "9000000000000000000"]
    cache = folder / "cache"
    child = subprocess.Popen([*MODULE, *arguments], cwd=folder, env={**os.environ, "HEDDLE_CACHE": str(cache)})
    while not cache.exists():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == -signal.SIGINT
