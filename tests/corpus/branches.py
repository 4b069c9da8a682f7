"""If: what its branches may return, capture, leave unevaluated; and Ifs inside loops and Ifs."""
import numpy as np

from program import program


@program("""(bool c, float[N] x) => (float[N] y) {
  y = If <then_branch = yes () => (float[N] a) { a = Add(x, x) },
          else_branch = no () => (float[N] b) { b = Mul(x, x) }> (c)
}""", (True, [3, 4]), (False, [3, 4]))
def if_simple(c, x):
    return x + x if c else x * x


@program("""(bool[1] c, float x) => (float y) {
  y = If <then_branch = yes () => (float a) { a = Neg(x) },
          else_branch = no () => (float a) { a = Exp(x) }> (c)
}""", ([True], 1), ([False], 0))
def if_condition_of_rank_1(c, x):
    return -x if c[0] else np.exp(x)


@program("""(bool c, float[N] x, float[M] z) => (float[K] y) {
  y = If <then_branch = yes () => (float[N] x) {}, else_branch = no () => (float[M] z) {}> (c)
}""", (True, [3, 4], [5]), (False, [3, 4], [5]))
def if_returns_outer_values(c, x, z):
    return x if c else z


@program("""(bool c) => (float[2] y, int64 z) {
  y, z = If <then_branch = yes () => (float[2] k, int64 m) <float[2] k = {1, 2}, int64 m = {7}> {},
             else_branch = no () => (float[2] k, int64 m) <float[2] k = {3, 4}> {
               m = Constant <value_int = 8> () }> (c)
}""", (True,), (False,))
def if_returns_constants(c):
    return ([1, 2], 7) if c else ([3, 4], 8)


@program("""(bool c, float[N] x) => (float[K] y) {
  y = If <then_branch = yes () => (float[P] a) { a = Concat <axis = 0> (x, x, x) },
          else_branch = no () => (float[Q] a) <int64[1] one = {1}, int64[1] big = {99}> {
            a = Slice(x, one, big) }> (c)
}""", (True, [3, 4]), (False, [3, 4]), (False, [3]))
def if_branches_of_different_shape(c, x):
    return np.tile(x, 3) if c else x[1:]


@program("""(bool c, float x) => (float[K] flat) <int64[1] m1 = {-1}> {
  y = If <then_branch = yes () => (float a) { a = Neg(x) },
          else_branch = no () => (float[1, 2] a) <int64[2] shape = {1, 2}> {
            a = Expand(x, shape) }> (c)
  flat = Reshape(y, m1)
}""", (True, 3), (False, 3))
def if_branches_of_different_rank(c, x):
    return [-x] if c else [x, x]


@program("""(int64 i, float[N] x) => (float y) <float zero = {0}> {
  size = Size(x)
  in = Less(i, size)
  y = If <then_branch = yes () => (float a) { a = Gather(x, i) },
          else_branch = no () => (float b) { b = Identity(zero) }> (in)
}""", (1, [3, 4]), (7, [3, 4]), (0, []))
def if_branch_not_taken_is_not_run(i, x):
    return x[i] if i < x.size else 0


@program("""(bool c, float x) => (float y) <bool yes = {1}> {
  y = If <then_branch = ever () => (float a) {
            a = Loop <body = spin (int64 i, bool d, float s) => (bool e, float t) {
              e = Identity(yes)  t = Add(s, s) }> ("", yes, x) },
          else_branch = no () => (float b) { b = Neg(x) }> (c)
}""", (False, 3))
def if_endless_loop_not_taken(c, x):
    return -x


@program("""(float x) => (float y) <float zero = {0}> {
  c = Less(x, zero)
  n = Not(c)
  y = If <then_branch = yes () => (float r) {
            r = If <then_branch = never () => (float p) { p = Add(x, x) },
                    else_branch = always () => (float q) { q = Neg(x) }> (n) },
          else_branch = no () => (float r) { r = Sqrt(x) }> (c)
}""", (-3,), (4,))
def if_on_captured_condition(x):
    return -x if x < 0 else np.sqrt(x)


