"""Scan: opset 8 with its batch axis and sequence lengths, 9 and later with axes and directions."""
import numpy as np

from program import program


@program("""(float[N] h, float[T, N] x) => (float[N] y, float[T, N] ys) {
  y, ys = Scan <num_scan_inputs = 1, body = sum (float[N] s, float[N] e) =>
      (float[N] t, float[N] u) {
    t = Add(s, e)  u = Identity(t)
  }> (h, x)
}""", ([1, 2], [[1, 2], [3, 4], [5, 6]]), ([1], [[7]]))
def scan_cumulative_sum(h, x):
    return h + x.sum(0), h + np.cumsum(x, 0)


@program("""(float[2] h, float[T, 2] x) => (float[2] y, float[T, 2] ys) {
  y, ys = Scan <num_scan_inputs = 1, body = sum (float[2] s, float[2] e) =>
      (float[2] t, float[2] u) {
    t = Add(s, e)  u = Identity(t)
  }> (h, x)
}""", ([1, 2], np.zeros((0, 2))), opset=11, ir=6)
def scan_of_length_zero(h, x):
    return h, x


@program("""(float a, int64 k, float[T] x, int64[T] z) =>
            (float b, int64 m, float[T] p, int64[T, 2] q, float[T] r) <int64[1] one = {1}> {
  b, m, p, q, r = Scan <num_scan_inputs = 2, body = step (float s, int64 c, float e, int64 f) =>
      (float s2, int64 c2, float u, int64[2] v, float w) {
    s2 = Mul(s, e)  c2 = Add(c, f)  u = Add(s, e)  w = Neg(s2)
    c1 = Reshape(c, one)  f1 = Reshape(f, one)  v = Concat <axis = 0> (c1, f1)
  }> (a, k, x, z)
}""", (1, 10, [2, 3, 4], [1, 2, 3]), (5, 0, [6], [7]))
def scan_two_states_two_inputs_three_outputs(a, k, x, z):
    p, q, r = [], [], []
    for e, f in zip(x, z):
        p.append(a + e)
        q.append([k, f])
        a, k = a * e, k + f
        r.append(-a)
    return a, k, p, q, r


@program("""(float[T] x) => (float[T] y) {
  y = Scan <num_scan_inputs = 1, body = square (float e) => (float u) { u = Mul(e, e) }> (x)
}""", ([1, 2, 3],), ([4],))
def scan_without_state(x):
    return x * x


@program("""(float h, float[T] x) => (float y) {
  y = Scan <num_scan_inputs = 1, body = fold (float s, float e) => (float t) {
    d = Add(s, s)  t = Add(d, e)
  }> (h, x)
}""", (0, [1, 0, 1, 1]), (1, [0]))
def scan_without_scan_output(h, x):
    for e in x:
        h = 2 * h + e
    return h


@program("""(float[2] h, float[2, T] x, float[T, 3] z) =>
            (float[2] y, float[2, T] p, float[3, T] q) {
  y, p, q = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [1, 1],
                  body = step (float[2] s, float[2] e, float[3] f) =>
                              (float[2] t, float[2] u, float[3] v) {
    t = Add(s, e)  u = Identity(t)  v = Neg(f)
  }> (h, x, z)
}""", ([1, 2], [[1, 2, 3, 4], [5, 6, 7, 8]], np.arange(12).reshape(4, 3)))
def scan_axes(h, x, z):
    return h + x.sum(1), h[:, None] + np.cumsum(x, 1), -z.T


@program("""(float[2] h, float[2, T] x) => (float[2] y, float[2, T] p) {
  y, p = Scan <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
               body = step (float[2] s, float[2] e) => (float[2] t, float[2] u) {
    t = Add(s, e)  u = Identity(t)
  }> (h, x)
}""", ([1, 2], [[1, 2, 3], [5, 6, 7]]), opset=11, ir=6)
def scan_negative_axes(h, x):
    return h + x.sum(1), h[:, None] + np.cumsum(x, 1)


