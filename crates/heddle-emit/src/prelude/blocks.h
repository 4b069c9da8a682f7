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
