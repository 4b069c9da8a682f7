/* Kernels of products with constants in fewer bytes, behind contract.h for float, and behind windows.h where HEDDLE_ZEROS is defined.
 * The emitter puts this text in once for each type that a program stores: HEDDLE_W, with HEDDLE_OF for names. blocks.h
 * and window_blocks.h follow.
 *
 * A row of a panel is a cache line, as one of floats. It holds HEDDLE_PLACES places of the depth axis, those of a column in one lane
 * of 32 bits, so that shifts widen a vector of any length. Places beyond the depth are zero. The scales of bytes are factors of the
 * complete sums. */

#ifndef HEDDLE_WIDENED
#define HEDDLE_WIDENED static inline __attribute__((always_inline, unused)) heddle_vector_f32
/* Lanes of a panel's row. */
typedef uint32_t heddle_lanes __attribute__((vector_size(HEDDLE_VECTOR), aligned(4), may_alias));
typedef int32_t heddle_signed_lanes __attribute__((vector_size(HEDDLE_VECTOR), aligned(4), may_alias));

/* The place of each lane as a float. */
HEDDLE_WIDENED heddle_widen_f32_bf16(heddle_lanes x, int place) {
  if (place == 0) return (heddle_vector_f32)(x << 16);
  return (heddle_vector_f32)(x & 0xffff0000u);
}
HEDDLE_WIDENED heddle_widen_f32_f16(heddle_lanes x, int place) {
  const heddle_signed_lanes high = (heddle_signed_lanes)heddle_widen_f32_bf16(x, place);
  /* The sign, and exponent and significand where a float has them; a product corrects the exponent's bias. It is exact for subnormal
   * numbers, too. The codes of infinities and NaNs do not occur. */
  const heddle_lanes bits = (heddle_lanes)(high >> 3) & 0x8fffffffu;
  return (heddle_vector_f32)bits * 0x1p112f;
}
HEDDLE_WIDENED heddle_widen_f32_i8(heddle_lanes x, int place) {
  return __builtin_convertvector((heddle_signed_lanes)(x << (24 - 8 * place)) >> 24, heddle_vector_f32);
}
#endif

/* Adds to `sum` the products of `count` places of the depth axis, from place `first` of the panels on: element k of row r is
 * row[r][k * step]. Sums and prefetches are those of `slice` in contract.h. */
HEDDLE_TEMPLATE HEDDLE_OF(run)(const int rows, const int vectors, int64_t first, int64_t count, const float *const *row,
                                 int64_t step, const HEDDLE_W *b, int64_t next, uintptr_t ahead, int64_t ahead_step,
                                 heddle_vector_f32 *sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(float), PANEL = HEDDLE_PANEL_BYTES / sizeof(float), PLACES = HEDDLE_PLACES };
  const int sets = HEDDLE_SETS(rows);
  const uint32_t *from[HEDDLE_SLICE];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) from[v] = LANES < PANEL ? (const uint32_t *)b + v * LANES : (const uint32_t *)(b + v * next);
  int64_t k = 0;