@program("""(float h, float[T] x, float[T] z) => (float y, float[T] p, float[T] q) {
  y, p, q = Scan <num_scan_inputs = 2, scan_input_directions = [1, 0],
                  scan_output_directions = [0, 1],
                  body = step (float s, float e, float f) => (float t, float u, float v) {
    d = Sub(e, f)  t = Sub(d, s)  u = Identity(t)  v = Add(s, f)
  }> (h, x, z)
}""", (1, [1, 2, 3], [10, 20, 30]), (0, [5], [6]), opset=9, ir=4)
def scan_directions(h, x, z):
    p, q = [], []
    for e, f in zip(x[::-1], z):
        q.insert(0, h + f)
        h = e - f - h
        p.append(h)
    return h, p, q


@program("""(float[2] h, float[2, T] x) => (float[2] y, float[2, T] p) {
  y, p = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
               scan_output_axes = [1], scan_output_directions = [1],
               body = step (float[2] s, float[2] e) => (float[2] t, float[2] u) {
    t = Add(s, e)  u = Identity(t)
  }> (h, x)
}""", ([1, 2], [[1, 2, 3], [5, 6, 7]]))
def scan_axes_and_directions(h, x):
    return h + x.sum(1), h[:, None] + np.cumsum(x[:, ::-1], 1)[:, ::-1]


@program("""(float[N] h, float[T, N] x) => (float[N] y, float[T, N] ys) {
  y, ys = Scan <num_scan_inputs = 1, body = back (float[N] s, float[N] e) =>
      (float[N] e, float[N] s) {
  }> (h, x)
}""", ([1, 2], [[1, 2], [3, 4], [5, 6]]))
def scan_shifts_with_empty_body(h, x):
    return x[-1], np.concatenate([h[None], x[:-1]])


@program("""(float[T] x, float w) => (float[T] y, float[T] z) <float two = {2}, float zero = {0}> {
  v = Mul(w, two)
  end, y, z = Scan <num_scan_inputs = 1, body = step (float s, float e) =>
                   (float t, float u, float v2) {
    a = Mul(e, v)  t = Add(s, a)  u = Identity(t)  v2 = Mul(w, e)
  }> (zero, x)
}""", ([1, 2, 3], 2))
def scan_captures(x, w):
    return np.cumsum(2 * w * x), w * x


@program("""(float[B, N] h, float[B, T, N] x) => (float[B, N] y, float[B, T, N] ys) {
  y, ys = Scan <num_scan_inputs = 1, body = sum (float[N] s, float[N] e) =>
      (float[N] t, float[N] u) {
    t = Add(s, e)  u = Identity(t)
  }> ("", h, x)
}""", ([[1, 2], [3, 4]], [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]), opset=8, ir=3)
def scan8_batch(h, x):
    return h + x.sum(1), h[:, None] + np.cumsum(x, 1)


@program("""(int64[B] lens, float[B, 1] h, float[B, T, 1] x, float[B, T, 1] mask) =>
            (float[B, 1] y, float[B, T, 1] kept) {
  y, ys = Scan <num_scan_inputs = 1, body = sum (float[1] s, float[1] e) =>
      (float[1] t, float[1] u) {
    t = Add(s, e)  u = Identity(t)
  }> (lens, h, x)
  kept = Mul(ys, mask)
}""", ([3, 1], [[1], [2]], [[[1], [2], [3]], [[4], [5], [6]]], [[[1], [1], [1]], [[1], [0], [0]]]),
         opset=8, ir=3)
def scan8_sequence_lens(lens, h, x, mask):
    return h + (x * mask).sum(1), mask * (h[:, None] + np.cumsum(x, 1))


