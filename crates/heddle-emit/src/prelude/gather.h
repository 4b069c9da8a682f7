/* Arrays of which each block gathers what all of them compute. A number lies in one word beside the count of its gathering, so that who
 * finds the count there has the number: nothing is released or acquired. Words of even and odd counts lie apart. A block that gives numbers of a
 * count has taken all of the one before, for which every block had given some or said that it has none, and so had taken all of the one before that.
 * So nobody looks for the numbers any more that it overwrites. */

/* Gives a number to all blocks. */
#define heddle_give(place, count, number)                                                          \
  heddle_store_word((place), (uint64_t)(count) << 32 | heddle_bits(number))

/* Words that a lane looks at together. */
#define HEDDLE_TAKEN 8

/* Looks between two for errors. */
#define HEDDLE_GIVEN_LOOKS 16

/* Has the block no share of so many grains, of which block `first` has the first ones? Grains and blocks are below 2^16. */
HEDDLE_INLINE bool heddle_has_none(int32_t block, int32_t blocks, int32_t grains, int32_t first) {
  const uint32_t turn = (uint32_t)heddle_from(block, blocks, first), all = (uint32_t)blocks;
  return turn * (uint32_t)grains / all == (turn + 1) * (uint32_t)grains / all;
}

/* Says that a block without a share has come. */
HEDDLE_FUNCTION void heddle_come(uint64_t *come, uint32_t count, int32_t worker, int32_t workers,
                                 int32_t grains, int32_t first) {
  if (heddle_lane == 0 && heddle_has_none(worker, workers, grains, first))
    heddle_store_word(&come[worker], (uint64_t)count << 32);
}

/* Takes all numbers of a gathering to the block's own array, in any order, and waits for blocks that have none, if there are any: fewer grains
 * than blocks. Their words are behind those of numbers. The block's lanes see all numbers behind it. */
HEDDLE_FUNCTION int32_t heddle_gather(const heddle_env *env, const uint64_t *given, uint32_t count,
                                      float *to, int64_t numbers, const uint64_t *come, int32_t workers,
                                      int32_t grains, int32_t first) {
  HEDDLE_GLOBAL(given);
  HEDDLE_ON_CHIP(to);
  uint64_t begin = 0;
  int64_t at = heddle_lane;
  int32_t other = grains < workers ? (int32_t)heddle_lane : workers;
  for (uint32_t looks = 1;; looks++) {
    bool late = false;
    while (at < numbers) {
      uint64_t words[HEDDLE_TAKEN];
      HEDDLE_UNROLL
      for (int k = 0; k < HEDDLE_TAKEN; k++) {
        const int64_t place = at + k * heddle_lanes;
        words[k] = place < numbers ? heddle_load_word(&given[place]) : (uint64_t)count << 32;
      }
      HEDDLE_UNROLL
      for (int k = 0; k < HEDDLE_TAKEN; k++) late |= (uint32_t)(words[k] >> 32) != count;
      if (late) break;
      HEDDLE_UNROLL
      for (int k = 0; k < HEDDLE_TAKEN; k++) {
        const int64_t place = at + k * heddle_lanes;
        if (place < numbers) to[place] = heddle_from_bits((uint32_t)words[k]);
      }
      at += HEDDLE_TAKEN * heddle_lanes;
    }
    for (; other < workers && !late; other += (int32_t)heddle_lanes) {
      late = heddle_has_none(other, workers, grains, first) && heddle_load_word(&come[other]) >> 32 != count;
      if (late) break;
    }
    if (!heddle_unit_or(late)) return 0;
    if (looks % HEDDLE_GIVEN_LOOKS == 0) {
      int32_t code = 0;
      if (heddle_lane == 0) {
        code = heddle_awaited(env, looks, &begin);
        if (code) {
          int32_t missing = 0;
          while (missing + 1 < numbers && heddle_load_word(&given[missing]) >> 32 == count) missing++;
          heddle_waited(env, code, HEDDLE_WAITS_NUMBERS, missing, (int32_t)numbers, count);
        }
      }
      code = heddle_unit_or(code);
      if (code) return code;
    }
    heddle_pause();
  }
}

/* Clears words of numbers, each block of so many its part. */
HEDDLE_FUNCTION void heddle_clear_given(uint64_t *given, int64_t words, int32_t worker, int32_t workers) {
  const int64_t step = (int64_t)workers * heddle_lanes;
  for (int64_t i = (int64_t)worker * heddle_lanes + heddle_lane; i < words; i += step)
    heddle_store_word(&given[i], 0);
}

/* Before the first gathering: words of earlier launches are no numbers. */
#define HEDDLE_BEGIN_GATHERING(given, words)                                                       \
  do {                                                                                             \
    heddle_clear_given((given), (words), worker, workers);                                         \
    HEDDLE_TRY(heddle_barrier(env, worker, workers));                                              \
  } while (0)

/* The count of the next gathering of all blocks. When all counts have been used, they begin anew. */
#define HEDDLE_NEXT_GATHERING(count, given, words)                                                 \
  do {                                                                                             \
    if (++(count) == 0) {                                                                          \
      (count) = 1;                                                                                 \
      HEDDLE_TRY(heddle_barrier(env, worker, workers));                                            \
      HEDDLE_BEGIN_GATHERING(given, words);                                                        \
    }                                                                                              \
  } while (0)

/* The same of a team's blocks, which are numbered from 0 there. */
#define HEDDLE_NEXT_TEAM_GATHERING(count, given, words)                                            \
  do {                                                                                             \
    if (++(count) == 0) {                                                                          \
      (count) = 1;                                                                                 \
      HEDDLE_TRY(heddle_meet(env, one - worker, workers));                                         \
      heddle_clear_given((given), (words), worker, workers);                                       \
      HEDDLE_TRY(heddle_meet(env, one - worker, workers));                                         \
    }                                                                                              \
  } while (0)
