/* Kernels by hand, in the words of the CUDA prelude: one is right, each of the others has one fault. */
HEDDLE_PROGRAM(0, 1, 0, 0, 0);

HEDDLE_MAIN {
  int64_t *out = (int64_t *)env->outputs[0].data;
  const int64_t own = worker * heddle_lanes + heddle_lane;
#if CASE == 0 /* right */
  HEDDLE_SHARED(int64_t, tile, 256);
  tile[heddle_lane] = heddle_lane;
  HEDDLE_UNIT_SYNC;
  out[own] = tile[heddle_lanes - 1 - heddle_lane] + heddle_shuffle(heddle_lane, 3);
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE == 1 /* a barrier under a condition on the lane */
  if (heddle_lane < 3) HEDDLE_UNIT_SYNC;
#elif CASE == 2 /* a barrier of more lanes than there are */
  if (worker == 1) heddle_named_sync(1, heddle_lanes + 32);
#elif CASE == 3 /* each block waits for the next one before it signals */
  HEDDLE_TRY(heddle_wait(env, (worker + 1) % workers, 1));
  heddle_signal(env, worker, 1);
#elif CASE == 4 /* no barrier between producers and consumer */
  out[own] = 1;
#elif CASE == 5 /* an element behind the end of a shared array */
  HEDDLE_SHARED(int64_t, tile, 8);
  tile[heddle_lane / 7] = 1;
#elif CASE == 6 /* right: many barriers */
  for (int64_t i = 0; i < 2000; i++) HEDDLE_TRY(heddle_barrier(env, worker, workers));
  out[own] = 1;
#elif CASE == 7 /* block 1 cancels the run, which else does not end */
  for (int64_t i = 0;; i++) {
    if (worker == 1 && i == 500) *(uint32_t *)env->cancel = 1;
    HEDDLE_TRY(heddle_iteration(env, 0, i));
    HEDDLE_TRY(heddle_barrier(env, worker, workers));
    if (own == 0) out[0] = i;
  }
#elif CASE == 8 /* the same after block 0 has ended */
  if (worker == 0) return heddle_poll(env);
  for (int64_t i = 0;; i++) {
    if (worker == 1 && i == 500) *(uint32_t *)env->cancel = 1;
    HEDDLE_TRY(heddle_iteration(env, 0, i));
    heddle_pause();
    if (worker == 2 && heddle_lane == 0) out[0] = i;
  }
#elif CASE == 9 /* if the limit is 7, block 2 leaves out one of three barriers */
  for (int64_t i = 0; i < 3; i++)
    if (worker != 2 || i != 1 || env->max_iterations != 7)
      HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE >= 10 && CASE <= 12 /* each block reads the other one's array; 11: before it is written; 12: block 2 does not come */
  HEDDLE_SHARED(int64_t, tile, 64);
  tile[heddle_lane] = 100 * worker + heddle_lane;
#if CASE != 11
  if (CASE == 10 || worker != 2) HEDDLE_CLUSTER_SYNC;
#endif
  const auto other = heddle_of_rank(tile, heddle_ranks - 1 - heddle_rank);
  out[own] = other[heddle_lanes - 1 - heddle_lane];
  HEDDLE_CLUSTER_SYNC; /* the array is read before its block ends */
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE >= 13 && CASE <= 15 /* a copy through shared memory; 14: not waited for; 15: its group is still on the way */
  HEDDLE_SHARED(int64_t, tile, 128);
  out[own] = own;
  HEDDLE_UNIT_SYNC;
  heddle_copy_async(&tile[heddle_lane], &out[own], 8);
  heddle_copy_close();
  if (heddle_lane % 2 == 0) heddle_copy_async(&tile[64 + heddle_lane], &out[own], 16);
  heddle_copy_close();
#if CASE == 13
  heddle_copy_wait(0);
#elif CASE == 15
  heddle_copy_wait(1);
#endif
  HEDDLE_UNIT_SYNC;
  const int64_t sum = tile[63 - heddle_lane] + tile[64 + heddle_lane];
  HEDDLE_UNIT_SYNC;
  out[own] = sum;
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE >= 16 && CASE <= 18 /* products of tensor cores, whose operands lose their last bits: what differs from the right one */
  const float more = 1 + 0x1p-13f; /* none of the types has that bit */
  const int lane = heddle_lane % 32, deep = CASE == 16 ? 8 : 16, wide = deep / 8;
  float a[CASE == 16 ? 4 : 8], b[CASE == 16 ? 2 : 4], d[4] = {1, 2, 3, 4};
  for (int i = 0; i < deep / 2; i++) {
    const int row = lane / 4 + i / wide % 2 * 8, k = i / (2 * wide) * 4 * wide + lane % 4 * wide + i % wide;
    a[i] = (float)((3 * row + 5 * k) % 11 - 5) * more;
    if (i < deep / 4) {
      const int at = i / wide * 4 * wide + lane % 4 * wide + i % wide;
      b[i] = (float)((7 * at + 2 * (lane / 4)) % 13 - 6) * more;
    }
  }
#if CASE == 16
  heddle_mma_tf32(d, a, b);
#elif CASE == 17
  heddle_mma_bf16(d, a, b);
#else
  heddle_mma_f16(d, a, b);
#endif
  int64_t wrong = 0;
  for (int i = 0; i < 4; i++) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    int sum = i + 1;
    for (int k = 0; k < deep; k++)
      sum += ((3 * row + 5 * k) % 11 - 5) * ((7 * k + 2 * column) % 13 - 6);
    wrong += d[i] != (float)sum;
  }
  out[own] = wrong;
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE >= 19 && CASE <= 26 /* the same by a warpgroup; 22: tensor cores may not see operands yet; 23: they are written too early; 24: sums may be
                    written; 25: half of the lanes do not come; 26: nobody waits */
  const float more = 1 + 0x1p-13f;
  const int lane = (int)heddle_lane, deep = CASE == 19 ? 8 : 16, run = deep / 2;
  float d[1][8] = {{1, 2, 3, 4, 5, 6, 7, 8}};
  for (int at = lane; at < 2 * (64 + 16); at += 128) {
    const int part = at / 80, p = at % 80;
    uint32_t word[4];
    for (int i = 0; i < 4; i++) {
      float x[2];
      for (int j = 0; j < 2; j++) {
        const int k = part * run + i * run / 4 + j;
        x[j] = (float)(p < 64 ? (3 * p + 5 * k) % 11 - 5 : (7 * k + 2 * (p - 64)) % 13 - 6) * more;
      }
#if CASE == 19
      word[i] = heddle_word_tf32(x[0]);
#elif CASE == 20
      word[i] = heddle_word_bf16(x[0], x[1]);
#else
      word[i] = heddle_word_f16(x[0], x[1]);
#endif
    }
    heddle_wgmma_share(&heddle_row_word((part * 80 + p) * 4), word[0], word[1], word[2], word[3]);
  }
  if (CASE != 22) heddle_wgmma_shared();
  HEDDLE_UNIT_SYNC;
  if (CASE != 24) heddle_wgmma_open();
  const uint64_t left = heddle_matrix(0, 80 * 16, 128), right = heddle_matrix(64 * 4, 80 * 16, 128);
