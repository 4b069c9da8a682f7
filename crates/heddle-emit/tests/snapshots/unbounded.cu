HEDDLE_PROGRAM(2, 1, 0, 1, 2);

/* line 2_ column 15 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b0, float *__restrict__ b2, const int64_t v0) {
  HEDDLE_GLOBAL(b0);
  HEDDLE_GLOBAL(b2);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  if (v0 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t v4 = 0; v4 < v0; v4++) {
    HEDDLE_ROLLED
    for (int64_t v5 = 0 + heddle_lane; v5 < 4; v5 += heddle_lanes) {
      const int64_t t1 = ((v4 * 4) + v5);
      b2[t1] = b0[t1];
    }
  }
}

/* line 4_ column 10 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, float *__restrict__ b3, const int64_t v3, const int64_t v8) {
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  if (v8 <= 0) return;
  const int64_t t1 = heddle_max_i64(heddle_min_i64((-1) + v3, v3 - 1), 0);
  HEDDLE_ROLLED
  for (int64_t v4 = 0; v4 < v8; v4++) {
    const int64_t t2 = ((v4 + t1) * 4);
    HEDDLE_ROLLED
    for (int64_t v5 = 0 + heddle_lane; v5 < 4; v5 += heddle_lanes) {
      b3[(v4 * 4) + v5] = heddle_exp_f32(b2[t2 + v5]);
    }
  }
}

/* line 4_ column 10 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, float *__restrict__ b2, const float *__restrict__ b3, const int64_t v3, const int64_t v8) {
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  if (v8 <= 0) return;
  HEDDLE_ROLLED
  for (int64_t v4 = 0; v4 < v8; v4++) {
    HEDDLE_ROLLED
    for (int64_t v5 = 0 + heddle_lane; v5 < 4; v5 += heddle_lanes) {
      b2[((v3 + v4) * 4) + v5] = b3[(v4 * 4) + v5];
    }
  }
}

/* What is kept between two launches of a run. */
struct heddle_left {
  uint8_t v1;
  int64_t v2;
  int64_t v3;
  float v6;
  float v7;
  int64_t v8;
  int64_t v9;
  int64_t v10;
  float v11;
};
HEDDLE_ASSERT(sizeof(struct heddle_left) <= 192, "planned so");

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* m */
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const float *)env->inputs[1].data) /* rest */
  #define b2 ((float *)(env->segments + (env->slots[0] << env->slot_bits))) /* line 2_ column 15 */
  #define b3 ((float *)(env->scratch + env->table[0])) /* line 4_ column 10 */
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
  int64_t lacking = 0, left_at = 0; /* bytes, and where the program goes on */
  uint32_t lacking_site = 0;
  const void *lacking_place = 0;
  (void)lacking, (void)left_at, (void)lacking_site, (void)lacking_place;
  if (env->sync->point) goto resume;
  {
    {
      v1 = 1;
    }
    {
      v3 = v0;
    }
    {
      if (heddle_lacks(env, b2, heddle_times(heddle_times(4, v0), 4))) {
        left_at = 1, lacking_site = 0, lacking_place = b2, lacking = heddle_times(heddle_times(4, v0), 4);
        goto leave;
      }
    }
    left1:;
    HEDDLE_RUN(op0(env, worker, workers, b0, b2, v0));
    {
      v6 = b1[0];
    }
    {
      v7 = v6;
    }
    /* line 2_ column 15 */
    HEDDLE_ROLLED
    for (v2 = 0; v1; v2++) {
      HEDDLE_TRY(heddle_iteration(env, 7, v2));
      {
        v8 = heddle_min_i64(heddle_max_i64(heddle_min_i64(INT64_C(9223372036854775807), v3) - heddle_min_i64(heddle_max_i64((-1) + v3, 0), v3), 0), 1);
      }
      {
        v9 = v3 + v8;
      }
      HEDDLE_RUN(op1(env, worker, workers, b2, b3, v3, v8));
      {
        if (heddle_lacks(env, b2, heddle_times(heddle_times(4, v3 + v8), 4))) {
          left_at = 2, lacking_site = 2, lacking_place = b2, lacking = heddle_times(heddle_times(4, v3 + v8), 4);
          goto leave;
        }
      }
      left2:;
      HEDDLE_RUN(op2(env, worker, workers, b2, b3, v3, v8));
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
  }
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].data = b2;
    env->outputs[0].rank = 2;
    env->outputs[0].dims[0] = v3;
    env->outputs[0].dims[1] = 4;
  }
  return heddle_poll(env);
  
  leave:;
  if (worker == 0 && heddle_lane == 0) {
    const struct heddle_left left = {v1, v2, v3, v6, v7, v8, v9, v10, v11};
    *(struct heddle_left *)(env->scratch + env->table[1]) = left;
  }
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
  return heddle_leave(env, lacking_site, left_at, lacking_place, lacking);
  
  resume:;
  {
    const struct heddle_left *left = (const struct heddle_left *)(env->scratch + env->table[1]);
    (void)left;
    v1 = left->v1;
    v2 = left->v2;
    v3 = left->v3;
    v6 = left->v6;
    v7 = left->v7;
    v8 = left->v8;
    v9 = left->v9;
    v10 = left->v10;
    v11 = left->v11;
  }
  switch (env->sync->point) {
    case 1: goto left1;
    case 2: goto left2;
    default: return heddle_fail(env, HEDDLE_SEGMENT, 0, 0, 0);
  }
}
