/* Routines on rows that order or search elements. For every target whose prelude defines
 * HEDDLE_INLINE. NaN is larger than all numbers. */

/* Heaps of indices: `first` is true if the first of two precedes the second; the root of a heap is
 * the last. */
#define HEDDLE_SINK(name, T, first)                                                                \
  HEDDLE_INLINE void name(const T *x, int64_t m, int64_t *heap, int64_t count, int64_t at,         \
                          int64_t index) {                                                         \
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {                                \
      if (child + 1 < count && first(x, m, heap[child], heap[child + 1])) child++;                 \
      if (!first(x, m, index, heap[child])) break;                                                 \
      heap[at] = heap[child];                                                                      \
    }                                                                                              \
    heap[at] = index;                                                                              \
  }                                                                                                \
  /* Orders a heap. */                                                                             \
  HEDDLE_INLINE void name##_all(const T *x, int64_t m, int64_t *heap, int64_t count) {             \
    for (int64_t rest = count; rest-- > 1;) {                                                      \
      int64_t last = heap[0];                                                                      \
      name(x, m, heap, rest, 0, heap[rest]);                                                       \
      heap[rest] = last;                                                                           \
    }                                                                                              \
  }

#define HEDDLE_LESS(a, b) ((a) < (b) || ((a) == (a) && (b) != (b)))

/* Rows of m elements in lexical order, ties by index. */
#define HEDDLE_LEXICAL(t, T)                                                                       \
  HEDDLE_INLINE int heddle_compare_##t(const T *x, int64_t m, int64_t i, int64_t j) {              \
    for (int64_t k = 0; k < m; k++) {                                                              \
      T a = x[i * m + k], b = x[j * m + k];                                                        \
      if (HEDDLE_LESS(a, b)) return -1;                                                            \
      if (HEDDLE_LESS(b, a)) return 1;                                                             \
    }                                                                                              \
    return 0;                                                                                      \
  }                                                                                                \
  HEDDLE_INLINE int heddle_up_##t(const T *x, int64_t m, int64_t i, int64_t j) {                   \
    int order = heddle_compare_##t(x, m, i, j);                                                    \
    return order < 0 || (order == 0 && i < j);                                                     \
  }                                                                                                \
  HEDDLE_INLINE int heddle_down_##t(const T *x, int64_t m, int64_t i, int64_t j) {                 \
    int order = heddle_compare_##t(x, m, j, i);                                                    \
    return order < 0 || (order == 0 && i < j);                                                     \
  }                                                                                                \
  HEDDLE_SINK(heddle_sink_up_##t, T, heddle_up_##t)                                                \
  HEDDLE_SINK(heddle_sink_down_##t, T, heddle_down_##t)                                            \
  HEDDLE_TOP_K(heddle_smallest_##t, T, heddle_up_##t, heddle_sink_up_##t)                          \
  HEDDLE_TOP_K(heddle_largest_##t, T, heddle_down_##t, heddle_sink_down_##t)                       \
  HEDDLE_UNIQUE(t, T)

/* The indices of the first k of n elements in order. The root of a heap is the last of the k best
 * so far. */
#define HEDDLE_TOP_K(name, T, first, sink)                                                         \
  HEDDLE_INLINE void name(const T *x, int64_t *out, int64_t n, int64_t k) {                        \
    for (int64_t i = 0; i < k; i++) out[i] = i;                                                    \
    for (int64_t i = k / 2; i-- > 0;) sink(x, 1, out, k, i, out[i]);                               \
    for (int64_t i = k; i < n && k > 0; i++)                                                       \
      if (first(x, 1, i, out[0])) sink(x, 1, out, k, 0, i);                                        \
    sink##_all(x, 1, out, k);                                                                      \
  }

/* The number of distinct rows among n rows of m elements; then, n places each: their first
 * occurrences, the distinct row of each row, the counts, and workspace. Ascending, or in order of
 * first occurrence. */
#define HEDDLE_UNIQUE(t, T)                                                                        \
  HEDDLE_INLINE void heddle_unique_##t(const T *x, int64_t *out, int64_t n, int64_t m,             \
                                       int64_t sorted) {                                           \
    int64_t *first = out + 1, *inverse = first + n, *counts = inverse + n, *order = counts + n;    \
    int64_t count = 0, met = 0;                                                                    \
    for (int64_t i = 0; i < n; i++) order[i] = i;                                                  \
    for (int64_t i = n / 2; i-- > 0;) heddle_sink_up_##t(x, m, order, n, i, order[i]);             \
    heddle_sink_up_##t##_all(x, m, order, n);                                                      \
    for (int64_t i = 0; i < n; i++) {                                                              \
      count += i == 0 || heddle_compare_##t(x, m, order[i - 1], order[i]) != 0;                    \
      inverse[order[i]] = count - 1;                                                               \
    }                                                                                              \
    /* From here on: the rank of each group of equal rows. */                                      \
    for (int64_t g = 0; g < count; g++) order[g] = sorted ? g : -1, counts[g] = 0;                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
      int64_t g = inverse[i];                                                                      \
      if (order[g] < 0) order[g] = met++;                                                          \
      g = inverse[i] = order[g];                                                                   \
      if (counts[g]++ == 0) first[g] = i;                                                          \
    }                                                                                              \
    out[0] = count;                                                                                \
  }

HEDDLE_LEXICAL(f32, float)
HEDDLE_LEXICAL(f64, double)
HEDDLE_LEXICAL(i8, int8_t)
HEDDLE_LEXICAL(i16, int16_t)
HEDDLE_LEXICAL(i32, int32_t)
HEDDLE_LEXICAL(i64, int64_t)
HEDDLE_LEXICAL(u8, uint8_t)
HEDDLE_LEXICAL(u16, uint16_t)
HEDDLE_LEXICAL(u32, uint32_t)
HEDDLE_LEXICAL(u64, uint64_t)

/* The number of non-zero elements among n, then their indices. */
HEDDLE_INLINE void heddle_nonzero_u8(const uint8_t *x, int64_t *out, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++)
    if (x[i]) out[1 + count++] = i;
  out[0] = count;
}
