/* Forks. */

/* Assigns units to the concurrent calls of a fork; `part` of `parts` is this call. The team is
 * `*workers` units from number `*first` on, and this is number `*worker` of them. Team and calls
 * are halved until one unit or one call is left; one unit executes several remaining calls in
 * sequence. Returns true if this unit executes the call, and then sets the three to its team there. */
HEDDLE_INLINE int32_t heddle_part(int32_t *first, int32_t *worker, int32_t *workers, int32_t part,
                                  int32_t parts) {
  while (*workers > 1 && parts > 1) {
    int32_t half = *workers / 2, calls = parts / 2;
    if ((part < calls) != (*worker < half)) return 0;
    if (part < calls) {
      *workers = half, parts = calls;
    } else {
      *first += half, *worker -= half, *workers -= half;
      part -= calls, parts -= calls;
    }
  }
  return 1;
}

/* True if this unit of a team executes that call. */
HEDDLE_INLINE int32_t heddle_takes_part(int32_t worker, int32_t workers, int32_t part,
                                        int32_t parts) {
  int32_t first = 0;
  return heddle_part(&first, &worker, &workers, part, parts);
}
