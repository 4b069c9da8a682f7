HEDDLE_PROGRAM(3, 2, 0, 0, 1);

/* line 3_ column 8 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, float *restrict b5) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(16, 1, worker, workers);
  const int64_t to = heddle_share(16, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = 0; v0 < 64; v0++) {
    for (int64_t v1 = from; v1 < to; v1++) {
      const int64_t t1 = ((v0 * 16) + v1);
      b5[t1] = b0[t1];
    }
  }
}

/* line 3_ column 8 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const int64_t *restrict b1, const float *restrict b2, float *restrict b5, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(16, 1, worker, workers);
  const int64_t to = heddle_share(16, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v1 = 0; v1 < 4; v1++) {
    const int64_t t1 = (heddle_at(env, site, b1[v1], 64) * 16);
    for (int64_t v0 = from; v0 < to; v0++) {
      b5[t1 + v0] = b2[(v1 * 16) + v0];
    }
  }
}

/* line 3_ column 8 */
HEDDLE_OUTLINE void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, const int64_t *restrict b1, float *restrict b4, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = from; v0 < to; v0++) {
    const int64_t t1 = (heddle_at(env, site, b1[v0], 64) * 16);
    for (int64_t v1 = 0; v1 < 16; v1++) {
      b4[(v0 * 16) + v1] = b0[t1 + v1];
    }
  }
}

HEDDLE_MAIN {
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  const int64_t *b1 = (const int64_t *)env->inputs[1].data; /* at */
  const float *b2 = (const float *)env->inputs[2].data; /* u */
  float *b3 = (float *)(env->scratch + env->table[0]); /* line 3_ column 8 */
  float *b4 = (float *)env->outputs[0].data; /* y */
  float *b5 = (float *)env->outputs[1].data; /* z */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  op0(env, worker, workers, b0, b5);
  op1(env, worker, workers, b1, b2, b5, 1);
  op2(env, worker, workers, b0, b1, b4, 2);
  if (worker == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 4;
    env->outputs[0].dims[1] = 16;
    env->outputs[1].rank = 2;
    env->outputs[1].dims[0] = 64;
    env->outputs[1].dims[1] = 16;
  }
  return heddle_poll(env);
}
