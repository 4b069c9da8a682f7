"""Models with control flow by an installation: compiled on one and two threads they agree with the interpreter and with PyTorch's results. Run outside of the repository.
usage: python installed_models.py FOLDER

FOLDER is tests/models/pt2."""
import sys
from pathlib import Path

import numpy as np

import heddle

# Its inputs' sizes grow with each turn, over more than one page of any size.
GROWING = """fn @main(%x: f32[n], %k: i64[]) -> (%y: f32[?]) {
  %y = loop trip %k carry (%h: f32[?] = %x) {
    continue carry concat(%h, %x, axis=0)
  }
  return %y
}
"""


def main(folder: Path) -> int:
    failed = passed = 0
    paths = sorted(folder.glob("*.pt2"))
    if not paths:
        print(f"FAILED  {folder} has no .pt2 files; give the folder tests/models/pt2")
        return 1
    for threads in (1, 2):
        for path in paths:
            name = path.name.split(".")[0]
            program = heddle.compile(heddle.load(path), threads=threads)
            # PyTorch fixed a size in the core of this one.
            numbers = (1,) if path.name == "in_place.core.pt2" else (1, 2)
            for number in numbers:
                inputs, wanted = (dict(np.load(folder / f"{name}.{number}.{part}.npz")) for part in ("in", "out"))
                beside_it = heddle.check(program, inputs, rtol=1e-4, atol=1e-5)
                beside_torch = heddle.check(program, inputs, wanted, rtol=1e-4, atol=1e-5)
                is_right = program.device == "cpu" and bool(beside_it) and bool(beside_torch)
                passed, failed = passed + is_right, failed + (not is_right)
                if not is_right:
                    print(f"FAILED  {path.name}, inputs {number}, {threads} threads: {beside_it}, {beside_torch}")
        grows = heddle.compile(heddle.load(GROWING.encode(), format="heddle"), threads=threads)
        for n, k in ((0, 3), (1, 0), (1000, 200), (7, 5)):
            x = np.arange(n, dtype=np.float32)
            is_right = np.array_equal(grows(x, k), np.tile(x, k + 1))
            passed, failed = passed + is_right, failed + (not is_right)
            if not is_right:
                print(f"FAILED  an array that grows to {n * (k + 1)}, {threads} threads")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
