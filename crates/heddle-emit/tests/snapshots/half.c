HEDDLE_PROGRAM(2, 1, 0, 0, 5);

#define HEDDLE_T float
#define HEDDLE_NAME(name) heddle_##name##_f32
#define HEDDLE_W float
#define HEDDLE_OF(name) heddle_##name##_f32
#define HEDDLE_PLACES ((int)(sizeof(HEDDLE_T) / sizeof(HEDDLE_W)))
/* Kernels of contractions, for elements of type HEDDLE_T. The emitter puts this text in once for each type that a program
 * contracts, with HEDDLE_T and HEDDLE_NAME defined. Panels hold elements of type HEDDLE_W, here the same; what reads them is named by
 * HEDDLE_OF.
 *
 * A panel is 64 bytes of columns, stored place by place of the depth axis. A tile is up to HEDDLE_ROWS rows by the columns of
 * HEDDLE_SLICE vectors. Its sums stay in registers while the depth axis goes by: each step loads some vectors of panels and
 * multiplies them with one element of each row of `a`, which is read where it lies. Columns of one panel never meet those of
 * another, so what lies beyond the last column does no harm.
 *
 * A block of rows goes by some panels before the next panels come: so these come from far away only once for each block. */

#ifndef HEDDLE_ROWS
#if HEDDLE_VECTOR == 64
#define HEDDLE_ROWS 8
#else
#define HEDDLE_ROWS 6
#endif
#define HEDDLE_PANEL_BYTES 64
#define HEDDLE_KERNEL static __attribute__((noinline, unused)) void
/* A long one. GCC would copy it for each set of constants that callers pass: half of a large program's compile time, for at most 3 % of
 * the kernel's time. */
#if defined(__clang__)
#define HEDDLE_LONG_KERNEL HEDDLE_KERNEL
#else
#define HEDDLE_LONG_KERNEL __attribute__((noclone)) HEDDLE_KERNEL
#endif
#define HEDDLE_TEMPLATE static inline __attribute__((always_inline)) void
/* Panels whose sums are collected before the epilogue; columns of the tile that holds these. */
#define HEDDLE_PANELS 4
/* Vectors summed at a time: two, so that sums, operands and a factor fit into registers. */
#define HEDDLE_SLICE 2
/* Steps of the depth axis that a tile takes at a time. */
#define HEDDLE_STEPS 4
/* Steps with sums of their own: enough to hide the latency of an addition. */
#define HEDDLE_SETS(rows) ((rows) < 2 ? 4 : (rows) < 4 ? 2 : 1)
/* Operands and destination of a tile: see `slice`. */
#define HEDDLE_TILE_PARAMETERS                                                                      \
  int64_t depth, const HEDDLE_T *a, int64_t a_row, int64_t a_step, const HEDDLE_W *b, int64_t next, \
      uintptr_t ahead, int64_t ahead_step, bool more, HEDDLE_T *out, int64_t out_row
#define HEDDLE_TILE_ARGUMENTS \
  depth, a, a_row, a_step, b, next, ahead, ahead_step, more, out, out_row
/* Element k of row r of a tile. */
#define HEDDLE_FACTOR(r, k) (anywhere ? from_row[r][k] : a[(r)*a_row + (k)*a_step])
/* Limit on the rows of a block. */
#define HEDDLE_BLOCK_ROWS 96
/* Limit on the bytes of a row in a part of the depth axis. */
#define HEDDLE_PART_BYTES 2048
/* Prefetch distance of a tile with few rows: half a page. */
#define HEDDLE_AHEAD 2048

/* Panels that a kernel packs at a time for all rows: 256 KiB, but at least two, since vectors as long as a panel's row are summed in
 * pairs. */
HEDDLE_INLINE int64_t heddle_block(int64_t depth) {
  const int64_t panels = 4096 / (depth > 0 ? depth : 1);
  return panels >= HEDDLE_PANELS ? panels / HEDDLE_PANELS * HEDDLE_PANELS : HEDDLE_SLICE;
}

/* Rows of a block, for `rows` rows of this size: 96 KiB, in whole tiles, in blocks of similar size.
 * If rows are longer than 4 KiB, panels come from further away than rows do, so as many rows as
 * possible use each. */
