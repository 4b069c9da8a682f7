HEDDLE_PROGRAM(1, 1, 2, 0, 1);

/* line 3_ column 8 */
static __device__ __noinline__ void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, const float *__restrict__ b3, float *__restrict__ b4) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(48, 16, worker, workers);
  const int64_t to = heddle_share(48, 16, worker + 1, workers);
  for (int64_t v0 = 0; v0 < 8; v0++) {
    for (int64_t v1 = from + heddle_lane; v1 < to; v1 += heddle_lanes) {
      if (v1 % 32 == 0) {
      }
      float v3 = 0;
      for (int64_t v2 = 0; v2 < 64; v2++) {
        v3 = v3 + (b0[(v0 * 64) + v2] * b3[(((heddle_div_i64(v1, 16) * 64) + v2) * 16) + heddle_mod_i64(v1, 16)]);
      }
      b4[(v0 * 48) + v1] = heddle_tanh_f32(v3);
    }
  }
}

HEDDLE_MAIN {
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  const float *b1 = (const float *)env->constants[0]; /* constant */
  float *b2 = (float *)(env->scratch + env->table[0]); /* line 3_ column 13 */
  const float *b3 = (const float *)env->constants[1]; /* constant */
  float *b4 = (float *)env->outputs[0].data; /* y */
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  op0(env, worker, workers, b0, b3, b4);
  if (worker == 0) {
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = 8;
    env->outputs[0].dims[1] = 48;
  }
  return heddle_poll(env);
}
