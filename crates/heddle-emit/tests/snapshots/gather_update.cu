HEDDLE_PROGRAM(3, 2, 0, 0, 1);

/* line 3_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b5) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(16, 1, worker, workers);
  const int64_t to = heddle_share(16, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v0 = 0; v0 < 64; v0++) {
    HEDDLE_ROLLED
    for (int64_t v1 = from + heddle_lane; v1 < to; v1 += heddle_lanes) {
      const int64_t t1 = ((v0 * 16) + v1);
      b5[t1] = b0[t1];
    }
  }
}

/* line 3_ column 8 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const int64_t *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b5, const uint32_t site) {
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(16, 1, worker, workers);
  const int64_t to = heddle_share(16, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v0 = from + heddle_lane; v0 < to; v0 += heddle_lanes) {
    HEDDLE_ROLLED
    for (int64_t v1 = 0; v1 < 4; v1++) {
      b5[(heddle_at(env, site, b1[v1], 64) * 16) + v0] = b2[(v1 * 16) + v0];
    }
  }
}

/* line 3_ column 8 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const int64_t *__restrict__ b1, float *__restrict__ b4, const uint32_t site) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b4);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  HEDDLE_ROLLED
  for (int64_t v0 = 0; v0 < 4; v0++) {
    const int64_t t1 = (heddle_at(env, site, b1[v0], 64) * 16);
    HEDDLE_ROLLED
    for (int64_t v1 = 0 + heddle_lane; v1 < 16; v1 += heddle_lanes) {
      b4[(v0 * 16) + v1] = b0[t1 + v1];
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const int64_t *)env->inputs[1].data) /* at */
  #define b2 ((const float *)env->inputs[2].data) /* u */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 3_ column 8 */
  #define b4 ((float *)env->outputs[0].data) /* y */
  #define b5 ((float *)env->outputs[1].data) /* z */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b5));
  HEDDLE_RUN(op1(env, worker, workers, b1, b2, b5, 1));
  HEDDLE_RUN(op2(env, worker, workers, b0, b1, b4, 2));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 4;
    env->outputs[0].dims[1] = 16;
    env->outputs[1].rank = 2;
    env->outputs[1].dims[0] = 64;
    env->outputs[1].dims[1] = 16;
  }
  return heddle_poll(env);
}
