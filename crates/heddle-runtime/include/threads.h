/* The words of emitted CUDA text for sanitizers, included before it in the place of sim.h: each GPU thread is a thread of the operating
 * system, so that ThreadSanitizer sees which accesses a barrier, an atomic or a signal puts in order, and AddressSanitizer has a stack
 * for each.
 *
 * Threads run as the system has them: there is no seed, and no finding but the sanitizer's. What never ends is ended by the alarm of
 * threads.cc, which follows the text. Fences are parts of the atomics beside them, as ThreadSanitizer knows no others. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HEDDLE_SIM 1

namespace heddle_sim {

constexpr int MOST_NAMED = 16, MOST_SHARED = 32, MOST_WARP = 64;

/* A barrier of some lanes, with the bitwise or of a value in each. Meetings take turns between two locks: a lane that wakes late from one
 * takes a lock that nobody has released since, so that it is not in order behind what others have done between that meeting and the next. */
struct Barrier {
  struct Turn {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    uint32_t come = 0;
    int32_t vote = 0, all = 0;
  };
  Turn turns[2];
  /* Meetings so far; lanes that will come to no meeting any more. */
  uint64_t times = 0;
  uint32_t gone = 0;

  uint64_t now() const { return __atomic_load_n(&times, __ATOMIC_RELAXED); }

  /* The turn of the current meeting, locked, so that the meeting does not end. */
  Turn &open() {
    for (;;) {
      uint64_t mine = now();
      Turn &turn = turns[mine % 2];
      pthread_mutex_lock(&turn.lock);
      if (mine == now()) return turn;
      pthread_mutex_unlock(&turn.lock);
    }
  }

  /* Ends the meeting if all lanes have come that will. */
  void end(Turn &turn, uint32_t lanes) {
    if (turn.come == 0 || turn.come + __atomic_load_n(&gone, __ATOMIC_RELAXED) < lanes) return;
    turn.all = turn.vote, turn.vote = 0, turn.come = 0;
    __atomic_store_n(&times, now() + 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&turn.changed);
  }

  /* A lane ends, and the others wait for it no more. */
  void leave(uint32_t lanes) {
    Turn &turn = open();
    __atomic_fetch_add(&gone, 1, __ATOMIC_RELAXED);
    end(turn, lanes);
    pthread_mutex_unlock(&turn.lock);
  }

  int32_t meet(uint32_t lanes, int32_t value) {
    Turn &turn = open();
    uint64_t mine = now();
    turn.vote |= value, turn.come++;
    end(turn, lanes);
    while (mine == now()) pthread_cond_wait(&turn.changed, &turn.lock);
    /* The meeting after the next can't end before this lane has come to both. */
    int32_t result = turn.all;
    pthread_mutex_unlock(&turn.lock);
    return result;
  }
};

/* A warp exchanges a word of each lane; the words of one time are read while those of the next are written. */
struct Warp {
  Barrier barrier;
  uint64_t slots[2][MOST_WARP];
};

struct Block {
  Barrier barrier, named[MOST_NAMED];
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const void *shared_keys[MOST_SHARED] = {};
  void *shared[MOST_SHARED] = {};
  size_t shared_bytes[MOST_SHARED] = {};
  Warp *warps;
  /* Is its first lane in the program? A store to the shared memory of another block reads it, so that one before or after is a race. */
  bool is_there = false;
};

struct Grid {
  uint32_t blocks, threads, warp, cluster;
  Block *states;
  Barrier *clusters;
};

struct Lane {
  uint32_t block, lane;
  uint8_t parity;
};

static Grid grid;
static thread_local Lane self;

static Block &block() { return grid.states[self.block]; }

/* The barrier of this lane's cluster, and the lanes that meet there. */
static Barrier &cluster() { return grid.clusters[self.block / grid.cluster]; }
static uint32_t cluster_lanes() { return grid.cluster * grid.threads; }

/* Lanes of this one's warp. */
static uint32_t warp_lanes() {
  uint32_t first = self.lane / grid.warp * grid.warp;
  return grid.threads - first < grid.warp ? grid.threads - first : grid.warp;
}

