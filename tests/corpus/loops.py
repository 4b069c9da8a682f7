"""Loop in every form of the specification: trip counts, conditions, carried and stacked values."""
import numpy as np

from program import program

BIG = 2**63 - 1


@program("""(int64 n, float[N] x) => (float[N] y) {
  y = Loop <body = step (int64 i, bool c, float[N] s) => (bool d, float[N] t) {
    d = Identity(c)  t = Add(s, s)
  }> (n, "", x)
}""", (3, [1, -2]), (0, [1, -2]), (-5, [4]), (1, []))
def loop_trip_count(n, x):
    for _ in range(n):
        x = x + x
    return x


@program("""(int64[1] n, bool[1] go, int64 x) => (int64 y) {
  y = Loop <body = step (int64 i, bool[1] c, int64 s) => (bool[1] d, int64 t) {
    d = Identity(c)  t = Add(s, i)
  }> (n, go, x)
}""", ([4], [True], 1), ([4], [False], 1))
def loop_trip_count_of_rank_1(n, go, x):
    return x + sum(range(n[0])) if go[0] else x


@program("""(int64 n, bool go, int64 x) => (int64 y, int64[K] seen) <int64 ten = {10}> {
  y, seen = Loop <body = step (int64 i, bool c, int64 s) => (bool d, int64 t, int64 u) {
    t = Add(s, i)  d = Less(t, ten)  u = Identity(s)
  }> (n, go, x)
}""", (3, True, 0), (BIG, True, 0), (BIG, True, 20), (5, False, 7), (0, True, 7), (-1, True, 7))
def loop_trip_count_and_condition(n, go, x):
    i, seen = 0, []
    while i < n and go:
        seen.append(int(x))
        x, i = x + i, i + 1
        go = x < 10
    return x, seen


@program("""(int64 x) => (int64 y, int64 steps)
            <int64 one = {1}, int64 two = {2}, int64 zero = {0}> {
  more = Greater(x, one)
  y, steps = Loop <body = collatz (int64 i, bool c, int64 s, int64 k) =>
                                  (bool d, int64 t, int64 m) <int64 three = {3}> {
    rest = Mod(s, two)  odd = Equal(rest, one)
    half = Div(s, two)  tri = Mul(s, three)  up = Add(tri, one)
    t = Where(odd, up, half)  m = Add(k, one)  d = Greater(t, one)
  }> ("", more, x, zero)
}""", (1,), (6,), (27,))
def loop_while(x):
    steps = 0
    while x > 1:
        x = 3 * x + 1 if x % 2 else x // 2
        steps += 1
    return x, steps


@program("""(float x, float limit) => (float y, float[K] seen) <bool yes = {1}> {
  y, seen = Loop <body = step (int64 i, bool c, float s) => (bool d, float t, float u) {
    t = Add(s, s)  u = Neg(t)  d = Less(t, limit)
  }> ("", yes, x)
}""", (1, 30), (50, 30))
def loop_do_while(x, limit):
    seen = []
    while True:
        x = x + x
        seen.append(-x)
        if not x < limit:
            return x, seen


@program("""(int64 n, float x) => (float y, int64[K] seen) <bool no = {0}> {
  y, seen = Loop <body = step (int64 i, bool c, float s) => (bool d, float t, int64 u) {
    d = Identity(no)  t = Add(s, s)  u = Identity(i)
  }> (n, "", x)
}""", (4, 1.5), (1, 1.5), (0, 1.5),
         dissent="it stops on the body's condition even when the node has none")
def loop_absent_condition_is_ignored(n, x):
    return x * 2**n, range(n)


