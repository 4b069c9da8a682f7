HEDDLE_PROGRAM(1, 1, 0, 0, 1);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b2) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t round = from; round + lead < to; round += groups) {
    const bool some = round + group < to, holds = some && member == 0;
    const int64_t v0 = round + (some ? group : lead);
    (void)some;
    float sum = 0;
    HEDDLE_ROLLED
    for (int64_t next = 0; next < 64; next += members) {
      const bool exists = next + member < 64;
      const int64_t v1 = exists ? next + member : 64 - 1;
      const int64_t t1 = ((v0 * 64) + v1);
      const float own = exists ? b0[t1] : 0;
      float all = 0, before = 0;
      {
        HEDDLE_HERE;
        before = heddle_scan_warp<32>(own, before, all, [](float a, float b) -> float { return a + b; });
      }
      const float begun = sum + before;
      if (some && exists) {
        b2[t1] = begun + own;
      }
      sum = sum + all;
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b2 ((float *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 64;
    env->outputs[0].dims[1] = 64;
  }
  return heddle_poll(env);
}
