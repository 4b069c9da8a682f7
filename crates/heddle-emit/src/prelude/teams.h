/* Where units part. */

/* Which part of a team goes to call number `part` of `parts` that run at the same time. The team is `*workers`
 * units from number `*first` on, and this is number `*worker` of them. Team and calls are halved until there is one
 * unit or one call; several calls that are left to one unit it makes one after the other. Returns
 * whether this unit goes there; then the three say what its team is there. */
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

/* Whether this unit of a team goes to that call. */
HEDDLE_INLINE int32_t heddle_takes_part(int32_t worker, int32_t workers, int32_t part,
                                        int32_t parts) {
  int32_t first = 0;
  return heddle_part(&first, &worker, &workers, part, parts);
}