HEDDLE_INLINE int64_t heddle_block_rows(int64_t rows, int64_t bytes) {
  const int64_t fit = bytes > 4096 ? HEDDLE_BLOCK_ROWS : 98304 / (bytes + 1);
  const int64_t most = fit < HEDDLE_BLOCK_ROWS ? fit : HEDDLE_BLOCK_ROWS;
  const int64_t blocks = (rows + most - 1) / most, each = (rows + blocks - 1) / blocks;
  return (each + HEDDLE_ROWS - 1) / HEDDLE_ROWS * HEDDLE_ROWS;
}
#endif

typedef HEDDLE_T HEDDLE_NAME(vector)
    __attribute__((vector_size(HEDDLE_VECTOR), aligned(sizeof(HEDDLE_T)), may_alias));

/* out[r * out_row + c] = sum over k of a[r * a_row + k * a_step] * panel[k][c], for the columns of one or two vectors; where vectors are
 * as long as a panel's row, each belongs to a panel of its own, and `next` elements lie between two of these. Where enough is
 * computed meanwhile, each step also asks for `ahead_step` of the bytes at `ahead`: what is needed next comes from far away. If
 * rows lie `anywhere`, row r of `a` begins at a[at[r]], and `a_step` is 1. */
HEDDLE_TEMPLATE HEDDLE_OF(slice)(const int rows, const int vectors, const bool anywhere, const int64_t *at, HEDDLE_TILE_PARAMETERS) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T) };
  const int sets = HEDDLE_SETS(rows);
  const HEDDLE_T *from[HEDDLE_SLICE], *from_row[HEDDLE_ROWS];
  if (anywhere)
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) from_row[r] = a + at[r];
  HEDDLE_NAME(vector) sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) from[v] = b + (LANES < PANEL ? v * LANES : v * next);
#pragma GCC unroll 32
  for (int i = 0; i < sets * rows * vectors; i++) sum[i] = (HEDDLE_NAME(vector)){0};
  int64_t k = 0;
  for (; k + HEDDLE_STEPS <= depth; k += HEDDLE_STEPS) {
#pragma GCC unroll 4
    for (int s = 0; s < HEDDLE_STEPS; s++) {
      HEDDLE_NAME(vector) x[HEDDLE_SLICE];
      /* One step at a time: sums of several do not fit into registers. */
      if (sets == 1) __asm__ volatile("" : : : "memory");
      /* Cache lines come in pairs, so that every other step is enough. */
      if (sets == 1 && s % 2 == 0) {
        __builtin_prefetch((const void *)(ahead + s * ahead_step), 0, 2);
        if (vectors == 2 && LANES == PANEL)
          __builtin_prefetch((const void *)(ahead + next * sizeof(HEDDLE_T) + s * ahead_step), 0, 2);
      }
      /* Few rows use panels faster than the hardware prefetches them, as it stops at page
       * boundaries. */
      if (sets > 1)
#pragma GCC unroll 2
        for (int v = 0; v < (LANES == PANEL ? vectors : 1); v++)
          __builtin_prefetch((const void *)((uintptr_t)(from[v] + (k + s) * PANEL) + HEDDLE_AHEAD), 0, 3);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        x[v] = *(const HEDDLE_NAME(vector) *)(from[v] + (k + s) * PANEL);
        /* Otherwise a compiler may load it for each row, which exceeds the core's load rate. */
        if (rows > 1) HEDDLE_IN_REGISTER(x[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const HEDDLE_T factor = HEDDLE_FACTOR(r, k + s);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
          HEDDLE_NAME(vector) *const to = sum + (s % sets * rows + r) * vectors + v;
          *to += factor * x[v];
          if (sets == 1) HEDDLE_IN_TURN(*to);
        }
      }
    }
    ahead += HEDDLE_STEPS * ahead_step;
  }
  for (; k < depth; k++) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const HEDDLE_T factor = HEDDLE_FACTOR(r, k);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sum[r * vectors + v] += factor * *(const HEDDLE_NAME(vector) *)(from[v] + k * PANEL);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      HEDDLE_NAME(vector) total = sum[r * vectors + v];
