HEDDLE_PROGRAM(1, 1, 0, 0, 1);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, int64_t *__restrict__ b2) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int64_t groups = heddle_lanes / 16, group = heddle_lane / 16;
  const int64_t members = 16, member = heddle_lane % 16;
  const int64_t lead = group - group % (heddle_warp / 16); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t round = from; round + lead < to; round += groups) {
    const bool some = round + group < to, holds = some && member == 0;
    const int64_t v0 = round + (some ? group : lead);
    (void)some;
    int64_t b3[1];
    {
      float best = (-INFINITY); int32_t place = INT32_MAX;
      HEDDLE_ROLLED_IN_PART
      for (int64_t v1 = member; v1 < 64; v1 += members) {
        const float x = b0[(v0 * 64) + v1], old = best;
        const int take = ((x > old) | ((x != x) & (old == old))) | (place == INT32_MAX);
        best = take ? x : old;
        place = take ? (int32_t)v1 : place;
      }
      const float own = best;
      {
        HEDDLE_HERE;
        best = heddle_over_warp<16>(best, [](float a, float b) -> float { return ((b > a) | ((b != b) & (a == a))) ? b : a; });
      }
      place = ((own == best) | ((own != own) & (best != best))) ? place : (int32_t)INT32_MAX;
      {
        HEDDLE_HERE;
        place = heddle_over_warp<16>(place, [](int32_t a, int32_t b) -> int32_t { return b < a ? b : a; });
      }
      b3[0] = place;
    }
    {
      if (holds) {
        b2[v0] = b3[0];
      }
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((int64_t *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b2 ((int64_t *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 64;
  }
  return heddle_poll(env);
}