@program("""(float[B, 1] h, float[B, T, 1] x, float[B, T, 1] z) =>
            (float[B, 1] y, float[B, T, 1] ys) {
  y, ys = Scan <num_scan_inputs = 2, directions = [1, 0],
                body = sum (float[1] s, float[1] e, float[1] f) => (float[1] t, float[1] u) {
    d = Sub(e, s)  t = Add(d, f)  u = Identity(t)
  }> ("", h, x, z)
}""", ([[1], [2]], [[[1], [2], [3]], [[4], [5], [6]]], [[[10], [20], [30]], [[40], [50], [60]]]),
         opset=8, ir=3)
def scan8_directions(h, x, z):
    ys = []
    for t in range(x.shape[1]):
        h = x[:, -1 - t] - h + z[:, t]
        ys.append(h)
    return h, np.stack(ys, 1)


@program("""(float[R, C] x) => (float total, float[R] rows) <float zero = {0}> {
  total, rows = Scan <num_scan_inputs = 1, body = outer (float s, float[C] row) =>
      (float t, float u) {
    u = Scan <num_scan_inputs = 1, body = inner (float p, float e) => (float q) {
      m = Mul(e, e)  q = Add(p, m)
    }> (zero, row)
    t = Add(s, u)
  }> (zero, x)
}""", ([[1, 2], [3, 4], [5, 6]],), ([[2]],))
def scan_in_scan_over_rows_and_columns(x):
    return (x * x).sum(), (x * x).sum(1)


@program("""(int64 n, float h, float[T] x) => (float y, float[K, T] seen) {
  y, seen = Loop <body = body (int64 i, bool c, float s) => (bool d, float t, float[T] u) {
    d = Identity(c)
    t, u = Scan <num_scan_inputs = 1, body = fold (float p, float e) => (float q, float r) {
      q = Sub(e, p)  r = Add(p, e) }> (s, x)
  }> (n, "", h)
}""", (2, 1, [1, 2, 3]), (1, 0, [4]))
def scan_in_loop_stacks_rows(n, h, x):
    rows = []
    for _ in range(n):
        row = []
        for e in x:
            row.append(h + e)
            h = e - h
        rows.append(row)
    return h, rows


@program("""(float[T] x) => (float best, float[T] so_far) <float low = {-1000}> {
  best, so_far = Scan <num_scan_inputs = 1, body = step (float s, float e) => (float t, float u) {
    more = Greater(e, s)
    t = If <then_branch = yes () => (float a) { a = Identity(e) },
            else_branch = no () => (float b) { b = Identity(s) }> (more)
    u = Identity(t)
  }> (low, x)
}""", ([1, 3, 2, 5, 4],))
def if_in_scan_running_maximum(x):
    return x.max(), np.maximum.accumulate(x)


@program("""(bool c, float h, float[T] x) => (float y) {
  y = If <then_branch = yes () => (float a) {
            a = Scan <num_scan_inputs = 1, body = f1 (float s, float e) => (float t) {
              t = Add(s, e) }> (h, x) },
          else_branch = no () => (float b) {
            b = Scan <num_scan_inputs = 1, body = f2 (float s, float e) => (float t) {
              t = Mul(s, e) }> (h, x) }> (c)
}""", (True, 1, [2, 3, 4]), (False, 1, [2, 3, 4]))
def scan_in_both_branches(c, h, x):
    return h + x.sum() if c else h * x.prod()


@program("""(int64[T] counts, float h) => (float y, int64[T] squares) {
  y, squares = Scan <num_scan_inputs = 1, body = step (float s, int64 k) => (float t, int64 u) {
    t = Loop <body = twice (int64 i, bool c, float p) => (bool d, float q) {
      d = Identity(c)  q = Add(p, p) }> (k, "", s)
    u = Mul(k, k)
  }> (h, counts)
}""", ([1, 0, 3], 1))
def loop_in_scan_with_scanned_trip_count(counts, h):
    return h * 2 ** counts.sum(), counts * counts
