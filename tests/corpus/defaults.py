"""Inputs with default values: initializers that are inputs, too. None leaves an input to its default."""
import numpy as np

from program import program


def given(value, default):
    return np.float32(default) if value is None else value


@program("""(float[N] x, float scale = {2.0}) => (float[N] y) { y = Mul(x, scale) }""",
         ([1, 2], None), ([1, 2], 5), ([3], 0))
def default_scale(x, scale):
    return x * given(scale, 2)


@program("""(float[2] w = {1.0, 2.0}, float x, float[1] v = {0.5}) => (float[2] y) {
  a = Mul(w, x)
  y = Add(a, v)
}""", (None, 3, None), ([4, 5], 3, None), (None, 3, [1]), ([1, 2], -1, [0]))
def default_comes_before_input(w, x, v):
    return given(w, [1, 2]) * x + given(v, [0.5])


@program("""(float x, int64 n = {3}) => (float y, float[K] seen) {
  y, seen = Loop <body = step (int64 i, bool c, float s) => (bool d, float t, float u) {
    d = Identity(c)  t = Add(s, s)  u = Identity(s)
  }> (n, "", x)
}""", (1, None), (1, 0), (1, 7))
def default_trip_count(x, n):
    trips = 3 if n is None else int(n)
    return x * 2 ** trips, [x * 2 ** i for i in range(trips)]


@program("""(float x, bool negate = {1}, float[2] w = {3.0, 4.0}) => (float[2] y) {
  a = If <then_branch = yes () => (p) { p = Neg(x) }, else_branch = no () => (q) { q = Abs(x) }> (negate)
  y = Mul(a, w)
}""", (-2, None, None), (-2, False, None), (-2, True, [1, 0]), ir=3, opset=8,
         dissent="values for initializers are only taken from IR version 4 on")
def default_in_old_ir(x, negate, w):
    return (abs(x) if negate is not None and not negate else -x) * given(w, [3, 4])
