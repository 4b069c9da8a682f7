HEDDLE_PROGRAM(4, 1, 1, 0, 2);

/* Bytes of each block's shared memory for what stays there, and its array. */
HEDDLE_SYMBOL int64_t heddle_resident_bytes = 5120;
HEDDLE_RESIDENTS(1280);

/* line 3_ column 15 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b4, float *__restrict__ b5) {
  HEDDLE_GLOBAL(b4);
  HEDDLE_ON_CHIP(b5);
  (void)env, (void)worker, (void)workers;
  HEDDLE_ROLLED
  for (int64_t v2 = 0 + heddle_lane; v2 < 64; v2 += heddle_lanes) {
    b5[v2] = b4[v2];
  }
}

/* line 3_ column 15 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b4, float *__restrict__ b6) {
  HEDDLE_GLOBAL(b4);
  HEDDLE_ON_CHIP(b6);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    b6[v2] = b4[v2];
  }
}

/* line 5_ column 18 */
HEDDLE_FUNCTION void resident2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1) {
  HEDDLE_GLOBAL(b1);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int32_t width = (int32_t)(to - from);
  HEDDLE_ROLLED_IN_PART
  for (int32_t i = (int32_t)heddle_lane; i < width * 256; i += (int32_t)heddle_lanes) {
    const int64_t v3 = i / width / 4, v2 = i / width % 4 * 64 + from + i % width;
    heddle_residents()[(i / width % 4 * width + i % width) * 64 + i / width / 4] = b1[(v3 * 256) + v2];
  }
}

/* line 5_ column 18 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b7, const int64_t v0, const uint32_t site) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_ON_CHIP(b7);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  HEDDLE_ROLLED
  for (int64_t block = 0; block < 256; block += 64) {
    HEDDLE_ROLLED
    for (int64_t round = block + from; round + lead < block + to; round += groups) {
      const bool some = round + group < block + to, holds = some && member == 0;
      const int64_t v2 = round + (some ? group : lead);
      (void)some;
      float v4 = 0;
      HEDDLE_ROLLED_IN_PART
      for (int64_t quad = member; quad < 64 / 4; quad += members) {
        heddle_quad first;
        heddle_quad second;
        {
          const int64_t v3 = quad * 4;
          (void)v3;
          first = heddle_load_quad(&b0[(heddle_at(env, site, v0, 64) * 64) + v3]);
          second = heddle_load_quad(&heddle_residents()[(block / 64 * (to - from) + (v2 - block - from)) * 64 + v3]);
        }
        for (int j = 0; j < 4; j++) {
          const int64_t v3 = quad * 4 + j;
          (void)v3;
          v4 = v4 + (first.v[j] * second.v[j]);
        }
      }
      {
        HEDDLE_HERE;
        v4 = heddle_over_warp<32>(v4, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b7[v2] = v4;
      }
    }
  }
}

/* line 5_ column 10 */
HEDDLE_FUNCTION void resident3(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2) {
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int32_t width = (int32_t)(to - from);
  HEDDLE_ROLLED_IN_PART
  for (int32_t i = (int32_t)heddle_lane; i < width * 256; i += (int32_t)heddle_lanes) {
    const int64_t v3 = i / width / 4, v2 = i / width % 4 * 64 + from + i % width;
    heddle_residents()[256 + (i / width % 4 * width + i % width) * 64 + i / width / 4] = b2[(v3 * 256) + v2];
  }
}

/* line 5_ column 10 */
HEDDLE_FUNCTION void op3(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, const float *__restrict__ b3, const float *__restrict__ b5, const float *__restrict__ b7, float *__restrict__ b9) {
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b3);
  HEDDLE_ON_CHIP(b5);
  HEDDLE_ON_CHIP(b7);
  HEDDLE_ON_CHIP(b9);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  HEDDLE_ROLLED
  for (int64_t block = 0; block < 256; block += 64) {
    HEDDLE_ROLLED
    for (int64_t round = block + from; round + lead < block + to; round += groups) {
      const bool some = round + group < block + to, holds = some && member == 0;
      const int64_t v2 = round + (some ? group : lead);
      (void)some;
      float v5 = 0;
      HEDDLE_ROLLED_IN_PART
      for (int64_t quad = member; quad < 64 / 4; quad += members) {
        heddle_quad first;
        heddle_quad second;
        {
          const int64_t v3 = quad * 4;
          (void)v3;
          first = heddle_load_quad(&b5[v3]);
          second = heddle_load_quad(&heddle_residents()[256 + (block / 64 * (to - from) + (v2 - block - from)) * 64 + v3]);
        }
        for (int j = 0; j < 4; j++) {
          const int64_t v3 = quad * 4 + j;
          (void)v3;
          v5 = v5 + (first.v[j] * second.v[j]);
        }
      }
      {
        HEDDLE_HERE;
        v5 = heddle_over_warp<32>(v5, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b9[v2] = (b7[v2] + v5) + b3[v2];
      }
    }
  }
}

