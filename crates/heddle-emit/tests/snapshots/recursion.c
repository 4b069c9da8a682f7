HEDDLE_PROGRAM(2, 1, 0, 0, 11);

/* line 6_ column 8 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, float *restrict b3) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  for (int64_t v3 = 0; v3 < 64; v3++) {
    b3[v3] = heddle_exp_f32(b2[v3]);
  }
}

/* line 9_ column 10 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, float *restrict b4) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  for (int64_t v3 = 0; v3 < 64; v3++) {
    b4[v3] = b2[v3] * 0.5f;
  }
}

/* line 11_ column 14 */
HEDDLE_OUTLINE void op2(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b4, float *restrict b6) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  float b10[1];
  {
    float sum[64];
    for (int64_t c = 0; c < 64; c++) sum[c] = 0;
    for (int64_t first = 0; first < 64; first += 64) {
      for (int64_t c = 0; c < 64; c++) {
        const int64_t v3 = first + c;
        sum[c] = sum[c] + b4[v3];
      }
    }
    for (int64_t c = 0; c < 32; c++) sum[c] = sum[c] + sum[c + 32];
    for (int64_t c = 0; c < 16; c++) sum[c] = sum[c] + sum[c + 16];
    for (int64_t c = 0; c < 8; c++) sum[c] = sum[c] + sum[c + 8];
    for (int64_t c = 0; c < 4; c++) sum[c] = sum[c] + sum[c + 4];
    for (int64_t c = 0; c < 2; c++) sum[c] = sum[c] + sum[c + 2];
    for (int64_t c = 0; c < 1; c++) sum[c] = sum[c] + sum[c + 1];
    b10[0] = sum[0];
  }
  {
    const float t1 = b10[0];
    for (int64_t v3 = 0; v3 < 64; v3++) {
      b6[v3] = b4[v3] - t1;
    }
  }
}

/* line 6_ column 8 */
HEDDLE_OUTLINE void op3(const heddle_env *env, int32_t worker, int32_t workers, float *restrict b3, const float *restrict b4, const float *restrict b7) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  for (int64_t v3 = 0; v3 < 64; v3++) {
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
  const float *b0 = (const float *)env->inputs[0].data; /* x */
  const int64_t *b1 = (const int64_t *)env->inputs[1].data; /* n */
  float *b2 = (float *)0; /* x */
  float *b3 = (float *)0; /* result */
  float *b4 = (float *)0; /* line 9_ column 10 */
  float *b5 = (float *)0; /* line 10_ column 10 */
  float *b6 = (float *)0; /* line 11_ column 14 */
  float *b7 = (float *)0; /* line 11_ column 14 */
  float *b8 = (float *)(env->scratch + env->table[0]); /* line 2_ column 8 */
  float *b9 = (float *)env->outputs[0].data; /* y */
  int64_t v0 = 0; /* x */
  int64_t v1 = 0; /* n */
  uint8_t v2 = 0; /* x */
  int32_t back = 0;
  int64_t depth = 1;
  uint8_t *frame = env->scratch + env->table[6];
  union heddle_kept *top = (union heddle_kept *)(env->scratch + env->table[9] + worker * env->table[10]);
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
    top->c1.back = back;
    v1 = a0;
    b2 = p0;
    b3 = p1;
    top++, depth++, back = 1;
    goto proc0;
  }
  back1:;
  top--, depth--;
  back = top->c1.back;
  if (worker == 0) {
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
    op0(env, worker, workers, b2, b3);
  } else {
    op1(env, worker, workers, b2, b4);
    op2(env, worker, workers, b4, b6);
    /* line 11_ column 14 */
    HEDDLE_TRY(heddle_depth(env, 7, depth + 1));
    {
      int64_t a0;
      {
        a0 = v1 - 1;
      }
      float *p0 = (float *)b6;
      float *p1 = (float *)b7;
      top->c0.back = back;
      top->c0.b3 = b3;
      top->c0.b4 = b4;
      top->c0.b7 = b7;
      v1 = a0;
      b2 = p0;
      b3 = p1;
      frame += env->table[5];
      top++, depth++, back = 0;
      goto proc0;
    }
    back0:;
    top--, depth--;
    frame -= env->table[5];
    back = top->c0.back;
    b3 = top->c0.b3;
    b4 = top->c0.b4;
    b7 = top->c0.b7;
    op3(env, worker, workers, b3, b4, b7);
  }
  switch (back) {
    case 0: goto back0;
    default: goto back1;
  }
}
