"""Functions that call themselves or each other, which onnx.checker and ONNX Runtime refuse; and the
form of Cocktailer's artifact, a node `Recursion` whose body calls itself by the graph's name."""
import numpy as np

from program import program

F = '<domain: "local", opset_import: ["": 17, "local": 1]>'


def mccarthy(n):
    """91 up to 101, n - 10 above."""
    return n - 10 if n > 100 else 91


@program("(int64 n) => (int64 y) { y = local.M (n) }\n" + F + """ M (n) => (y) {
  hundred = Constant <value_int = 100> ()  big = Greater(n, hundred)
  y = If <then_branch = yes () => (a) { ten = Constant <value_int = 10> ()  a = Sub(n, ten) },
          else_branch = no () => (a) {
            eleven = Constant <value_int = 11> ()  m = Add(n, eleven)
            p = local.M (m)  a = local.M (p) }> (big)
}""", (99,), (101,), (60,), (150,))
def mccarthy91_recursive(n):
    return mccarthy(n)


FACTORIAL = """ (n) => (y) {
  one = Constant <value_int = 1> ()  base = LessOrEqual(n, one)
  y = If <then_branch = yes () => (a) { a = Identity(one) },
          else_branch = no () => (a) { m = Sub(n, one)  p = DOMAIN.NAME (m)  a = Mul(n, p) }> (base)
}"""


def factorial(n):
    """n! with 0! = (-k)! = 1."""
    return int(np.prod(np.arange(1, n + 1)))


@program("(int64 n) => (int64 y) { y = local.factorial (n) }\n" + F + " factorial"
         + FACTORIAL.replace("DOMAIN.NAME", "local.factorial"), (5,), (0,), (-2,), (12,))
def factorial_recursive(n):
    return factorial(n)