#define HEDDLE_PLACE(count)                                                                                   \
  for (; k < count; k++) {                                                                                    \
    const int64_t at = (first + k) / PLACES;                                                                  \
    const int place = (int)((first + k) % PLACES);                                                            \
    _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {                                               \
      const heddle_vector_f32 x = HEDDLE_OF(widen)(*(const heddle_lanes *)(from[v] + at * PANEL), place);   \
      _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) sum[r * vectors + v] += row[r][k * step] * x;    \
    }                                                                                                         \
  }
  /* Places up to a whole row of the panels. */
  const int64_t head = (PLACES - first % PLACES) % PLACES;
  HEDDLE_PLACE((head < count ? head : count))
  for (; k + HEDDLE_STEPS <= count; k += HEDDLE_STEPS) {
    if (sets == 1) {
      __builtin_prefetch((const void *)ahead, 0, 2);
      if (vectors == 2 && LANES == PANEL) __builtin_prefetch((const void *)(ahead + next * sizeof(HEDDLE_W)), 0, 2);
      ahead += HEDDLE_STEPS * ahead_step;
    }
#pragma GCC unroll 4
    for (int s = 0; s < HEDDLE_STEPS; s++) {
      const int64_t at = (first + k) / PLACES + s / PLACES;
      heddle_vector_f32 x[HEDDLE_SLICE];
      /* One step at a time, which loads a row again: otherwise sums do not fit into registers. */
      if (sets == 1) __asm__ volatile("" : : : "memory");
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        if (sets > 1 && s % PLACES == 0 && (v == 0 || LANES == PANEL))
          __builtin_prefetch((const void *)((uintptr_t)(from[v] + at * PANEL) + HEDDLE_AHEAD), 0, 3);
        x[v] = HEDDLE_OF(widen)(*(const heddle_lanes *)(from[v] + at * PANEL), s % PLACES);
        if (rows > 1) HEDDLE_IN_REGISTER(x[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const float factor = row[r][(k + s) * step];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
          heddle_vector_f32 *const to = sum + (s % sets * rows + r) * vectors + v;
          *to += factor * x[v];
          if (sets == 1) HEDDLE_IN_TURN(*to);
        }
      }
    }
  }
  HEDDLE_PLACE(count)
#undef HEDDLE_PLACE
}

/* Begins and ends sums of `rows` rows by `vectors` vectors. */
HEDDLE_TEMPLATE HEDDLE_OF(begin)(const int rows, const int vectors, heddle_vector_f32 *sum) {
  const int sets = HEDDLE_SETS(rows);
#pragma GCC unroll 32
  for (int i = 0; i < sets * rows * vectors; i++) sum[i] = (heddle_vector_f32){0};
}
HEDDLE_TEMPLATE HEDDLE_OF(end)(const int rows, const int vectors, const heddle_vector_f32 *sum, bool more, float *out,
                                 int64_t out_row) {
  enum { LANES = HEDDLE_VECTOR / sizeof(float) };
  const int sets = HEDDLE_SETS(rows);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      heddle_vector_f32 total = sum[r * vectors + v];
#pragma GCC unroll 4
      for (int s = 1; s < sets; s++) total += sum[(s * rows + r) * vectors + v];
      heddle_vector_f32 *const to = (heddle_vector_f32 *)(out + r * out_row + v * LANES);
      if (more) total += *to;
      *to = total;
    }
}

/* As `slice` of contract.h, from the first place of a row of the panels on. */
HEDDLE_TEMPLATE HEDDLE_OF(slice)(const int rows, const int vectors, const bool anywhere, const int64_t *at, HEDDLE_TILE_PARAMETERS) {
  heddle_vector_f32 sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
  const float *row[HEDDLE_ROWS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) row[r] = a + (anywhere ? at[r] : r * a_row);
  HEDDLE_OF(begin)(rows, vectors, sum);
  HEDDLE_OF(run)(rows, vectors, 0, depth, row, anywhere ? 1 : a_step, b, next, ahead, ahead_step, sum);
  HEDDLE_OF(end)(rows, vectors, sum, more, out, out_row);
}

#ifdef HEDDLE_ZEROS
/* As `window_slice` of windows.h. */
HEDDLE_TEMPLATE HEDDLE_OF(window_slice)(const int rows, const int vectors, int64_t runs, const heddle_run_f32 *run, const HEDDLE_W *b,
                                          int64_t next, uintptr_t ahead, int64_t ahead_step, float *out, int64_t out_row) {
  heddle_vector_f32 sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
  HEDDLE_OF(begin)(rows, vectors, sum);
  for (; runs > 0; runs--, run++) {
    const float *row[HEDDLE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) row[r] = run->row[r];
    HEDDLE_OF(run)(rows, vectors, run->first, run->count, row, 1, b, next, ahead, ahead_step, sum);
    ahead += run->count * ahead_step;
  }
  HEDDLE_OF(end)(rows, vectors, sum, false, out, out_row);
}
#endif
