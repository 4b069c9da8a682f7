"""Uses a program over and over, then asks LeakSanitizer, which has to be loaded with the interpreter, for memory that nothing refers to.
usage: LD_PRELOAD=liblsan.so PYTHONMALLOC=malloc python many_runs.py COUNT [USE]

Prints one line for each use. The exit status is 1 if Python's objects became more, or memory was lost; the sanitizer prints where that was allocated. Of USE alone otherwise; `forgets` loses memory on purpose."""
import ctypes
import gc
import os
import pickle
import sys
import tempfile
from pathlib import Path

SANITIZER = ctypes.CDLL(None)
# Memory that imports lose is not ours.
SANITIZER.__lsan_disable()
import numpy as np  # noqa: E402

import heddle  # noqa: E402

SANITIZER.__lsan_enable()
# Not for the C compiler.
os.environ.pop("LD_PRELOAD", None)

LOOP = """fn @main(%x: f32[n, 4], %k: i64[]) -> (%y: f32[n, 4], %sums: f32[?, n, 4]) {
  %y, %sums = loop trip %k carry (%h: f32[n, 4] = %x) {
    %next = tanh(add(%h, %x))
    continue carry %next stack %next
  }
  return %y, %sums
}
"""
GROWS = """fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[?]) {
  %y = loop trip %k carry (%h: f32[?] = %x) {
    continue carry concat(%h, %x, axis=0)
  }
  return %y
}
"""
TEXT = """fn @main(%words: str[n]) -> (%y: str[n]) {
  return str_concat(%words, "!")
}
"""
CASES = """fn @main(%words: str[n]) -> (%y: str[?]) {
  return str_normalize(%words, case=upper)
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


def model(text):
    return heddle.load(text.encode(), format="heddle")


def fails(error, call, *args, **kwargs):
    """The call raises that error, with all that hangs on it."""
    try:
        call(*args, **kwargs)
    except error as caught:
        assert str(caught)
        return
    raise AssertionError(f"{call} did not raise {error}")


class Uses:
    """Each public method is one use of a program."""

    def __init__(self, folder: Path):
        self._loop, self._wide = (heddle.compile(model(LOOP), threads=threads) for threads in (1, 2))
        self._interpreted = heddle.compile(model(LOOP), device="interp")
        self._grows, self._chain, self._text, self._cases = (
            heddle.compile(model(text), threads=2) for text in (GROWS, CHAIN, TEXT, CASES))
        self._batch = heddle.compile(model(CHAIN), batch_of=["x", "n"], threads=2)
        self._x = np.ones((3, 4), np.float32)
        self._out = np.empty_like(self._x)
        self._saved = folder / "p.hprog"
        self._loop.save(self._saved)

    def by_position(self):
        assert self._loop(self._x, 3)[1].shape == (3, 3, 4)

    def by_name(self):
        assert self._wide(k=2, x=self._x)[0].shape == (3, 4)

    def sizes_that_change(self):
        for n in (0, 1, 7):
            assert self._wide(np.ones((n, 4), np.float32), n)[1].shape == (n, n, 4)

    def strides(self):
        assert self._loop.run({"x": np.ones((4, 6), np.float32)[:, ::2].T[:, ::-1], "k": 1})["y"].shape == (3, 4)

    def lists(self):
        assert self._loop([[1.0, 2.0, 3.0, 4.0]], 1)[0].shape == (1, 4)

    def into_arrays(self):
        assert self._loop.run({"x": self._x, "k": 1}, out={"y": self._out})["y"] is self._out

    def results_that_grow(self):
        assert self._grows(self._x[0], 40).shape == (164,)

    def calls(self):
        assert self._chain(1.0, 5) > 1

    def text(self):
        assert list(self._text(np.array(["a", "bc"], dtype=object))) == ["a!", "bc!"]

    def interpreted_text(self):
        assert list(self._cases(np.array(["a", "bc"], dtype=object))) == ["A", "BC"]

    def interpreted(self):
        assert self._interpreted(self._x, 2)[0].shape == (3, 4)

    def many_instances(self):
        assert len(self._batch.run_batch([{"x": 1.0, "n": n} for n in (0, 3)])) == 2

    def wrong_inputs(self):
        fails(heddle.InputError, self._loop, np.ones((3, 4)), 3)
        fails(heddle.InputError, self._loop, np.ones((3, 5), np.float32), 3)
        fails(heddle.InputError, self._loop.run, {"x": self._x})

    def limits(self):
        fails(heddle.LimitReached, self._wide.run, {"x": self._x, "k": 100}, max_iterations=10)
        fails(heddle.LimitReached, self._chain.run, {"x": 1.0, "n": 50}, max_depth=20)
        fails(heddle.LimitReached, self._interpreted.run, {"x": self._x, "k": 100}, max_iterations=10)

    def cancelled(self):
        token = heddle.Cancel()
        token.cancel()
        fails(heddle.Cancelled, self._loop.run, {"x": self._x, "k": 3}, cancel=token)

    def wrong_models(self):
        fails(heddle.InvalidModel, model, "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return %z\n}\n")

    def reports(self):
        assert self._loop.inputs and repr(self._loop) and self._loop.report._repr_html_()


class SlowUses(Uses):
    """Uses that compile, or take as long: a tenth of the runs."""

    def programs(self):
        assert heddle.compile(model(LOOP), threads=1)(self._x, 1)[0].shape == (3, 4)

    def opened(self):
        assert heddle.open(self._saved, trusted=True)(self._x, 1)[0].shape == (3, 4)

    def pickled(self):
        assert pickle.loads(pickle.dumps(self._loop))(self._x, 1)[0].shape == (3, 4)


def public(kind):
    return [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]


def run(count: int, only: str = "") -> list[str]:
    """Runs each use; the names of those that leave objects behind."""
    grew = []
    with tempfile.TemporaryDirectory() as folder:
        uses = SlowUses(Path(folder))
        counts = {name: count for name in public(Uses)} | {name: max(count // 10, 1) for name in public(SlowUses)}
        for name, times in counts.items():
            if only and name != only:
                continue
            use = getattr(uses, name)
            for _ in range(3):
                use()
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(times):
                use()
            gc.collect()
            more = len(gc.get_objects()) - before
            print(f"{name}: {times} runs, {more} objects more", flush=True)
            # A program that is kept for the next one is no leak; one for each run is.
            if more > times // 10:
                grew.append(name)
    if only == "forgets":
        SANITIZER.malloc.restype = ctypes.c_void_p
        for _ in range(count):
            SANITIZER.malloc(ctypes.c_size_t(24))
    return grew


if __name__ == "__main__":
    GREW = run(int(sys.argv[1]), *sys.argv[2:])
    gc.collect()
    # Here and not in a function: the sanitizer does not see what Python's frames refer to.
    LOST = SANITIZER.__lsan_do_recoverable_leak_check()
    print(f"grew: {', '.join(GREW) or 'nothing'}; {'memory was lost' if LOST else 'no memory was lost'}", flush=True)
    # The interpreter's own end gives up memory without freeing it.
    os._exit(1 if GREW or LOST else 0)