@program("""(float[N] x, int64 k) => (float[N] y, int64 count) <bool yes = {1}, int64 one = {1}> {
  huge = Constant <value = int64 {9223372036854775807}> ()
  y, count = Loop <body = step (int64 i, bool c, float[N] s, int64 m) =>
                               (bool d, float[N] t, int64 o) {
    t = Neg(s)  o = Add(i, one)  d = Less(o, k)
  }> (huge, yes, x, k)
}""", ([1, 2], 5), ([3], 0))
def loop_huge_trip_count_with_break(x, k):
    count = max(int(k), 1)
    return x * (-1) ** count, count


@program("""(int64 n, float[2] a, float[2] b) => (float[2] x, float[2] y) {
  x, y = Loop <body = swap (int64 i, bool c, float[2] p, float[2] q) =>
                           (bool c, float[2] q, float[2] p) {}> (n, "", a, b)
}""", (0, [1, 2], [3, 4]), (1, [1, 2], [3, 4]), (4, [1, 2], [3, 4]))
def loop_swaps_with_empty_body(n, a, b):
    return (b, a) if n % 2 else (a, b)


@program("""(int64 n, float a, float b, float e) => (float x, float y, float z) {
  x, y, z = Loop <body = rotate (int64 i, bool c, float p, float q, float r) =>
                                (bool d, float s, float t, float u) {
    d = Identity(c)  s = Identity(q)  t = Identity(r)  u = Neg(p)
  }> (n, "", a, b, e)
}""", (1, 1, 2, 3), (2, 1, 2, 3), (7, 1, 2, 3))
def loop_rotates_three(n, a, b, e):
    for _ in range(n):
        a, b, e = b, e, -a
    return a, b, e


@program("""(int64 n, float[N] x) => (float[N] y, float[N] z) {
  y, z = Loop <body = fork (int64 i, bool c, float[N] p, float[N] q) =>
                           (bool d, float[N] s, float[N] t) {
    d = Identity(c)  s = Add(p, q)  t = Sub(p, q)
  }> (n, "", x, x)
}""", (0, [1, 2]), (1, [1, 2]), (3, [1, 2]))
def loop_two_carried_from_one_value(n, x):
    p = q = x
    for _ in range(n):
        p, q = p + q, p - q
    return p, q


@program("""(int64 n, float[N] x) => (float[N] y, float[N] z, float[K, N] w) {
  y, z, w = Loop <body = same (int64 i, bool c, float[N] p, float[N] q) =>
                              (bool d, float[N] s, float[N] s, float[N] s) {
    d = Identity(c)  s = Add(p, q)
  }> (n, "", x, x)
}""", (1, [1, 2]), (3, [1, 2]))
def loop_one_value_returned_three_times(n, x):
    p = q = x
    rows = []
    for _ in range(n):
        p = q = p + q
        rows.append(p)
    return p, q, rows


@program("""(int64 n, float[2] x, float[2] z) => (float[2] y, float[K, 2] w) {
  y, w = Loop <body = fixed (int64 i, bool c, float[2] s) => (bool d, float[2] z, float[2] s) {
    d = Identity(c)
  }> (n, "", x)
}""", (1, [1, 2], [5, 6]), (3, [1, 2], [5, 6]), (0, [1, 2], [5, 6]))
def loop_returns_outer_value_and_input(n, x, z):
    return (z if n else x), np.reshape(([x] + [z] * (int(n) - 1))[:n], (n, 2))


@program("""(int64 n, float[M] x) => (float[K] y) {
  y = Loop <body = grow (int64 i, bool c, float[P] s) => (bool d, float[Q] t)
                        <int64[1] m1 = {-1}> {
    d = Identity(c)  f = Cast <to = 1> (i)  r = Reshape(f, m1)  t = Concat <axis = 0> (s, r)
  }> (n, "", x)
}""", (3, [7]), (0, [7]), (2, []))
def loop_grows_by_concat(n, x):
    return np.concatenate([x, np.arange(n)])


