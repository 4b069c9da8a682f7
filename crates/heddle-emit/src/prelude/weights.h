/* Kernels of products with constants in fewer bytes, behind contract.h for float, and behind windows.h where HEDDLE_ZEROS is defined.
 * The emitter puts this text in once for each type that a program stores: HEDDLE_W, with HEDDLE_STORED its name in the graph IR.
 *
 * A row of a panel is a cache line, as one of floats. It holds HEDDLE_PLACES places of the depth axis, those of a column in one lane
 * of 32 bits, so that shifts widen a vector of any length. Places beyond the depth are zero. The scales of bytes are factors of the
 * complete sums. */

#ifndef HEDDLE_PLACES
#define HEDDLE_PLACES(type) ((int)(sizeof(float) / sizeof(type)))
#define HEDDLE_JOINED(name, stored) heddle_##name##_f32_##stored
#define HEDDLE_JOIN(name, stored) HEDDLE_JOINED(name, stored)
#define HEDDLE_WIDE(name) HEDDLE_JOIN(name, HEDDLE_STORED)
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
HEDDLE_TEMPLATE HEDDLE_WIDE(run)(const int rows, const int vectors, int64_t first, int64_t count, const float *const *row,
                                 int64_t step, const HEDDLE_W *b, int64_t next, uintptr_t ahead, int64_t ahead_step,
                                 heddle_vector_f32 *sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(float), PANEL = HEDDLE_PANEL_BYTES / sizeof(float), PLACES = HEDDLE_PLACES(HEDDLE_W) };
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
      const heddle_vector_f32 x = HEDDLE_WIDE(widen)(*(const heddle_lanes *)(from[v] + at * PANEL), place);   \
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
        x[v] = HEDDLE_WIDE(widen)(*(const heddle_lanes *)(from[v] + at * PANEL), s % PLACES);
        if (rows > 1) HEDDLE_IN_REGISTER(x[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const float factor = row[r][(k + s) * step];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[(s % sets * rows + r) * vectors + v] += factor * x[v];
      }
    }
  }
  HEDDLE_PLACE(count)
#undef HEDDLE_PLACE
}

