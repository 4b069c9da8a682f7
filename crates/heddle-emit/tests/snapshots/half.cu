HEDDLE_PROGRAM(2, 1, 0, 0, 3);

/* line 2_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const uint16_t *__restrict__ b0, const uint16_t *__restrict__ b1, uint16_t *__restrict__ b5) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b5);
  (void)env, (void)worker, (void)workers;
  const int32_t across = workers < 16 ? workers : 16;
  const int32_t along = workers / across;
  if (worker >= along * across) return;
  const int32_t row = worker / across, column = worker % across;
  const int64_t from = heddle_share(8, 1, row, along);
  const int64_t to = heddle_share(8, 1, row + 1, along);
  const int64_t from_across = heddle_share(32, 1, column, across);
  const int64_t to_across = heddle_share(32, 1, column + 1, across);
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  HEDDLE_ROLLED
  for (int64_t v0 = from; v0 < to; v0++) {
    HEDDLE_ROLLED
    for (int64_t round = from_across; round + lead < to_across; round += groups) {
      const bool some = round + group < to_across, holds = some && member == 0;
      const int64_t v1 = round + (some ? group : lead);
      (void)some;
      float v3 = 0;
      HEDDLE_ROLLED_IN_PART
      for (int64_t v2 = member; v2 < 64; v2 += members) {
        v3 = v3 + (heddle_load_f16(b0[(v0 * 64) + v2]) * heddle_load_f16(b1[(v2 * 32) + v1]));
      }
      {
        HEDDLE_HERE;
        v3 = heddle_over_warp<32>(v3, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b5[(v0 * 32) + v1] = heddle_store_f16(heddle_round_f16(heddle_tanh_f32(heddle_round_f16(v3))));
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
  HEDDLE_RUN(op0(env, worker, workers, b0, b1, b5));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 32;
  }
  return heddle_poll(env);
}