/* line 10_ column 10 */
HEDDLE_FUNCTION void op4(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b6, const float *__restrict__ b9, float *__restrict__ b10) {
  HEDDLE_ON_CHIP(b6);
  HEDDLE_ON_CHIP(b9);
  HEDDLE_ON_CHIP(b10);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    b10[v2] = (heddle_sigmoid_f32(b9[v2 + 64]) * b6[v2]) + (heddle_sigmoid_f32(b9[v2]) * heddle_tanh_f32(b9[v2 + 128]));
  }
}

/* line 3_ column 15 */
HEDDLE_FUNCTION void op5(const heddle_env *env, int32_t worker, int32_t workers, uint64_t *given, uint32_t count, const float *__restrict__ b9, const float *__restrict__ b10) {
  HEDDLE_ON_CHIP(b9);
  HEDDLE_ON_CHIP(b10);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    heddle_give(&given[v2], count, heddle_sigmoid_f32(b9[v2 + 192]) * heddle_tanh_f32(b10[v2]));
  }
}

/* line 3_ column 15 */
HEDDLE_FUNCTION void op6(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b5, float *__restrict__ b12) {
  HEDDLE_ON_CHIP(b5);
  HEDDLE_GLOBAL(b12);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    b12[v2] = b5[v2];
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* w */
  #define b2 ((const float *)env->inputs[2].data) /* u */
  #define b3 ((const float *)env->inputs[3].data) /* b */
  #define b4 ((const float *)env->constants[0]) /* constant */
  #define b5 ((float *)&heddle_residents()[swapped0 ? 1216 : 1152]) /* line 3_ column 15 */
  #define b6 ((float *)&heddle_residents()[swapped0 ? 576 : 512]) /* line 3_ column 15 */
  #define b7 ((float *)&heddle_residents()[640]) /* line 5_ column 18 */
  #define b8 ((float *)(env->scratch + env->table[0])) /* line 5_ column 32 */
  #define b9 ((float *)&heddle_residents()[896]) /* line 5_ column 10 */
  #define b10 ((float *)&heddle_residents()[swapped0 ? 512 : 576]) /* line 10_ column 10 */
  #define b11 ((float *)&heddle_residents()[swapped0 ? 1152 : 1216]) /* line 3_ column 15 */
  #define b12 ((float *)env->outputs[0].data) /* y */
  int64_t v0 = 0; /* iteration */
  int32_t swapped0 = 0; /* has a pair of arrays exchanged its memory? */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  if (workers != 132) return heddle_fail(env, HEDDLE_UNITS, 2, workers, 132);
  HEDDLE_RUN(resident2(env, worker, workers, b1));
  HEDDLE_RUN(resident3(env, worker, workers, b2));
  HEDDLE_UNIT_SYNC;
  uint64_t *const given = (uint64_t *)(env->scratch + env->table[1]);
  uint32_t gathering = 0;
  HEDDLE_BEGIN_GATHERING(given, 392);
  HEDDLE_RUN(op0(env, worker, workers, b4, b5));
  HEDDLE_RUN(op1(env, worker, workers, b4, b6));
  /* line 3_ column 15 */
  HEDDLE_ROLLED
  for (v0 = 0; v0 < 64; v0++) {
    HEDDLE_TRY(heddle_iteration(env, 6, v0));
    HEDDLE_RUN(op2(env, worker, workers, b0, b1, b7, v0, 2));
    HEDDLE_UNIT_SYNC;
    HEDDLE_RUN(op3(env, worker, workers, b2, b3, b5, b7, b9));
    HEDDLE_UNIT_SYNC;
    HEDDLE_RUN(op4(env, worker, workers, b6, b9, b10));
    HEDDLE_NEXT_GATHERING(gathering, given, 392);
    HEDDLE_RUN(op5(env, worker, workers, given + (gathering & 1) * 196, gathering, b9, b10));
    heddle_come(given + (gathering & 1) * 196 + 64, gathering, worker, workers, 64, 0);
    HEDDLE_TRY(heddle_gather(env, given + (gathering & 1) * 196, gathering, b11, 64, given + (gathering & 1) * 196 + 64, workers, 64, 0));
    swapped0 ^= 1;
  }
  HEDDLE_UNIT_SYNC;
  HEDDLE_RUN(op6(env, worker, workers, b5, b12));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 1;
    env->outputs[0].dims[1] = 64;
  }
  return heddle_poll(env);
}
