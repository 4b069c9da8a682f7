/* Transposes a square of words of four bytes. */
HEDDLE_INLINE void heddle_turn_words(heddle_words *w) {
  const heddle_words a = HEDDLE_SHUFFLE(words, w[0], w[1], 0, 4, 1, 5);
  const heddle_words b = HEDDLE_SHUFFLE(words, w[0], w[1], 2, 6, 3, 7);
  const heddle_words c = HEDDLE_SHUFFLE(words, w[2], w[3], 0, 4, 1, 5);
  const heddle_words d = HEDDLE_SHUFFLE(words, w[2], w[3], 2, 6, 3, 7);
  w[0] = HEDDLE_SHUFFLE(words, a, c, 0, 1, 4, 5);
  w[1] = HEDDLE_SHUFFLE(words, a, c, 2, 3, 6, 7);
  w[2] = HEDDLE_SHUFFLE(words, b, d, 0, 1, 4, 5);
  w[3] = HEDDLE_SHUFFLE(words, b, d, 2, 3, 6, 7);
}

/* Transposes a square of words of eight bytes. */
HEDDLE_INLINE void heddle_turn_pairs(heddle_pairs *p) {
  const heddle_pairs a = HEDDLE_SHUFFLE(pairs, p[0], p[1], 0, 2);
  p[1] = HEDDLE_SHUFFLE(pairs, p[0], p[1], 1, 3);
  p[0] = a;
}

/* to[c * to_step + i] = from[i * from_step + c], in squares as far as they fit. Rows of the result that lie apart are written one after the
 * other, since many of them may share a set of the L1; else some rows of the source are read whole. */
#define HEDDLE_TURNED(bytes, type, words, square)                                                  \
  HEDDLE_OUTLINE void heddle_turned_##bytes(int64_t rows, int64_t columns, const void *source,     \
                                            int64_t from_step, int64_t to_step, void *result) {    \
    const type *from = (const type *)source;                                                       \
    type *to = (type *)result;                                                                     \
    const int64_t right = columns / square * square, low = rows / square * square;                 \
    const int64_t together = to_step * bytes > 64 ? low : square;                                  \
    for (int64_t top = 0; top < low; top += together) {                                            \
      const int64_t end = top + together < low ? top + together : low;                             \
      for (int64_t c = 0; c < right; c += square)                                                  \
        for (int64_t i = top; i < end; i += square) {                                              \
          heddle_##words x[square];                                                                \
          for (int j = 0; j < square; j++)                                                         \
            x[j] = *(const heddle_##words *)(from + (i + j) * from_step + c);                      \
          heddle_turn_##words(x);                                                                  \
          for (int j = 0; j < square; j++)                                                         \
            *(heddle_##words *)(to + (c + j) * to_step + i) = x[j];                                \
        }                                                                                          \
      for (int64_t c = right; c < columns; c++)                                                    \
        for (int64_t i = top; i < end; i++) to[c * to_step + i] = from[i * from_step + c];         \
    }                                                                                              \
    for (int64_t i = low; i < rows; i++)                                                           \
      for (int64_t c = 0; c < columns; c++) to[c * to_step + i] = from[i * from_step + c];         \
  }
HEDDLE_TURNED(4, int32_t, words, 4)
HEDDLE_TURNED(8, int64_t, pairs, 2)