#pragma GCC unroll 4
      for (int s = 1; s < sets; s++) total += sum[(s * rows + r) * vectors + v];
      HEDDLE_NAME(vector) *const to = (HEDDLE_NAME(vector) *)(out + r * out_row + v * LANES);
      if (more) total += *to;
      *to = total;
    }
}

/* Sixteen bytes of neighbours, and a square of such vectors, to be transposed. */
typedef HEDDLE_T HEDDLE_NAME(quarter)
    __attribute__((vector_size(16), aligned(sizeof(HEDDLE_T)), may_alias));

/* Transposes a square. */
HEDDLE_TEMPLATE HEDDLE_NAME(turn)(HEDDLE_NAME(quarter) *x) {
  if (sizeof(HEDDLE_T) == 4) heddle_turn_words((heddle_words *)x);
  else heddle_turn_pairs((heddle_pairs *)x);
}

/* Packs columns with stride `b_column` into panels; columns beyond the last repeat one. */
HEDDLE_KERNEL HEDDLE_NAME(pack)(int64_t columns, int64_t depth, const HEDDLE_T *b, int64_t b_column,
                                int64_t b_step, HEDDLE_T *restrict panel) {
  enum { PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T), SQUARE = 16 / sizeof(HEDDLE_T) };
  /* Several panels at once: places of the depth axis may lie a page apart. */
  const int64_t several = HEDDLE_PANELS * PANEL;
  for (; b_column == 1 && columns >= several; columns -= several, b += several, panel += several * depth)
    for (int64_t k = 0; k < depth; k++)
      for (int p = 0; p < HEDDLE_PANELS; p++)
        __builtin_memcpy(panel + (p * depth + k) * PANEL, b + k * b_step + p * PANEL, HEDDLE_PANEL_BYTES);
  for (; columns > 0; columns -= PANEL, b += PANEL * b_column, panel += PANEL * depth) {
    const int64_t count = columns < PANEL ? columns : PANEL;
    int64_t k = 0;
    if (count == PANEL && b_column == 1) {
      for (; k < depth; k++) __builtin_memcpy(panel + k * PANEL, b + k * b_step, HEDDLE_PANEL_BYTES);
    } else if (count == PANEL && b_step == 1) {
      /* A whole cache line of some columns before the next ones: many columns may exceed one set of
       * the L1. */
      for (; k + PANEL <= depth; k += PANEL)
        for (int c = 0; c < PANEL; c += SQUARE)
          for (int i = 0; i < PANEL; i += SQUARE) {
            HEDDLE_NAME(quarter) x[SQUARE];
#pragma GCC unroll 4
            for (int j = 0; j < SQUARE; j++)
              x[j] = *(const HEDDLE_NAME(quarter) *)(b + (c + j) * b_column + k + i);
            HEDDLE_NAME(turn)(x);
#pragma GCC unroll 4
            for (int j = 0; j < SQUARE; j++)
              *(HEDDLE_NAME(quarter) *)(panel + (k + i + j) * PANEL + c) = x[j];
          }
    }
    for (; k < depth; k++)
      for (int64_t c = 0; c < PANEL; c++)
        panel[k * PANEL + c] = b[(c < count ? c : 0) * b_column + k * b_step];
  }
}

/* sum[c] = sum over k of a[k * a_step] * b[k * b_step + c] for the columns of a constant number of
 * vectors, which stay in registers. */
HEDDLE_TEMPLATE HEDDLE_NAME(strip)(const int vectors, int64_t depth, const HEDDLE_T *a,
                                   int64_t a_step, const HEDDLE_T *b, int64_t b_step,
                                   HEDDLE_T *restrict sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), SUMS = 8 };
  const int steps = SUMS / vectors;
  HEDDLE_NAME(vector) total[SUMS];
#pragma GCC unroll 8
  for (int i = 0; i < SUMS; i++) total[i] = (HEDDLE_NAME(vector)){0};
  int64_t k = 0;
  for (; k + steps <= depth; k += steps, b += steps * b_step)
