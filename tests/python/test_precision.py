"""Products in the types of tensor cores, on the simulated GPU."""

import numpy as np
import pytest

import heddle

TEXT = b"""fn @main(%x: f32[n,64], %w: f32[64,n]) -> (%y: f32[n,n]) {
  %y = dot(%x, %w)
  return %y
}
"""
ONES = np.full((40, 64), 1 + 2**-12, np.float32)


def run(**options):
    return heddle.compile(heddle.load(TEXT, format="heddle"), **options)(ONES, ONES.T)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "f16"])
def test_tensor_cores_round(precision):
    np.testing.assert_array_equal(run(precision=precision, device="sim"), np.full((40, 40), 64, np.float32))


@pytest.mark.parametrize("options", [{}, {"precision": "tf32"}, {"device": "sim"}])
def test_others_do_not(options):
    np.testing.assert_allclose(run(**options), ONES @ ONES.T, rtol=1e-6)


def test_an_unknown_name():
    with pytest.raises(heddle.InputError, match='precision="f8" is none of f32, tf32, bf16, f16'):
        run(precision="f8")
