"""Generated functions of plain Python give what Python gives: whole numbers exactly, arrays in f32 within 1e-4.

HEDDLE_FUNCTIONS is how many, HEDDLE_SEED the first one's seed."""

import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

import heddle  # noqa: E402

from generate import Generator  # noqa: E402

FIRST = int(os.environ.get("HEDDLE_SEED", "0"))
COUNT = int(os.environ.get("HEDDLE_FUNCTIONS", "300"))
# One in so many is compiled; the others run on the interpreter, which is the oracle of what is compiled.
COMPILED = 25


def load(source, folder, seed):
    path = folder / f"generated_{seed}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def inputs(rows, width, seed):
    generator = torch.Generator().manual_seed(seed)
    x, v, w = (torch.randn(*shape, generator=generator) for shape in ((rows, width), (width,), (width,)))
    return x, v, w, torch.randn((), generator=generator), torch.randint(9, (), generator=generator)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_generated(seed, tmp_path):
    source = Generator(seed).source()
    f = load(source, tmp_path, seed)
    made = heddle.function(device="cpu" if seed % COMPILED == 0 else "interp")(f)
    for rows, width in ((3, 4), (5, 2), (7, 11)):
        given = inputs(rows, width, seed)
        with heddle.eager():
            wanted = f(*[a.clone() for a in given])
        for a, b in zip(made(*given), wanted):
            a, b = torch.as_tensor(a), torch.as_tensor(b)
            assert a.shape == b.shape, source
            if b.dtype.is_floating_point:
                assert torch.allclose(a.to(b.dtype), b, rtol=1e-4, atol=1e-5, equal_nan=True), f"{source}\n{a}\n{b}"
            else:
                assert torch.equal(a.to(b.dtype), b), f"{source}\n{a}\n{b}"
