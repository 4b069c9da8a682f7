HEDDLE_PROGRAM(2, 1, 0, 1, 0);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, const int64_t v0) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(32, 1, worker, workers);
  const int64_t to = heddle_share(32, 1, worker + 1, workers);
  if (from >= to) return;
  if (v0 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t v1 = 0; v1 < v0; v1++) {
    HEDDLE_ROLLED
    for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
      const int64_t t1 = ((v1 * 32) + v2);
      b2[t1] = heddle_tanh_f32((b0[t1] * 2.0f) + b1[v2]);
    }
  }
}

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* n */
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* b */
  #define b2 ((float *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b1, b2, v0));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v0;
    env->outputs[0].dims[1] = 32;
  }
  return heddle_poll(env);
}