#pragma GCC unroll 8
    for (int s = 0; s < steps; s++) {
      const HEDDLE_T factor = a[(k + s) * a_step];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++)
        total[s * vectors + v] += factor * *(const HEDDLE_NAME(vector) *)(b + s * b_step + v * LANES);
    }
  for (; k < depth; k++, b += b_step) {
    const HEDDLE_T factor = a[k * a_step];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
      total[v] += factor * *(const HEDDLE_NAME(vector) *)(b + v * LANES);
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
#pragma GCC unroll 8
    for (int s = 1; s < steps; s++) total[v] += total[s * vectors + v];
    *(HEDDLE_NAME(vector) *)(sum + v * LANES) = total[v];
  }
}

/* sum[c] += sum over k of a[k * a_step] * b[k * b_step + c] for so many places of the depth axis, from the first column to the last. Both
 * vectors of a cache line are read one after the other: rows that are whole pages apart share a set of the L1, which holds
 * few of them at once. */
HEDDLE_TEMPLATE HEDDLE_NAME(rows)(const int places, int64_t columns, const HEDDLE_T *a, int64_t a_step,
                                  const HEDDLE_T *b, int64_t b_step, HEDDLE_T *restrict sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), VECTORS = 2, MOST = 6 };
  HEDDLE_T factor[MOST];
  int64_t c = 0;
#pragma GCC unroll 6
  for (int i = 0; i < places; i++) factor[i] = a[i * a_step];
  for (; c + VECTORS * LANES <= columns; c += VECTORS * LANES) {
    HEDDLE_NAME(vector) total[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) total[v] = *(HEDDLE_NAME(vector) *)(sum + c + v * LANES);
#pragma GCC unroll 6
    for (int i = 0; i < places; i++)
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; v++)
        total[v] += factor[i] * *(const HEDDLE_NAME(vector) *)(b + i * b_step + c + v * LANES);
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) *(HEDDLE_NAME(vector) *)(sum + c + v * LANES) = total[v];
  }
  for (; c < columns; c++)
    for (int i = 0; i < places; i++) sum[c] += factor[i] * b[i * b_step + c];
}

/* The same as `strip` for any number of columns. Where there are many, goes through some places of the depth axis at once from the
 * first column to the last, because memory is read fastest in long runs. */
HEDDLE_KERNEL HEDDLE_NAME(over)(int64_t columns, int64_t depth, const HEDDLE_T *a, int64_t a_step,
                                const HEDDLE_T *b, int64_t b_step, HEDDLE_T *restrict sum) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T) };
  int64_t c = 0;
  if (columns <= 8 * LANES) {
    for (; c + 8 * LANES <= columns; c += 8 * LANES)
      HEDDLE_NAME(strip)(8, depth, a, a_step, b + c, b_step, sum + c);
    for (; c + 4 * LANES <= columns; c += 4 * LANES)
      HEDDLE_NAME(strip)(4, depth, a, a_step, b + c, b_step, sum + c);
    for (; c + LANES <= columns; c += LANES)
      HEDDLE_NAME(strip)(1, depth, a, a_step, b + c, b_step, sum + c);
    for (int64_t rest = c; rest < columns; rest++) sum[rest] = 0;
    for (int64_t k = 0; k < depth; k++)
      for (int64_t rest = c; rest < columns; rest++) sum[rest] += a[k * a_step] * b[k * b_step + rest];
    return;
  }
  for (c = 0; c < columns; c++) sum[c] = 0;
  int64_t k = 0;
  for (; k + 6 <= depth; k += 6)
    HEDDLE_NAME(rows)(6, columns, a + k * a_step, a_step, b + k * b_step, b_step, sum);
  for (; k + 2 <= depth; k += 2)
    HEDDLE_NAME(rows)(2, columns, a + k * a_step, a_step, b + k * b_step, b_step, sum);
  for (; k < depth; k++)
    HEDDLE_NAME(rows)(1, columns, a + k * a_step, a_step, b + k * b_step, b_step, sum);
}

/* out[c] = sum over k of a[k] * b[c * b_column + k] for eight columns. */
HEDDLE_TEMPLATE HEDDLE_NAME(dots)(int64_t depth, const HEDDLE_T *a, const HEDDLE_T *b, int64_t b_column,
                                  HEDDLE_T *restrict out) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), SQUARE = 16 / sizeof(HEDDLE_T), COLUMNS = 8 };
  HEDDLE_NAME(vector) sum[COLUMNS];
