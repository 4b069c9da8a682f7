/* Kernels of contractions, for elements of type HEDDLE_T. The emitter puts this text in once for each type that a program
 * contracts, with HEDDLE_T and HEDDLE_NAME defined.
 *
 * A tile is up to HEDDLE_ROWS rows by the columns of a panel, HEDDLE_PANEL. Its sums stay in vector registers while the
 * depth axis goes by: each step loads a row of the panel and multiplies it with one element of each row of `a`, which is
 * read where it lies. Columns of one panel never meet those of another, so what lies beyond the last column (zeros)
 * does no harm. */

#ifndef HEDDLE_VECTOR
#if defined(__AVX512F__)
#define HEDDLE_VECTOR 64
#define HEDDLE_ROWS 8
#elif defined(__AVX__)
#define HEDDLE_VECTOR 32
#define HEDDLE_ROWS 6
#else
#define HEDDLE_VECTOR 16
#define HEDDLE_ROWS 6
#endif
#define HEDDLE_PANEL_BYTES 128
#define HEDDLE_KERNEL static __attribute__((noinline, unused)) void
#define HEDDLE_TEMPLATE static inline __attribute__((always_inline)) void
/* Vectors of a panel that a tile of so many rows sums at once, so that sums, operands and a factor fit the registers. */
#define HEDDLE_SLICE(rows)                                                                         \
  (HEDDLE_VECTOR == 64 || (rows) > 3 ? 2 : HEDDLE_VECTOR == 32 || (rows) > 1 ? 4 : 8)
/* Steps of the depth axis with sums of their own: enough sums to hide the latency of an addition. */
#define HEDDLE_STEPS(rows) ((rows) * HEDDLE_SLICE(rows) < 4 ? 4 : (rows) * HEDDLE_SLICE(rows) < 8 ? 2 : 1)

/* Panels that are gone through for all rows before the next ones: 512 KiB of them, which stay in a core's L2. */
HEDDLE_INLINE int64_t heddle_block(int64_t depth) { return depth < 4096 ? 4096 / (depth + 1) : 1; }
#endif

typedef HEDDLE_T HEDDLE_NAME(vector)
    __attribute__((vector_size(HEDDLE_VECTOR), aligned(sizeof(HEDDLE_T)), may_alias));

/* tile[r][c] = sum over k of a[r * a_row + k * a_step] * b[k * b_step + c], for `vectors` vectors of columns. */
HEDDLE_TEMPLATE HEDDLE_NAME(slice)(const int rows, const int vectors, const int steps, int64_t depth,
                                   const HEDDLE_T *a, int64_t a_row, int64_t a_step,
                                   const HEDDLE_T *b, int64_t b_step, HEDDLE_T *tile) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T) };
  HEDDLE_NAME(vector) sum[32];
#pragma GCC unroll 32
  for (int i = 0; i < steps * rows * vectors; i++) sum[i] = (HEDDLE_NAME(vector)){0};
  int64_t k = 0;
  for (; k + steps <= depth; k += steps) {
#pragma GCC unroll 4
    for (int s = 0; s < steps; s++) {
      HEDDLE_NAME(vector) x[8];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        x[v] = *(const HEDDLE_NAME(vector) *)(b + (k + s) * b_step + v * LANES);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const HEDDLE_T factor = a[r * a_row + (k + s) * a_step];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[(s * rows + r) * vectors + v] += factor * x[v];
      }
    }
  }
  for (; k < depth; k++) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const HEDDLE_T factor = a[r * a_row + k * a_step];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        sum[r * vectors + v] += factor * *(const HEDDLE_NAME(vector) *)(b + k * b_step + v * LANES);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      HEDDLE_NAME(vector) total = sum[r * vectors + v];
#pragma GCC unroll 4
      for (int s = 1; s < steps; s++) total += sum[(s * rows + r) * vectors + v];
      *(HEDDLE_NAME(vector) *)(tile + r * PANEL + v * LANES) = total;
    }
}

#define HEDDLE_TILE(rows)                                                                          \
  HEDDLE_KERNEL HEDDLE_NAME(tile##rows)(int64_t depth, const HEDDLE_T *a, int64_t a_row,           \
                                        int64_t a_step, const HEDDLE_T *b, int64_t b_step,         \
                                        HEDDLE_T *tile) {                                          \
    const int lanes = HEDDLE_VECTOR / sizeof(HEDDLE_T) * HEDDLE_SLICE(rows);                       \
    for (int c = 0; c < HEDDLE_PANEL_BYTES / (int)sizeof(HEDDLE_T); c += lanes)                    \
      HEDDLE_NAME(slice)(rows, HEDDLE_SLICE(rows), HEDDLE_STEPS(rows), depth, a, a_row, a_step,    \
                         b + c, b_step, tile + c);                                                 \
  }

