/* Tiles and blocks of convolutions, each behind its `window_slice`; as blocks.h, once for each type that panels are stored in. */

/* A tile; a panel without a neighbour is computed alone. */
#define HEDDLE_WINDOW_TILE(rows)                                                                         \
  HEDDLE_KERNEL HEDDLE_OF(window_tile##rows)(int64_t runs, const HEDDLE_NAME(run) *run, const HEDDLE_W *b, \
                                               int64_t next, uintptr_t ahead, int64_t ahead_step, HEDDLE_T *out) { \
    enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T) };    \
    const int64_t out_row = HEDDLE_PANELS * PANEL;                                                       \
    if (LANES == PANEL && next == 0) {                                                                   \
      HEDDLE_OF(window_slice)(rows, 1, runs, run, b, 0, ahead, ahead_step, out, out_row);              \
      return;                                                                                            \
    }                                                                                                    \
    for (int c = 0; c < PANEL; c += HEDDLE_SLICE * LANES, b += HEDDLE_SLICE * LANES * HEDDLE_PLACES, out += HEDDLE_SLICE * LANES) \
      HEDDLE_OF(window_slice)(rows, HEDDLE_SLICE, runs, run, b, next, ahead, ahead_step, out, out_row); \
  }
HEDDLE_WINDOW_TILE(1)
HEDDLE_WINDOW_TILE(2)
HEDDLE_WINDOW_TILE(3)
HEDDLE_WINDOW_TILE(4)
HEDDLE_WINDOW_TILE(5)
HEDDLE_WINDOW_TILE(6)
#if HEDDLE_ROWS > 6
HEDDLE_WINDOW_TILE(7)
HEDDLE_WINDOW_TILE(8)
#endif
#undef HEDDLE_WINDOW_TILE

/* The sums of some tiles and of up to HEDDLE_PANELS panels of `depth` places: row r of tile t begins at HEDDLE_PANELS panels times
 * t * HEDDLE_ROWS + r. Each tile also asks for its part of the next panel. */
HEDDLE_KERNEL HEDDLE_OF(block_of_windows)(int64_t tiles, const heddle_window_tile *tile, int64_t most,
                                            const HEDDLE_NAME(run) *run, int64_t panels, int64_t depth, const HEDDLE_W *b,
                                            HEDDLE_T *out) {
  enum {
    PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T),
    AT_ONCE = HEDDLE_VECTOR < HEDDLE_PANEL_BYTES ? 1 : HEDDLE_SLICE,
    PLACE_BYTES = HEDDLE_PANEL_BYTES / HEDDLE_PLACES
  };
  const int64_t ahead_step = (PLACE_BYTES + tiles - 1) / tiles;
  for (int64_t p = 0; p < panels; p += AT_ONCE) {
    const int64_t next = p + 1 < panels ? PANEL * depth : 0;
    const HEDDLE_W *const panel = b + p * depth * PANEL;
    const uintptr_t ahead = (uintptr_t)panel + AT_ONCE * depth * PLACE_BYTES;
    for (int64_t t = 0; t < tiles; t++) {
      HEDDLE_T *const to = out + t * HEDDLE_ROWS * HEDDLE_PANELS * PANEL + p * PANEL;
#define HEDDLE_CASE(rows)                                                                            \
  case rows:                                                                                         \
    HEDDLE_OF(window_tile##rows)(tile[t].runs, run + t * most, panel, next, ahead + t * depth * ahead_step, \
                                   ahead_step, to);                                                  \
    break;
      switch (tile[t].rows) {
#if HEDDLE_ROWS > 6
        HEDDLE_CASE(8)
        HEDDLE_CASE(7)
#endif
        HEDDLE_CASE(6)
        HEDDLE_CASE(5)
        HEDDLE_CASE(4)
        HEDDLE_CASE(3)
        HEDDLE_CASE(2)
        HEDDLE_CASE(1)
      }
#undef HEDDLE_CASE
    }
  }
}