/* Begins and ends sums of `rows` rows by `vectors` vectors. */
HEDDLE_TEMPLATE HEDDLE_WIDE(begin)(const int rows, const int vectors, heddle_vector_f32 *sum) {
  const int sets = HEDDLE_SETS(rows);
#pragma GCC unroll 32
  for (int i = 0; i < sets * rows * vectors; i++) sum[i] = (heddle_vector_f32){0};
}
HEDDLE_TEMPLATE HEDDLE_WIDE(end)(const int rows, const int vectors, const heddle_vector_f32 *sum, bool more, float *out,
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
#define HEDDLE_TILE_OF_WEIGHTS                                                                            \
  int64_t depth, const float *a, int64_t a_row, int64_t a_step, const HEDDLE_W *b, int64_t next,          \
      uintptr_t ahead, int64_t ahead_step, bool more, float *out, int64_t out_row
HEDDLE_TEMPLATE HEDDLE_WIDE(slice)(const int rows, const int vectors, const bool anywhere, const int64_t *at, HEDDLE_TILE_OF_WEIGHTS) {
  heddle_vector_f32 sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
  const float *row[HEDDLE_ROWS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) row[r] = a + (anywhere ? at[r] : r * a_row);
  HEDDLE_WIDE(begin)(rows, vectors, sum);
  HEDDLE_WIDE(run)(rows, vectors, 0, depth, row, anywhere ? 1 : a_step, b, next, ahead, ahead_step, sum);
  HEDDLE_WIDE(end)(rows, vectors, sum, more, out, out_row);
}

/* The vectors of a tile, by two; a panel without a neighbour is summed alone. */
#define HEDDLE_TILE_OF(name, rows, anywhere, at, ...)                                                     \
  HEDDLE_KERNEL HEDDLE_WIDE(name##rows)(__VA_ARGS__) {                                                    \
    enum { COLUMNS = HEDDLE_SLICE * HEDDLE_VECTOR / sizeof(float), PANEL = HEDDLE_PANEL_BYTES / sizeof(float) }; \
    if (HEDDLE_VECTOR == HEDDLE_PANEL_BYTES && next == 0) {                                               \
      HEDDLE_WIDE(slice)(rows, 1, anywhere, at, depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row); \
      return;                                                                                             \
    }                                                                                                     \
    for (int c = 0; c < PANEL; c += COLUMNS, b += COLUMNS * HEDDLE_PLACES(HEDDLE_W), out += COLUMNS)      \
      HEDDLE_WIDE(slice)(rows, HEDDLE_SLICE, anywhere, at, depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row); \
  }
#ifdef HEDDLE_ROWS_ANYWHERE
#define HEDDLE_TILE(rows)                                                                                 \
  HEDDLE_TILE_OF(tile, rows, false, NULL, HEDDLE_TILE_OF_WEIGHTS)                                         \
  HEDDLE_TILE_OF(tile_at, rows, true, at, const int64_t *at, HEDDLE_TILE_OF_WEIGHTS)
#define HEDDLE_CASE(rows)                                                                                 \
  case rows:                                                                                              \
    if (anywhere) HEDDLE_WIDE(tile_at##rows)(at, depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row); \
    else HEDDLE_WIDE(tile##rows)(depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row); \
    break;
#else
#define HEDDLE_TILE(rows) HEDDLE_TILE_OF(tile, rows, false, NULL, HEDDLE_TILE_OF_WEIGHTS)
#define HEDDLE_CASE(rows)                                                                                 \
  case rows:                                                                                              \
    (void)anywhere, (void)at;                                                                             \
    HEDDLE_WIDE(tile##rows)(depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row);     \
    break;
#endif
#if HEDDLE_ROWS > 6
#define HEDDLE_EACH_TILE(tile) tile(1) tile(2) tile(3) tile(4) tile(5) tile(6) tile(7) tile(8)
#else
#define HEDDLE_EACH_TILE(tile) tile(1) tile(2) tile(3) tile(4) tile(5) tile(6)
#endif
HEDDLE_EACH_TILE(HEDDLE_TILE)
HEDDLE_TEMPLATE HEDDLE_WIDE(tile)(int64_t rows, const bool anywhere, const int64_t *at, HEDDLE_TILE_OF_WEIGHTS) {
  switch (rows) { HEDDLE_EACH_TILE(HEDDLE_CASE) }
}
#undef HEDDLE_TILE
#undef HEDDLE_TILE_OF
#undef HEDDLE_TILE_OF_WEIGHTS
#undef HEDDLE_CASE

/* As `block` of contract.h; `whole` places are whole rows of a panel, and parts of the depth begin with one. */
#define HEDDLE_BLOCK_OF_WEIGHTS                                                                           \
  int64_t rows, int64_t panels, int64_t depth, const float *a, int64_t a_row, int64_t a_step,             \
      const HEDDLE_W *b, int64_t whole, float *out, int64_t out_row, const void *beside, int64_t beside_row
HEDDLE_TEMPLATE HEDDLE_WIDE(block_at)(const bool anywhere, const int64_t *at, HEDDLE_BLOCK_OF_WEIGHTS) {
  enum {
    PANEL = HEDDLE_PANEL_BYTES / sizeof(float),
    AT_ONCE = HEDDLE_VECTOR < HEDDLE_PANEL_BYTES ? 1 : HEDDLE_SLICE,
    MOST = HEDDLE_PART_BYTES / sizeof(float),
    PLACES = HEDDLE_PLACES(HEDDLE_W),
    PLACE_BYTES = HEDDLE_PANEL_BYTES / PLACES
  };
  const int64_t tiles = (rows + HEDDLE_ROWS - 1) / HEDDLE_ROWS;
  const int64_t parts = rows > HEDDLE_ROWS && depth > MOST ? (depth + MOST - 1) / MOST : 1;
  for (int64_t part = 0, k = 0; part < parts; part++) {
    const int64_t rest = (depth - k) / (parts - part);
    const int64_t count = part + 1 < parts ? rest / PLACES * PLACES : rest;
    for (int64_t p = 0; p < panels; p += AT_ONCE) {
      /* A last panel without a neighbour, which 0 says, is computed alone. */
      const int64_t next = p + 1 < panels ? PANEL * (whole > 0 ? whole : 1) : 0;
      const HEDDLE_W *const panel = b + (p * whole + k) * PANEL;
      const int64_t ahead_step = (PLACE_BYTES + tiles - 1) / tiles;
      const uintptr_t ahead = (uintptr_t)panel + AT_ONCE * whole * PLACE_BYTES;
      for (int64_t t = 0; t < tiles; t++) {
        const int64_t row = rows * t / tiles, some = rows * (t + 1) / tiles - row;
        if (beside && part + 1 == parts)
          for (int64_t r = row * AT_ONCE; r < (row + some) * AT_ONCE; r++)
            __builtin_prefetch((const float *)beside + r / AT_ONCE * beside_row + (p + r % AT_ONCE) * PANEL);
        HEDDLE_WIDE(tile)(some, anywhere, anywhere ? at + row : at, count, a + row * a_row + k * a_step, a_row, a_step, panel, next,
                          ahead + t * count * ahead_step, ahead_step, part > 0, out + row * out_row + p * PANEL, out_row);
      }
    }
    k += count;
  }
}
HEDDLE_KERNEL HEDDLE_WIDE(block)(HEDDLE_BLOCK_OF_WEIGHTS) {
  HEDDLE_WIDE(block_at)(false, NULL, rows, panels, depth, a, a_row, a_step, b, whole, out, out_row, beside, beside_row);
}
#ifdef HEDDLE_ROWS_ANYWHERE
HEDDLE_KERNEL HEDDLE_WIDE(block_of_rows)(const int64_t *at, HEDDLE_BLOCK_OF_WEIGHTS) {
  HEDDLE_WIDE(block_at)(true, at, rows, panels, depth, a, a_row, a_step, b, whole, out, out_row, beside, beside_row);
}
#endif
#undef HEDDLE_BLOCK_OF_WEIGHTS

#ifdef HEDDLE_ZEROS
/* As `window_slice` of windows.h. */
HEDDLE_TEMPLATE HEDDLE_WIDE(window_slice)(const int rows, const int vectors, int64_t runs, const heddle_run_f32 *run, const HEDDLE_W *b,
                                          int64_t next, uintptr_t ahead, int64_t ahead_step, float *out, int64_t out_row) {
  heddle_vector_f32 sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
  HEDDLE_WIDE(begin)(rows, vectors, sum);
  for (; runs > 0; runs--, run++) {
    const float *row[HEDDLE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) row[r] = run->row[r];
    HEDDLE_WIDE(run)(rows, vectors, run->first, run->count, row, 1, b, next, ahead, ahead_step, sum);
    ahead += run->count * ahead_step;
  }
  HEDDLE_WIDE(end)(rows, vectors, sum, false, out, out_row);
}

#define HEDDLE_WINDOW_TILE(rows)                                                                          \
  HEDDLE_KERNEL HEDDLE_WIDE(window_tile##rows)(int64_t runs, const heddle_run_f32 *run, const HEDDLE_W *b, int64_t next, \
                                               uintptr_t ahead, int64_t ahead_step, float *out) {         \
    enum { COLUMNS = HEDDLE_SLICE * HEDDLE_VECTOR / sizeof(float), PANEL = HEDDLE_PANEL_BYTES / sizeof(float) }; \
    const int64_t out_row = HEDDLE_PANELS * PANEL;                                                        \
    if (HEDDLE_VECTOR == HEDDLE_PANEL_BYTES && next == 0) {                                               \
      HEDDLE_WIDE(window_slice)(rows, 1, runs, run, b, 0, ahead, ahead_step, out, out_row);               \
      return;                                                                                             \
    }                                                                                                     \
    for (int c = 0; c < PANEL; c += COLUMNS, b += COLUMNS * HEDDLE_PLACES(HEDDLE_W), out += COLUMNS)      \
      HEDDLE_WIDE(window_slice)(rows, HEDDLE_SLICE, runs, run, b, next, ahead, ahead_step, out, out_row); \
  }
HEDDLE_EACH_TILE(HEDDLE_WINDOW_TILE)
#undef HEDDLE_WINDOW_TILE

/* As `block_of_windows` of windows.h; panels have whole rows of `whole` places. */
HEDDLE_KERNEL HEDDLE_WIDE(block_of_windows)(int64_t tiles, const heddle_window_tile *tile, int64_t most, const heddle_run_f32 *run,
                                            int64_t panels, int64_t whole, const HEDDLE_W *b, float *out) {
  enum {
    PANEL = HEDDLE_PANEL_BYTES / sizeof(float),
    AT_ONCE = HEDDLE_VECTOR < HEDDLE_PANEL_BYTES ? 1 : HEDDLE_SLICE,
    PLACE_BYTES = HEDDLE_PANEL_BYTES / HEDDLE_PLACES(HEDDLE_W)
  };
  const int64_t ahead_step = (PLACE_BYTES + tiles - 1) / tiles;
  for (int64_t p = 0; p < panels; p += AT_ONCE) {
    const int64_t next = p + 1 < panels ? PANEL * whole : 0;
    const HEDDLE_W *const panel = b + p * whole * PANEL;
    const uintptr_t ahead = (uintptr_t)panel + AT_ONCE * whole * PLACE_BYTES;
    for (int64_t t = 0; t < tiles; t++) {
      float *const to = out + t * HEDDLE_ROWS * HEDDLE_PANELS * PANEL + p * PANEL;
#define HEDDLE_CASE(rows)                                                                                 \
  case rows:                                                                                              \
    HEDDLE_WIDE(window_tile##rows)(tile[t].runs, run + t * most, panel, next, ahead + t * whole * ahead_step, ahead_step, to); \
    break;
      switch (tile[t].rows) { HEDDLE_EACH_TILE(HEDDLE_CASE) }
#undef HEDDLE_CASE
    }
  }
}
#endif
#undef HEDDLE_EACH_TILE
