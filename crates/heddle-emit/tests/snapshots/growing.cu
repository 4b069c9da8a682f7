HEDDLE_PROGRAM(3, 1, 0, 2, 2);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b3, const int64_t v0) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  if (v0 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t v5 = 0; v5 < v0; v5++) {
    HEDDLE_ROLLED
    for (int64_t v6 = from + heddle_lane; v6 < to; v6 += heddle_lanes) {
      const int64_t t1 = ((v5 * 4) + v6);
      b3[t1] = b0[t1];
    }
  }
}

/* line 3_ column 10 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1, float *__restrict__ b3, const int64_t v3) {
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v6 = from + heddle_lane; v6 < to; v6 += heddle_lanes) {
    b3[(v3 * 4) + v6] = heddle_exp_f32(b1[v6]);
  }
}

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* m */
  const int64_t v1 = (int64_t)env->sizes[1]; /* input 2_0_ */
  const int64_t v4 = (int64_t)env->table[1]; /* by the plan */
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* row */
  #define b2 ((const int64_t *)env->inputs[2].data) /* n */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b4 ((float *)env->outputs[0].data) /* y */
  int64_t v2 = 0; /* iteration */
  int64_t v3 = 0; /* size */
  int64_t v7 = 0; /* size */
  int64_t v8 = 0; /* next */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    v3 = v0;
  }
  HEDDLE_RUN(op0(env, worker, workers, b0, b3, v0));
  /* line 2_ column 8 */
  HEDDLE_ROLLED
  for (v2 = 0; v2 < v1; v2++) {
    HEDDLE_TRY(heddle_iteration(env, 4, v2));
    {
      v7 = v3 + 1;
    }
    HEDDLE_RUN(op1(env, worker, workers, b1, b3, v3));
    {
      v8 = v7;
    }
    {
      v3 = v8;
    }
  }
  HEDDLE_RUN(op0(env, worker, workers, b3, b4, v3));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v3;
    env->outputs[0].dims[1] = 4;
  }
  return heddle_poll(env);
}
