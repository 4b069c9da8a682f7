"""Programs in files, pickles and given arrays."""

import multiprocessing
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import heddle

LOOP = """fn @main(%x: f32[n,3], %k: i64[]) -> (%y: f32[n,3]) {
  %w = const splat 0.5: f32[3,3]
  %big = const splat 0.25: f32[97,3]
  %y = loop trip %k carry (%h: f32[n,3] = %x) {
    continue carry add(dot(%h, %w), gather(%big, 5, axis=0))
  }
  return %y
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
DEVICES = pytest.mark.parametrize("device", ["interp", "cpu"])


def model():
    return heddle.load(LOOP.encode(), format="heddle")


def program(device="cpu", **options):
    return heddle.compile(model(), device=device, **options)


@DEVICES
@pytest.mark.parametrize("trusted", [False, True])
def test_files_and_bytes(tmp_path, device, trusted):
    p, path = program(device, threads=2), tmp_path / "p.hprog"
    p.save(path)
    for source in (path, str(path), path.read_bytes()):
        q = heddle.open(source, trusted=trusted)
        assert (q.inputs, q.outputs, q.device) == (p.inputs, p.outputs, p.device)
        assert np.array_equal(q(X, 3), p(X, 3))
    assert q.source("ir") == p.source("ir")


def test_a_trusted_file_needs_no_compiler(tmp_path):
    p, path = program(), tmp_path / "p.hprog"
    p.save(path)
    assert np.array_equal(heddle.open(path, trusted=True, compiler="none-such", cache=False)(X, 3), p(X, 3))
    with pytest.raises(heddle.NoCompiler):
        heddle.open(path, compiler="none-such", cache=False)


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "p.hprog"
    program("interp").save(path)
    good = path.read_bytes()
    for bad in (b"", b"PK\x03\x04", pickle.dumps([1]), good[:40], good[:-1], good[:100] + b"\0" + good[101:]):
        path.write_bytes(bad)
        with pytest.raises(heddle.InvalidModel, match="p.hprog"):
            heddle.open(path, trusted=True)
    with pytest.raises(heddle.FileError):
        heddle.open(tmp_path / "none.hprog")
    with pytest.raises(heddle.FileError):
        program("interp").save(tmp_path / "no" / "p.hprog")


@DEVICES
def test_pickles(device):
    p, m = program(device), model()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        q, n = pickle.loads(pickle.dumps((p, m), protocol))
        assert np.array_equal(q(X, 3), p(X, 3)) and q.device == p.device
        assert n.inputs == m.inputs and n.entries == m.entries
    assert np.array_equal(heddle.compile(n, device=device)(X, 2), p(X, 2))


def run_there(program, queue):
    queue.put(program(X, 3))


def test_another_process_takes_a_program():
    p = program()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=run_there, args=(p, queue))
    child.start()
    assert np.array_equal(queue.get(timeout=120), p(X, 3))
    child.join()
    assert child.exitcode == 0


@DEVICES
def test_results_in_given_arrays(device):
    p = program(device)
    wanted = p(X, 3)
    for memory in (
        np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32).T, np.zeros((4, 3), np.float32)[::2],
        np.zeros(28, np.uint8)[4:].view(np.float32).reshape(2, 3),
    ):
        results = p.run({"x": X, "k": 3}, out={"y": memory})
        assert results["y"] is memory and np.array_equal(memory, wanted)
    # Where the result lies on the input.
    memory = X.copy()
    p.run({"x": memory, "k": 3}, out={"y": memory})
    assert np.array_equal(memory, wanted)


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 7])
def test_sizes_of_given_arrays(device, n):
    p, x = program(device), np.ones((n, 3), np.float32)
    memory = np.empty((n, 3), np.float32)
    assert np.array_equal(p.run({"x": x, "k": 2}, out={"y": memory})["y"], p(x, 2))
    for wrong, part in ((np.empty((n + 1, 3), np.float32), "shape"), (np.empty((n, 3)), "f32"), ([1], "array of NumPy")):
        with pytest.raises(heddle.InputError, match=part):
            p.run({"x": x, "k": 2}, out={"y": wrong})
    read_only = np.empty((n, 3), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(heddle.InputError, match="read-only"):
        p.run({"x": x, "k": 2}, out={"y": read_only})
    with pytest.raises(heddle.InputError, match="no output"):
        p.run({"x": x, "k": 2}, out={"z": memory})


@DEVICES
def test_results_whose_sizes_only_the_run_knows(device):
    text = """fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n], %rows: f32[?,n]) {
  %y, %rows = loop trip %k carry (%c: f32[n] = %x) {
    %next = mul(%c, 2.0)
    continue carry %next stack %next
  }
  return %y, %rows
}
"""
    p = heddle.compile(heddle.load(text.encode(), format="heddle"), device=device)
    x = np.ones(3, np.float32)
    for k in (0, 1, 5):
        y, rows = np.empty(3, np.float32), np.empty((k, 3), np.float32)
        results = p.run({"x": x, "k": k}, out={"y": y, "rows": rows})
        assert results["rows"] is rows and np.array_equal(y, x * 2**k) and rows.shape == (k, 3)
        assert np.array_equal(rows, x * 2.0 ** np.arange(1, k + 1)[:, None])
        # Some of them only.
        results = p.run({"x": x, "k": k}, out={"rows": rows})
        assert results["rows"] is rows and np.array_equal(results["y"], y) and results["y"] is not y


@DEVICES
def test_errors_of_runs_into_given_arrays(device):
    p = program(device)
    memory = np.empty((2, 3), np.float32)
    with pytest.raises(heddle.LimitReached) as caught:
        p.run({"x": X, "k": 100}, max_iterations=10, out={"y": memory})
    assert caught.value.limit == "max_iterations"
    token = heddle.Cancel()
    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(heddle.Cancelled):
        p.run({"x": X, "k": 1 << 60}, cancel=token, max_iterations=1 << 62, timeout=60, out={"y": memory})
    with pytest.raises(heddle.Timeout):
        p.run({"x": X, "k": 1 << 60}, timeout=0.05, max_iterations=1 << 62, out={"y": memory})


def test_a_large_result_is_written_in_place():
    text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = add(%x, %x)\n  return %y\n}\n"
    p = heddle.compile(heddle.load(text.encode(), format="heddle"), threads=2)
    code = """
import heddle, numpy as np, resource, sys
p = heddle.compile(heddle.load(sys.argv[1].encode(), format="heddle"), threads=2)
x, y = np.ones(1 << 24, np.float32), np.full(1 << 24, 7, np.float32)
p(x[:8])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
p.run({"x": x}, out={"y": y})
assert (y == 2).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # In KiB: `y == 2` takes 16 MiB, a copy of the result would take 64.
    assert int(done.stdout) < 40 << 10
    assert p(np.ones(1, np.float32)) == 2


def test_opened_for_another_device(tmp_path):
    p = heddle.compile(model(), device="cpu")
    p.save(tmp_path / "p.hprog")
    for device in ("interp", "cpu"):
        q = heddle.open(tmp_path / "p.hprog", device=device)
        assert q.device == device and np.allclose(q(X, 3), p(X, 3), rtol=1e-5)
    assert heddle.open(p.__reduce__()[1][0]).device == "cpu"
    with pytest.raises(heddle.InputError, match="none of"):
        heddle.open(tmp_path / "p.hprog", device="tpu")
