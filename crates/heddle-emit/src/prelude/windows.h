/* Kernels of convolutions, for elements of type HEDDLE_T: products whose first operand is windows of a map with its channels
 * innermost, read where they lie. Behind contract.h, with HEDDLE_ZEROS elements defined as the longest run.
 *
 * The depth axis is runs of memory. A tile is up to HEDDLE_ROWS windows below each other, so that the left and right ends of the map
 * cut their runs alike; a window that a run misses, above or below the map, reads zeros, and a run that all miss is left out. The
 * runs of some tiles are listed once, for all panels. */

#ifndef HEDDLE_WINDOWS
#define HEDDLE_WINDOWS
/* An axis of a map: tap `t` of window `p` is at p * stride + t * dilation - pad. */
typedef struct { int64_t places, size, taps, stride, dilation, pad; } heddle_window_axis;
/* The windows of a map: channels of a window, and elements of the map from a place to the next one. */
typedef struct { heddle_window_axis axis[3]; int64_t channels, pitch; } heddle_windows;
/* A tile: its first row, its rows, each so many `places` of the innermost axis behind the one before, and its runs. */
typedef struct { int64_t row, rows, runs; } heddle_window_tile;

/* The tiles from this one on, up to `most`, whose places are neighbours on lines of the map of so many places; at least one. */
static inline int64_t heddle_line(const heddle_window_tile *tile, int64_t most, int64_t places) {
  int64_t count = 1;
  while (count < most && tile[count].rows == tile[0].rows && tile[count].row == tile[0].row + count &&
         tile[count].row % places != 0)
    count++;
  return count;
}
#endif

/* A run: where it begins for each row, its first place of the depth axis, and how many it has. */
typedef struct { const HEDDLE_T *row[HEDDLE_ROWS]; int64_t first, count; } HEDDLE_NAME(run);

static const HEDDLE_T HEDDLE_NAME(zeros)[HEDDLE_ZEROS];

/* Lists the runs, up to `most` for each tile, of so many tiles from `tile` on. Tiles are numbered along the innermost axis; the rows
 * of the result from the first to the last are in strips of about the same height. */
HEDDLE_KERNEL HEDDLE_NAME(find_runs)(const heddle_windows *w, const HEDDLE_T *a, int64_t first_row, int64_t last_row,
                                     int64_t place, int64_t tiles, int64_t most, heddle_window_tile *tile,
                                     HEDDLE_NAME(run) *run) {
  const heddle_window_axis *const z = &w->axis[0], *const y = &w->axis[1], *const x = &w->axis[2];
  const bool joined = x->dilation == 1 && w->channels == w->pitch;
  const int64_t first_line = first_row / x->places, lines = (last_row - 1) / x->places + 1 - first_line;
  const int64_t strips = (lines + HEDDLE_ROWS - 1) / HEDDLE_ROWS;
  const int64_t step = x->stride * w->pitch;
  int64_t strip = place / x->places, column = place % x->places, cut[4] = {0};
  for (int64_t t = 0; t < tiles; t++, tile++, run += most) {
    int64_t low = first_line + lines * strip / strips, high = first_line + lines * (strip + 1) / strips;
    /* The first and last line may belong to this unit in part. */
    if (low * x->places + column < first_row) low++;
    if ((high - 1) * x->places + column >= last_row) high--;
    const int64_t rows = high > low ? high - low : 0;
    const int64_t at = column * x->stride - x->pad;
    const int64_t from = at < 0 ? (x->dilation - 1 - at) / x->dilation : 0;
    const int64_t inside = at < x->size ? (x->size - at + x->dilation - 1) / x->dilation : 0;
    const int64_t to = rows == 0 ? 0 : inside < x->taps ? inside : x->taps;
    HEDDLE_NAME(run) *next = run;
    /* Between the ends of the map, runs lie a step behind those of the tile before. */
    const bool alike = t > 0 && low == cut[0] && high == cut[1] && from == cut[2] && to == cut[3];
    for (const HEDDLE_NAME(run) *before = run - most; alike && next < run + tile[-1].runs; before++, next++) {
      for (int r = 0; r < HEDDLE_ROWS; r++)
        next->row[r] = before->row[r] == HEDDLE_NAME(zeros) ? before->row[r] : before->row[r] + step;
      next->first = before->first;
      next->count = before->count;
    }
    cut[0] = low, cut[1] = high, cut[2] = from, cut[3] = to;
    if (!alike) {
      int64_t at_z[HEDDLE_ROWS], at_y[HEDDLE_ROWS];
      for (int64_t r = 0; r < rows; r++) {
        at_z[r] = (low + r) / y->places * z->stride - z->pad;
        at_y[r] = (low + r) % y->places * y->stride - y->pad;
      }
      for (int64_t i = 0; from < to && i < z->taps; i++)
        for (int64_t j = 0; j < y->taps; j++) {
          bool met = false;
          for (int64_t r = rows; r < HEDDLE_ROWS; r++) next->row[r] = HEDDLE_NAME(zeros);
          for (int64_t r = 0; r < rows; r++) {
            const int64_t down = at_z[r] + i * z->dilation, across = at_y[r] + j * y->dilation;
            const bool meets = down >= 0 && down < z->size && across >= 0 && across < y->size;
            const int64_t start = ((down * y->size + across) * x->size + at + from * x->dilation) * w->pitch;
            next->row[r] = meets ? a + start : HEDDLE_NAME(zeros);
            met |= meets;
          }
          if (!met) continue;
          next->first = ((i * y->taps + j) * x->taps + from) * w->channels;
          next->count = w->channels * (joined ? to - from : 1);
          next++;
          for (int64_t k = from + 1; !joined && k < to; k++, next++) {
            for (int64_t r = 0; r < HEDDLE_ROWS; r++) {
              const HEDDLE_T *const before = next[-1].row[r];
              next->row[r] = before == HEDDLE_NAME(zeros) ? before : before + x->dilation * w->pitch;
            }
            next->first = next[-1].first + w->channels;
            next->count = w->channels;
          }
        }
    }
    tile->row = low * x->places + column;
    tile->rows = rows;
    tile->runs = next - run;
    if (++column == x->places) column = 0, strip++;
  }
}

