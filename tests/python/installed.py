"""Checks of an installation: it reads, compiles, runs, saves, opens, and refuses wrong inputs. Run outside of the repository.
usage: python installed.py"""

import tempfile
import time
from pathlib import Path

import numpy as np

import heddle

TEXT = """fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[n]) {
  %y = loop trip %k carry (%h: f32[n] = %x) {
    continue carry tanh(add(%h, %x))
  }
  return %y
}
"""


def main():
    model = heddle.load(TEXT.encode(), format="heddle")
    begin = time.perf_counter()
    program = heddle.compile(model, threads=2, cache=False)
    seconds = time.perf_counter() - begin
    assert program.device == "cpu"
    for n in (0, 1, 7):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        wanted = x
        for _ in range(3):
            wanted = np.tanh(wanted + x)
        np.testing.assert_allclose(program(x, 3), wanted, rtol=1e-5, atol=1e-6)
        assert heddle.check(program, {"x": x, "k": 3}, rtol=1e-5)
    for wrong, error in (({"x": np.zeros(3), "k": 3}, heddle.InputError), ({"x": np.zeros(3, np.float32)}, heddle.InputError)):
        try:
            program.run(wrong)
        except error:
            continue
        raise SystemExit(f"{wrong} was taken")
    try:
        program.run({"x": np.ones(3, np.float32), "k": 1 << 40}, timeout=0.1, max_iterations=1 << 62)
    except heddle.Timeout:
        pass
    else:
        raise SystemExit("a run without end ended")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.hprog"
        program.save(path)
        x = np.ones(5, np.float32)
        assert np.array_equal(heddle.open(path, trusted=True)(x, 2), program(x, 2))
    print(f"compiled in {seconds:.2f} s")


if __name__ == "__main__":
    main()
