HEDDLE_PROGRAM(2, 1, 0, 0, 1);

/* Bytes of each block's shared memory for what stays there, and its array. */
HEDDLE_SYMBOL int64_t heddle_resident_bytes = 68608;
HEDDLE_RESIDENTS(17152);

/* Blocks of each cluster of a launch. */
HEDDLE_SYMBOL int64_t heddle_cluster_blocks = 4;

/* line 4_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b2) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_ON_CHIP(b2);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(256, 1, worker, workers);
  const int64_t to = heddle_share(256, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    heddle_store_ranks(b2, v2, b0[v2], 4);
  }
}

/* line 4_ column 8 */
HEDDLE_FUNCTION void resident1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1) {
  HEDDLE_GLOBAL(b1);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(256, 1, worker, workers);
  const int64_t to = heddle_share(256, 1, worker + 1, workers);
  const int32_t width = (int32_t)(to - from);
  HEDDLE_ROLLED_IN_PART
  for (int32_t i = (int32_t)heddle_lane; i < width * 256; i += (int32_t)heddle_lanes) {
    const int64_t v3 = i / width / 1, v2 = i / width % 1 * 256 + from + i % width;
    heddle_residents()[(i / width % 1 * width + i % width) * 260 + i / width / 1] = b1[(v3 * 256) + v2];
  }
}

/* line 4_ column 8 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b4) {
  HEDDLE_GLOBAL(b1);
  HEDDLE_ON_CHIP(b2);
  HEDDLE_ON_CHIP(b4);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(256, 1, worker, workers);
  const int64_t to = heddle_share(256, 1, worker + 1, workers);
  const int64_t groups = 32, group = heddle_lane % 32;
  const int64_t members = heddle_lanes / 32, member = heddle_lane / 32;
  const int64_t lead = 0; /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  int64_t turn = 0; /* of the memory for partial results */
  HEDDLE_UNIT_SYNC;
  HEDDLE_ROLLED
  for (int64_t round = from; round + lead < to; round += groups) {
    const bool some = round + group < to, holds = some && member == 0;
    const int64_t v2 = round + (some ? group : lead);
    (void)some;
    float v4 = 0;
    HEDDLE_ROLLED_IN_PART
    for (int64_t quad = member; quad < 256 / 4; quad += members) {
      heddle_quad first;
      heddle_quad second;
      {
        const int64_t v3 = quad * 4;
        (void)v3;
        first = heddle_load_quad(&b2[v3]);
        second = heddle_load_quad(&heddle_residents()[(v2 - from) * 260 + v3]);
      }
      for (int j = 0; j < 4; j++) {
        const int64_t v3 = quad * 4 + j;
        (void)v3;
        v4 = v4 + (first.v[j] * second.v[j]);
      }
    }
    {
      HEDDLE_HERE;
      v4 = heddle_over_unit<32>(v4, turn, [](float a, float b) -> float { return a + b; });
    }
    if (holds) {
      heddle_store_ranks(b4, v2, heddle_tanh_f32(v4), 4);
    }
  }
}

/* line 4_ column 8 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, float *__restrict__ b5) {
  HEDDLE_ON_CHIP(b2);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(256, 1, worker, workers);
  const int64_t to = heddle_share(256, 1, worker + 1, workers);
  if (from >= to) return;
  HEDDLE_ROLLED
  for (int64_t v2 = from + heddle_lane; v2 < to; v2 += heddle_lanes) {
    b5[v2] = b2[v2];
  }
}

HEDDLE_MAIN_TOGETHER {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* w */
  #define b2 ((float *)&heddle_residents()[swapped0 ? 16896 : 16640]) /* line 4_ column 8 */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 5_ column 25 */
  #define b4 ((float *)&heddle_residents()[swapped0 ? 16640 : 16896]) /* line 4_ column 8 */
  #define b5 ((float *)env->outputs[0].data) /* h */
  int64_t v0 = 0; /* iteration */
  int32_t swapped0 = 0; /* has a pair of arrays exchanged its memory? */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  if (workers != 4) return heddle_fail(env, HEDDLE_UNITS, 1, workers, 4);
  HEDDLE_RUN(resident1(env, worker, workers, b1));
  HEDDLE_UNIT_SYNC;
  HEDDLE_CLUSTER_SYNC;
  HEDDLE_RUN(op0(env, worker, workers, b0, b2));
  /* line 4_ column 8 */
  HEDDLE_ROLLED
  for (v0 = 0; v0 < 100; v0++) {
    HEDDLE_TRY(heddle_iteration(env, 2, v0));
    HEDDLE_CLUSTER_SYNC;
    HEDDLE_RUN(op1(env, worker, workers, b1, b2, b4));
    swapped0 ^= 1;
  }
  HEDDLE_UNIT_SYNC;
  HEDDLE_RUN(op2(env, worker, workers, b2, b5));
  HEDDLE_CLUSTER_SYNC;
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 1;
    env->outputs[0].dims[1] = 256;
  }
  return heddle_poll(env);
}
