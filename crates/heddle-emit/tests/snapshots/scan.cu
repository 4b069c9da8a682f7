HEDDLE_PROGRAM(1, 1, 0, 0, 1);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b2) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v0 = from + heddle_lane; v0 < to; v0 += heddle_lanes) {
    float sum = 0;
    HEDDLE_ROLLED
    for (int64_t v1 = 0; v1 < 64; v1++) {
      const int64_t t1 = ((v0 * 64) + v1);
      sum = sum + b0[t1];
      b2[t1] = sum;
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