static const uint64_t *exchange(uint64_t word) {
  Warp &warp = block().warps[self.lane / grid.warp];
  uint64_t *slots = warp.slots[self.parity ^= 1];
  slots[self.lane % grid.warp] = word;
  warp.barrier.meet(warp_lanes(), 0);
  return slots;
}

template <class T> static T shuffle(T value, int64_t from) {
  static_assert(sizeof(T) <= 8, "one word");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  memcpy(&value, &exchange(word)[(uint64_t)from % grid.warp], sizeof value);
  return value;
}

/* The number of lanes of this warp for which a condition holds. */
static uint32_t count(bool holds) {
  const uint64_t *words = exchange(holds);
  uint32_t number = 0;
  for (uint32_t i = 0; i < warp_lanes(); i++) number += words[i] != 0;
  return number;
}

/* The number of an array in a block, known by its declaration's key; -1: it has none yet. Nobody who looks one up waits for another one,
 * which would hide races. */
static int shared_number(const Block &of, const void *key) {
  for (int i = 0; i < MOST_SHARED; i++) {
    const void *found = __atomic_load_n(&of.shared_keys[i], __ATOMIC_ACQUIRE);
    if (found == key) return i;
    if (!found) return -1;
  }
  abort();
}

/* An array that a block shares, to the byte. Nothing is in it. */
static void *shared(Block &of, const void *key, size_t bytes) {
  int i = shared_number(of, key);
  if (i >= 0) return of.shared[i];
  pthread_mutex_lock(&of.lock);
  i = shared_number(of, key);
  if (i < 0) {
    for (i = 0; of.shared_keys[i]; i++)
      if (i + 1 == MOST_SHARED) abort();
    of.shared[i] = malloc(bytes), of.shared_bytes[i] = bytes;
    memset(of.shared[i], 0xff, bytes);
    __atomic_store_n(&of.shared_keys[i], key, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&of.lock);
  return of.shared[i];
}

template <class T, int64_t Count> struct Shared {
  T *elements;
  explicit Shared(const void *key) : elements((T *)shared(block(), key, sizeof(T) * Count)) {}
  T &operator[](int64_t at) const { return elements[at]; }
};

/* Stores to an element of an array at the same place of the shared memory of the cluster's first `ranks` blocks. */
static void store_ranks(float *array, int64_t at, float value, uint32_t ranks) {
  Block &own = block();
  const uint8_t *place = (const uint8_t *)(array + at);
  const void *key = nullptr;
  size_t offset = 0, bytes = 0;
  for (int i = 0; i < MOST_SHARED; i++) {
    const void *found = __atomic_load_n(&own.shared_keys[i], __ATOMIC_ACQUIRE);
    if (!found) break;
    size_t from = (size_t)(place - (const uint8_t *)own.shared[i]);
    if (from < own.shared_bytes[i]) key = found, offset = from, bytes = own.shared_bytes[i];
  }
  if (!key || ranks > grid.cluster) abort();
  for (uint32_t rank = 0; rank < ranks; rank++) {
    Block &other = grid.states[self.block / grid.cluster * grid.cluster + rank];
    if (&other != &own && !other.is_there) continue;
    *(float *)((uint8_t *)shared(other, key, bytes) + offset) = value;
  }
}

static uint64_t clock() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

} // namespace heddle_sim