/* out[r * out_row + c] = sum over the runs of row[r][k] * panel[first + k][c], as `slice` of contract.h; with one or two vectors. */
HEDDLE_TEMPLATE HEDDLE_OF(window_slice)(const int rows, const int vectors, int64_t runs, const HEDDLE_NAME(run) *run,
                                          const HEDDLE_W *b, int64_t next, uintptr_t ahead, int64_t ahead_step,
                                          HEDDLE_T *out, int64_t out_row) {
  enum { LANES = HEDDLE_VECTOR / sizeof(HEDDLE_T), PANEL = HEDDLE_PANEL_BYTES / sizeof(HEDDLE_T) };
  const int sets = HEDDLE_SETS(rows);
  HEDDLE_NAME(vector) sum[HEDDLE_STEPS * HEDDLE_ROWS * HEDDLE_SLICE];
#pragma GCC unroll 32
  for (int i = 0; i < sets * rows * vectors; i++) sum[i] = (HEDDLE_NAME(vector)){0};
  for (; runs > 0; runs--, run++) {
    const int64_t count = run->count;
    const HEDDLE_T *from[HEDDLE_SLICE], *row[HEDDLE_ROWS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) from[v] = b + run->first * PANEL + (LANES < PANEL ? v * LANES : v * next);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) row[r] = run->row[r];
    int64_t k = 0;
    for (; k + HEDDLE_STEPS <= count; k += HEDDLE_STEPS) {
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
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
          x[v] = *(const HEDDLE_NAME(vector) *)(from[v] + (k + s) * PANEL);
          if (rows > 1) HEDDLE_IN_REGISTER(x[v]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
          const HEDDLE_T factor = row[r][k + s];
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
    for (; k < count; k++) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const HEDDLE_T factor = row[r][k];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
          sum[r * vectors + v] += factor * *(const HEDDLE_NAME(vector) *)(from[v] + k * PANEL);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      HEDDLE_NAME(vector) total = sum[r * vectors + v];
#pragma GCC unroll 4
      for (int s = 1; s < sets; s++) total += sum[(s * rows + r) * vectors + v];
      *(HEDDLE_NAME(vector) *)(out + r * out_row + v * LANES) = total;
    }
}
