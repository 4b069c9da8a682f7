HEDDLE_PROGRAM(3, 2, 0, 2, 2);

/* line 2_ column 11 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const int64_t *__restrict__ b2, float *__restrict__ b5, const int64_t v0, const int64_t v1, const uint32_t site) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(64, 1, worker, workers);
  const int64_t to = heddle_share(64, 1, worker + 1, workers);
  const int64_t groups = 4, group = heddle_lane % 4;
  const int64_t members = heddle_lanes / 4, member = heddle_lane / 4;
  const int64_t lead = 0; /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  int64_t turn = 0; /* of the memory for partial results */
  HEDDLE_UNIT_SYNC;
  if (from >= to) return;
  if (v1 - 1 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t v2 = 0; v2 < (v1 - 1); v2++) {
    HEDDLE_ROLLED
    for (int64_t round = from; round + lead < to; round += groups) {
      const bool some = round + group < to, holds = some && member == 0;
      const int64_t v3 = round + (some ? group : lead);
      (void)some;
      const int64_t t1 = b2[v2 + 1];
      const int64_t t2 = b2[v2];
      const int64_t t3 = heddle_at(env, site, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
      float sum = 0;
      HEDDLE_ROLLED_IN_PART
      for (int64_t v4 = member; v4 < t3; v4 += members) {
        sum = sum + b0[((t2 + v4) * 64) + v3];
      }
      {
        HEDDLE_HERE;
        sum = heddle_over_unit<4>(sum, turn, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b5[(v2 * 64) + v3] = sum;
      }
    }
  }
}

/* line 3_ column 11 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b1, const int64_t *__restrict__ b2, float *__restrict__ b6, const int64_t v0, const int64_t v1, const uint32_t site) {
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b6);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  const int64_t groups = heddle_lanes / 8, group = heddle_lane / 8;
  const int64_t members = 8, member = heddle_lane % 8;
  const int64_t lead = group - group % (heddle_warp / 8); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  if (v1 - 1 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t round = 0; round + lead < (v1 - 1); round += groups) {
    const bool some = round + group < (v1 - 1), holds = some && member == 0;
    const int64_t v2 = round + (some ? group : lead);
    (void)some;
    const int64_t t1 = b2[v2 + 1];
    const int64_t t2 = b2[v2];
    const int64_t t3 = heddle_at(env, site, (((((b2[v2] >= 0) & (b2[v2] <= ((v2 == 0) ? 0 : t1))) & (b2[v2] <= t1)) & (t1 <= v0)) & (t1 >= (((v2 + 1) == (v1 - 1)) ? v0 : 0))) ? (t1 - t2) : (v0 + 1), v0 + 1);
    float sum = (-INFINITY);
    HEDDLE_ROLLED_IN_PART
    for (int64_t v3 = member; v3 < t3; v3 += members) {
      sum = heddle_max_f32(sum, b1[t2 + v3]);
    }
    {
      HEDDLE_HERE;
      sum = heddle_over_warp<8>(sum, [](float a, float b) -> float { return heddle_max_f32(a, b); });
    }
    if (holds) {
      b6[v2] = sum;
    }
  }
}

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* n */
  const int64_t v1 = (int64_t)env->sizes[1]; /* m */
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* y */
  #define b2 ((const int64_t *)env->inputs[2].data) /* offsets */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 2_ column 11 */
  #define b4 ((float *)(env->scratch + env->table[1])) /* line 3_ column 11 */
  #define b5 ((float *)env->outputs[0].data) /* sums */
  #define b6 ((float *)env->outputs[1].data) /* most */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    if (!(v1 > 0)) return heddle_fail(env, HEDDLE_SHAPE, 2, v1, 0);
  }
  {
    if (!(((v1 - 1) > 0) | (v0 == 0))) return heddle_fail(env, HEDDLE_SHAPE, 3, v1 - 1, v0);
  }
  HEDDLE_RUN(op0(env, worker, workers, b0, b2, b5, v0, v1, 0));
  {
    if (!(v1 > 0)) return heddle_fail(env, HEDDLE_SHAPE, 4, v1, 0);
  }
  {
    if (!(((v1 - 1) > 0) | (v0 == 0))) return heddle_fail(env, HEDDLE_SHAPE, 5, v1 - 1, v0);
  }
  HEDDLE_RUN(op1(env, worker, workers, b1, b2, b6, v0, v1, 1));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v1 - 1;
    env->outputs[0].dims[1] = 64;
    env->outputs[1].rank = 1;
    env->outputs[1].dims[0] = v1 - 1;
  }
  return heddle_poll(env);
}
