HEDDLE_PROGRAM(3, 2, 0, 2, 2);

/* line 2_ column 11 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const int64_t *__restrict__ b2, float *__restrict__ b5, const int64_t v0, const int64_t v1) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  if (v1 - 1 <= 0) return;
  for (int64_t v2 = 0; v2 < (v1 - 1); v2++) {
    for (int64_t v3 = from + heddle_lane; v3 < to; v3 += heddle_lanes) {
      if (v3 % 32 == 0) {
      }
      const int64_t t1 = b2[v2 + 1];
      const int64_t t2 = b2[v2];
      const int64_t t3 = heddle_at(env, 0, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
      float sum = 0;
      for (int64_t v4 = 0; v4 < t3; v4++) {
        sum = sum + b0[((t2 + v4) * 64) + v3];
      }
      b5[(v2 * 64) + v3] = sum;
    }
  }
}

/* line 3_ column 11 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1, const int64_t *__restrict__ b2, float *__restrict__ b6, const int64_t v0, const int64_t v1) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0 % workers) return;
  if (v1 - 1 <= 0) return;
  for (int64_t v2 = 0 + heddle_lane; v2 < (v1 - 1); v2 += heddle_lanes) {
    if (v2 % 32 == 0) {
    }
    const int64_t t1 = b2[v2 + 1];
    const int64_t t2 = b2[v2];
    const int64_t t3 = heddle_at(env, 1, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
    float sum = (-INFINITY);
    for (int64_t v3 = 0; v3 < t3; v3++) {
      sum = heddle_max_f32(sum, b1[t2 + v3]);
    }
    b6[v2] = sum;
  }
}

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* n */
  const int64_t v1 = (int64_t)env->sizes[1]; /* m */
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  const float *b1 = (const float *)env->inputs[1].data; /* y */
  const int64_t *b2 = (const int64_t *)env->inputs[2].data; /* offsets */
  float *b3 = (float *)(env->scratch + env->table[0]); /* line 2_ column 11 */
  float *b4 = (float *)(env->scratch + env->table[1]); /* line 3_ column 11 */
  float *b5 = (float *)env->outputs[0].data; /* sums */
  float *b6 = (float *)env->outputs[1].data; /* most */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    if (!(v1 > 0)) return heddle_fail(env, HEDDLE_SHAPE, 2, v1, 0);
  }
  {
    if (!(((v1 - 1) > 0) | (v0 == 0))) return heddle_fail(env, HEDDLE_SHAPE, 3, v1 - 1, v0);
  }
  HEDDLE_RUN(op0(env, worker, workers, b0, b2, b5, v0, v1));
  {
    if (!(v1 > 0)) return heddle_fail(env, HEDDLE_SHAPE, 4, v1, 0);
  }
  {
    if (!(((v1 - 1) > 0) | (v0 == 0))) return heddle_fail(env, HEDDLE_SHAPE, 5, v1 - 1, v0);
  }
  HEDDLE_RUN(op1(env, worker, workers, b1, b2, b6, v0, v1));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v1 - 1;
    env->outputs[0].dims[1] = 64;
    env->outputs[1].rank = 1;
    env->outputs[1].dims[0] = v1 - 1;
  }
  return heddle_poll(env);
}
