HEDDLE_PROGRAM(1, 1, 1, 0, 1);

/* line 3_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b3) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b1);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  const int32_t across = workers < 48 ? workers : 48;
  const int32_t along = workers / across;
  if (worker >= along * across) return;
  const int32_t row = worker / across, column = worker % across;
  const int64_t from = heddle_share(8, 1, row, along);
  const int64_t to = heddle_share(8, 1, row + 1, along);
  const int64_t from_across = heddle_share(48, 1, column, across);
  const int64_t to_across = heddle_share(48, 1, column + 1, across);
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
      HEDDLE_ROLLED
      for (int64_t quad = member; quad < 64 / 4; quad += members) {
        heddle_quad first;
        {
          const int64_t v2 = quad * 4;
          (void)v2;
          first = heddle_load_quad(&b0[(v0 * 64) + v2]);
        }
        for (int j = 0; j < 4; j++) {
          const int64_t v2 = quad * 4 + j;
          (void)v2;
          v3 = v3 + (first.v[j] * b1[(v2 * 48) + v1]);
        }
      }
      {
        HEDDLE_HERE;
        v3 = heddle_over_warp<32>(v3, [](float a, float b) -> float { return a + b; });
      }
      if (holds) {
        b3[(v0 * 48) + v1] = heddle_tanh_f32(v3);
      }
    }
  }
}

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->constants[0]) /* constant */
  #define b2 ((float *)(env->scratch + env->table[0])) /* line 3_ column 13 */
  #define b3 ((float *)env->outputs[0].data) /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  HEDDLE_RUN(op0(env, worker, workers, b0, b1, b3));
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 48;
  }
  return heddle_poll(env);
}
