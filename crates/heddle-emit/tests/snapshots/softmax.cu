HEDDLE_PROGRAM(1, 1, 0, 0, 3);

/* line 4_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b4) {
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
  HEDDLE_UNIT_SYNC;
  HEDDLE_ROLLED
  for (int64_t round = from; round + lead < to; round += groups) {
    const bool some = round + group < to, holds = some && member == 0;
    const int64_t v0 = round + (some ? group : lead);
    (void)some;
    const int64_t b8 = group * 256;
    float b5[1];
    {
      float sum = (-INFINITY);
      HEDDLE_ROLLED_IN_PART
      for (int64_t v1 = member; v1 < 256; v1 += members) {
        sum = heddle_max_f32(sum, b0[(v0 * 256) + v1]);
      }
      {
        HEDDLE_HERE;
        sum = heddle_over_warp<32>(sum, [](float a, float b) -> float { return heddle_max_f32(a, b); });
      }
      b5[0] = sum;
    }
    {
      const float t1 = b5[0];
      HEDDLE_ROLLED
      for (int64_t v1 = member; v1 < 256; v1 += members) {
        heddle_row<float>(b8 + v1) = heddle_exp_f32(b0[(v0 * 256) + v1] - t1);
      }
    }
    float b7[1];
    {
      float sum = 0;
      HEDDLE_ROLLED_IN_PART
      for (int64_t v1 = member; v1 < 256; v1 += members) {
        sum = sum + heddle_row<float>(b8 + v1);
      }
      {
        HEDDLE_HERE;
        sum = heddle_over_warp<32>(sum, [](float a, float b) -> float { return a + b; });
      }
      b7[0] = sum;
    }
    {
      const float t1 = b7[0];
      HEDDLE_ROLLED
      for (int64_t v1 = member; v1 < 256; v1 += members) {
        if (some) {
          b4[(v0 * 256) + v1] = heddle_row<float>(b8 + v1) / t1;
        }
      }
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b2 ((float *)(env->scratch + env->table[1])) /* line 3_ column 8 */
  #define b3 ((float *)(env->scratch + env->table[2])) /* line 4_ column 16 */
  #define b4 ((float *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b4));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 64;
    env->outputs[0].dims[1] = 256;
  }
  return heddle_poll(env);
}
