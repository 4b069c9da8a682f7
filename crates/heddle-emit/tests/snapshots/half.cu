HEDDLE_PROGRAM(2, 1, 0, 0, 3);

/* line 2_ column 13 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *__restrict__ b0, float *__restrict__ b2) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(8, 1, worker, workers);
  const int64_t to = heddle_share(8, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v0 = from; v0 < to; v0++) {
    if (v0 % 32 == 0) {
    }
    HEDDLE_ROLLED
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
  HEDDLE_ROLLED
  for (int64_t v0 = from; v0 < to; v0++) {
    HEDDLE_ROLLED
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
  HEDDLE_UNIT_SYNC;
  const int64_t depth = 64;
  const int64_t first_row = 0;
  const int64_t last_row = 8;
  const int64_t first = 0;
  const int64_t last = 32;
  if (first < last && first_row < last_row) {
    const bool works = heddle_lane < 256;
    const int32_t lane = (int32_t)heddle_lane, own_row = lane / 32 * 1, own_column = lane % 32 * 1;
    HEDDLE_ROLLED
    for (int64_t row = first_row; row < last_row; row += 8) {
      HEDDLE_ROLLED
      for (int64_t start = first; start < last; start += 32) {
        float sum[1][1];
        HEDDLE_UNROLL
        for (int32_t i = 0; i < 1; i++) {
          HEDDLE_UNROLL
          for (int32_t j = 0; j < 1; j++) {
            sum[i][j] = 0;
          }
        }
        HEDDLE_ROLLED
        for (int64_t place = -8; place < depth; place += 8) {
          const int64_t ahead = place + 8;
          float next_a[1];
          float next_b[1];
          if (works && ahead < depth) {
            HEDDLE_UNROLL
            for (int32_t i = 0; i < 1; i++) {
              const int32_t at = lane + i * 256;
              const int32_t k = at % 8, p = at / 8;
              const int64_t v0 = row + p, v2 = ahead + k;
              next_a[i] = 0;
              if (k < 8 && p < 8 && v0 < last_row && v2 < depth) {
                next_a[i] = b2[(v0 * 64) + v2];
              }
            }
            HEDDLE_UNROLL
            for (int32_t i = 0; i < 1; i++) {
              const int32_t at = lane + i * 256;
              const int32_t k = at / 32, p = at % 32;
              const int64_t v1 = start + p, v2 = ahead + k;
              next_b[i] = 0;
              if (k < 8 && p < 32 && v1 < last && v2 < depth) {
                next_b[i] = b3[(v2 * 32) + v1];
              }
            }
          }
          if (works && place >= 0) {
            const int32_t now = (int32_t)(place / 8 % 2) * 384;
            HEDDLE_UNROLL
            for (int32_t k = 0; k < 8; k++) {
              float a[1];
              HEDDLE_UNROLL
              for (int32_t i = 0; i < 1; i++) {
                a[i] = heddle_row<float>(now + 0 + k * 12 + own_row + i);
              }
              float b[1];
              HEDDLE_UNROLL
              for (int32_t i = 0; i < 1; i++) {
                b[i] = heddle_row<float>(now + 96 + k * 36 + own_column + i);
              }
              HEDDLE_UNROLL
              for (int32_t i = 0; i < 1; i++) {
                HEDDLE_UNROLL
                for (int32_t j = 0; j < 1; j++) {
                  sum[i][j] = sum[i][j] + (a[i] * b[j]);
                }
              }
            }
          }
          if (works && ahead < depth) {
            const int32_t then = (int32_t)(ahead / 8 % 2) * 384;
            HEDDLE_UNROLL
            for (int32_t i = 0; i < 1; i++) {
              const int32_t at = lane + i * 256;
              const int32_t k = at % 8, p = at / 8;
              if (k < 8 && p < 8) heddle_row<float>(then + 0 + k * 12 + p) = next_a[i];
            }
            HEDDLE_UNROLL
            for (int32_t i = 0; i < 1; i++) {
              const int32_t at = lane + i * 256;
              const int32_t k = at / 32, p = at % 32;
              if (k < 8 && p < 32) heddle_row<float>(then + 96 + k * 36 + p) = next_b[i];
            }
          }
          HEDDLE_UNIT_SYNC;
        }
        if (works) {
          HEDDLE_UNROLL
          for (int32_t i = 0; i < 1; i++) {
            const int64_t v0 = row + own_row + i;
            if (v0 < last_row) {
              HEDDLE_UNROLL
              for (int32_t j = 0; j < 1; j++) {
                const int64_t v1 = start + own_column + j;
                if (v1 < last) {
                  const float v3 = sum[i][j];
                  b5[(v0 * 32) + v1] = heddle_store_f16(heddle_round_f16(heddle_tanh_f32(heddle_round_f16(v3))));
                }
              }
            }
          }
        }
      }
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const uint16_t *)env->inputs[0].data) /* x */
  #define b1 ((const uint16_t *)env->inputs[1].data) /* w */
  #define b2 ((float *)(env->scratch + env->table[0])) /* line 2_ column 13 */
  #define b3 ((float *)(env->scratch + env->table[1])) /* line 2_ column 13 */
  #define b4 ((float *)(env->scratch + env->table[2])) /* line 2_ column 13 */
  #define b5 ((uint16_t *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  HEDDLE_RUN(op1(env, worker, workers, b1, b3));
  epoch++;
  heddle_signal(env, worker, epoch);
  if (worker == 0 % workers) HEDDLE_TRY(heddle_wait_for_all(env, workers, epoch));
  HEDDLE_RUN(op2(env, worker, workers, b2, b3, b5));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 32;
  }
  return heddle_poll(env);
}
