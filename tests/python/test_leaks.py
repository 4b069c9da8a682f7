"""A thousand runs lose no memory: LeakSanitizer, loaded with the interpreter, finds none that nothing refers to."""
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


def sanitizer():
    """GCC's library, if this machine has it, and this Python can do without an allocator of its own: without a GIL none can."""
    if not (gcc := shutil.which("gcc")) or sys.platform != "linux" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    path = subprocess.run([gcc, "-print-file-name=liblsan.so"], capture_output=True, text=True).stdout.strip()
    return path if os.path.isabs(path) and Path(path).exists() else None


def ran(*arguments):
    # Python's own allocator would keep memory out of sight.
    environment = {**os.environ, "LD_PRELOAD": sanitizer(), "PYTHONMALLOC": "malloc"}
    script = Path(__file__).parent / "many_runs.py"
    return subprocess.run([sys.executable, script, *arguments], env=environment, capture_output=True, text=True, timeout=600)


def skip_unless_it_runs(done):
    if "LeakSanitizer has encountered a fatal error" in done.stderr:
        pytest.skip("LeakSanitizer may not look at this process")


pytestmark = pytest.mark.skipif(sanitizer() is None, reason="there is no gcc with LeakSanitizer (liblsan), or no GIL")


def test_memory_that_is_lost_is_found():
    done = ran("5", "forgets")
    skip_unless_it_runs(done)
    assert done.returncode == 1, done.stderr
    assert "120 byte(s) in 5 object(s)" in done.stderr and "memory was lost" in done.stdout


def test_no_memory_is_lost_in_a_thousand_runs():
    done = ran("1000")
    skip_unless_it_runs(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "grew: nothing; no memory was lost" in done.stdout
