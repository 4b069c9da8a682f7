HEDDLE_PROGRAM(4, 1, 0, 1, 10);

/* line 2_ column 8 */
HEDDLE_OUTLINE void op0(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, const int64_t *restrict b3, float *restrict b4, const int64_t v0, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  const int64_t from = heddle_share(16, 1, worker, workers);
  const int64_t to = heddle_share(16, 1, worker + 1, workers);
  if (from >= to) return;
  const int64_t t1 = (heddle_at(env, site, b3[0], v0) * 16);
  for (int64_t v2 = from; v2 < to; v2++) {
    b4[v2] = b2[t1 + v2];
  }
}

/* line 8_ column 8 */
HEDDLE_OUTLINE void op1(const heddle_env *env, int32_t worker, int32_t workers, const float *restrict b2, const float *restrict b4, float *restrict b5, const int64_t v0, const int64_t v3, const uint32_t site) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  const int64_t t1 = (heddle_at(env, site, v3, v0) * 16);
  for (int64_t v2 = 0; v2 < 16; v2++) {
    b5[v2] = heddle_tanh_f32(b2[t1 + v2] + b4[v2]);
  }
}

/* line 8_ column 8 */
HEDDLE_OUTLINE void op2(const heddle_env *env, int32_t worker, int32_t workers, float *restrict b5, const float *restrict b6, const float *restrict b7) {
  (void)env, (void)worker, (void)workers;
  if (worker != 0) return;
  for (int64_t v2 = 0; v2 < 16; v2++) {
    b5[v2] = heddle_tanh_f32(b6[v2] - b7[v2]);
  }
}

/* What a unit keeps over a call. */
union heddle_kept {
  struct {
    int32_t back;
    int32_t first, worker, workers;
    uint8_t *frame;
    int64_t v6;
    float *b5;
    float *b6;
    float *b7;
  } c0;
  struct {
    int32_t back;
    int32_t first, worker, workers;
    uint8_t *frame;
    float *b5;
    float *b6;
    float *b7;
  } c1;
  struct {
    int32_t back;
  } c2;
};
HEDDLE_ASSERT(sizeof(union heddle_kept) == 56, "planned so");

