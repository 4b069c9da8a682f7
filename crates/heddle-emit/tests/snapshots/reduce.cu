HEDDLE_PROGRAM(1, 2, 0, 0, 2);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b3) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b3);
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
    float sum = 0;
    HEDDLE_ROLLED_IN_PART
    for (int64_t v1 = member; v1 < 64; v1 += members) {
      sum = sum + b0[(v0 * 64) + v1];
    }
    {
      HEDDLE_HERE;
      sum = heddle_over_warp<16>(sum, [](float a, float b) -> float { return a + b; });
    }
    if (holds) {
      b3[v0] = sum;
    }
  }
}

/* line 3_ column 8 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b4) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b4);
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
    float sum = (-INFINITY);
    HEDDLE_ROLLED_IN_PART
    for (int64_t v1 = member; v1 < 64; v1 += members) {
      sum = heddle_max_f32(sum, b0[(v1 * 64) + v0]);
    }
    {
      HEDDLE_HERE;
      sum = heddle_over_warp<32>(sum, [](float a, float b) -> float { return heddle_max_f32(a, b); });
    }
    if (holds) {
      b4[v0] = sum;
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b2 ((float *)(env->scratch + env->table[1])) /* line 3_ column 8 */
  #define b3 ((float *)env->outputs[0].data) /* y */
  #define b4 ((float *)env->outputs[1].data) /* z */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b3));
  HEDDLE_RUN(op1(env, heddle_from(worker, workers, 1), workers, b0, b4));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 64;
    env->outputs[1].rank = 1;
    env->outputs[1].dims[0] = 64;
  }
  return heddle_poll(env);
}
