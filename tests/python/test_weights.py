"""Weights in fewer bytes."""

import numpy as np
import pytest

import heddle

RNG = np.random.default_rng(3)
W = RNG.uniform(-1, 1, (16, 32)).astype(np.float32)
X = RNG.standard_normal((1, 16)).astype(np.float32)


def model():
    rows = ", ".join("[" + ", ".join(repr(float(v)) for v in row) + "]" for row in W)
    text = f"""fn @main(%x: f32[1,16]) -> (%y: f32[1,32]) {{
  %w = const [{rows}]: f32[16,32]
  return dot(%x, %w)
}}
"""
    return heddle.load(text.encode(), format="heddle")


def run(**options):
    return heddle.compile(model(), **options).run({"x": X})["y"]


@pytest.mark.parametrize("weights", ["bf16", "f16", "int8"])
def test_devices_agree(weights):
    interpreted, compiled = (run(weights=weights, device=device) for device in ("interp", "cpu"))
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-5, atol=1e-6)
    wide = run(weights="f32")
    assert 0 < np.abs(compiled - wide).max() < 0.05


def test_numbers_are_those_of_the_type():
    rounded = W.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(run(weights="f16"), X @ rounded, rtol=1e-5, atol=1e-6)
    scale = np.abs(W).max(axis=0) / 127
    np.testing.assert_allclose(run(weights="int8"), X @ (np.rint(W / scale) * scale), rtol=1e-3, atol=1e-3)


def test_errors():
    with pytest.raises(heddle.InputError, match='weights="int7" is none of f32, bf16, f16, int8'):
        run(weights="int7")
    with pytest.raises(heddle.Unsupported, match="weights in bf16") as error:
        run(weights="bf16", device="sim")
    assert 'weights="f32"' in error.value.hint
