"""Sequences and optionals, alone and through loops, branches and SequenceMap."""
import numpy as np

from program import program


@program("""(float[N] a, float[M] b, int64 at) => (seq(float[K]) s, int64 n, float[K] e) {
  t = SequenceConstruct(a, b, a)
  s = SequenceErase(t, at)
  n = SequenceLength(t)
  e = SequenceAt(t, at)
}""", ([1, 2], [3], 1), ([1], [], -1))
def sequence_basics(a, b, at):
    items = [a, b, a]
    rest = list(items)
    del rest[at]
    return rest, 3, items[at]


@program("""(int64 n, float[M] x) => (float[K] y, int64 length) {
  empty = SequenceEmpty <dtype = 1> ()
  s = SequenceInsert(empty, x)
  t = Loop <body = body (int64 i, bool c, seq(float[P]) p) => (bool d, seq(float[Q]) q)
                        <int64[1] m1 = {-1}> {
    d = Identity(c)  f = Cast <to = 1> (i)  r = Reshape(f, m1)  q = SequenceInsert(p, r)
  }> (n, "", s)
  y = ConcatFromSequence <axis = 0> (t)
  length = SequenceLength(t)
}""", (3, [9, 8]), (0, [7]))
def sequence_grows_in_loop(n, x):
    return np.concatenate([x, np.arange(n)]), n + 1


@program("""(int64 n) => (seq(float[K]) s, int64 length) {
  empty = SequenceEmpty <dtype = 1> ()
  s = Loop <body = body (int64 i, bool c, seq(float[P]) p) => (bool d, seq(float[Q]) q)
                        <int64[1] m1 = {-1}, int64 zero = {0}> {
    d = Identity(c)  f = Cast <to = 1> (i)  r = Reshape(i, m1)  v = Expand(f, r)
    q = SequenceInsert(p, v, zero)
  }> (n, "", empty)
  length = SequenceLength(s)
}""", (3,), (0,))
def sequence_of_different_shapes_from_loop(n):
    return [np.full(i, i) for i in reversed(range(n))], n


@program("""(seq(float[N]) s) => (float[N] y) <int64 zero = {0}, int64 one = {1}> {
  n = SequenceLength(s)
  trips = Sub(n, one)
  first = SequenceAt(s, zero)
  y = Loop <body = body (int64 i, bool c, float[N] p) => (bool d, float[N] q) {
    d = Identity(c)  j = Add(i, one)  e = SequenceAt(s, j)  t = Mul(p, e)  q = Add(t, e)
  }> (trips, "", first)
}""", ([[1, 2], [3, 4], [5, 6]],), ([[7]],))
def sequence_folded_by_loop(s):
    total = s[0]
    for e in s[1:]:
        total = total * e + e
    return total


@program("""(seq(float[N]) s, float[M] w) => (seq(float[K]) t, float k) <float two = {2}> {
  k = ReduceSum <keepdims = 0> (w)
  t = SequenceMap <body = scale (float[N] e) => (float[N] f) { g = Mul(e, k)  f = Add(g, two) }> (s)
}""", ([[1, 2], [3], []], [1, 2]), ([], [1]))
def sequence_map_captures(s, w):
    return [e * w.sum() + 2 for e in s], w.sum()


@program("""(seq(float[N]) s, seq(float[N]) t, float x) => (seq(float[N]) p, seq(int64[1]) q) {
  p, q = SequenceMap <body = both (float[N] a, float[N] b, float c) => (float[N] d, int64[1] e) {
    m = Mul(a, b)  d = Add(m, c)  e = Shape(a) }> (s, t, x)
}""", ([[1, 2], [3]], [[4, 5], [6]], 10))
def sequence_map_two_sequences_and_a_tensor(s, t, x):
    return [a * b + x for a, b in zip(s, t)], [a.shape for a in s]


@program("""(seq(float[N]) s) => (seq(float) t) <float zero = {0}> {
  t = SequenceMap <body = each (float[N] e) => (float f) {
    sum = ReduceSum <keepdims = 0> (e)  neg = Less(sum, zero)
    f = If <then_branch = yes () => (float a) { a = Neg(sum) },
            else_branch = no () => (float b) {
              n = Size(e)
              b = Loop <body = body (int64 i, bool c, float p) => (bool d, float q) {
                d = Identity(c)  v = Gather(e, i)  w = Mul(p, v)  q = Add(w, v) }> (n, "", zero)
            }> (neg)
  }> (s)
}""", ([[1, 2], [-3], [2, 3, 4]],))
def loop_in_if_in_sequence_map(s):
    def each(e):
        if e.sum() < 0:
            return -e.sum()
        p = 0
        for v in e:
            p = p * v + v
        return p
    return [each(e) for e in s]