#define HEDDLE_INLINE static inline
#define HEDDLE_COLD static inline __attribute__((noinline, unused))
#define HEDDLE_STATIC static
#define HEDDLE_FUNCTION static __attribute__((noinline, unused))
#define HEDDLE_SYMBOL extern "C" const
#define HEDDLE_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define HEDDLE_SHARED(type, name, count)                                                           \
  static const char name##_key = 0;                                                                \
  const heddle_sim::Shared<type, (count)> name(&name##_key)
/* Arrays of the host need not be aligned, those of a device are. */
struct heddle_quad {
  float v[4];
};
static inline heddle_quad heddle_load_quad(const float *place) {
  heddle_quad quad;
  memcpy(&quad, place, sizeof quad);
  return quad;
}
#define HEDDLE_RESIDENTS(words)                                                                    \
  static const char heddle_residents_key = 0;                                                      \
  static inline heddle_sim::Shared<float, (words)> heddle_residents() {                            \
    return heddle_sim::Shared<float, (words)>(&heddle_residents_key);                              \
  }                                                                                                \
  HEDDLE_ASSERT((words) > 0, "an array")
#define HEDDLE_GLOBAL(array) (void)(array)
#define HEDDLE_ON_CHIP(array) (void)(array)
#define HEDDLE_UNROLL
#define HEDDLE_ROLLED
#define HEDDLE_ROLLED_IN_PART
#define HEDDLE_KERNEL
#define HEDDLE_HERE (void)0

#define heddle_lane ((int64_t)heddle_sim::self.lane)
#define heddle_lanes ((int64_t)heddle_sim::grid.threads)
#define heddle_block ((int32_t)heddle_sim::self.block)
#define heddle_blocks ((int32_t)heddle_sim::grid.blocks)

#define heddle_unit_or(value) (heddle_sim::block().barrier.meet(heddle_sim::grid.threads, (value)) != 0)
#define HEDDLE_UNIT_SYNC ((void)heddle_unit_or(0))
#define heddle_named_sync(id, count)                                                               \
  ((void)heddle_sim::block().named[(id) % heddle_sim::MOST_NAMED].meet((uint32_t)(count), 0))
#define HEDDLE_CLUSTER_SYNC ((void)heddle_sim::cluster().meet(heddle_sim::cluster_lanes(), 0))
#define HEDDLE_CLUSTER_STAY HEDDLE_CLUSTER_SYNC
#define heddle_rank ((int32_t)(heddle_sim::self.block % heddle_sim::grid.cluster))
#define heddle_ranks ((int32_t)heddle_sim::grid.cluster)
#define heddle_store_ranks(array, at, value, ranks) heddle_sim::store_ranks((array), (at), (value), (ranks))
#define HEDDLE_WARP_SYNC ((void)heddle_sim::count(false))
#define heddle_warp ((int64_t)heddle_sim::grid.warp)
#define heddle_warp_any(value) (heddle_sim::count(value) > 0)
#define heddle_warp_all(value) (heddle_sim::count(value) == heddle_sim::warp_lanes())
#define heddle_shuffle(value, from) heddle_sim::shuffle((value), (from))

/* A copy is written at once, by its thread. */
#define heddle_copy_async(to, from, bytes) ((void)memcpy((to), (from), (bytes)))
#define heddle_copy_close() (void)0
#define heddle_copy_wait(groups) (void)(groups)

#define heddle_clock() heddle_sim::clock()
#define heddle_load_host(word) __atomic_load_n((word), __ATOMIC_RELAXED)
#define heddle_store_host(word, value) __atomic_store_n((word), (value), __ATOMIC_RELAXED)
#define heddle_pause() ((void)sched_yield())
#define heddle_fence() (void)0
#define heddle_fence_system() (void)0
#define heddle_load_relaxed(word) __atomic_load_n((word), __ATOMIC_RELAXED)
#define heddle_load_acquire(word) __atomic_load_n((word), __ATOMIC_ACQUIRE)
#define heddle_store_release(word, value) __atomic_store_n((word), (value), __ATOMIC_RELEASE)
#define heddle_load_word(word) __atomic_load_n((word), __ATOMIC_RELAXED)
#define heddle_store_word(word, value) __atomic_store_n((word), (value), __ATOMIC_RELAXED)
#define heddle_arrive(word) ((void)__atomic_fetch_add((word), 1, __ATOMIC_ACQ_REL))
#define heddle_add(word, value) __atomic_fetch_add((word), (uint64_t)(value), __ATOMIC_ACQ_REL)
static inline uint32_t heddle_swap_if(uint32_t *word, uint32_t expected, uint32_t value) {
  __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}

static inline uint32_t heddle_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float heddle_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define heddle_high(a, b) ((uint64_t)((unsigned __int128)(a) * (b) >> 64))
#define heddle_zeros(a) __builtin_clzll(a)
#define heddle_root(a) __builtin_sqrt(a)