@program("""(float[M] x) => (float[K] y, float total)
            <int64[1] one = {1}, int64[1] end = {1000}, float zero = {0}, bool yes = {1}> {
  y, total = Loop <body = shrink (int64 i, bool c, float[P] s, float a) =>
                                 (bool d, float[Q] t, float b) <int64 two = {2}> {
    t = Slice(s, one, end)  p = ReduceSum <keepdims = 0> (s)  b = Add(a, p)
    k = Size(t)  d = Greater(k, two)
  }> ("", yes, x, zero)
}""", ([1, 2, 3, 4, 5],), ([1],))
def loop_shrinks_by_slice(x):
    total = 0
    while True:
        total, x = total + x.sum(), x[1:]
        if x.size <= 2:
            return x, total


@program("""(int64 n, float x) => (float[K] flat) <int64[1] m1 = {-1}, int64[1] zero = {0}> {
  y = Loop <body = deepen (int64 i, bool c, float s) => (bool d, float t) {
    d = Identity(c)  u = Unsqueeze(s, zero)  t = Concat <axis = 0> (u, u)
  }> (n, "", x)
  flat = Reshape(y, m1)
}""", (0, 3), (1, 3), (3, 3))
def loop_carried_rank_grows(n, x):
    return [x] * 2**n


@program("""(int64 n, float[N] x, float[N] a) => (float[N] y) <float two = {2}> {
  b = Mul(a, two)
  y = Loop <body = step (int64 i, bool c, float[N] s) => (bool d, float[N] t) {
    d = Identity(c)  p = Mul(s, two)  q = Add(p, b)  t = Sub(q, a)
  }> (n, "", x)
}""", (3, [1, 2], [5, 6]), (1, [0], [1]))
def loop_captures_input_initializer_and_computed(n, x, a):
    for _ in range(n):
        x = 2 * x + 2 * a - a
    return x


@program("""(int64 n, float x) => (float y, float z) <float k = {10}> {
  y = Loop <body = first (int64 i, bool c, float s) => (bool d, float t) {
    d = Identity(c)  v = Add(s, k)  t = Identity(v)
  }> (n, "", x)
  z = Loop <body = second (int64 i, bool c, float s) => (bool d, float t) {
    d = Identity(c)  v = Mul(s, k)  t = Neg(v)
  }> (n, "", y)
}""", (2, 1), (1, 3), (0, 3))
def loop_sibling_bodies_share_names(n, x):
    for _ in range(n):
        x = x + 10
    y = x
    for _ in range(n):
        x = -x * 10
    return y, x


@program("""(int64 n, float a, float b) => (float y) {
  "", y, "" = Loop <body = step (int64 i, bool c, float p, float q) =>
                                (bool d, float s, float t, float u) {
    d = Identity(c)  s = Add(p, q)  t = Mul(p, q)  u = Neg(p)
  }> (n, "", a, b)
}""", (3, 1, 2), (0, 1, 2))
def loop_unwanted_outputs_have_no_name(n, a, b):
    for _ in range(n):
        a, b = a + b, a * b
    return b


@program("""(int64 n, float a, float b) => (float y) {
  y = Loop <body = step (int64 i, bool c, float p, float q) =>
                        (bool d, float s, float t, float u) {
    d = Identity(c)  s = Add(p, q)  t = Mul(p, q)  u = Neg(p)
  }> (n, "", a, b)
}""", (3, 1, 2), (0, 1, 2))
def loop_trailing_outputs_omitted(n, a, b):
    for _ in range(n):
        a, b = a + b, a * b
    return a


@program("""(int64 n, float a) => (float y) {
  y, e_last = Loop <body = step (int64 i, bool c, float p, float dead) =>
                                (bool d, float s, float e) {
    d = Identity(c)  e = Exp(dead)  s = Add(p, p)  unused = Log(s)
  }> (n, "", a, a)
}""", (3, 1), (0, 1))
def loop_dead_carried_value(n, a):
    return a * 2**n


