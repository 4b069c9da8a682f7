"""Model-local functions: attributes, defaults, optional inputs, domains, constructs in them."""
import numpy as np

from program import program

F = '<domain: "local", opset_import: ["": 17, "local": 1]>'


@program("""(float[N] x) => (float[N] y) { a = local.twice (x)  y = local.twice (a) }
""" + F + """ twice (x) => (y) { y = Add(x, x) }""", ([1, 2],))
def call_twice(x):
    return 4 * x


@program("""(float x) => (float y, float z) {
  y = local.leaky <slope = 0.5> (x)
  z = local.leaky (x)
}
<domain: "local", opset_import: ["": 17]>
leaky <slope: float = 0.25> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }""",
         (4,), (-4,))
def call_with_attribute_and_default(x):
    return (x, x) if x > 0 else (x / 2, x / 4)


@program("""(float[M, N] x) => (float[K] y, float[1, L] z) {
  y = local.norm <axis = [1], keep = 0> (x)
  z = local.norm <axis = [0], keep = 1> (x)
}
<domain: "local", opset_import: ["": 13, "local": 1]>
norm <axis, keep> (x) => (y) { y = local.inner <where: ints = @axis, keep: int = @keep> (x) }
<domain: "local", opset_import: ["": 13]>
inner <where, keep> (x) => (y) {
  y = ReduceMean <axes: ints = @where, keepdims: int = @keep> (x)
}""", ([[1, 2], [3, 4], [5, 6]],))
def call_passes_attributes_on_and_uses_older_opset(x):
    return x.mean(1), x.mean(0, keepdims=True)


@program("""(bool c, float x) => (float y) { y = local.pick <k = 3.0> (c, x) }
<domain: "local", opset_import: ["": 17]>
pick <k> (c, x) => (y) {
  y = If <then_branch = yes () => (a) { v = Constant <value_float: float = @k> ()  a = Mul(x, v) },
          else_branch = no () => (a) { a = Neg(x) }> (c)
}""", (True, 4), (False, 4))
def call_attribute_used_inside_branch(c, x):
    return 3 * x if c else -x


@program("""(float x) => (float y, float z) {
  y = local.clip (x)
  hi = Constant <value_float = 2.0> ()
  z = local.clip (x, "", hi)
}
<domain: "local", opset_import: ["": 17]> clip (x, lo, hi) => (y) { y = Clip(x, lo, hi) }""",
         (5,), (-5,))
def call_with_inputs_left_out(x):
    return x, min(x, 2)


@program("""(float x) => (float y, float z) {
  y = local.two (x)
  "", z = local.two (x)
}
<domain: "local", opset_import: ["": 17]> two (x) => (p, q) { p = Neg(x)  q = Add(x, x) }""", (5,))
def call_with_outputs_left_out(x):
    return -x, 2 * x


@program("""(float x, float y) => (float z) {
  a = local.f (x, y)
  b = other.f (x, y)
  z = Sub(a, b)
}
<domain: "local", opset_import: ["": 17]> f (x, y) => (z) { z = Mul(x, y) }
<domain: "other", opset_import: ["": 17]> f (y, x) => (z) { z = Add(x, y) }""", (5, 3), (2, 2))
def call_same_name_in_two_domains(x, y):
    return x * y - (x + y)


@program("""(float x, float y) => (float p, float q) { p, q = local.swap (x, y) }
<domain: "local", opset_import: ["": 17]> swap (a, b) => (b, a) {}""", (5, 3))
def call_of_function_without_nodes(x, y):
    return y, x


@program("""(float x) => (float y) { a = local.Relu (x)  b = Relu(x)  y = Sub(a, b) }
<domain: "local", opset_import: ["": 17]> Relu (x) => (y) { n = Neg(x)  y = Relu(n) }""",
         (5,), (-3,))
def call_function_named_like_an_operator(x):
    return max(-x, 0) - max(x, 0)