@program("""(bool c, float[N] x) => (seq(float[K]) s) {
  s = If <then_branch = yes () => (seq(float[P]) a) { a = SequenceConstruct(x, x) },
          else_branch = no () => (seq(float[Q]) b) { b = SequenceEmpty <dtype = 1> () }> (c)
}""", (True, [1, 2]), (False, [1, 2]))
def if_returns_sequences(c, x):
    return [x, x] if c else []


@program("""(float[N] x) => (seq(float[K]) s, float[N] y) <int64 two = {2}> {
  s = SplitToSequence <axis = 0> (x, two)
  n = SequenceLength(s)
  empty = SequenceEmpty <dtype = 1> ()
  r = Loop <body = body (int64 i, bool c, seq(float[P]) p) => (bool d, seq(float[Q]) q)
                        <int64 zero = {0}> {
    d = Identity(c)  e = SequenceAt(s, i)  q = SequenceInsert(p, e, zero)
  }> (n, "", empty)
  y = ConcatFromSequence <axis = 0> (r)
}""", ([1, 2, 3, 4, 5],), ([1, 2],))
def sequence_split_and_reversed_in_loop(x):
    parts = [x[i:i + 2] for i in range(0, x.size, 2)]
    return parts, np.concatenate(parts[::-1])


@program("""(int64 n, float[N] x) => (float[K] y) {
  s = SequenceConstruct(x)
  t = local.push (s, n)
  y = ConcatFromSequence <axis = 0> (t)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
push (s, n) => (t) {
  nil = Constant <value_int = 0> ()  stop = LessOrEqual(n, nil)
  t = If <then_branch = yes () => (u) { u = Identity(s) }, else_branch = no () => (u) {
        one = Constant <value_int = 1> ()  m = Sub(n, one)
        k = Constant <value_ints = [1]> ()  r = Reshape(n, k)  f = Cast <to = 1> (r)
        p = SequenceInsert(s, f)  u = local.push (p, m) }> (stop)
}""", (3, [9]), (0, [9]))
def sequence_through_recursive_function(n, x):
    return np.concatenate([x, np.arange(n, 0, -1)])


@program("""(float[N] x, bool c) => (float[N] y, bool has) {
  o = If <then_branch = yes () => (optional(float[N]) a) { a = Optional(x) },
          else_branch = no () => (optional(float[N]) b) {
            b = Optional <type = float[N]> () }> (c)
  has = OptionalHasElement(o)
  y = If <then_branch = some () => (float[N] v) { v = OptionalGetElement(o) },
          else_branch = none () => (float[N] v) { v = Neg(x) }> (has)
}""", ([1, 2], True), ([1, 2], False))
def optional_made_in_if_and_read_in_if(x, c):
    return (x, True) if c else (-x, False)


@program("""(optional(float[N]) o, float[N] x) => (float[N] y) {
  has = OptionalHasElement(o)
  y = If <then_branch = some () => (float[N] v) { e = OptionalGetElement(o)  v = Add(e, x) },
          else_branch = none () => (float[N] v) { v = Identity(x) }> (has)
}""", ([3, 4], [1, 2]), (None, [1, 2]), opset=18)
def optional_input(o, x):
    return x if o is None else o + x


@program("""(int64 n, float[N] x) => (float[K] y, int64 count) <int64 one = {1}> {
  none = Optional <type = seq(float[N])> ()
  o = Loop <body = body (int64 i, bool c, optional(seq(float[P])) p) =>
                        (bool d, optional(seq(float[Q])) q) {
    d = Identity(c)
    has = OptionalHasElement(p)
    s = If <then_branch = some () => (seq(float[A]) a) {
              b = OptionalGetElement(p)  a = SequenceInsert(b, x) },
            else_branch = new () => (seq(float[A]) a) { a = SequenceConstruct(x) }> (has)
    q = Optional(s)
  }> (n, "", none)
  t = OptionalGetElement(o)
  y = ConcatFromSequence <axis = 0> (t)
  count = SequenceLength(t)
}""", (1, [1, 2]), (3, [1, 2]), opset=16)
def optional_sequence_carried_by_loop(n, x):
    return np.tile(x, n), n


@program("""(int64 n) => (seq(int64) s) {
  empty = SequenceEmpty <dtype = 7> ()
  s = Loop <body = outer (int64 i, bool c, seq(int64) p) => (bool d, seq(int64) q) {
    d = Identity(c)
    q = Loop <body = inner (int64 j, bool e, seq(int64) u) => (bool f, seq(int64) v) {
      f = Identity(e)  m = Mul(i, j)  v = SequenceInsert(u, m) }> (i, "", p)
  }> (n, "", empty)
}""", (4,), (1,))
def sequence_in_loop_in_loop(n):
    return [i * j for i in range(n) for j in range(i)]