#pragma GCC unroll 8
  for (int i = 0; i < COLUMNS; i++) sum[i] = (HEDDLE_NAME(vector)){0};
  int64_t k = 0;
  /* Prefetches the next eight columns, if they follow directly: as many bytes as are read
   * meanwhile. */
  uintptr_t ahead = (uintptr_t)b + (b_column == depth ? COLUMNS * depth * sizeof(HEDDLE_T) : 0);
  const int ahead_step = b_column == depth ? COLUMNS * HEDDLE_VECTOR : 0;
  for (; k + LANES <= depth; k += LANES, ahead += ahead_step) {
#pragma GCC unroll 8
    for (int i = 0; i < COLUMNS * HEDDLE_VECTOR; i += 64)
      __builtin_prefetch((const void *)(ahead + i), 0, 3);
    const HEDDLE_NAME(vector) x = *(const HEDDLE_NAME(vector) *)(a + k);
#pragma GCC unroll 8
    for (int i = 0; i < COLUMNS; i++)
      sum[i] += x * *(const HEDDLE_NAME(vector) *)(b + i * b_column + k);
  }
  /* The lanes of each sum become one quarter; rows of transposed squares of quarters are added. */
  HEDDLE_T lanes[COLUMNS * LANES] __attribute__((aligned(64)));
#pragma GCC unroll 8
  for (int i = 0; i < COLUMNS; i++) *(HEDDLE_NAME(vector) *)(lanes + i * LANES) = sum[i];
#pragma GCC unroll 4
  for (int i = 0; i < COLUMNS; i += SQUARE) {
    HEDDLE_NAME(quarter) x[SQUARE];
#pragma GCC unroll 4
    for (int j = 0; j < SQUARE; j++) {
      x[j] = *(const HEDDLE_NAME(quarter) *)(lanes + (i + j) * LANES);
#pragma GCC unroll 4
      for (int l = SQUARE; l < LANES; l += SQUARE)
        x[j] += *(const HEDDLE_NAME(quarter) *)(lanes + (i + j) * LANES + l);
    }
    HEDDLE_NAME(turn)(x);
#pragma GCC unroll 4
    for (int j = 1; j < SQUARE; j++) x[0] += x[j];
    *(HEDDLE_NAME(quarter) *)(out + i) = x[0];
  }
  for (; k < depth; k++)
    for (int i = 0; i < COLUMNS; i++) out[i] += a[k] * b[i * b_column + k];
}

/* The same for one column. */
HEDDLE_TEMPLATE HEDDLE_NAME(single)(int64_t depth, const HEDDLE_T *a, const HEDDLE_T *b,
                                    HEDDLE_T *restrict out) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), SUMS = 4 };
  HEDDLE_NAME(vector) sum[SUMS];
#pragma GCC unroll 4
  for (int i = 0; i < SUMS; i++) sum[i] = (HEDDLE_NAME(vector)){0};
  int64_t k = 0;
  for (; k + SUMS * LANES <= depth; k += SUMS * LANES)
#pragma GCC unroll 4
    for (int i = 0; i < SUMS; i++)
      sum[i] += *(const HEDDLE_NAME(vector) *)(a + k + i * LANES) *
                *(const HEDDLE_NAME(vector) *)(b + k + i * LANES);
  HEDDLE_T lanes[LANES] __attribute__((aligned(64))), total = 0;
  *(HEDDLE_NAME(vector) *)lanes = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (int l = 0; l < LANES; l++) total += lanes[l];
  for (; k < depth; k++) total += a[k] * b[k];
  *out = total;
}