@program("""(float x) => (float y) { y = local.c (x) }
<domain: "local", opset_import: ["": 17, "local": 1]>
c (x) => (y) { a = local.b (x)  y = local.b (a) }
<domain: "local", opset_import: ["": 17, "local": 1]>
b (x) => (y) { a = local.a (x)  y = local.a (a) }
<domain: "local", opset_import: ["": 17]> a (x) => (y) { one = Constant <value_float = 1.0> ()
  y = Add(x, one) }""", (0,), (10,))
def call_three_deep(x):
    return x + 4


@program("""(int64 n, float x) => (float y, float[K] seen) {
  y, seen = Loop <body = step (int64 i, bool c, float s) => (bool d, float t, float u) {
    d = Identity(c)  f = Cast <to = 1> (i)  t, u = local.cell (s, f)
  }> (n, "", x)
}
<domain: "local", opset_import: ["": 17]> cell (s, f) => (t, u) { u = Mul(s, f)  t = Sub(f, s) }""",
         (4, 2), (0, 2))
def call_in_loop_with_two_results(n, x):
    seen = []
    for i in range(n):
        seen.append(x * i)
        x = i - x
    return x, seen


@program("""(int64 n, float[N] x) => (float[N] y, float[N] z) {
  y = local.power (x, n)
  m = Neg(n)
  z = local.power (x, m)
}
<domain: "local", opset_import: ["": 17]>
power (x, n) => (y) {
  unit = Constant <value_float = 1.0> ()  ones = Shape(x)  init = Expand(unit, ones)
  y = Loop <body = step (int64 i, bool c, s) => (bool d, t) {
    d = Identity(c)  t = Mul(s, x) }> (n, "", init)
}""", (3, [2, 3]), (0, [2, 3]))
def loop_in_call_captures_parameter(n, x):
    return x ** n, np.ones_like(x)


@program("""(float[N] x) => (float[N] y) <int64 zero = {0}> {
  k = Size(x)
  y = Loop <body = step (int64 i, bool c) => (bool d, float u) {
    d = Identity(c)  v = Gather(x, i)  u = local.huber (v)
  }> (k, "")
}
<domain: "local", opset_import: ["": 17, "local": 1]>
huber (v) => (y) {
  one = Constant <value_float = 1.0> ()  a = Abs(v)  small = LessOrEqual(a, one)
  y = If <then_branch = sq () => (p) { p = local.half_square (v) },
          else_branch = lin () => (p) {
            h = Constant <value_float = 0.5> ()  p = Sub(a, h) }> (small)
}
<domain: "local", opset_import: ["": 17]>
half_square (v) => (y) { h = Constant <value_float = 0.5> ()  s = Mul(v, v)  y = Mul(s, h) }""",
         ([0.5, -3, 1, 2],), ([],))
def call_in_if_in_call_in_loop_huber(x):
    return [0.5 * v * v if abs(v) <= 1 else abs(v) - 0.5 for v in x]


@program("""(float x) => (float a, float b) { a = local.f (x)  b = local.f : two (x) }
<domain: "local", opset_import: ["": 17]> f (x) => (y) { y = Neg(x) }
<domain: "local", overload: "two", opset_import: ["": 17]> f (x) => (y) { y = Add(x, x) }""",
         (3,), ir=10)
def call_overloads(x):
    return -x, 2 * x


@program("""(int64 n, float[2] x) => (float[2] y) {
  y = local.outer (n, x)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
outer (n, x) => (y) {
  y = Loop <body = b1 (int64 i, bool c, s) => (bool d, t) {
    d = Identity(c)
    u = local.inner (i, s)
    t = Add(u, x)
  }> (n, "", x)
}
<domain: "local", opset_import: ["": 17]>
inner (n, x) => (y) {
  y = Loop <body = b1 (int64 i, bool c, s) => (bool d, t) {
    d = Identity(c)  t = Add(s, x) }> (n, "", x)
}""", (3, [1, 2]), (0, [1, 2]))
def loop_in_call_in_loop_in_call_same_names(n, x):
    s = x
    for i in range(n):
        s = s * (1 + i) + x
    return s
