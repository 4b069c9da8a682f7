HEDDLE_PROGRAM(1, 2, 0, 0, 2);

/* line 2_ column 8 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, float *restrict b3) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = from; v0 < to; v0++) {
    if (v0 % 32 == 0) {
      if (HEDDLE_UNLIKELY(heddle_poll(env))) return;
    }
    float sum[64];
    for (int64_t c = 0; c < 64; c++) sum[c] = 0;
    for (int64_t first = 0; first < 64; first += 64) {
      for (int64_t c = 0; c < 64; c++) {
        const int64_t v1 = first + c;
        sum[c] = sum[c] + b0[(v0 * 64) + v1];
      }
    }
    for (int64_t c = 0; c < 32; c++) sum[c] = sum[c] + sum[c + 32];
    for (int64_t c = 0; c < 16; c++) sum[c] = sum[c] + sum[c + 16];
    for (int64_t c = 0; c < 8; c++) sum[c] = sum[c] + sum[c + 8];
    for (int64_t c = 0; c < 4; c++) sum[c] = sum[c] + sum[c + 4];
    for (int64_t c = 0; c < 2; c++) sum[c] = sum[c] + sum[c + 2];
    for (int64_t c = 0; c < 1; c++) sum[c] = sum[c] + sum[c + 1];
    b3[v0] = sum[0];
  }
}

/* line 3_ column 8 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, float *restrict b4) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t first = from; first < to;) {
    const int64_t rest = to - first;
    if (HEDDLE_LIKELY(rest >= 64)) {
      float sum[64];
      for (int64_t c = 0; c < 64; c++) sum[c] = (-INFINITY);
      for (int64_t v1 = 0; v1 < 64; v1++) {
        HEDDLE_IN_ORDER;
        for (int64_t c = 0; c < 64; c++) {
          const int64_t v0 = first + c;
          sum[c] = heddle_max_f32(sum[c], b0[(v1 * 64) + v0]);
        }
      }
      for (int64_t c = 0; c < 64; c++) {
        const int64_t v0 = first + c;
        b4[v0] = sum[c];
      }
      first += 64;
    } else if (rest >= 16) {
      float sum[16];
      for (int64_t c = 0; c < 16; c++) sum[c] = (-INFINITY);
      for (int64_t v1 = 0; v1 < 64; v1++) {
        HEDDLE_IN_ORDER;
        for (int64_t c = 0; c < 16; c++) {
          const int64_t v0 = first + c;
          sum[c] = heddle_max_f32(sum[c], b0[(v1 * 64) + v0]);
        }
      }
      for (int64_t c = 0; c < 16; c++) {
        const int64_t v0 = first + c;
        b4[v0] = sum[c];
      }
      first += 16;
    } else {
      float sum[16];
      for (int64_t c = 0; c < 16; c++) sum[c] = (-INFINITY);
      for (int64_t v1 = 0; v1 < 64; v1++) {
        HEDDLE_IN_ORDER;
        for (int64_t c = 0; c < rest; c++) {
          const int64_t v0 = first + c;
          sum[c] = heddle_max_f32(sum[c], b0[(v1 * 64) + v0]);
        }
      }
      for (int64_t c = 0; c < rest; c++) {
        const int64_t v0 = first + c;
        b4[v0] = sum[c];
      }
      first += rest;
    }
  }
}

HEDDLE_MAIN {
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  float *b1 = (float *)(env->scratch + env->table[0]); /* line 2_ column 8 */
  float *b2 = (float *)(env->scratch + env->table[1]); /* line 3_ column 8 */
  float *b3 = (float *)env->outputs[0].data; /* y */
  float *b4 = (float *)env->outputs[1].data; /* z */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  op0(env, worker, workers, b0, b3);
  op1(env, worker, workers, b0, b4);
  if (worker == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 64;
    env->outputs[1].rank = 1;
    env->outputs[1].dims[0] = 64;
  }
  return heddle_poll(env);
}
