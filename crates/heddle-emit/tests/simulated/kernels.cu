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
#endif
  if (own == 0) {
    int64_t sum = 0;
    for (int64_t i = 0; i < workers * heddle_lanes; i++) sum += out[i];
    out[0] = sum;
  }
  return heddle_poll(env);
}