@program("""(int64 n) => (int64[K] y) {
  y = Loop <body = count (int64 i, bool c) => (bool d, int64 u) {
    d = Identity(c)  u = Mul(i, i)
  }> (n, "")
}""", (4,), (0,), (-2,))
def loop_only_stacks_scalars(n):
    return [i * i for i in range(n)]


@program("""(int64 n, float[2, 3] x) => (float[2, 3] y, float[K, 2, 3] ys, float[K, 3, 2] zs) {
  y, ys, zs = Loop <body = step (int64 i, bool c, float[2, 3] s) =>
                                (bool d, float[2, 3] t, float[2, 3] u, float[3, 2] v) {
    d = Identity(c)  t = Add(s, x)  u = Identity(s)  v = Transpose(t)
  }> (n, "", x)
}""", (3, [[1, 2, 3], [4, 5, 6]]), (0, [[1, 2, 3], [4, 5, 6]]))
def loop_stacks_matrices(n, x):
    ys = [x * (i + 1) for i in range(n)]
    zs = [(x * (i + 2)).T for i in range(n)]
    return x * (n + 1), np.reshape(ys, (n, 2, 3)), np.reshape(zs, (n, 3, 2))


@program("""(float[N] x) => (float[K] y, int64 count) <int64 zero = {0}, bool yes = {1}> {
  size = Size(x)
  go = Greater(size, zero)
  y = Loop <body = take (int64 i, bool c) => (bool d, float u) <int64 one = {1}, float nil = {0}> {
    u = Gather(x, i)  j = Add(i, one)  in = Less(j, size)  pos = Greater(u, nil)  d = And(in, pos)
  }> ("", go)
  count = Size(y)
}""", ([3, 2, 0, 5],), ([],), ([1, 2],))
def loop_stacked_count_depends_on_data(x):
    taken = []
    for v in x:
        taken.append(v)
        if v <= 0:
            break
    return taken, len(taken)


@program("""(int64 n, int32 a, float16 b, double e, bool f, uint8 g) =>
            (int32 v, float16 w, double x, bool y, uint8 z) {
  v, w, x, y, z = Loop <body = step
      (int64 i, bool c, int32 p, float16 q, double r, bool s, uint8 t) =>
      (bool d, int32 p2, float16 q2, double r2, bool s2, uint8 t2) {
    d = Identity(c)  p2 = Add(p, p)  q2 = Mul(q, q)  r2 = Div(r, e)  s2 = Not(s)  t2 = Add(t, g)
  }> (n, "", a, b, e, f, g)
}""", (3, 5, 1.5, 4, True, 100), (0, 5, 1.5, 4, True, 7))
def loop_carries_five_types(n, a, b, e, f, g):
    v, w, x, y, z = a, b, e, f, int(g)
    for _ in range(n):
        v, w, x, y, z = v + v, w * w, x / e, not y, (z + int(g)) % 256
    return v, w, x, y, z


@program("""(int64 n, float x) => (float y) {
  y = Loop <body = step (int64 i, bool c, float s) => (bool d, float t) {
    d = Identity(c)  t = Add(s, s)
  }> (n, "", x)
}""", (3, 1), (0, 1), opset=7, ir=3)
def loop_opset_7(n, x):
    return x * 2**n


@program("""(int64 n, float[N] x) => (float[N] y, float[K, N] z) <bool yes = {1}> {
  y, z = Loop <body = step (int64 i, bool c, float[N] s) => (bool d, float[N] t, float[N] u) {
    d = Identity(c)  t = Add(s, s)  u = Identity(t)
  }> (n, yes, x)
}""", (3, [1, 2]), (1, [1]), opset=11, ir=6)
def loop_opset_11(n, x):
    return x * 2**n, [x * 2 ** (i + 1) for i in range(n)]


