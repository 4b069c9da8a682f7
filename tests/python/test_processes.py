"""Processes that fork, and processes that take programs."""

import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import heddle

TEXT = """fn @main(%x: f32[64,64], %k: i64[]) -> (%y: f32[64,64]) {
  %y = loop trip %k carry (%h: f32[64,64] = %x) {
    continue carry tanh(dot(%h, %x))
  }
  return %y
}
"""
X = (np.arange(64 * 64, dtype=np.float32) % 7 / 7 - 0.5).reshape(64, 64)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
# Python warns of any fork of a process with threads.
ignored = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
#: In a variable of the module: children by fork have it without pickling.
PROGRAM = None


def program(threads=2, **options):
    return heddle.compile(heddle.load(TEXT.encode(), format="heddle"), threads=threads, **options)


def works(p, want):
    right = all(np.array_equal(p(X, 5), want) for _ in range(3))
    try:
        p.run({"x": X, "k": 1 << 40}, timeout=0.05, max_iterations=1 << 62)
    except heddle.Timeout:
        return right
    return False


def child_of(work):
    """Is the work true in a child by `os.fork`?"""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:  # noqa: BLE001 - the child must not go on with the tests
            sys.excepthook(*sys.exc_info())
            os._exit(2)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the child hangs")


@ignored
@pytest.mark.parametrize("threads", [1, 2])
def test_a_child_runs_what_its_parent_compiled(threads):
    p = program(threads)
    want = p(X, 5)
    assert child_of(lambda: works(p, want))
    assert child_of(lambda: works(p, want) and child_of(lambda: works(p, want)))
    assert works(p, want)


@ignored
def test_a_child_compiles_and_saves(tmp_path):
    p = program()
    want = p(X, 5)

    def work():
        q = program(cache=False)
        q.save(tmp_path / "q.hprog")
        return works(q, want)

    assert child_of(work)
    assert np.array_equal(heddle.open(tmp_path / "q.hprog", trusted=True)(X, 5), want)


@ignored
def test_a_fork_during_a_run():
    p = program()
    want, token = p(X, 5), heddle.Cancel()

    def busy():
        with pytest.raises(heddle.Cancelled):
            p.run({"x": X, "k": 1 << 40}, cancel=token, max_iterations=1 << 62, timeout=60)

    thread = threading.Thread(target=busy)
    thread.start()
    time.sleep(0.05)
    assert child_of(lambda: works(p, want))
    token.cancel()
    thread.join()
    assert works(p, want)


@ignored
def test_ctrl_c_in_a_child_that_another_thread_forked():
    p = program()
    p(X, 5)
    results = []

    def work():
        # A process in the background may have been started with the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            p.run({"x": X, "k": 1 << 40}, timeout=20, max_iterations=1 << 62)
        except KeyboardInterrupt:
            return True
        return False

    thread = threading.Thread(target=lambda: results.append(child_of(work)))
    thread.start()
    thread.join()
    assert results == [True]


def works_in_a_pool(want):
    return works(PROGRAM, want)


@ignored
def test_pools_that_fork():
    global PROGRAM
    PROGRAM = program()
    want = PROGRAM(X, 5)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(works_in_a_pool, [want] * 4, chunksize=1) == [True] * 4


def works_elsewhere(pair):
    return works(*pair)


def test_pools_that_spawn():
    p = program()
    want = p(X, 5)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(works_elsewhere, [(p, want)] * 4, chunksize=1) == [True] * 4
