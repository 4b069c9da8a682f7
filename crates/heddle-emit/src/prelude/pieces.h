/* Shares in pieces, which units take one at a time: those of their own share first, then those of
 * the share with the most left.
 *
 * A share begins and ends with a piece; in between, pieces end at multiples of their size. `taken`
 * of unit `s` counts the pieces of share `s` that were taken, in the low half, in the phase of the
 * high half. A phase is an operator in pieces; all units count them alike. A count of an earlier
 * phase stands for no piece. One of a later phase stands for all of them: units go on only when no
 * piece is left. So nobody resets a count, and nobody waits. */
typedef struct heddle_pieces {
  int64_t count, grain, size; /* places of the axis, of which shares are multiples, of a piece */
  int32_t share, shares; /* this unit's own, of how many */
  uint32_t phase;
  int64_t from, to; /* the piece taken last */
} heddle_pieces;

/* Pieces of a share; the number of the first, counted from the beginning of the axis. */
HEDDLE_INLINE int64_t heddle_pieces_of(const heddle_pieces *p, int64_t share, int64_t *first) {
  const int64_t from = heddle_share(p->count, p->grain, share, p->shares);
  const int64_t to = heddle_share(p->count, p->grain, share + 1, p->shares);
  *first = from / p->size;
  return from < to ? (to + p->size - 1) / p->size - *first : 0;
}

/* Pieces of a share that were taken in this phase, by its counter. */
HEDDLE_INLINE int64_t heddle_taken(const heddle_pieces *p, uint64_t counter) {
  const int32_t ahead = (int32_t)((uint32_t)(counter >> 32) - p->phase);
  return ahead < 0 ? 0 : ahead > 0 ? INT64_MAX : (int64_t)(uint32_t)counter;
}

/* Takes the next piece of a share; 0 if none is left. */
HEDDLE_OUTLINE int32_t heddle_take_of(const heddle_env *env, heddle_pieces *p, int32_t share) {
  uint64_t *counter = &env->units[share].taken;
  uint64_t seen = __atomic_load_n(counter, __ATOMIC_RELAXED);
  int64_t first, taken;
  const int64_t pieces = heddle_pieces_of(p, share, &first);
  const uint64_t phase = (uint64_t)p->phase << 32;
  do {
    taken = heddle_taken(p, seen);
    if (taken >= pieces) return 0;
  } while (!__atomic_compare_exchange_n(counter, &seen, phase | (uint64_t)(taken + 1), 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  const int64_t begin = heddle_share(p->count, p->grain, share, p->shares);
  const int64_t end = heddle_share(p->count, p->grain, share + 1, p->shares);
  const int64_t from = (first + taken) * p->size, to = from + p->size;
  p->from = from > begin ? from : begin;
  p->to = to < end ? to : end;
  return 1;
}

/* Takes the next piece; 0 if none is left, or if the run stops. */
HEDDLE_OUTLINE int32_t heddle_take(const heddle_env *env, heddle_pieces *p) {
  if (heddle_poll(env)) return 0;
  if (heddle_take_of(env, p, p->share)) return 1;
  for (;;) {
    int64_t most = 0;
    int32_t other = 0;
    for (int32_t s = 0; s < p->shares; s++) {
      int64_t first;
      const uint64_t counter = __atomic_load_n(&env->units[s].taken, __ATOMIC_RELAXED);
      const int64_t left = heddle_pieces_of(p, s, &first) - heddle_taken(p, counter);
      if (left > most) most = left, other = s;
    }
    if (!most) return 0;
    if (heddle_take_of(env, p, other)) return 1;
  }
}