@program("""(float x) => (float y)
            <int64 fifty = {50}, float eps = {0.000001}, float half = {0.5}, bool yes = {1}> {
  y = Loop <body = newton (int64 i, bool c, float s) => (bool d, float t) {
    q = Div(x, s)  p = Add(s, q)  t = Mul(p, half)  e = Sub(t, s)  a = Abs(e)  d = Greater(a, eps)
  }> (fifty, yes, x)
}""", (2,), (1,), (0.25,))
def loop_newton_square_root(x):
    return np.sqrt(x)


@program("""(int64[N] x, int64 key) => (int64 at)
            <int64 zero = {0}, int64 one = {1}, int64 two = {2}> {
  size = Size(x)
  any = Greater(size, zero)
  at, end = Loop <body = halve (int64 i, bool c, int64 lo, int64 hi) =>
                              (bool d, int64 lo2, int64 hi2) {
    sum = Add(lo, hi)  mid = Div(sum, two)  v = Gather(x, mid)  less = Less(v, key)
    mid1 = Add(mid, one)  lo2 = Where(less, mid1, lo)  hi2 = Where(less, hi, mid)
    d = Less(lo2, hi2)
  }> ("", any, zero, size)
}""", ([1, 3, 5, 7, 9], 7), ([1, 3, 5], 0), ([1, 3, 5], 9), ([], 4))
def loop_binary_search(x, key):
    return np.searchsorted(x, key)


@program("""(int64 a, int64 b) => (int64 g) <int64 zero = {0}> {
  ne = Equal(b, zero)  go = Not(ne)
  g, end = Loop <body = euclid (int64 i, bool c, int64 p, int64 q) =>
                              (bool d, int64 q, int64 r) {
    r = Mod(p, q)  z = Equal(r, zero)  d = Not(z)
  }> ("", go, a, b)
}""", (48, 36), (17, 5), (9, 0))
def loop_gcd_rotates_into_carried(a, b):
    return np.gcd(a, b)


@program("""(int64 n) => (bool[N] prime) <int64 two = {2}, bool yes = {1}, int64[1] m1 = {-1}> {
  shape = Reshape(n, m1)
  ones = ConstantOfShape <value = bool[1] {1}> (shape)
  trips = Sub(n, two)
  prime = Loop <body = sieve (int64 i, bool c, bool[N] s) => (bool d, bool[N] t)
                             <int64 nil = {0}, int64 one = {1}> {
    d = Identity(c)  p = Add(i, two)  all = Range(nil, n, one)
    m = Mod(all, p)  z = Equal(m, nil)  g = Greater(all, p)  hit = And(z, g)  keep = Not(hit)
    t = And(s, keep)
  }> (trips, "", ones)
}""", (12,), (2,), (0,))
def loop_sieve(n):
    prime = np.ones(n, bool)
    for p in range(2, n):
        prime[2 * p::p] = False
    return prime


@program("""(int64 n, float x) => (float y, float z) {
  y, kept = Loop <body = one (int64 i, bool c, float s) => (bool d, float t, float u) {
    d = Identity(c)  t = Add(s, x)  u = Identity(t)
  }> (n, "", x)
  m = Size(kept)
  z = Loop <body = two (int64 j, bool e, float p) => (bool f, float q) {
    f = Identity(e)  v = Gather(kept, j)  q = Add(p, v)
  }> (m, "", y)
}""", (3, 1), (0, 2))
def loop_feeds_loop(n, x):
    kept = [x * (i + 2) for i in range(n)]
    return x * (n + 1), x * (n + 1) + sum(kept)


@program("""(int64 n, float[N] x) => (float[N] y) <float half = {0.5}, float one = {1}> {
  go = Constant <value = bool {1}> ()
  y = Loop <body = step (int64 i, bool c, float[N] s) => (bool d, float[N] t) {
    d = Identity(c)  h = Mul(s, half)  t = Add(h, one)
  }> (n, go, x)
}""", (1000, [0, 2, 9]), opset=13, ir=7)
def loop_thousand_trips(n, x):
    return np.full_like(x, 2)