/* The same as `over` for contiguous columns with stride `b_column`, and contiguous `a`. */
HEDDLE_KERNEL HEDDLE_NAME(along)(int64_t columns, int64_t depth, const HEDDLE_T *a, const HEDDLE_T *b,
                                 int64_t b_column, HEDDLE_T *restrict out) {
  int64_t c = 0;
  for (; c + 8 <= columns; c += 8)
    HEDDLE_NAME(dots)(depth, a, b + c * b_column, b_column, out + c);
  for (; c < columns; c++) HEDDLE_NAME(single)(depth, a, b + c * b_column, out + c);
}
/* Tiles and blocks of products by panels, each behind its `slice`: the text stands once for each type HEDDLE_W that panels of a type HEDDLE_T are
 * stored in. A row of a panel holds HEDDLE_PLACES places of the depth axis. */

#define HEDDLE_TILE_OF(kernel, name, rows, anywhere, at, ...)                                      \
  kernel HEDDLE_OF(name##rows)(__VA_ARGS__) {                                             \
    const int columns = HEDDLE_SLICE * HEDDLE_VECTOR / (int)sizeof(HEDDLE_T), places = HEDDLE_PLACES; \
    if (HEDDLE_VECTOR == HEDDLE_PANEL_BYTES && next == 0) {                                        \
      HEDDLE_OF(slice)(rows, 1, anywhere, at, HEDDLE_TILE_ARGUMENTS);                            \
      return;                                                                                      \
    }                                                                                              \
    for (int c = 0; c < HEDDLE_PANEL_BYTES / (int)sizeof(HEDDLE_T); c += columns, b += columns * places, out += columns) \
      HEDDLE_OF(slice)(rows, HEDDLE_SLICE, anywhere, at, HEDDLE_TILE_ARGUMENTS);                 \
  }
#ifdef HEDDLE_ROWS_ANYWHERE
#define HEDDLE_TILE(kernel, rows)                                                                          \
  HEDDLE_TILE_OF(kernel, tile, rows, false, NULL, HEDDLE_TILE_PARAMETERS)                                  \
  HEDDLE_TILE_OF(kernel, tile_at, rows, true, at, const int64_t *at, HEDDLE_TILE_PARAMETERS)
