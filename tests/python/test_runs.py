"""Runs: limits, errors, Ctrl-C, threads."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import heddle

FOREVER = """fn @main(%x: f32[]) -> (%y: f32[]) {
  %y = loop %i while true carry (%h = %x) {
    %square = mul(%h, %h)
    continue while eq(%square, 1.0) carry %square
  }
  return %y
}
"""
CHAIN = """fn @main(%x: f32[], %n: i64[]) -> (%y: f32[]) {
  return call @chain(%x, %n)
}

fn @chain(%x: f32[], %n: i64[]) -> (%y: f32[]) {
  %y = if le(%n, 0) {
    yield %x
  } else {
    yield add(call @chain(mul(%x, 0.5), sub(%n, 1)), %x)
  }
  return %y
}
"""
DEVICES = pytest.mark.parametrize("device", ["interp", "cpu"])


def program(text, **options):
    return heddle.compile(heddle.load(text.encode(), format="heddle"), **options)


@DEVICES
def test_a_timeout_is_a_timeout(device):
    p = program(FOREVER, device=device)
    with pytest.raises(heddle.Timeout) as caught:
        p.run({"x": 1.0}, timeout=0.1, max_iterations=1 << 62)
    assert isinstance(caught.value, TimeoutError) and caught.value.limit == "timeout"
    assert p(2.0) == 4


@DEVICES
def test_limits_name_their_keyword(device):
    p = program(FOREVER, device=device)
    with pytest.raises(heddle.LimitReached) as caught:
        p.run({"x": 1.0}, max_iterations=10)
    assert caught.value.limit == "max_iterations" and "max_iterations=" in caught.value.hint
    assert "line 2" in (caught.value.node or "")
    p = program(CHAIN, device=device)
    with pytest.raises(heddle.LimitReached) as caught:
        p.run({"x": 1.0, "n": 100}, max_depth=50)
    assert caught.value.limit == "max_depth" and "--" not in str(caught.value)
    assert p(1.0, 2) == 1.75


def test_wrong_inputs_are_named():
    p = program(CHAIN)
    cases = [
        ((1.0,), {}, "n"), ((1.0, 2, 3), {}, "takes 2"), ((1.0, 2), {"x": 1.0}, "by position and by name"),
        ((1.0,), {"m": 2}, "m"), ((np.zeros(3, np.float32), 1), {}, "x"),
    ]
    for args, kwargs, part in cases:
        with pytest.raises(heddle.InputError, match=part):
            p(*args, **kwargs)


@DEVICES
def test_a_token_cancels(device):
    p, token = program(FOREVER, device=device), heddle.Cancel()
    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(heddle.Cancelled):
        p.run({"x": 1.0}, cancel=token, max_iterations=1 << 62, timeout=60)
    assert token.cancelled


def test_a_cancelled_task_ends_its_run():
    p = program(FOREVER)

    async def work():
        run = asyncio.create_task(p.run_async({"x": 1.0}, max_iterations=1 << 62, timeout=60))
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await p.run_async({"x": 2.0})

    assert asyncio.run(work())["y"] == 4


@DEVICES
def test_ctrl_c_ends_a_run(device):
    p = program(FOREVER, device=device)
    # A first run, so that no time is spent on waking workers.
    p(2.0)
    # A process in the background may have been started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            p.run({"x": 1.0}, max_iterations=1 << 62, timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert p(2.0) == 4


def test_a_signal_that_raises_nothing_ends_nothing():
    p, seen = program(FOREVER), []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(heddle.Timeout):
            p.run({"x": 1.0}, timeout=0.5, max_iterations=1 << 62)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]


def test_threads_share_a_program():
    p = program(CHAIN, threads=2)
    results = [None] * 8

    def work(k):
        results[k] = [float(p(float(k), 3)) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [[1.875 * k] * 50 for k in range(8)]


def test_other_threads_go_on_during_a_run():
    p, counted = program(FOREVER), 0
    done = threading.Event()

    def run():
        with pytest.raises(heddle.Timeout):
            p.run({"x": 1.0}, timeout=0.3, max_iterations=1 << 62)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    assert counted > 1000


def test_no_compiler(tmp_path):
    code = "import heddle, sys\ntry:\n  heddle.compile(heddle.load(sys.argv[1].encode(), format='heddle'), compiler='none-such')\n"
    code += "except heddle.NoCompiler as e:\n  print('ok', e.hint)\n"
    out = subprocess.run([sys.executable, "-c", code, CHAIN], capture_output=True, text=True)
    assert out.stdout.startswith("ok") and "interp" in out.stdout, out.stderr


def test_models_that_are_wrong():
    with pytest.raises(heddle.InvalidModel):
        heddle.load(b"\xff\xfe\x00\x01")
    with pytest.raises(heddle.FileError) as caught:
        heddle.load("no/such.onnx")
    assert isinstance(caught.value, OSError) and "no/such.onnx" in str(caught.value)
    with pytest.raises(heddle.InvalidModel, match="line 1"):
        heddle.load(b"nonsense", format="heddle")
    with pytest.raises(heddle.InputError, match="format"):
        heddle.load(b"", format="pt")
    with pytest.raises(heddle.InputError, match="device"):
        program(CHAIN, device="tpu")


def test_reports_and_sources():
    p = program(CHAIN, verify=True)
    assert p.inputs == {"x": "f32[]", "n": "i64[]"} and p.outputs == {"y": "f32[]"}
    assert p.report["verified"] and p.report["stages"]["lower"] >= 0 and p.report["interpreted"] == []
    assert "@chain" in p.source("ir") and "heddle_main" in p.source("c").lower() or "HEDDLE_MAIN" in p.source("c")
    assert "f32[]" in repr(p)
    with pytest.raises(heddle.InputError):
        p.source("asm")


def test_ctrl_c_ends_one_run_and_not_its_token():
    p, token = program(FOREVER), heddle.Cancel()
    other, ended = threading.Event(), []

    def work():
        with pytest.raises(heddle.Cancelled):
            p.run({"x": 1.0}, cancel=token, max_iterations=1 << 62, timeout=60)
        ended.append(token.cancelled)
        other.set()

    thread = threading.Thread(target=work)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            p.run({"x": 1.0}, cancel=token, max_iterations=1 << 62, timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not token.cancelled and not other.is_set(), "the other run goes on"
    token.cancel()
    thread.join(10)
    assert ended == [True]


def test_a_cancelled_task_leaves_others_with_its_token():
    p, token = program(FOREVER), heddle.Cancel()

    async def work():
        limits = dict(cancel=token, max_iterations=1 << 62, timeout=60)
        one, other = [asyncio.create_task(p.run_async({"x": 1.0}, **limits)) for _ in range(2)]
        await asyncio.sleep(0.1)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        await asyncio.sleep(0.05)
        assert not other.done() and not token.cancelled
        token.cancel()
        with pytest.raises(heddle.Cancelled):
            await other

    asyncio.run(work())


def test_signals_of_runs_that_retry_leave_the_deadline():
    p, seen = program(FOREVER), []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    stop = threading.Event()

    def disturb():
        while not stop.wait(0.1):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=disturb)
    try:
        thread.start()
        begin = time.monotonic()
        with pytest.raises(heddle.Timeout):
            p.run({"x": 1.0}, timeout=1.0, max_iterations=1 << 62)
        # Were each try given a second, it would not end.
        assert seen and time.monotonic() - begin < 30
    finally:
        stop.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_an_input_may_be_called_self():
    p = heddle.compile(heddle.load(b"fn @main(%self: f32[]) -> (%y: f32[]) {\n  return %self\n}\n", format="heddle"))
    assert p(self=np.float32(3)) == 3


def test_more_threads_than_a_program_can_use_are_refused():
    model = heddle.load(b"fn @main(%x: f32[]) -> (%y: f32[]) {\n  return %x\n}\n", format="heddle")
    with pytest.raises(heddle.InputError, match="1024"):
        heddle.compile(model, threads=100_000)


#: `k` times.
DOUBLED = """fn @main(%x: f32[n,3], %k: i64[]) -> (%y: f32[n,3]) {
  %y = loop trip %k carry (%c: f32[n,3] = %x) {
    continue carry add(%c, %c)
  }
  return %y
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("options, text", [
    (dict(timeout=-1), "timeout=-1: it takes a number of seconds from 0"), (dict(timeout=float("nan")), "timeout=NaN: it takes"),
    (dict(timeout="1 s"), "timeout='1 s': it takes"), (dict(max_memory="1G"), "max_memory='1G': it takes a number of bytes"),
    (dict(max_iterations=-1), "max_iterations=-1: it takes a whole number from 0"), (dict(max_depth=2.5), "max_depth=2.5"),
    (dict(seed=-1), "seed=-1"), (dict(seed=1 << 64), "seed=18446744073709551616"), (dict(cancel="now"), "cancel='now': it takes a heddle.Cancel"),
    (dict(f64="yes"), "f64='yes': it takes True or False"),
])
def test_limits_that_make_no_sense(options, text):
    with pytest.raises(heddle.InputError) as caught:
        program(DOUBLED).run({"x": X, "k": 1}, **options)
    assert str(caught.value).startswith(text)


def test_no_limit_of_time():
    for timeout in (float("inf"), 1e300, None):
        assert np.array_equal(program(DOUBLED).run({"x": X, "k": 1}, timeout=timeout)["y"], program(DOUBLED)(X, 1))


@pytest.mark.parametrize("options, text", [
    (dict(threads="2"), "threads='2': it takes a whole number from 1"), (dict(threads=-2), "threads=-2"), (dict(verify="no"), "verify='no'"),
    (dict(max_frames=1.5), "max_frames=1.5"), (dict(compiler=3), "compiler=3: it takes a text"), (dict(device="tpu"), "device=\"tpu\" is none of"),
])
def test_options_that_make_no_sense(options, text):
    with pytest.raises(heddle.InputError) as caught:
        program(DOUBLED, **options)
    assert str(caught.value).startswith(text)
    with pytest.raises(heddle.InputError, match="ranks='x'"):
        heddle.load(b"", ranks="x")


def test_arrays_of_another_type_are_not_cast():
    for device in ("cpu", "interp"):
        with pytest.raises(heddle.InputError, match="f32.*f64") as caught:
            program(DOUBLED, device=device)(X.astype(np.float64), 1)
        assert "x.astype(\"float32\")" in caught.value.hint and "x.to(torch.float32)" in caught.value.hint
        with pytest.raises(heddle.InputError) as caught:
            program(DOUBLED, device=device)(X.astype(np.float64)[0], 1)
        assert caught.value.hint is None


@pytest.mark.parametrize("device", ["cpu", "interp"])
def test_memory_of_inputs_counts(device):
    with pytest.raises(heddle.LimitReached) as caught:
        program(DOUBLED, device=device).run({"x": X, "k": 1}, max_memory=0)
    assert caught.value.limit == "max_memory" and "max_memory" in caught.value.hint
