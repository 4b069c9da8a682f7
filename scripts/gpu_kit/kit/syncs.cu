/* Micro-benchmarks of synchronisation in the words of Heddle's prelude, which stands before this text: the kernel is `heddle_run`, as in
 * emitted programs, so that the driver of our tests runs it, too. `table[0]` chooses, `table[1]` is the number of iterations;
 * `scratch` is zeros, 4 KiB for each block. The numbers are those of SYNCS in micro.py. */
#define WORD(block, lane) ((uint64_t *)env->scratch + (block) * 512 + (lane))

/* A value and the number of its iteration travel as one word, without a fence. */
#ifdef HEDDLE_SIM
#define STORE_RELAXED(word, value) heddle_store_release((word), (value))
#define LOAD_RELAXED(word) heddle_load_acquire(word)
#define LOOK_AGAIN heddle_pause()
#else
#define LOOK_AGAIN (void)0
static __device__ __forceinline__ void STORE_RELAXED(uint64_t *word, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}
static __device__ __forceinline__ uint64_t LOAD_RELAXED(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
#endif

/* Looks until a wait is given up: some seconds on a GPU. */
#define PATIENCE (1u << 23)

/* Waits in each lane until its word belongs to an iteration; one word carries 32 bits. */
HEDDLE_INLINE int32_t await_data(const heddle_env *env, const uint64_t *word, uint32_t iteration) {
  for (uint32_t looks = 0; (uint32_t)LOAD_RELAXED(word) != iteration; looks++) {
    if (looks == PATIENCE) return heddle_fail(env, HEDDLE_STUCK, 0, heddle_block, 0);
    LOOK_AGAIN;
  }
  return 0;
}

/* A barrier of all blocks by one release and one acquire, without a look at errors. */
HEDDLE_INLINE int32_t lean_barrier(const heddle_env *env, uint64_t target) {
  int32_t code = 0;
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) {
    heddle_arrive(&env->sync->arrived);
    for (uint32_t looks = 0; heddle_load_acquire(&env->sync->arrived) < target; looks++) {
      if (looks == PATIENCE) { code = heddle_fail(env, HEDDLE_STUCK, 0, heddle_block, 0); break; }
      LOOK_AGAIN;
    }
  }
  return heddle_unit_or(code);
}

HEDDLE_MAIN {
  const int64_t kind = env->table[0], count = env->table[1];
  for (int64_t i = 0; i < count; i++) {
    const uint64_t epoch = (uint64_t)i + 1;
    switch (kind) {
    case 0: /* the head of a loop */
      HEDDLE_TRY(heddle_iteration(env, 0, i));
      break;
    case 1: /* the barrier of emitted programs */
      HEDDLE_TRY(heddle_barrier(env, worker, workers));
      break;
    case 2: /* two waits of one block for one */
      if (worker < 2) {
        if (worker == 0) heddle_signal(env, worker, epoch);
        HEDDLE_TRY(heddle_wait(env, 1 - worker, epoch));
        if (worker == 1) heddle_signal(env, worker, epoch);
      }
      break;
    case 3: /* block 0 waits for all, one after the other; all wait for block 0 */
    case 5: /* all wait for block 0, which waits for the last block */
      if (worker == 0) {
        if (kind == 3)
          for (int32_t other = 1; other < workers; other++) HEDDLE_TRY(heddle_wait(env, other, epoch));
        if (kind == 5) HEDDLE_TRY(heddle_wait(env, workers - 1, epoch));
        heddle_signal(env, worker, epoch);
      } else {
        if (kind != 5 || worker == workers - 1) heddle_signal(env, worker, epoch);
        HEDDLE_TRY(heddle_wait(env, 0, epoch));
      }
      break;
    case 4: /* block 0 waits for all at once, its own signal among theirs; all wait for block 0 */
      heddle_signal(env, worker, 2 * epoch - 1);
      if (worker == 0) {
        HEDDLE_TRY(heddle_wait_for(env, 0, workers, 2 * epoch - 1));
        heddle_signal(env, worker, 2 * epoch);
      } else {
        HEDDLE_TRY(heddle_wait(env, 0, 2 * epoch));
      }
      break;
    case 6: /* two exchanges of a vector, one word a lane, between two blocks */
      if (worker < 2) {
        int32_t code = 0;
        if (worker == 1) code = await_data(env, WORD(0, heddle_lane), (uint32_t)epoch);
        HEDDLE_TRY(heddle_unit_or(code));
        STORE_RELAXED(WORD(worker, heddle_lane), (epoch << 40) | (uint32_t)epoch);
        if (worker == 0) code = await_data(env, WORD(1, heddle_lane), (uint32_t)epoch);
        HEDDLE_TRY(heddle_unit_or(code));
      }
      break;
    case 7: /* a barrier with as few fences as it needs */
      HEDDLE_TRY(lean_barrier(env, epoch * (uint64_t)workers));
      break;
    case 8: /* all blocks read one word of each other block: a barrier by flags in the data */
      STORE_RELAXED(WORD(worker, i % 2), epoch);
      for (int64_t other = heddle_lane; other < workers; other += heddle_lanes)
        if (await_data(env, WORD(other, i % 2), (uint32_t)epoch)) break;
      HEDDLE_TRY(heddle_poll(env));
      break;
    }
  }
  return 0;
}
