HEDDLE_PROGRAM(2, 1, 0, 1, 2);

/* line 2_ column 15 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b0, float *restrict b2, const int64_t v0) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  if (v0 <= 0) return;
  for (int64_t v4 = 0; v4 < v0; v4++) {
    for (int64_t v5 = from; v5 < to; v5++) {
      const int64_t t1 = ((v4 * 4) + v5);
      b2[t1] = b0[t1];
    }
  }
}

/* line 4_ column 10 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, float *restrict b3, const int64_t v3, const int64_t v8) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  if (v8 <= 0) return;
  const int64_t t1 = heddle_max_i64(heddle_min_i64((-1) + v3, v3 - 1), 0);
  for (int64_t v4 = 0; v4 < v8; v4++) {
    const int64_t t2 = ((v4 + t1) * 4);
    for (int64_t v5 = from; v5 < to; v5++) {
      b3[(v4 * 4) + v5] = heddle_exp_f32(b2[t2 + v5]);
    }
  }
}

/* line 4_ column 10 */
HEDDLE_OUTLINE void op2(const heddle_env *env, int32_t worker, int32_t workers, float *restrict b2, const float *restrict b3, const int64_t v3, const int64_t v8) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  if (v8 <= 0) return;
  for (int64_t v4 = 0; v4 < v8; v4++) {
    for (int64_t v5 = from; v5 < to; v5++) {
      b2[((v3 + v4) * 4) + v5] = b3[(v4 * 4) + v5];
    }
  }
}

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* m */
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  const float *b1 = (const float *)env->inputs[1].data; /* rest */
  float *b2 = (float *)(env->segments + (env->slots[0] << env->slot_bits)); /* line 2_ column 15 */
  float *b3 = (float *)(env->scratch + env->table[0]); /* line 4_ column 10 */
  uint8_t v1 = 0; /* go */
  int64_t v2 = 0; /* iteration */
  int64_t v3 = 0; /* size */
  float v6 = 0; /* x */
  float v7 = 0; /* carried */
  int64_t v8 = 0; /* size */
  int64_t v9 = 0; /* size */
  int64_t v10 = 0; /* next */
  float v11 = 0; /* next */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    v1 = 1;
  }
  {
    v3 = v0;
  }
  {
    HEDDLE_TRY(heddle_grow(env, 0, b2, heddle_times(heddle_times(4, v0), 4)));
  }
  op0(env, worker, workers, b0, b2, v0);
  {
    v6 = b1[0];
  }
  {
    v7 = v6;
  }
  /* line 2_ column 15 */
  for (v2 = 0; v1; v2++) {
    HEDDLE_TRY(heddle_iteration(env, 7, v2));
    {
      v8 = heddle_min_i64(heddle_max_i64(heddle_min_i64(INT64_C(9223372036854775807), v3) - heddle_min_i64(heddle_max_i64((-1) + v3, 0), v3), 0), 1);
    }
    {
      v9 = v3 + v8;
    }
    op1(env, worker, workers, b2, b3, v3, v8);
    {
      HEDDLE_TRY(heddle_grow(env, 2, b2, heddle_times(heddle_times(4, v3 + v8), 4)));
    }
    op2(env, worker, workers, b2, b3, v3, v8);
    {
      v1 = (v7 * 0.5f) > 1.0f;
    }
    {
      v10 = v9;
    }
    {
      v11 = v7 * 0.5f;
    }
    {
      v3 = v10;
    }
    {
      v7 = v11;
    }
  }
  if (worker == 0) {
    env->outputs[0].data = b2;
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v3;
    env->outputs[0].dims[1] = 4;
  }
  return heddle_poll(env);
}
