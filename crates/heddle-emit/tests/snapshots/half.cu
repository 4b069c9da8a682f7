HEDDLE_PROGRAM(2, 1, 0, 0, 3);

/* line 2_ column 13 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *__restrict__ b0, float *__restrict__ b2) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(8, 1, worker, workers);
  const int64_t to = heddle_share(8, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = from; v0 < to; v0++) {
    if (v0 % 32 == 0) {
    }
    for (int64_t v1 = 0 + heddle_lane; v1 < 64; v1 += heddle_lanes) {
      const int64_t t1 = ((v0 * 64) + v1);
      b2[t1] = heddle_load_f16(b0[t1]);
    }
  }
}

/* line 2_ column 13 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *__restrict__ b1, float *__restrict__ b3) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  for (int64_t v0 = from; v0 < to; v0++) {
    for (int64_t v1 = 0 + heddle_lane; v1 < 32; v1 += heddle_lanes) {
      const int64_t t1 = ((v0 * 32) + v1);
      b3[t1] = heddle_load_f16(b1[t1]);
    }
  }
}

/* line 2_ column 8 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, const float *__restrict__ b3, uint16_t *__restrict__ b5) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0 % workers) return;
  for (int64_t v0 = 0; v0 < 8; v0++) {
    for (int64_t v1 = 0 + heddle_lane; v1 < 32; v1 += heddle_lanes) {
      if (v1 % 32 == 0) {
      }
      float v3 = 0;
      for (int64_t v2 = 0; v2 < 64; v2++) {
        v3 = v3 + (b2[(v0 * 64) + v2] * b3[(v2 * 32) + v1]);
      }
      b5[(v0 * 32) + v1] = heddle_store_f16(heddle_round_f16(heddle_tanh_f32(heddle_round_f16(v3))));
    }
  }
}

HEDDLE_MAIN {
  const uint16_t *b0 = (const uint16_t *)env->inputs[0].data; /* x */
  const uint16_t *b1 = (const uint16_t *)env->inputs[1].data; /* w */
  float *b2 = (float *)(env->scratch + env->table[0]); /* line 2_ column 13 */
  float *b3 = (float *)(env->scratch + env->table[1]); /* line 2_ column 13 */
  float *b4 = (float *)(env->scratch + env->table[2]); /* line 2_ column 13 */
  uint16_t *b5 = (uint16_t *)env->outputs[0].data; /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  HEDDLE_RUN(op1(env, worker, workers, b1, b3));
  epoch++;
  heddle_signal(env, worker, epoch);
  if (worker == 0 % workers) for (int32_t u = 0; u < workers; u++) HEDDLE_TRY(heddle_wait(env, u, epoch));
  HEDDLE_RUN(op2(env, worker, workers, b2, b3, b5));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 32;
  }
  return heddle_poll(env);
}
