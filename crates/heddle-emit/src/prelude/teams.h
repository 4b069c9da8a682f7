/* Forks and teams. */

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

/* The first unit of a team, and the one behind its last: team `part` of `parts` of all units. With fewer units than teams, each is
 * one unit, and a unit is several. */
HEDDLE_INLINE int32_t heddle_team_first(int32_t workers, int32_t part, int32_t parts) {
  return (int32_t)((int64_t)workers * part / parts);
}
HEDDLE_INLINE int32_t heddle_team_end(int32_t workers, int32_t part, int32_t parts) {
  const int32_t first = heddle_team_first(workers, part, parts);
  const int32_t end = heddle_team_first(workers, part + 1, parts);
  return end > first ? end : first + 1;
}

/* The first and the last of the teams that this unit is in: one, where there are enough units. */
HEDDLE_INLINE int32_t heddle_first_team(int32_t worker, int32_t workers, int32_t parts) {
  const int32_t part = (int32_t)(((int64_t)worker * parts + workers - 1) / workers);
  const int32_t before = part == parts || heddle_team_first(workers, part, parts) > worker;
  return part - before;
}
HEDDLE_INLINE int32_t heddle_last_team(int32_t worker, int32_t workers, int32_t parts) {
  return (int32_t)(((int64_t)(worker + 1) * parts - 1) / workers);
}

/* True if this unit is one of that team. */
HEDDLE_INLINE int32_t heddle_is_in_team(int32_t worker, int32_t workers, int32_t part,
                                        int32_t parts) {
  return worker >= heddle_team_first(workers, part, parts) &&
         worker < heddle_team_end(workers, part, parts);
}

/* The first unit of the teams around those that this unit is in, and the one behind the last. */
HEDDLE_INLINE int32_t heddle_near_first(int32_t worker, int32_t workers, int32_t parts) {
  const int32_t part = heddle_first_team(worker, workers, parts);
  return heddle_team_first(workers, part > 0 ? part - 1 : 0, parts);
}
HEDDLE_INLINE int32_t heddle_near_end(int32_t worker, int32_t workers, int32_t parts) {
  const int32_t part = heddle_last_team(worker, workers, parts);
  return heddle_team_end(workers, part + 1 < parts ? part + 1 : part, parts);
}