@program("(int64 n) => (int64 y) { y = local.fib (n) }\n" + F + """ fib (n) => (y) {
  two = Constant <value_int = 2> ()  base = Less(n, two)
  y = If <then_branch = yes () => (n) {}, else_branch = no () => (a) {
            one = Constant <value_int = 1> ()  k = Sub(n, one)  m = Sub(n, two)
            p = local.fib (k)  q = local.fib (m)  a = Add(p, q) }> (base)
}""", (10,), (1,), (0,))
def fibonacci_recursive(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@program("(int64 m, int64 n) => (int64 y) { y = local.A (m, n) }\n" + F + """ A (m, n) => (y) {
  nil = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  m0 = Equal(m, nil)
  y = If <then_branch = t1 () => (a) { a = Add(n, one) },
          else_branch = e1 () => (a) {
            k = Sub(m, one)  n0 = Equal(n, nil)
            a = If <then_branch = t2 () => (b) { b = local.A (k, one) },
                    else_branch = e2 () => (b) {
                      j = Sub(n, one)  p = local.A (m, j)  b = local.A (k, p) }> (n0) }> (m0)
}""", (2, 3), (0, 4), (3, 2))
def ackermann_recursive(m, n):
    return (n + 1, n + 2, 2 * n + 3, 2 ** (n + 3) - 3)[int(m)]


@program("(float x) => (float y, int64 steps) { one = Constant <value_float = 1.0> ()\n"
         "  y, steps = local.newton (x, one) }\n" + F + """ newton (x, g) => (y, steps) {
  q = Div(x, g)  s = Add(g, q)  half = Constant <value_float = 0.5> ()  h = Mul(s, half)
  e = Sub(h, g)  d = Abs(e)  eps = Constant <value_float = 0.001> ()  done = Less(d, eps)
  y, steps = If <then_branch = yes () => (h, k) { k = Constant <value_int = 1> () },
                 else_branch = no () => (a, b) {
                   a, k = local.newton (x, h)  one = Constant <value_int = 1> ()  b = Add(k, one)
                 }> (done)
}""", (2,), (1,), (100,))
def newton_recursive(x):
    g, steps = np.float32(1), 0
    while True:
        h = (g + x / g) * np.float32(0.5)
        steps += 1
        if abs(h - g) < np.float32(0.001):
            return h, steps
        g = h


@program("(int64 a, int64 b) => (int64 y) { y = local.gcd (a, b) }\n" + F + """ gcd (a, b) => (y) {
  nil = Constant <value_int = 0> ()  z = Equal(b, nil)
  y = If <then_branch = yes () => (a) {},
          else_branch = no () => (g) { r = Mod(a, b)  g = local.gcd (b, r) }> (z)
}""", (48, 36), (17, 5), (9, 0))
def gcd_recursive(a, b):
    return np.gcd(a, b)


@program("(float[2, 2] x, int64 n) => (float[2, 2] y) { y = local.pow (x, n) }\n" + F + """
pow (x, n) => (y) {
  nil = Constant <value_int = 0> ()  z = Equal(n, nil)
  y = If <then_branch = yes () => (a) { a = EyeLike(x) },
          else_branch = no () => (a) {
            two = Constant <value_int = 2> ()  h = Div(n, two)  sq = MatMul(x, x)
            p = local.pow (sq, h)  r = Mod(n, two)  odd = Cast <to = 9> (r)
            a = If <then_branch = t () => (b) { b = MatMul(p, x) },
                    else_branch = e () => (p) {}> (odd) }> (z)
}""", ([[1, 1], [1, 0]], 10), ([[2, 0], [0, 3]], 0), ([[1, 2], [3, 4]], 3))
def matrix_power_recursive(x, n):
    return np.linalg.matrix_power(x, n)


TREE = ([1, 3, -1, 5, -1, -1], [2, 4, -1, -1, -1, -1])  # a node's children, or -1


@program("""(int64[N] l, int64[N] r, float[N] v, int64 root) => (float sum, int64 depth) {
  sum, depth = local.tree (l, r, v, root)
}
""" + F + """ tree (l, r, v, n) => (sum, depth) {
  nil = Constant <value_int = 0> ()  none = Less(n, nil)
  sum, depth = If <then_branch = leaf () => (s, d) {
      s = Constant <value_float = 0.0> ()  d = Identity(nil) },
    else_branch = node () => (s, d) {
      p = Gather(l, n)  q = Gather(r, n)
      sp, dp = local.tree (l, r, v, p)  sq, dq = local.tree (l, r, v, q)
      w = Gather(v, n)  t = Add(sp, sq)  s = Add(t, w)
      one = Constant <value_int = 1> ()  m = Max(dp, dq)  d = Add(m, one) }> (none)
}""", (*TREE, [1, 2, 4, 8, 16, 32], 0), (*TREE, [1, 2, 4, 8, 16, 32], 3), (*TREE, [0] * 6, -1))
def tree_sum_and_depth_recursive(left, right, v, root):
    def tree(n):
        if n < 0:
            return 0, 0
        (sp, dp), (sq, dq) = tree(left[n]), tree(right[n])
        return sp + sq + v[n], max(dp, dq) + 1
    return tree(root)


@program("""(int64[N, 2] next, float[N, 3] v, int64 at) => (float[3] y) {
  y = local.dag (next, v, at) }
""" + F + """ dag (next, v, n) => (y) {
  own = Gather(v, n)  kids = Gather(next, n)  nil = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()  a = Gather(kids, nil)  b = Gather(kids, one)
  stop = Less(a, nil)
  y = If <then_branch = yes () => (own) {}, else_branch = no () => (z) {
        p = local.dag (next, v, a)  q = local.dag (next, v, b)  s = Mul(p, q)  z = Add(s, own)
      }> (stop)
}""", ([[1, 2], [3, 2], [3, 4], [-1, -1], [3, 3]],
       [[1, 0, 1], [2, 1, 0], [1, 1, 1], [2, 3, 1], [1, 1, 2]], 0))
def dag_with_shared_nodes_recursive(after, v, at):
    def dag(n):
        a, b = after[n]
        return v[n] if a < 0 else dag(a) * dag(b) + v[n]
    return dag(at)


@program("""(int64[N, M] kids, float[N] v, int64 root) => (float y) {
  y = local.sum (kids, v, root) }
""" + F + """ sum (kids, v, n) => (y) {
  own = Gather(v, n)  row = Gather(kids, n)  nil = Constant <value_int = 0> ()
  real = GreaterOrEqual(row, nil)  mine = Compress(row, real)  count = Size(mine)
  y = Loop <body = each (int64 i, bool c, s) => (bool d, t) {
    d = Identity(c)  k = Gather(mine, i)  p = local.sum (kids, v, k)  t = Add(s, p)
  }> (count, "", own)
}""", ([[1, 2, 3], [-1] * 3, [4, -1, 5], [-1] * 3, [-1] * 3, [-1] * 3], [1, 2, 3, 4, 5, 6], 0),
         ([[-1]], [7], 0))
def loop_over_children_recursive(kids, v, root):
    def total(n):
        return v[n] + sum(total(k) for k in kids[n] if k >= 0)
    return total(root)


@program("(float[N] x) => (float[N] y) { y = local.sort (x) }\n" + F + """ sort (x) => (y) {
  size = Size(x)  one = Constant <value_int = 1> ()  short = LessOrEqual(size, one)
  y = If <then_branch = yes () => (x) {}, else_branch = no () => (z) {
        nil = Constant <value_int = 0> ()  pivot = Gather(x, nil)
        l = Less(x, pivot)  e = Equal(x, pivot)  g = Greater(x, pivot)
        xl = Compress(x, l)  xe = Compress(x, e)  xg = Compress(x, g)
        a = local.sort (xl)  b = local.sort (xg)  z = Concat <axis = 0> (a, xe, b) }> (short)
}""", ([3, 1, 2, 3, 9, 0],), ([],), ([5],))
def quicksort_recursive(x):
    return np.sort(x)


@program("(int64 n) => (int64[K] discs) { a = Constant <value_int = 1> ()\n"
         "  b = Constant <value_int = 2> ()  c = Constant <value_int = 3> ()\n"
         "  discs = local.hanoi (n, a, b, c) }\n" + F + """ hanoi (n, a, b, c) => (y) {
  nil = Constant <value_int = 0> ()  done = LessOrEqual(n, nil)
  y = If <then_branch = yes () => (z) { z = Constant <value = int64[0] {}> () },
          else_branch = no () => (z) {
            one = Constant <value_int = 1> ()  m = Sub(n, one)
            p = local.hanoi (m, a, c, b)  q = local.hanoi (m, c, b, a)
            ten = Constant <value_int = 10> ()  t = Mul(a, ten)  u = Add(t, b)
            s = Constant <value_ints = [1]> ()  move = Reshape(u, s)
            z = Concat <axis = 0> (p, move, q) }> (done)
}""", (3,), (0,), (1,))
def hanoi_recursive(n):
    def hanoi(n, a, b, c):
        return hanoi(n - 1, a, c, b) + [a * 10 + b] + hanoi(n - 1, c, b, a) if n > 0 else []
    return hanoi(n, 1, 2, 3)


@program("(int64 n) => (int64 y) { y = local.down (n) }\n" + F + """ down (n) => (y) {
  nil = Constant <value_int = 0> ()  z = LessOrEqual(n, nil)
  y = If <then_branch = yes () => (nil) {}, else_branch = no () => (a) {
        one = Constant <value_int = 1> ()  m = Sub(n, one)  p = local.down (m)  a = Add(p, n) }> (z)
}""", (300,), (0,))
def depth_300_recursive(n):
    return n * (n + 1) // 2


PARITY = """ NAME (n) => (y) {
  nil = Constant <value_int = 0> ()  z = Equal(n, nil)
  y = If <then_branch = yes () => (b) { b = Constant <value = bool {BASE}> () },
          else_branch = no () => (b) {
            one = Constant <value_int = 1> ()  m = Sub(n, one)  b = local.OTHER (m) }> (z)
}"""


@program("(int64 n) => (bool even, bool odd) { even = local.even (n)  odd = local.odd (n) }\n" + F
         + PARITY.replace("NAME", "even").replace("BASE", "1").replace("OTHER", "odd") + F
         + PARITY.replace("NAME", "odd").replace("BASE", "0").replace("OTHER", "even"),
         (7,), (0,), (10,))
def even_odd_mutually_recursive(n):
    return n % 2 == 0, n % 2 == 1


THIRD = """ NAME (n, x) => (y) {
  nil = Constant <value_int = 0> ()  z = LessOrEqual(n, nil)
  y = If <then_branch = yes () => (x) {}, else_branch = no () => (a) {
        one = Constant <value_int = 1> ()  m = Sub(n, one)  v = STEP  a = DOMAIN.OTHER (m, v) }> (z)
}"""


def third(domain, name, step, other):
    """One of three functions that call each other in turn, over two domains."""
    text = THIRD.replace("NAME", name).replace("STEP", step).replace("DOMAIN.OTHER", other)
    return f'<domain: "{domain}", opset_import: ["": 17, "local": 1, "other": 1]>' + text


@program("(int64 n, float x) => (float y) { y = local.a (n, x) }\n"
         + third("local", "a", "Add(x, x)", "other.b") + third("other", "b", "Neg(x)", "local.c")
         + third("local", "c", "Abs(x)", "local.a"), (7, 3), (2, 3), (0, 3))
def cycle_of_three_mutually_recursive(n, x):
    for i in range(n):
        x = (x + x, -x, abs(x))[i % 3]
    return x


LEVEL = """ NAME (l, r, v, n) => (y) {
  nil = Constant <value_int = 0> ()  own = Gather(v, n)  p = Gather(l, n)  q = Gather(r, n)
  leaf = Less(p, nil)
  y = If <then_branch = yes () => (own) {}, else_branch = no () => (a) {
        b = local.OTHER (l, r, v, p)  c = local.OTHER (l, r, v, q)  a = OP(b, c) }> (leaf)
}"""


@program("""(int64[N] l, int64[N] r, float[N] v, int64 root) => (float y) {
  y = local.max (l, r, v, root) }
""" + F + LEVEL.replace("NAME", "max").replace("OTHER", "min").replace("OP", "Max") + F
         + LEVEL.replace("NAME", "min").replace("OTHER", "max").replace("OP", "Min"),
         ([1, 3, 5, -1, -1, -1, -1], [2, 4, 6, -1, -1, -1, -1], [0, 0, 0, 3, 5, 2, 9], 0),
         ([-1], [-1], [4], 0))
def minimax_tree_mutually_recursive(left, right, v, root):
    def value(n, pick, other):
        if left[n] < 0:
            return v[n]
        return pick(value(left[n], other, pick), value(right[n], other, pick))
    return value(root, max, min)


@program("(int64 n, int64[N] x) => (int64 total, int64[N] each) <int64 zero = {0}> {\n"
         """  k = Size(x)
  total, each = Loop <body = body (int64 i, bool c, int64 s) => (bool d, int64 t, int64 u) {
    d = Identity(c)  v = Gather(x, i)  u = local.factorial (v)  t = Add(s, u)
  }> (k, "", n)
}
""" + F + " factorial" + FACTORIAL.replace("DOMAIN.NAME", "local.factorial"),
         (0, [1, 2, 3]), (5, []))
def call_in_loop_recursive(n, x):
    each = [factorial(v) for v in x]
    return n + sum(each), each


def recursion_node(declaration, body, call):
    """A main graph with one node `Recursion` in the default domain."""
    return declaration + "{\n" + call.replace("(", f" <body = {body}> (", 1) + "\n}"


FACT_GRAPH = "fact (int64 n) => (int64 y)" + (
    FACTORIAL.split("=> (y)", 1)[1].replace("DOMAIN.NAME", "fact"))


@program(recursion_node("(int64 k) => (int64 f) ", FACT_GRAPH, "  f = Recursion(k)"), (5,), (0,))
def artifact_factorial_recursive(k):
    return factorial(k)


@program(recursion_node("(int64 k) => (int64 f) ", FACT_GRAPH, "  f = ai.recursion.Recursion(k)"),
         (6,))
def artifact_in_a_domain_of_its_own_recursive(k):
    return factorial(k)


@program("""(int64 k, float[2] x, float[2] w) => (float[2] y, int64 calls)
            <float[2] bias = {0.5, -1}> {
  w2 = Mul(w, bias)
  y, calls = Recursion <body = walk (int64 n, float[2] v) => (float[2] out, int64 count)
                                    <int64 nil = {0}, int64 one = {1}> {
    stop = LessOrEqual(n, nil)
    out, count = If <then_branch = yes () => (float[2] p, int64 q) {
                       p = Add(v, bias)  q = Identity(one) },
                     else_branch = no () => (float[2] p, int64 q) {
                       m = Sub(n, one)  u = Mul(v, w2)  r, s = walk(m, u)
                       p = Add(r, w2)  q = Add(s, one) }> (stop)
  }> (k, x)
}""", (3, [1, 2], [2, 3]), (0, [1, 2], [2, 3]))
def artifact_captures_initializer_and_computed_recursive(k, x, w):
    bias = np.float32([0.5, -1])
    w2 = w * bias

    def walk(n, v):
        if n <= 0:
            return v + bias, 1
        p, q = walk(n - 1, v * w2)
        return p + w2, q + 1
    return walk(k, x)


@program("""(int64[N] l, int64[N] r, float[N, 2] v, int64 root, float[2] w) => (float[2] y) {
  y = Recursion <body = rae (int64[N] left, int64[N] right, float[N, 2] emb, int64 n) =>
                            (float[2] out)
                            <int64 nil = {0}> {
    a = Gather(left, n)  b = Gather(right, n)  leaf = Less(a, nil)
    out = If <then_branch = yes () => (float[2] p) { p = Gather(emb, n) },
              else_branch = no () => (float[2] p) {
                fa = rae(left, right, emb, a)  fb = rae(left, right, emb, b)
                s = Add(fa, fb)  m = Mul(s, w)  p = Tanh(m) }> (leaf)
  }> (l, r, v, root)
}""", ([1, -1, 3, -1, -1], [2, -1, 4, -1, -1], [[0, 0], [1, 2], [0, 0], [3, -1], [-2, 1]],
         0, [0.5, 0.25]))
def artifact_tree_recursive(left, right, v, root, w):
    def rae(n):
        return v[n] if left[n] < 0 else np.tanh((rae(left[n]) + rae(right[n])) * w)
    return rae(root)


@program("""(int64 n, int64 k) => (int64 y) {
  y = Loop <body = body (int64 i, bool c, int64 s) => (bool d, int64 t) {
    d = Identity(c)
    f = Recursion <body = fact (int64 n1) => (int64 y1) <int64 one = {1}> {
      base = LessOrEqual(n1, one)
      y1 = If <then_branch = yes () => (int64 a) { a = Identity(k) },
               else_branch = no () => (int64 a) { m = Sub(n1, one)  p = fact(m)
                 a = Mul(n1, p) }> (base)
    }> (i)
    t = Add(s, f)
  }> (n, "", k)
}""", (5, 2), (0, 2))
def artifact_in_loop_captures_across_recursive(n, k):
    return k + sum(k * factorial(i) for i in range(n))