#define HEDDLE_CASE(rows)                                                                          \
  if (anywhere) HEDDLE_OF(tile_at##rows)(at, HEDDLE_TILE_ARGUMENTS);                             \
  else HEDDLE_OF(tile##rows)(HEDDLE_TILE_ARGUMENTS);                                             \
  break;
#else
#define HEDDLE_TILE(kernel, rows) HEDDLE_TILE_OF(kernel, tile, rows, false, NULL, HEDDLE_TILE_PARAMETERS)
#define HEDDLE_CASE(rows)                                                                          \
  (void)anywhere, (void)at;                                                                        \
  HEDDLE_OF(tile##rows)(HEDDLE_TILE_ARGUMENTS);                                                  \
  break;
#endif

HEDDLE_TILE(HEDDLE_KERNEL, 1)
HEDDLE_TILE(HEDDLE_KERNEL, 2)
HEDDLE_TILE(HEDDLE_KERNEL, 3)
HEDDLE_TILE(HEDDLE_LONG_KERNEL, 4)
HEDDLE_TILE(HEDDLE_LONG_KERNEL, 5)
HEDDLE_TILE(HEDDLE_LONG_KERNEL, 6)
#if HEDDLE_ROWS > 6
HEDDLE_TILE(HEDDLE_LONG_KERNEL, 7)
HEDDLE_TILE(HEDDLE_LONG_KERNEL, 8)
#endif
#undef HEDDLE_TILE
#undef HEDDLE_TILE_OF

/* A tile of up to HEDDLE_ROWS rows. */
HEDDLE_TEMPLATE HEDDLE_OF(tile)(int64_t rows, const bool anywhere, const int64_t *at, HEDDLE_TILE_PARAMETERS) {
  switch (rows) {
#if HEDDLE_ROWS > 6
  case 8: HEDDLE_CASE(8)
  case 7: HEDDLE_CASE(7)
#endif
  case 6: HEDDLE_CASE(6)
  case 5: HEDDLE_CASE(5)
  case 4: HEDDLE_CASE(4)
  case 3: HEDDLE_CASE(3)
  case 2: HEDDLE_CASE(2)
  default: HEDDLE_CASE(1)
  }
}
#undef HEDDLE_CASE

/* A block: the sums of some rows and of up to HEDDLE_PANELS panels, which hold `whole` places of the depth axis, of which `depth` are
 * summed. What several tiles read is cut into parts of the depth axis
 * that stay in the L1. Each tile also asks for its part of what the sums will meet, unless `beside` is null. */
#define HEDDLE_BLOCK_PARAMETERS                                                                     \
  int64_t rows, int64_t panels, int64_t depth, const HEDDLE_T *a, int64_t a_row, int64_t a_step,    \
      const HEDDLE_W *b, int64_t whole, HEDDLE_T *out, int64_t out_row, const void *beside,         \
      int64_t beside_row
HEDDLE_TEMPLATE HEDDLE_OF(block_at)(const bool anywhere, const int64_t *at, HEDDLE_BLOCK_PARAMETERS) {
  enum {
    PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T),
    AT_ONCE = HEDDLE_VECTOR < HEDDLE_PANEL_BYTES ? 1 : HEDDLE_SLICE,
    MOST = HEDDLE_PART_BYTES / sizeof(HEDDLE_T),
    PLACES = HEDDLE_PLACES,
    PLACE_BYTES = HEDDLE_PANEL_BYTES / PLACES
  };
  /* Tiles have about the same number of rows, since one with few rows is slow. */
  const int64_t tiles = (rows + HEDDLE_ROWS - 1) / HEDDLE_ROWS;
  const int64_t parts = rows > HEDDLE_ROWS && depth > MOST ? (depth + MOST - 1) / MOST : 1;
  for (int64_t part = 0, k = 0; part < parts; part++) {
    /* Parts begin with a row of the panels. */
    const int64_t rest = (depth - k) / (parts - part), count = part + 1 < parts ? rest / PLACES * PLACES : rest;
    for (int64_t p = 0; p < panels; p += AT_ONCE) {
      /* A last panel without a neighbour, which 0 says, is computed alone. Panels of no depth have neighbours, too. */
      const int64_t next = p + 1 < panels ? PANEL * (whole > 0 ? whole : 1) : 0;
      const HEDDLE_W *const panel = b + (p * whole + k) * PANEL;
      /* Each tile prefetches its part of the next panel; rounding makes parts overlap. */
      const int64_t ahead_step = (PLACE_BYTES + tiles - 1) / tiles;
      const uintptr_t ahead = (uintptr_t)panel + AT_ONCE * whole * PLACE_BYTES;
      for (int64_t t = 0; t < tiles; t++) {
        const int64_t row = rows * t / tiles, some = rows * (t + 1) / tiles - row;
        if (beside && part + 1 == parts)
          for (int64_t r = row * AT_ONCE; r < (row + some) * AT_ONCE; r++)
            __builtin_prefetch((const HEDDLE_T *)beside + r / AT_ONCE * beside_row +
                               (p + r % AT_ONCE) * PANEL);
        HEDDLE_OF(tile)(some, anywhere, anywhere ? at + row : at, count, a + row * a_row + k * a_step, a_row, a_step, panel, next,
                          ahead + t * count * ahead_step, ahead_step, part > 0,
                          out + row * out_row + p * PANEL, out_row);
      }
    }
    k += count;
  }
}

HEDDLE_KERNEL HEDDLE_OF(block)(HEDDLE_BLOCK_PARAMETERS) {
  HEDDLE_OF(block_at)(false, NULL, rows, panels, depth, a, a_row, a_step, b, whole, out, out_row, beside, beside_row);
}

#ifdef HEDDLE_ROWS_ANYWHERE
/* A block of rows that begin at these elements of `a` and have steps of one. */
HEDDLE_KERNEL HEDDLE_OF(block_of_rows)(const int64_t *at, HEDDLE_BLOCK_PARAMETERS) {
  HEDDLE_OF(block_at)(true, at, rows, panels, depth, a, a_row, a_step, b, whole, out, out_row, beside, beside_row);
}
#endif
#undef HEDDLE_BLOCK_PARAMETERS
#undef HEDDLE_W
#undef HEDDLE_OF
#undef HEDDLE_PLACES
#undef HEDDLE_T
#undef HEDDLE_NAME

/* line 2_ column 13 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *restrict b0, float *restrict b2) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  const int64_t v0 = 0;
  for (int64_t v1 = 0; v1 < (8) * 64; v1++) {
    const int64_t t1 = ((v0 * 64) + v1);
    b2[t1] = heddle_load_f16(b0[t1]);
  }
}

/* line 2_ column 13 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *restrict b1, float *restrict b3) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(32, 16, worker, workers);
  const int64_t to = heddle_share(32, 16, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = 0; v0 < 64; v0++) {
    for (int64_t v1 = from; v1 < to; v1++) {
      const int64_t t1 = ((v0 * 32) + v1);
      b3[t1] = heddle_load_f16(b1[t1]);
    }
  }
}

/* line 2_ column 8 */
HEDDLE_OUTLINE void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, const float *restrict b3, uint16_t *restrict b5, float *restrict b6) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(32, 16, worker, workers);
  const int64_t to = heddle_share(32, 16, worker + 1, workers);
  const int64_t depth = 64;
  const int64_t first_row = 0;
  const int64_t last_row = 8;
  const int64_t first = from;
  const int64_t last = to;
  if (first < last && first_row < last_row) {
    const float *const a = b2 + 0;
    const float *const b = b3 + 0;
    const int64_t end = (last + 15) / 16;
    const int64_t some = heddle_block(depth);
    for (int64_t next = first / 16; next < end; next += some) {
      const int64_t until = next + some < end ? next + some : end;
      const int64_t columns = until * 16 < 32 ? until * 16 : 32;
      heddle_pack_f32(columns - next * 16, depth, b + next * 16 * 1, 1, 32, b6);
      const int64_t most = heddle_block_rows(last_row - first_row, depth * sizeof(float));
      for (int64_t row = first_row; row < last_row; row += most) {
        const int64_t rows = last_row - row < most ? last_row - row : most;
        for (int64_t panel = next; panel < until; panel += HEDDLE_PANELS) {
          if (HEDDLE_UNLIKELY(heddle_poll(env))) return;
          const int64_t panels = until - panel < HEDDLE_PANELS ? until - panel : HEDDLE_PANELS;
          const int64_t start = panel * 16, ahead = last - start;
          float tile[HEDDLE_BLOCK_ROWS * HEDDLE_PANELS * 16] __attribute__((aligned(64)));
          heddle_block_f32(rows, panels, depth, a + row * 64, 64, 1, b6 + (panel - next) * 16 * depth, depth, tile, HEDDLE_PANELS * 16, 0, 0);
          const int64_t low = first > start ? first - start : 0;
          const int64_t high = ahead < panels * 16 ? ahead : panels * 16;
          for (int64_t r = 0; r < rows; r++) {
            const int64_t v0 = row + r;
            HEDDLE_ROLLED
            for (int64_t c = low; c < high; c++) {
              const int64_t v1 = start + c;
              const float v3 = tile[r * HEDDLE_PANELS * 16 + c];
              b5[(v0 * 32) + v1] = heddle_store_f16(heddle_round_f16(heddle_tanh_f32(heddle_round_f16(v3))));
            }
          }
        }
      }
    }
  }
}

HEDDLE_MAIN {
  const uint16_t *b0 = (const uint16_t *)env->inputs[0].data; /* x */
  const uint16_t *b1 = (const uint16_t *)env->inputs[1].data; /* w */
  float *b2 = (float *)(env->scratch + env->table[0]); /* line 2_ column 13 */
  float *b3 = (float *)(env->scratch + env->table[1]); /* line 2_ column 13 */
  float *b4 = (float *)(env->scratch + env->table[2]); /* line 2_ column 13 */
  uint16_t *b5 = (uint16_t *)env->outputs[0].data; /* y */
  float *b6 = (float *)(env->scratch + env->table[3] + worker * env->table[4]); /* panels */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  op0(env, worker, workers, b0, b2);
  op1(env, worker, workers, b1, b3);
  epoch++;
  if (worker == 0 % workers) heddle_signal(env, worker, epoch);
  HEDDLE_TRY(heddle_wait(env, 0 % workers, epoch));
  op2(env, worker, workers, b2, b3, b5, b6);
  if (worker == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 32;
  }
  return heddle_poll(env);
}