HEDDLE_MAIN {
  const int64_t v0 = (int64_t)env->sizes[0]; /* n */
  const int64_t *b0 = (const int64_t *)env->inputs[0].data; /* l */
  const int64_t *b1 = (const int64_t *)env->inputs[1].data; /* r */
  const float *b2 = (const float *)env->inputs[2].data; /* x */
  const int64_t *b3 = (const int64_t *)env->inputs[3].data; /* root */
  float *b4 = (float *)(env->scratch + env->table[0]); /* line 2_ column 8 */
  float *b5 = (float *)0; /* result */
  float *b6 = (float *)0; /* line 11_ column 10 */
  float *b7 = (float *)0; /* line 12_ column 10 */
  float *b8 = (float *)(env->scratch + env->table[1]); /* line 2_ column 8 */
  float *b9 = (float *)env->outputs[0].data; /* y */
  int64_t v1 = 0; /* x */
  int64_t v3 = 0; /* n */
  uint8_t v4 = 0; /* x */
  int64_t v5 = 0; /* x */
  int64_t v6 = 0; /* x */
  int32_t back = 0;
  int64_t depth = 1;
  uint8_t *frame = env->scratch + env->table[5];
  union heddle_kept *top = (union heddle_kept *)(env->scratch + env->table[8] + worker * env->table[9]);
  int32_t first = 0; /* unit of the team, whose numbers begin there */
  (void)first;
  uint64_t epoch = 0; /* of waits for named units */
  (void)epoch;
  {
    if (!((v0 > 0) | 0)) return heddle_fail(env, HEDDLE_SHAPE, 3, v0, 1);
  }
  {
    v1 = b3[0];
  }
  op0(env, worker, workers, b2, b3, b4, v0, 0);
  /* line 2_ column 8 */
  HEDDLE_TRY(heddle_depth(env, 5, depth + 1));
  {
    int64_t a0;
    {
      a0 = v1;
    }
    float *p0 = (float *)b9;
    top->c2.back = back;
    v3 = a0;
    b5 = p0;
    top++, depth++, back = 2;
    goto proc0;
  }
  back2:;
  top--, depth--;
  back = top->c2.back;
  if (worker == 0) {
    env->outputs[0].rank = 1;
    env->outputs[0].dims[0] = 16;
  }
  return heddle_poll(env);
  
  /* f */
  proc0:;
  b6 = (float *)(frame + env->table[2]);
  b7 = (float *)(frame + env->table[3]);
  {
    if (!((v0 > 0) | 0)) return heddle_fail(env, HEDDLE_SHAPE, 6, v0, 1);
  }
  {
    if (!((v0 > 0) | 0)) return heddle_fail(env, HEDDLE_SHAPE, 7, v0, 1);
  }
  {
    v4 = b0[heddle_at(env, 8, v3, v0)] < 0;
  }
  if (v4) {
    {
      if (!((v0 > 0) | 0)) return heddle_fail(env, HEDDLE_SHAPE, 9, v0, 1);
    }
    HEDDLE_TRY(heddle_meet(env, first, workers));
    op1(env, worker, workers, b2, b4, b5, v0, v3, 1);
  } else {
    {
      v5 = b0[heddle_at(env, 10, v3, v0)];
    }
    {
      v6 = b1[heddle_at(env, 10, v3, v0)];
    }
    HEDDLE_TRY(heddle_meet(env, first, workers));
    /* line 11_ column 10 */
    if (heddle_takes_part(worker, workers, 0, 2)) {
      HEDDLE_TRY(heddle_depth(env, 11, depth + 1));
      {
        int64_t a0;
        {
          a0 = v5;
        }
        float *p0 = (float *)b6;
        top->c0.back = back;
        top->c0.v6 = v6;
        top->c0.b5 = b5;
        top->c0.b6 = b6;
        top->c0.b7 = b7;
        top->c0.first = first;
        top->c0.worker = worker;
        top->c0.workers = workers;
        top->c0.frame = frame;
        v3 = a0;
        b5 = p0;
        frame += env->table[4];
        const int32_t was_first = first;
        heddle_part(&first, &worker, &workers, 0, 2);
        if (first != was_first) frame = env->scratch + env->table[6] + (first - 1) * env->table[7];
        top++, depth++, back = 0;
        goto proc0;
      }
      back0:;
      top--, depth--;
      first = top->c0.first;
      worker = top->c0.worker;
      workers = top->c0.workers;
      frame = top->c0.frame;
      back = top->c0.back;
      v6 = top->c0.v6;
      b5 = top->c0.b5;
      b6 = top->c0.b6;
      b7 = top->c0.b7;
    }
    /* line 12_ column 10 */
    if (heddle_takes_part(worker, workers, 1, 2)) {
      HEDDLE_TRY(heddle_depth(env, 12, depth + 1));
      {
        int64_t a0;
        {
          a0 = v6;
        }
        float *p0 = (float *)b7;
        top->c1.back = back;
        top->c1.b5 = b5;
        top->c1.b6 = b6;
        top->c1.b7 = b7;
        top->c1.first = first;
        top->c1.worker = worker;
        top->c1.workers = workers;
        top->c1.frame = frame;
        v3 = a0;
        b5 = p0;
        frame += env->table[4];
        const int32_t was_first = first;
        heddle_part(&first, &worker, &workers, 1, 2);
        if (first != was_first) frame = env->scratch + env->table[6] + (first - 1) * env->table[7];
        top++, depth++, back = 1;
        goto proc0;
      }
      back1:;
      top--, depth--;
      first = top->c1.first;
      worker = top->c1.worker;
      workers = top->c1.workers;
      frame = top->c1.frame;
      back = top->c1.back;
      b5 = top->c1.b5;
      b6 = top->c1.b6;
      b7 = top->c1.b7;
    }
    HEDDLE_TRY(heddle_meet(env, first, workers));
    op2(env, worker, workers, b5, b6, b7);
  }
  switch (back) {
    case 0: goto back0;
    case 1: goto back1;
    default: goto back2;
  }
}
