HEDDLE_PROGRAM(2, 1, 0, 0, 11);

/* line 6_ column 8 */
HEDDLE_FUNCTION void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, float *__restrict__ b3) {
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b3);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  HEDDLE_ROLLED
  for (int64_t v3 = 0 + heddle_lane; v3 < 64; v3 += heddle_lanes) {
    b3[v3] = heddle_exp_f32(b2[v3]);
  }
}

/* line 9_ column 10 */
HEDDLE_FUNCTION void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b2, float *__restrict__ b4) {
  HEDDLE_GLOBAL(b2);
  HEDDLE_GLOBAL(b4);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  HEDDLE_ROLLED
  for (int64_t v3 = 0 + heddle_lane; v3 < 64; v3 += heddle_lanes) {
    b4[v3] = b2[v3] * 0.5f;
  }
}

/* line 11_ column 14 */
HEDDLE_FUNCTION void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *__restrict__ b4, float *__restrict__ b6) {
  HEDDLE_GLOBAL(b4);
  HEDDLE_GLOBAL(b6);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  const int64_t groups = heddle_lanes / 32, group = heddle_lane / 32;
  const int64_t members = 32, member = heddle_lane % 32;
  const int64_t lead = group - group % (heddle_warp / 32); /* the warp's first group */
  (void)groups, (void)group, (void)lead;
  const bool some = group == 0, holds = some && member == 0;
  (void)some;
  float b10[1];
  {
    float sum = 0;
    HEDDLE_ROLLED_IN_PART
    for (int64_t v3 = member; v3 < 64; v3 += members) {
      sum = sum + b4[v3];
    }
    {
      HEDDLE_HERE;
      sum = heddle_over_warp<32>(sum, [](float a, float b) -> float { return a + b; });
    }
    b10[0] = sum;
  }
  {
    const float t1 = b10[0];
    HEDDLE_ROLLED
    for (int64_t v3 = member; v3 < 64; v3 += members) {
      if (some) {
        b6[v3] = b4[v3] - t1;
      }
    }
  }
}

/* line 6_ column 8 */
HEDDLE_FUNCTION void op3(const heddle_env *env, int32_t worker, int32_t workers, float *__restrict__ b3, const float *__restrict__ b4, const float *__restrict__ b7) {
  HEDDLE_GLOBAL(b3);
  HEDDLE_GLOBAL(b4);
  HEDDLE_GLOBAL(b7);
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  HEDDLE_ROLLED
  for (int64_t v3 = 0 + heddle_lane; v3 < 64; v3 += heddle_lanes) {
    b3[v3] = b7[v3] + b4[v3];
  }
}

/* What a unit keeps over a call. */
union heddle_kept {
  struct {
    int32_t back;
    float *b3;
    float *b4;
    float *b7;
  } c0;
  struct {
    int32_t back;
  } c1;
};
HEDDLE_ASSERT(sizeof(union heddle_kept) == 32, "planned so");

HEDDLE_MAIN {
  #define b0 ((const float *)env->inputs[0].data) /* x */
  #define b1 ((const int64_t *)env->inputs[1].data) /* n */
  float *b2 = (float *)0; /* x */
  float *b3 = (float *)0; /* result */
  float *b4 = (float *)0; /* line 9_ column 10 */
  float *b5 = (float *)0; /* line 10_ column 10 */
  float *b6 = (float *)0; /* line 11_ column 14 */
  float *b7 = (float *)0; /* line 11_ column 14 */
  #define b8 ((float *)(env->scratch + env->table[0])) /* line 2_ column 8 */
  #define b9 ((float *)env->outputs[0].data) /* y */
  int64_t v0 = 0; /* x */
  int64_t v1 = 0; /* n */
  uint8_t v2 = 0; /* x */
  int32_t back = 0;
  int64_t depth = 1;
  uint8_t *frame = env->scratch + env->table[6];
  union heddle_kept *const deep = (union heddle_kept *)(env->scratch + env->table[9] + worker * env->table[10]);
  HEDDLE_SHARED(union heddle_kept, heddle_stack, 128);
  #define heddle_level(depth) ((depth) <= 128 ? &heddle_stack[(depth) - 1] : deep + (depth) - 1)
  union heddle_kept *top = heddle_level(depth);
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    v0 = b1[0];
  }
  /* line 2_ column 8 */
  HEDDLE_TRY(heddle_depth(env, 5, depth + 1));
  {
    int64_t a0;
    {
      a0 = v0;
    }
    float *p0 = (float *)b0;
    float *p1 = (float *)b9;
    if (heddle_lane == 0) {
      top->c1.back = back;
    }
    v1 = a0;
    b2 = p0;
    b3 = p1;
    depth++, back = 1, top = heddle_level(depth);
    goto proc0;
  }
  back1:;
  depth--, top = heddle_level(depth);
  HEDDLE_UNIT_SYNC;
  back = top->c1.back;
  if (worker == 0 && heddle_lane == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 64;
  }
  return heddle_poll(env);
  
  /* f */
  proc0:;
  b4 = (float *)(frame + env->table[1]);
  b5 = (float *)(frame + env->table[2]);
  b6 = (float *)(frame + env->table[3]);
  b7 = (float *)(frame + env->table[4]);
  {
    v2 = v1 <= 0;
  }
  if (v2) {
    HEDDLE_UNIT_SYNC;
    HEDDLE_RUN(op0(env, worker, workers, b2, b3));
  } else {
    HEDDLE_UNIT_SYNC;
    HEDDLE_RUN(op1(env, worker, workers, b2, b4));
    HEDDLE_UNIT_SYNC;
    HEDDLE_RUN(op2(env, worker, workers, b4, b6));
    /* line 11_ column 14 */
    HEDDLE_TRY(heddle_depth(env, 7, depth + 1));
    {
      int64_t a0;
      {
        a0 = v1 - 1;
      }
      float *p0 = (float *)b6;
      float *p1 = (float *)b7;
      if (heddle_lane == 0) {
        top->c0.back = back;
        top->c0.b3 = b3;
        top->c0.b4 = b4;
        top->c0.b7 = b7;
      }
      v1 = a0;
      b2 = p0;
      b3 = p1;
      frame += env->table[5];
      depth++, back = 0, top = heddle_level(depth);
      goto proc0;
    }
    back0:;
    depth--, top = heddle_level(depth);
    HEDDLE_UNIT_SYNC;
    frame -= env->table[5];
    back = top->c0.back;
    b3 = top->c0.b3;
    b4 = top->c0.b4;
    b7 = top->c0.b7;
    HEDDLE_RUN(op3(env, worker, workers, b3, b4, b7));
  }
  switch (back) {
    case 0: goto back0;
    default: goto back1;
  }
}
