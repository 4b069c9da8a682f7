"""Threads of Python on programs, memory over many runs, and a disk that is full."""

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import heddle

TEXT = """fn @main(%x: f32[n,16], %k: i64[]) -> (%y: f32[n,16]) {
  %w = const splat 0.0625: f32[16,16]
  %y = loop trip %k carry (%h: f32[n,16] = %x) {
    continue carry tanh(add(dot(%h, %w), %x))
  }
  return %y
}
"""


def program(**options):
    return heddle.compile(heddle.load(TEXT.encode(), format="heddle"), **{"threads": 2, **options})


def wanted(x, k):
    h, w = x, np.full((16, 16), 0.0625, np.float32)
    for _ in range(k):
        h = np.tanh(h @ w + x)
    return h


def on_threads(count, work):
    """Runs work(i) on threads of its own; what one raises fails the test."""
    failed = []

    def run(i):
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failed:
        raise failed[0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("many", [False, True])
def test_eight_threads_on_one_program_and_on_eight(many, threads):
    first = program(threads=threads)
    programs = [program(threads=threads) if many else first for _ in range(8)]

    def work(i):
        kept = []
        for turn in range(25):
            # Sizes differ from turn to turn, and results of earlier turns are kept.
            x = np.random.default_rng(100 * i + turn).standard_normal(((i + turn) % 5, 16), dtype=np.float32)
            kept.append((programs[i](x, turn % 4), wanted(x, turn % 4)))
        for found, right in kept:
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)

    on_threads(8, work)


def test_python_goes_on_while_a_program_runs():
    p, token, started = program(), heddle.Cancel(), threading.Event()

    def endless():
        started.set()
        with pytest.raises(heddle.Cancelled):
            p.run({"x": np.ones((3, 16), np.float32), "k": 1 << 40}, cancel=token, max_iterations=1 << 62, timeout=60)

    thread = threading.Thread(target=endless, daemon=True)
    thread.start()
    started.wait()
    # With the interpreter's lock held by the run, this would not come to its end before the run does.
    counter = 0
    for _ in range(200_000):
        counter += 1
    assert thread.is_alive() and counter == 200_000
    token.cancel()
    thread.join(60)
    assert not thread.is_alive()


def test_ctrl_c_in_a_loop_without_end_and_the_run_after():
    p = program()
    x = np.ones((3, 16), np.float32)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(3):
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                p.run({"x": x, "k": 1 << 40}, max_iterations=1 << 62, timeout=60)
            np.testing.assert_allclose(p(x, 3), wanted(x, 3), rtol=1e-4, atol=1e-5)
            with pytest.raises(heddle.Timeout):
                p.run({"x": x, "k": 1 << 40}, max_iterations=1 << 62, timeout=0.1)
            np.testing.assert_allclose(p(x, 3), wanted(x, 3), rtol=1e-4, atol=1e-5)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    p = program()
    x = np.ones((3, 16), np.float32)

    def work():
        # No file grows beyond this, as on a disk without room; programs that the child starts inherit it.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        with pytest.raises((heddle.FileError, heddle.BuildError), match="too large|No space"):
            p.save(tmp_path / "full.hprog")
        try:
            made = program(cache=tmp_path / "cache")
        except heddle.Error:
            # The C compiler has no room for its result.
            return True
        return np.allclose(made(x, 3), wanted(x, 3), rtol=1e-4, atol=1e-5)

    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:  # noqa: BLE001 - the child must not go on with the tests
            sys.excepthook(*sys.exc_info())
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not list(tmp_path.glob("*.hprog*"))
    # Remains of the failed build do not disturb the next one.
    np.testing.assert_allclose(program(cache=tmp_path / "cache")(x, 3), wanted(x, 3), rtol=1e-4, atol=1e-5)


def resident(what="VmRSS"):
    """Bytes of memory of this process: now, or the most since `clear_refs` was written."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def test_large_arrays_are_not_copied():
    p = heddle.compile(heddle.load(b"fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = add(%x, 1.0)\n  return %y\n}\n", format="heddle"), threads=2)
    # 100 MB each.
    x, y = np.zeros(25_000_000, np.float32), np.zeros(25_000_000, np.float32)
    x += 1
    y += 1
    p(x[:7])
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = resident()
    except OSError:
        before = None
    results = p.run({"x": x}, out={"y": y})
    assert results["y"] is y and y[0] == y[-1] == 2
    if before is not None:
        assert resident("VmHWM") - before < 50_000_000
    first = p(x)
    at = first.__array_interface__["data"][0]
    del first
    # The memory of a result that is dropped is that of the next one.
    assert p(x).__array_interface__["data"][0] == at


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say how much memory a process has")
def test_memory_stays_over_many_runs():
    p = program(threads=1)
    x = np.ones((3, 16), np.float32)
    for _ in range(2_000):
        p(x, 1)
    before = resident()
    for _ in range(100_000):
        p(x, 1)
    assert resident() - before < 4_000_000