#if CASE == 19
  heddle_wgmma_tf32(d[0], left, right);
#elif CASE == 20
  heddle_wgmma_bf16(d[0], left, right);
#elif CASE == 25
  if (lane < 64) heddle_wgmma_f16(d[0], left, right);
#else
  heddle_wgmma_f16(d[0], left, right);
#endif
  heddle_wgmma_close();
  if (CASE == 23) heddle_row_word(lane) = 0;
  if (CASE != 26) heddle_wgmma_wait(d);
  int64_t wrong = 0;
  for (int i = 0; i < 8; i++) {
    const int row = lane / 32 * 16 + i / 2 % 2 * 8 + lane % 32 / 4, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    int sum = i + 1;
    for (int k = 0; k < deep; k++)
      sum += ((3 * row + 5 * k) % 11 - 5) * ((7 * k + 2 * column) % 13 - 6);
    wrong += d[0][i] != (float)sum;
  }
  out[own] = wrong;
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#elif CASE >= 27 && CASE <= 31 /* blocks store to the copies of their cluster; 28: and read them at once; 29: of a larger cluster; 30: of a block that has ended; 31: or may not have begun */
  HEDDLE_SHARED(float, copy, 128);
  if (CASE != 31) HEDDLE_CLUSTER_SYNC;
  if (CASE == 30 && heddle_rank == 1) return 0;
  if (CASE == 30) HEDDLE_CLUSTER_SYNC; /* of those that have not ended */
  heddle_store_ranks(&copy[0], heddle_rank * 64 + heddle_lane, (float)own, CASE == 29 ? 3 : 2);
  if (CASE != 28) HEDDLE_CLUSTER_SYNC;
  out[own] = (int64_t)copy[(1 - heddle_rank) * 64 + heddle_lane];
  HEDDLE_TRY(heddle_barrier(env, worker, workers));
#endif
  if (own == 0) {
    int64_t sum = 0;
    for (int64_t i = 0; i < workers * heddle_lanes; i++) sum += out[i];
    out[0] = sum;
  }
  return heddle_poll(env);
}
