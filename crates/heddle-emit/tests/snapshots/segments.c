HEDDLE_PROGRAM(3, 2, 0, 2, 2);

/* line 2_ column 11 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, const int64_t *restrict b2, float *restrict b5, const int64_t v0, const int64_t v1, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  if (v1 - 1 <= 0) return;
  for (int64_t v2 = 0; v2 < (v1 - 1); v2++) {
    if (v2 % 32 == 0) {
      if (HEDDLE_UNLIKELY(heddle_poll(env))) return;
    }
    const int64_t t1 = b2[v2 + 1];
    const int64_t t2 = b2[v2];
    const int64_t t3 = heddle_at(env, site, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
    for (int64_t first = from; first < to;) {
      const int64_t rest = to - first;
      if (HEDDLE_LIKELY(rest >= 64)) {
        float sum[64];
        for (int64_t c = 0; c < 64; c++) sum[c] = 0;
        for (int64_t v4 = 0; v4 < t3; v4++) {
          HEDDLE_IN_ORDER;
          const int64_t t4 = ((t2 + v4) * 64);
          for (int64_t c = 0; c < 64; c++) {
            const int64_t v3 = first + c;
            sum[c] = sum[c] + b0[t4 + v3];
          }
        }
        for (int64_t c = 0; c < 64; c++) {
          const int64_t v3 = first + c;
          b5[(v2 * 64) + v3] = sum[c];
        }
        first += 64;
      } else if (rest >= 16) {
        float sum[16];
        for (int64_t c = 0; c < 16; c++) sum[c] = 0;
        for (int64_t v4 = 0; v4 < t3; v4++) {
          HEDDLE_IN_ORDER;
          const int64_t t4 = ((t2 + v4) * 64);
          for (int64_t c = 0; c < 16; c++) {
            const int64_t v3 = first + c;
            sum[c] = sum[c] + b0[t4 + v3];
          }
        }
        for (int64_t c = 0; c < 16; c++) {
          const int64_t v3 = first + c;
          b5[(v2 * 64) + v3] = sum[c];
        }
        first += 16;
      } else {
        float sum[16];
        for (int64_t c = 0; c < 16; c++) sum[c] = 0;
        for (int64_t v4 = 0; v4 < t3; v4++) {
          HEDDLE_IN_ORDER;
          const int64_t t4 = ((t2 + v4) * 64);
          for (int64_t c = 0; c < rest; c++) {
            const int64_t v3 = first + c;
            sum[c] = sum[c] + b0[t4 + v3];
          }
        }
        for (int64_t c = 0; c < rest; c++) {
          const int64_t v3 = first + c;
          b5[(v2 * 64) + v3] = sum[c];
        }
        first += rest;
      }
    }
  }
}

/* line 3_ column 11 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b1, const int64_t *restrict b2, float *restrict b6, const int64_t v0, const int64_t v1, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(v1 - 1, 1, worker, workers);
  const int64_t to = heddle_share(v1 - 1, 1, worker + 1, workers);
  if (from >= to) return;
  if (v1 - 1 <= 0) return;
  for (int64_t v2 = from; v2 < to; v2++) {
    if (v2 % 32 == 0) {
      if (HEDDLE_UNLIKELY(heddle_poll(env))) return;
    }
    const int64_t t1 = b2[v2 + 1];
    const int64_t t2 = b2[v2];
    const int64_t t3 = heddle_at(env, site, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
    float sum[64];
    for (int64_t c = 0; c < 64; c++) sum[c] = (-INFINITY);
    for (int64_t first = 0; first < t3; first += 64) {
      const int64_t rest = t3 - first;
      if (HEDDLE_LIKELY(rest >= 64)) {
        for (int64_t c = 0; c < 64; c++) {
          const int64_t v3 = first + c;
          sum[c] = heddle_max_f32(sum[c], b1[t2 + v3]);
        }
      } else {
        for (int64_t c = 0; c < rest; c++) {
          const int64_t v3 = first + c;
          sum[c] = heddle_max_f32(sum[c], b1[t2 + v3]);
        }
      }
    }
    for (int64_t c = 0; c < 32; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 32]);
    for (int64_t c = 0; c < 16; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 16]);
    for (int64_t c = 0; c < 8; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 8]);
    for (int64_t c = 0; c < 4; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 4]);
    for (int64_t c = 0; c < 2; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 2]);
    for (int64_t c = 0; c < 1; c++) sum[c] = heddle_max_f32(sum[c], sum[c + 1]);
    b6[v2] = sum[0];
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
  op0(env, worker, workers, b0, b2, b5, v0, v1, 0);
  {
    if (!(v1 > 0)) return heddle_fail(env, HEDDLE_SHAPE, 4, v1, 0);
  }
  {
    if (!(((v1 - 1) > 0) | (v0 == 0))) return heddle_fail(env, HEDDLE_SHAPE, 5, v1 - 1, v0);
  }
  op1(env, worker, workers, b1, b2, b6, v0, v1, 1);
  if (worker == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v1 - 1;
    env->outputs[0].dims[1] = 64;
    env->outputs[1].rank = 1;
    env->outputs[1].dims[0] = v1 - 1;
  }
  return heddle_poll(env);
}