HEDDLE_TILE(1)
HEDDLE_TILE(2)
HEDDLE_TILE(3)
HEDDLE_TILE(4)
HEDDLE_TILE(5)
HEDDLE_TILE(6)
#if HEDDLE_ROWS > 6
HEDDLE_TILE(7)
HEDDLE_TILE(8)
#endif
#undef HEDDLE_TILE

/* A tile of up to HEDDLE_ROWS rows. */
HEDDLE_INLINE void HEDDLE_NAME(tile)(int64_t rows, int64_t depth, const HEDDLE_T *a, int64_t a_row,
                                     int64_t a_step, const HEDDLE_T *b, int64_t b_step,
                                     HEDDLE_T *tile) {
  switch (rows) {
#if HEDDLE_ROWS > 6
  case 8: HEDDLE_NAME(tile8)(depth, a, a_row, a_step, b, b_step, tile); break;
  case 7: HEDDLE_NAME(tile7)(depth, a, a_row, a_step, b, b_step, tile); break;
#endif
  case 6: HEDDLE_NAME(tile6)(depth, a, a_row, a_step, b, b_step, tile); break;
  case 5: HEDDLE_NAME(tile5)(depth, a, a_row, a_step, b, b_step, tile); break;
  case 4: HEDDLE_NAME(tile4)(depth, a, a_row, a_step, b, b_step, tile); break;
  case 3: HEDDLE_NAME(tile3)(depth, a, a_row, a_step, b, b_step, tile); break;
  case 2: HEDDLE_NAME(tile2)(depth, a, a_row, a_step, b, b_step, tile); break;
  default: HEDDLE_NAME(tile1)(depth, a, a_row, a_step, b, b_step, tile); break;
  }
}

/* sum[c] = sum over k of a[k * a_step] * b[k * b_step + c]: one row, any number of columns. Goes through some places of the
 * depth axis at once from the first column to the last, because memory is read fastest in long runs. */
HEDDLE_KERNEL HEDDLE_NAME(over)(int64_t columns, int64_t depth, const HEDDLE_T *a, int64_t a_step,
                                const HEDDLE_T *b, int64_t b_step, HEDDLE_T *restrict sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), AT_ONCE = 8 };
  for (int64_t c = 0; c < columns; c++) sum[c] = 0;
  int64_t k = 0;
  for (; k + AT_ONCE <= depth; k += AT_ONCE, b += AT_ONCE * b_step) {
    HEDDLE_T factor[AT_ONCE];
#pragma GCC unroll 8
    for (int i = 0; i < AT_ONCE; i++) factor[i] = a[(k + i) * a_step];
    int64_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
      HEDDLE_NAME(vector) total = *(HEDDLE_NAME(vector) *)(sum + c);
#pragma GCC unroll 8
      for (int i = 0; i < AT_ONCE; i++)
        total += factor[i] * *(const HEDDLE_NAME(vector) *)(b + i * b_step + c);
      *(HEDDLE_NAME(vector) *)(sum + c) = total;
    }
    for (; c < columns; c++)
      for (int i = 0; i < AT_ONCE; i++) sum[c] += factor[i] * b[i * b_step + c];
  }
  for (; k < depth; k++, b += b_step)
    for (int64_t c = 0; c < columns; c++) sum[c] += a[k * a_step] * b[c];
}

/* The same for columns that lie `b_column` apart and are each contiguous, as `a` is. */
HEDDLE_KERNEL HEDDLE_NAME(along)(int64_t columns, int64_t depth, const HEDDLE_T *a, const HEDDLE_T *b,
                                 int64_t b_column, HEDDLE_T *restrict out) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), AT_ONCE = 8 };
  int64_t c = 0;
  for (; c + AT_ONCE <= columns; c += AT_ONCE) {
    const HEDDLE_T *first = b + c * b_column;
    HEDDLE_NAME(vector) sum[AT_ONCE];
#pragma GCC unroll 8
    for (int i = 0; i < AT_ONCE; i++) sum[i] = (HEDDLE_NAME(vector)){0};
    int64_t k = 0;
    for (; k + LANES <= depth; k += LANES) {
      const HEDDLE_NAME(vector) x = *(const HEDDLE_NAME(vector) *)(a + k);
#pragma GCC unroll 8
      for (int i = 0; i < AT_ONCE; i++)
        sum[i] += x * *(const HEDDLE_NAME(vector) *)(first + i * b_column + k);
    }
#pragma GCC unroll 8
    for (int i = 0; i < AT_ONCE; i++) {
      HEDDLE_T lanes[LANES] __attribute__((aligned(HEDDLE_VECTOR)));
      *(HEDDLE_NAME(vector) *)lanes = sum[i];
#pragma GCC unroll 8
      for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
      for (int64_t rest = k; rest < depth; rest++) lanes[0] += a[rest] * first[i * b_column + rest];
      out[c + i] = lanes[0];
    }
  }
  for (; c < columns; c++) {
    HEDDLE_T total = 0;
    for (int64_t k = 0; k < depth; k++) total += a[k] * b[c * b_column + k];
    out[c] = total;
  }
}
