"""Control flow of JAX by way of jax2onnx, beside JAX, at two lengths."""

import numpy as np
import pytest

import heddle

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax2onnx = pytest.importorskip("jax2onnx", reason="jax2onnx is not installed")


def scan(x, n):
    def step(h, row):
        h = jax.numpy.tanh(h * 0.5 + row)
        return h, h * 2

    return jax.lax.scan(step, x[0] * n, x)


def while_loop(x, n):
    return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jax.numpy.tanh(s[1]) + 0.1), (0, x))[1]


def cond(x, n):
    return jax.lax.cond(x.sum() > n, lambda x: x * 2.0, lambda x: jax.numpy.tanh(x) - 1.0, x)


def fori_loop(x, n):
    """Its bound is a number: jax2onnx takes no other."""
    return jax.lax.fori_loop(0, 5, lambda i, h: jax.numpy.tanh(h + i * 0.1), x) * n


def nested(x, n):
    def up(i, h):
        return jax.lax.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, s[1] + 0.2), (0, h))[1]

    def body(state):
        i, h = state
        return i + 1, jax.lax.cond(h.sum() > 0, lambda h: h * 0.5 - 0.1, lambda h: up(i, h), h)

    return jax.lax.while_loop(lambda s: s[0] < n, body, (0, x))[1]


@pytest.mark.parametrize("function", [scan, while_loop, cond, fori_loop, nested])
@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_control_flow(function, device):
    shapes = [("rows", 4), jax.ShapeDtypeStruct((), np.int32)]
    program = heddle.compile(jax2onnx.to_onnx(function, shapes), device=device)
    for rows, n in ((5, 3), (11, 1), (1, 0)):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        found = program(x, np.int32(n))
        found = found if isinstance(found, tuple) else (found,)
        for a, b in zip(found, jax.tree.leaves(function(x, np.int32(n))), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
