HEDDLE_PROGRAM(1, 1, 0, 0, 1);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, int64_t *__restrict__ b2) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = from + heddle_lane; v0 < to; v0 += heddle_lanes) {
    if (v0 % 32 == 0) {
    }
    int64_t b3[1];
    {
      int32_t place[1]; float best[1];
      const int64_t width = 64 < 1 ? 64 : 1;
      for (int64_t c = 0; c < width; c++) {
        const int64_t v1 = c;
        best[c] = b0[(v0 * 64) + v1], place[c] = c;
      }
      for (int64_t first = 1; first < 64; first += 1) {
        for (int64_t c = 0; c < 1; c++) {
          const int64_t v1 = first + c;
          const float x = b0[(v0 * 64) + v1];
          const float old = best[c]; const int take = ((x > old) | ((x != x) & (old == old)));
          best[c] = take ? x : old;
          place[c] = take ? (int32_t)(first + c) : place[c];
        }
      }
      int64_t at = 0;
      for (int64_t c = 1; c < width; c++) {
        const float x = best[c], old = best[at];
        if (((x > old) | ((x != x) & (old == old))) | (((x == old) | ((x != x) & (old != old))) & (place[c] < place[at]))) at = c;
      }
      b3[0] = place[at];
    }
    {
      b2[v0] = b3[0];
    }
  }
}

HEDDLE_MAIN {
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  int64_t *b1 = (int64_t *)(env->scratch + env->table[0]); /* line 2_ column 8 */
  int64_t *b2 = (int64_t *)env->outputs[0].data; /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 64;
  }
  return heddle_poll(env);
}