@program("""(bool a, bool b, bool c, float x) => (float y) {
  y = If <then_branch = t1 () => (float r1) {
            u = Add(x, x)
            r1 = If <then_branch = t2 () => (float r2) {
                       v = Mul(u, x)
                       r2 = If <then_branch = t3 () => (float r3) { w = Add(u, v)  r3 = Neg(w) },
                                else_branch = e3 () => (float r4) { r4 = Sub(v, u) }> (c) },
                     else_branch = e2 () => (float r2) { r2 = Neg(u) }> (b) },
          else_branch = e1 () => (float r1) { u = Mul(x, x)  r1 = Identity(u) }> (a)
}""", (1, 1, 1, 3), (1, 1, 0, 3), (1, 0, 0, 3), (0, 0, 0, 3))
def if_three_deep(a, b, c, x):
    u = x + x
    v = u * x
    return (((-(u + v) if c else v - u) if b else -u) if a else x * x)


@program("""(bool c, float x) => (float y, float z) {
  y, "", z = If <then_branch = yes () => (float p, float q, float r) {
                   p = Neg(x)  q = Add(x, x)  r = Mul(x, x) },
                 else_branch = no () => (float r, float q, float p) {
                   p = Abs(x)  q = Exp(x)  r = Sqrt(x) }> (c)
}""", (True, 4), (False, 4))
def if_unwanted_output_has_no_name(c, x):
    return (-x, x * x) if c else (np.sqrt(x), abs(x))


@program("""(bool c, float x) => (float y, float z) {
  y, z = If <then_branch = yes () => (float p, float p) { p = Neg(x) },
             else_branch = no () => (float p, float x) { p = Abs(x) }> (c)
}""", (True, 4), (False, -4))
def if_returns_one_value_twice(c, x):
    return (-x, -x) if c else (abs(x), x)


@program("""(float x) => (float y) {
  c = Constant <value = bool {1}> ()
  y = If <then_branch = yes () => (float p) { p = Neg(x) },
          else_branch = no () => (float p) { p = Abs(x) }> (c)
}""", (4,))
def if_constant_condition(x):
    return -x


@program("""(int64 n, float x) => (float y, float[K] seen) <float ten = {10}> {
  y, seen = Loop <body = body (int64 i, bool c, float s) => (bool d, float t, float t) {
    d = Identity(c)
    big = Greater(s, ten)
    t = If <then_branch = yes () => (float a) { a = Sub(s, ten) },
            else_branch = no () => (float b) { f = Cast <to = 1> (i)  b = Add(s, f) }> (big)
  }> (n, "", x)
}""", (6, 7), (1, 20), (0, 1))
def if_in_loop(n, x):
    seen = []
    for i in range(n):
        x = x - 10 if x > 10 else x + i
        seen.append(x)
    return x, seen


@program("""(bool up, int64 n, float x) => (float y) {
  y = If <then_branch = yes () => (float a) {
            a = Loop <body = b1 (int64 i, bool c, float s) => (bool d, float t) {
              d = Identity(c)  t = Add(s, x) }> (n, "", x) },
          else_branch = no () => (float a) {
            a = Loop <body = b2 (int64 i, bool c, float s) => (bool d, float t) {
              d = Identity(c)  t = Sub(s, x) }> (n, "", x) }> (up)
}""", (True, 3, 2), (False, 3, 2), (False, 0, 2))
def loop_in_both_branches(up, n, x):
    return x * (1 + n) if up else x * (1 - n)


@program("""(int64 n, bool c, float x, float z) => (float y) {
  y = Loop <body = body (int64 i, bool k, float s) => (bool k, float t) {
    t = If <then_branch = yes () => (float s) {}, else_branch = no () => (float z) {}> (c)
  }> (n, "", x)
}""", (3, True, 1, 2), (3, False, 1, 2), (0, False, 1, 2))
def if_in_loop_returns_captured(n, c, x, z):
    return x if c or n == 0 else z


@program("""(int64 n, float[N] x) => (float[K] y)
            <int64 one = {1}, int64 zero = {0}, int64 two = {2}> {
  y = Loop <body = body (int64 i, bool c, float[P] s) => (bool d, float[Q] t) {
    d = Identity(c)
    m = Mod(i, two)  odd = Equal(m, one)
    t = If <then_branch = yes () => (float[A] a) { a = Concat <axis = 0> (s, x) },
            else_branch = no () => (float[B] b) { b = Neg(s) }> (odd)
  }> (n, "", x)
}""", (4, [1, 2]), (1, [1]), (3, []))
def if_in_loop_changes_shape(n, x):
    s = x
    for i in range(n):
        s = np.concatenate([s, x]) if i % 2 else -s
    return s


