/* Lanes that work on a point together: each has a partial result, and gets what `join` makes of all of them. Joined are always the
 * same two, the lower lane's first, so that all lanes have the same result, and each run. All lanes of the warp or block call. */

/* The result of so many neighbouring lanes of a warp, a power of two that divides it. */
template <int lanes, class T, class Join> HEDDLE_INLINE T heddle_over_warp(T value, Join join) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    const T other = heddle_shuffle(value, heddle_lane ^ half);
    value = heddle_lane & half ? join(other, value) : join(value, other);
  }
  return value;
}

/* Words of partial results: a warp's for each point, of 1,024 lanes, twice. */
#define HEDDLE_PARTIAL 1024
HEDDLE_INLINE uint64_t &heddle_partial(int64_t at) {
  HEDDLE_SHARED(uint64_t, words, 2 * HEDDLE_PARTIAL);
  return words[at];
}
template <class T> union heddle_word {
  uint64_t word;
  T value;
};

/* The result of all lanes of the block with the same remainder by `points`, a power of two that divides the warp. Calls take turns with the
 * words, so that a barrier lies between the reads of one and the writes of the next but one. */
template <int points, class T, class Join>
HEDDLE_INLINE T heddle_over_unit(T value, int64_t &turn, Join join) {
  const int64_t lane = heddle_lane, warp = heddle_warp & -heddle_warp, point = lane % points;
  for (int64_t half = warp / 2; half >= points; half /= 2) {
    const T other = heddle_shuffle(value, lane ^ half);
    value = lane & half ? join(other, value) : join(value, other);
  }
  const int64_t first = turn * HEDDLE_PARTIAL;
  turn ^= 1;
  heddle_word<T> own = {0};
  own.value = value;
  if (lane % warp < points) heddle_partial(first + lane / warp * points + point) = own.word;
  HEDDLE_UNIT_SYNC;
  own.word = heddle_partial(first + point);
  value = own.value;
  for (int64_t next = 1; next < heddle_lanes / warp; next++) {
    own.word = heddle_partial(first + next * points + point);
    value = join(value, own.value);
  }
  return value;
}

/* What the lanes before this one make of their values, among so many neighbouring lanes of a warp, and `first` before the lowest; `all`
 * becomes what all of them make. */
template <int lanes, class T, class Join>
HEDDLE_INLINE T heddle_scan_warp(T value, T first, T &all, Join join) {
  const int64_t member = heddle_lane % lanes;
  for (int step = 1; step < lanes; step *= 2) {
    const T other = heddle_shuffle(value, heddle_lane - (member < step ? 0 : step));
    if (member >= step) value = join(other, value);
  }
  const T before = heddle_shuffle(value, heddle_lane - (member == 0 ? 0 : 1));
  all = heddle_shuffle(value, heddle_lane - member + lanes - 1);
  return member == 0 ? first : before;
}

/* The same among all lanes of the block with the same remainder by `points`, a power of two that divides the warp. */
template <int points, class T, class Join>
HEDDLE_INLINE T heddle_scan_unit(T value, T first, T &all, int64_t &turn, Join join) {
  const int64_t lane = heddle_lane, warp = heddle_warp & -heddle_warp, point = lane % points;
  const int64_t within = lane % warp;
  for (int64_t step = points; step < warp; step *= 2) {
    const T other = heddle_shuffle(value, lane - (within < step ? 0 : step));
    if (within >= step) value = join(other, value);
  }
  const T before = heddle_shuffle(value, lane - (within < points ? 0 : points));
  const int64_t begin = turn * HEDDLE_PARTIAL;
  turn ^= 1;
  heddle_word<T> own = {0};
  own.value = value;
  if (within >= warp - points) heddle_partial(begin + lane / warp * points + point) = own.word;
  HEDDLE_UNIT_SYNC;
  T outside = first; /* of the warps before this one */
  all = first;
  for (int64_t next = 0; next < heddle_lanes / warp; next++) {
    if (next == lane / warp) outside = all;
    own.word = heddle_partial(begin + next * points + point);
    all = join(all, own.value);
  }
  return within < points ? outside : join(outside, before);
}

/* Elements of rows that the lanes of a block share, of at most 4 bytes each; a test holds them to `shared_bytes` of heddle-machine's tables. */
#define HEDDLE_ROW_WORDS 6144
HEDDLE_INLINE uint32_t &heddle_row_word(int64_t at) {
  HEDDLE_SHARED(uint32_t, words, HEDDLE_ROW_WORDS);
  return words[at];
}
template <class T> HEDDLE_INLINE T &heddle_row(int64_t at) {
  return *(T *)&heddle_row_word(at);
}

/* The descriptor of a matrix that begins with such a word, as tensor cores read it without swizzling (PTX ISA, "Matrix Descriptor
 * Format"): the address, and the bytes from 16 of a row to the next 16, and from eight rows to the next eight. All are multiples of 16,
 * of which 14 bits are kept. Eight rows of 16 bytes each are next to each other. */
HEDDLE_INLINE uint64_t heddle_matrix(int64_t at, uint32_t along, uint32_t below) {
  const uint64_t address = heddle_shared_address(&heddle_row_word(at));
  return (address >> 4 & 0x3fff) | (uint64_t)(along >> 4) << 16 | (uint64_t)(below >> 4) << 32;
}
