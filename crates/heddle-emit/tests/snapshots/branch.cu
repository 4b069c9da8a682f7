HEDDLE_PROGRAM(3, 1, 0, 0, 2);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b5) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int32_t across = workers < 32 ? workers : 32;
  const int32_t along = workers / across;
  if (worker >= along * across) return;
  const int32_t row = worker / across, column = worker % across;
  const int64_t from = heddle_share(4, 1, row, along);
  const int64_t to = heddle_share(4, 1, row + 1, along);
  const int64_t from_across = heddle_share(64, 1, column, across);
  const int64_t to_across = heddle_share(64, 1, column + 1, across);
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  HEDDLE_ROLLED
  for (int64_t v1 = from; v1 < to; v1++) {
    HEDDLE_ROLLED
    for (int64_t round = from_across; round + lead < to_across; round += groups) {
      const bool some = round + group < to_across, holds = some && member == 0;
      const int64_t v2 = round + (some ? group : lead);
      (void)some;
      float v4 = 0;
      HEDDLE_ROLLED
      for (int64_t quad = member; quad < 64 / 4; quad += members) {
        heddle_quad first;
        {
          const int64_t v3 = quad * 4;
          (void)v3;
          first = heddle_load_quad(&b0[(v1 * 64) + v3]);
        }
        for (int j = 0; j < 4; j++) {
          const int64_t v3 = quad * 4 + j;
          (void)v3;
          v4 = v4 + (first.v[j] * b1[(v3 * 64) + v2]);
        }
      }
      {
        HEDDLE_HERE;
        v4 = heddle_over_warp<32>(v4, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b5[(v1 * 64) + v2] = v4;
      }
    }
  }
}

/* line 2_ column 8 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b5) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(4, 1, worker, workers);
  const int64_t to = heddle_share(4, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v1 = from; v1 < to; v1++) {
    HEDDLE_ROLLED
    for (int64_t v2 = 0 + heddle_lane; v2 < 64; v2 += heddle_lanes) {
      const int64_t t1 = ((v1 * 64) + v2);
      b5[t1] = -b0[t1];
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* w */
  #define b2 ((const uint8_t *)env->inputs[2].data) /* c */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b4 ((float *)(env->scratch + env->table[1])) /* line 2_ column 22 */
  #define b5 ((float *)env->outputs[0].data) /* y */
  uint8_t v0 = 0; /* x */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    v0 = b2[0];
  }
  if (v0) {
    HEDDLE_RUN(op0(env, worker, workers, b0, b1, b5));
  } else {
    HEDDLE_RUN(op1(env, worker, workers, b0, b5));
  }
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 4;
    env->outputs[0].dims[1] = 64;
  }
  return heddle_poll(env);
}