@program("""(int64[N] x) => (int64[N] y) <int64 zero = {0}, int64 one = {1}> {
  n = Size(x)
  last = Sub(n, one)
  y = Loop <body = outer (int64 i, bool c, int64[N] p) => (bool d, int64[N] q) {
    d = Identity(c)
    trips = Sub(last, i)
    q = Loop <body = inner (int64 j, bool e, int64[N] s) => (bool f, int64[N] t)
                           <int64[1] m1 = {-1}, int64[2] col = {2, 1}> {
      f = Identity(e)
      k = Add(j, one)  a = Gather(s, j)  b = Gather(s, k)  wrong = Greater(a, b)
      t = If <then_branch = swap () => (int64[N] u) {
                j1 = Reshape(j, m1)  k1 = Reshape(k, m1)  jk = Concat <axis = 0> (j1, k1)
                at = Reshape(jk, col)
                a1 = Reshape(a, m1)  b1 = Reshape(b, m1)  ba = Concat <axis = 0> (b1, a1)
                u = ScatterND(s, at, ba) },
              else_branch = keep () => (int64[N] u) { u = Identity(s) }> (wrong)
    }> (trips, "", p)
  }> (last, "", x)
}""", ([5, 2, 9, 1, 7, 2],), ([1, 2],), ([3],))
def if_in_loop_in_loop_bubble_sort(x):
    return sorted(x)


@program("""(int64[N] x) => (int64 fizz, int64 buzz, int64[N] kinds)
            <int64 zero = {0}, int64 one = {1}, int64 three = {3}, int64 five = {5}> {
  n = Size(x)
  fizz, buzz, kinds = Loop <body = body (int64 i, bool c, int64 f, int64 b) =>
                                        (bool d, int64 f2, int64 b2, int64 kind) {
    d = Identity(c)
    v = Gather(x, i)
    r3 = Mod(v, three)  is3 = Equal(r3, zero)
    r5 = Mod(v, five)  is5 = Equal(r5, zero)
    f2, k3 = If <then_branch = y3 () => (int64 p, int64 q) { p = Add(f, one)  q = Identity(one) },
                 else_branch = n3 () => (int64 p, int64 q) {
                   p = Identity(f)  q = Identity(zero) }> (is3)
    b2, kind = If <then_branch = y5 () => (int64 p, int64 q) {
                     p = Add(b, one)
                     q = If <then_branch = both () => (int64 r) { r = Add(three, five) },
                             else_branch = only () => (int64 r) { r = Identity(five) }> (is3) },
                   else_branch = n5 () => (int64 p, int64 q) {
                     p = Identity(b)  q = Mul(k3, three) }> (is5)
  }> (n, "", zero, zero)
}""", ([1, 3, 5, 15, 30, 9],), ([],))
def if_in_if_in_loop_fizz_buzz(x):
    kinds = [8 if v % 15 == 0 else 5 if v % 5 == 0 else 3 if v % 3 == 0 else 0 for v in x]
    return sum(v % 3 == 0 for v in x), sum(v % 5 == 0 for v in x), kinds


@program("""(bool a, int64 n, float x) => (float y) <float zero = {0}> {
  y = If <then_branch = yes () => (float r) {
            r = Loop <body = b (int64 i, bool c, float s) => (bool d, float t) {
              d = Identity(c)
              neg = Less(s, zero)
              t = If <then_branch = up () => (float p) {
                        p = Loop <body = in (int64 j, bool e, float u) => (bool f, float v) {
                          f = Identity(e)  w = Cast <to = 1> (j)  v = Add(u, w) }> (n, "", s) },
                      else_branch = down () => (float q) { q = Sub(x, s) }> (neg)
            }> (n, "", x) },
          else_branch = no () => (float x) {}> (a)
}""", (True, 3, -2), (True, 4, 5), (False, 4, 5))
def loop_in_if_in_loop_in_if(a, n, x):
    s = x
    for _ in range(n if a else 0):
        s = s + sum(range(n)) if s < 0 else x - s
    return s
