/* What an emitted program and the runtime know about each other.
 *
 * An emitted program is one C file. It states its counts with HEDDLE_PROGRAM and defines
 *
 *     int32_t heddle_main(const heddle_env *env, int32_t worker, int32_t workers);
 *
 * It has no mutable globals: several runs of it may go on at the same time.
 *
 * The runtime evaluates the program's memory plan for the sizes of a launch, before the first run and whenever a size
 * differs from the run before. The program finds in its environment:
 *   sizes    the named sizes of this launch, the number of workers, the depth limit
 *   table    the words that the plan says: offsets of buffers in scratch memory, derived sizes
 *   scratch  as many bytes as the plan says
 *   slots    where the plan's segments begin, of which heddle_grow commits what is used; the first bytes are
 *            committed. Segments are told apart by their addresses, so that names may be exchanged.
 *
 * heddle_main is called once on each of `workers` threads, with worker = 0 .. workers - 1, and all of
 * them run the same control flow. It returns 0 or an error code; a function that returns a non-zero
 * code must be left at once with that code (HEDDLE_TRY), because the other workers leave, too.
 * Other functions of the same type may be exported (HEDDLE_ENTRY) and dispatched by name.
 *
 * A program whose control flow the host runs, for comparison, defines heddle_host_main, too, which
 * one thread calls; its heddle_main does nothing.
 *
 * Scratch and outputs hold anything when a run starts. All data is aligned to 64 bytes, inputs and outputs to 8,
 * constants that the program takes at any address to 1.
 * This header is part of the key of cached programs. It uses atomics and no fences, so that
 * ThreadSanitizer understands it.
 */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <time.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sleeping uses the low half of counters");

#define HEDDLE_ALIGNED(bytes) _Alignas(bytes)

/* Decides on the team of a run: `crew`, the question. */
typedef int32_t heddle_decide(void *crew, int32_t ask);
/* Commits bytes of the segment that begins in a slot, in total; else an error code and its values. */
typedef int32_t heddle_commit(void *growth, int64_t slot, int64_t bytes, int64_t values[2]);
enum { HEDDLE_WAITED = 0, HEDDLE_TICK = 1, HEDDLE_CHANGE = 2 };
/* What heddle_main returns on a worker that left the team. */
#define HEDDLE_LEFT (-1)

/* The launch interface, from heddle-abi's schema.rs; HEDDLE_BLESS=1 in tests rewrites it. */
#define HEDDLE_ABI 7
#define HEDDLE_MAX_RANK 64

/* Error codes, with their two values. */
enum {
  HEDDLE_OK = 0,
  HEDDLE_CANCELLED = 1, /* no values */
  HEDDLE_TIMEOUT = 2, /* no values; raised by the runtime */
  HEDDLE_INDEX = 3, /* index, size of the axis */
  HEDDLE_SHAPE = 4, /* one size, the other that should agree with it */
  HEDDLE_DEPTH = 5, /* depth reached, limit */
  HEDDLE_ITERATIONS = 6, /* iterations done, limit */
  HEDDLE_BOUND = 7, /* size, the bound that was planned for it */
  HEDDLE_MEMORY = 8, /* bytes needed in all, the limit, or 0: the system refuses */
  HEDDLE_SEGMENT = 9, /* slot, bytes needed; raised by the runtime, and by a kernel that needs more of a segment */
  HEDDLE_STUCK = 10, /* block that waited longer than `watchdog`; no second value */
  HEDDLE_UNWATCHED = 11, /* no error: block 0 has ended, so that the others look at `cancel` themselves */
  HEDDLE_UNITS = 12, /* units of the launch, units that the program is scheduled for */
  HEDDLE_FIRST_CUSTOM = 256, /* from here on the program's own, any values */
};

/* Kinds of waits of a block. */
enum {
  HEDDLE_WAITS_NOTHING = 0,
  HEDDLE_WAITS_BARRIER = 1,
  HEDDLE_WAITS_SIGNAL = 2,
  HEDDLE_WAITS_MEETING = 3,
  HEDDLE_WAITS_ENDED = 4,
  HEDDLE_WAITS_NUMBERS = 5,
};

/* A row-major tensor without gaps. Dims beyond the rank are unspecified. */
typedef struct heddle_tensor {
  void *data; /* The first element. */
  int64_t dims[HEDDLE_MAX_RANK]; /* Sizes of the axes. */
  int32_t rank; /* Number of axes. */
  int32_t reserved; /* Keeps the size a multiple of 8. */
} heddle_tensor;

/* The first error of a run. Whoever turns the code non-zero, once, writes the rest. */
typedef struct heddle_error {
  uint32_t code; /* Zero, or the code of the first error. */
  uint32_t site; /* A row of the emitted program's site table. */
  int64_t values[2]; /* Details; their meaning depends on the code. */
} heddle_error;

/* One unit, a worker or a block, with what others wait for on lines of its own. All zero before a dispatch. */
typedef struct heddle_unit {
  HEDDLE_ALIGNED(128) uint64_t signalled; /* The last epoch signalled. */
  uint32_t sleepers; /* Workers asleep on it. */
  uint32_t pad[13]; /* Ends the line. */
  uint64_t round; /* Barriers that this unit has passed in this dispatch; nobody else looks at it. */
  uint64_t passed; /* Points passed in this dispatch at which the team may change. A block of a GPU sets it as it ends: it stores to no other one's memory any more. */
  uint64_t taken; /* Pieces of its share that were taken, and the phase in the high half. */
  uint64_t looked; /* Time at which a block looked at `cancel`. */
  uint64_t awaited; /* Number of the barrier, epoch or meeting that the block waited for as the run ended. */
  uint32_t line; /* Line of the program's text at which it waited; 0: at none. */
  uint32_t waits; /* The kind of the wait, one of `waits`. */
  int32_t first; /* The first block that it waited for. */
  int32_t count; /* The number of blocks that it waited for, from there on. */
  uint64_t pad_round; /* Ends the line. */
  uint64_t met; /* How often the team has met whose middle this unit is. */
  uint64_t come; /* Units of it that have come this time. */
  uint32_t asleep; /* Workers asleep on `met`. */
  int32_t slot; /* Number of the worker's own memory, by its number in the team at the start. */
  int32_t share[2]; /* Its number in the next team, or -1, for even and odd changes. By slot, as the next. */
  uint32_t ready; /* 1: it is ready to join; 2: it belongs to the next team. */
  uint32_t pad_met[23]; /* Ends the line. */
} heddle_unit;

/* The barrier of all units. All zero before a dispatch. */
typedef struct heddle_sync {
  HEDDLE_ALIGNED(128) uint64_t arrived; /* Arrivals in this dispatch. */
  uint64_t pad[15]; /* Ends the line. */
  uint32_t sleepers; /* Workers asleep on it. */
  uint32_t overdue; /* Not zero: a worker has waited longer than `patience`. */
  uint32_t pad_sleepers[30]; /* Ends the line. */
  uint64_t wanted; /* 0, or 1 while the next team is decided on, or 1 more than the point at which it takes over. */
  uint64_t tick; /* Not 0: the time at which the first of the team asks whether it should change. */
  uint32_t ended; /* Not 0: a worker has left the program, so that the team does not change any more. */
  uint32_t recalls; /* Not 0: workers were called to join. For the runtime. */
  uint32_t pad_wanted[26]; /* Ends the line. */
  uint64_t moved; /* Changes of the team. */
  uint32_t asleep; /* Workers asleep on it. */
  int32_t workers; /* Workers of the team. */
  int32_t next; /* Workers of the next one. */
  int32_t awaited; /* Workers of both, each counted once. */
  int32_t come; /* Workers that have come to the point of the change. */
  uint32_t point; /* The point's number in the program. */
  const void *state; /* The variables of the program there, for those that join. */
  uint64_t pad_moved[11]; /* Ends the line. */
} heddle_sync;

/* The environment of a launch. */
typedef struct heddle_env {
  const heddle_tensor *inputs; /* One for each input. */
  heddle_tensor *outputs; /* One for each output; the program sets dims and rank. */
  const void *const *constants; /* One pointer for each constant blob. */
  const int64_t *sizes; /* Named sizes, number of units, depth limit. */
  const int64_t *table; /* The words that the memory plan says. */
  uint8_t *scratch; /* Memory for everything that is neither input, output nor constant. */
  uint8_t *segments; /* The first slot of segments: memory that is committed as it is used. */
  const int64_t *slots; /* The first slot of each segment. */
  const int64_t *committed; /* Bytes of the segment that begins in each slot that may be used. */
  uint32_t slot_bits; /* Bytes of a slot, as a power of two. */
  uint32_t pad; /* Ends the word. */
  heddle_commit *grow; /* Commits more bytes of a segment; any worker, at any time. */
  void *growth; /* Its first argument. */
  heddle_sync *sync; /* The barrier of all units. */
  heddle_unit *units; /* One for each unit. */
  heddle_error *error; /* The first error. */
  const uint32_t *cancel; /* Not zero: stop. In the host's memory. */
  uint64_t watchdog; /* Nanoseconds that a block may wait for another one. */
  uint32_t *notes; /* For each block the line of the last operator that it began, of programs that note it. In the host's memory. */
  int64_t max_depth; /* The limit on recursion depth. */
  int64_t max_iterations; /* The limit on iterations of a loop. */
  uint32_t patience; /* Nanoseconds for which a waiting worker keeps its core, looking. */
  uint32_t yields; /* Yields of the core after that, before it sleeps. */
  heddle_decide *decide; /* Decides on the team; null: it never changes. */
  void *crew; /* Its first argument. */
  const void *arguments; /* Arguments of a task that the host dispatches. */
} heddle_env;

/* The counts of a program; once per program. */
typedef struct heddle_about {
  int64_t abi; /* The interface version that the program was compiled against. */
  int64_t inputs; /* Number of inputs. */
  int64_t outputs; /* Number of outputs. */
  int64_t constants; /* Number of constant blobs. */
  int64_t sizes; /* Number of named sizes. */
  int64_t table_len; /* Words of the launch table. */
} heddle_about;
/* The end of the launch interface. */

/* A function that all workers run. */
typedef int32_t heddle_task(const heddle_env *env, int32_t worker, int32_t workers);

/* For a host that runs the control flow itself: `dispatch` runs a task on all workers, which find
 * the arguments in their environment, and waits for them. */
typedef struct heddle_host {
  int32_t (*dispatch)(void *self, heddle_task *task, const void *arguments);
  void *self;
} heddle_host;

#define HEDDLE_EXPORT __attribute__((visibility("default"), used))

#define HEDDLE_PROGRAM(inputs, outputs, constants, sizes, table_len)                               \
  HEDDLE_EXPORT const int64_t heddle_table_len = (table_len);                                      \
  HEDDLE_EXPORT const heddle_about heddle_program = {HEDDLE_ABI, (inputs), (outputs),              \
                                                     (constants), (sizes), (table_len)}

#define HEDDLE_MAIN                                                                                \
  HEDDLE_EXPORT int32_t heddle_main(const heddle_env *env, int32_t worker, int32_t workers)
/* Replaces heddle_main if the host runs the control flow: called by one thread. */
#define HEDDLE_HOST_MAIN                                                                           \
  HEDDLE_EXPORT int32_t heddle_host_main(const heddle_env *env, const heddle_host *host)
/* The prefix avoids clashes with library names, which dlsym finds, too. */
#define HEDDLE_ENTRY(name)                                                                         \
  HEDDLE_EXPORT int32_t heddle_entry_##name(const heddle_env *env, int32_t worker, int32_t workers)

HEDDLE_EXPORT int32_t heddle_main(const heddle_env *env, int32_t worker, int32_t workers);

#define HEDDLE_INLINE static inline __attribute__((unused))
/* Not inlined: they have many callers in one long function, whose compilation time would grow. `inline`, since GCC without optimisation
 * translates static functions that nothing calls unless they are declared so, which takes a fifth of a small program's time. */
#define HEDDLE_OUTLINE static inline __attribute__((unused, noinline))
#define HEDDLE_COLD static inline __attribute__((unused, noinline, cold))
#if !defined(__clang__)
/* GCC takes `inline` and `noinline` together for a mistake. */
#pragma GCC diagnostic ignored "-Wattributes"
#endif
#define HEDDLE_LIKELY(x) __builtin_expect(!!(x), 1)
#define HEDDLE_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Leaves the function with the code of `call` if that is not zero. */
#define HEDDLE_TRY(call)                                                                           \
  do {                                                                                             \
    int32_t heddle_code_ = (call);                                                                 \
    if (HEDDLE_UNLIKELY(heddle_code_)) return heddle_code_;                                        \
  } while (0)

HEDDLE_INLINE void heddle_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

HEDDLE_INLINE void heddle_yield(void) {
#if defined(__linux__)
  sched_yield();
#else
  heddle_pause();
#endif
}

/* Between two steps that others may come between. Under ThreadSanitizer a worker lingers there now
 * and then, as one does whose core is taken. */
#if defined(__SANITIZE_THREAD__)
HEDDLE_COLD void heddle_linger(void) {
  static __thread uint32_t dice;
  dice = dice * 1664525 + 1013904223;
  for (uint32_t turns = dice >> 29 ? 0 : 20; turns; turns--) heddle_yield();
}
#else
HEDDLE_INLINE void heddle_linger(void) {}
#endif

/* Sleeps at most so many nanoseconds while the low half of `word` is `seen`. */
HEDDLE_COLD void heddle_sleep(uint64_t *word, uint32_t seen, long most) {
#if defined(__linux__)
  struct timespec bound = {0, most};
  syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, seen, &bound, NULL, 0);
#else
  (void)word;
  (void)seen;
  (void)most;
#endif
}

HEDDLE_COLD void heddle_wake(uint64_t *word) {
#if defined(__linux__)
  syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
#else
  (void)word;
#endif
}

/* Raises an error unless there is one; returns the code that stands. */
HEDDLE_COLD int32_t heddle_fail(const heddle_env *env, uint32_t code, uint32_t site, int64_t a,
                                int64_t b) {
  uint32_t standing = HEDDLE_OK;
  if (!__atomic_compare_exchange_n(&env->error->code, &standing, code, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return (int32_t)standing;
  env->error->site = site;
  env->error->values[0] = a;
  env->error->values[1] = b;
  heddle_wake(&env->sync->arrived);
  return (int32_t)code;
}

/* Not zero if the run stops: an error was raised, or the run was cancelled. To be called in every
 * iteration of a loop that has no barrier or wait in it. */
HEDDLE_INLINE int32_t heddle_poll(const heddle_env *env) {
  uint32_t code = __atomic_load_n(&env->error->code, __ATOMIC_RELAXED);
  if (HEDDLE_UNLIKELY(code)) return (int32_t)code;
  if (HEDDLE_UNLIKELY(__atomic_load_n(env->cancel, __ATOMIC_RELAXED)))
    return heddle_fail(env, HEDDLE_CANCELLED, 0, 0, 0);
  return 0;
}

/* The product of two sizes, or more bytes than there are if it overflows. */
HEDDLE_INLINE int64_t heddle_times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* The larger of two numbers of bytes. */
HEDDLE_INLINE int64_t heddle_most(int64_t a, int64_t b) { return a > b ? a : b; }

HEDDLE_COLD int32_t heddle_grow_slot(const heddle_env *env, uint32_t site, int64_t slot,
                                     int64_t bytes) {
  int64_t values[2] = {0, 0};
  int32_t code = env->grow(env->growth, slot, bytes, values);
  return code ? heddle_fail(env, (uint32_t)code, site, values[0], values[1]) : 0;
}

/* Commits bytes of a segment from a place in it on, and those before. All workers that write there
 * call it, in any order. */
HEDDLE_INLINE int32_t heddle_grow(const heddle_env *env, uint32_t site, const void *place,
                                  int64_t bytes) {
  int64_t at = (const uint8_t *)place - env->segments, slot = at >> env->slot_bits;
  int64_t before = at - (slot << env->slot_bits);
  int64_t committed = __atomic_load_n(&env->committed[slot], __ATOMIC_ACQUIRE);
  if (HEDDLE_LIKELY(bytes <= committed - before)) return 0;
  return heddle_grow_slot(env, site, slot, bytes > INT64_MAX - before ? INT64_MAX : bytes + before);
}

/* Nanoseconds on a clock that never goes back. */
HEDDLE_INLINE uint64_t heddle_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Begins a change of the team, unless one is under way: at the first point that nobody has passed.
 *
 * Who passes a point counts it and then looks at `wanted`; who begins a change writes `wanted` and then looks at the counts.
 * All four are sequentially consistent, so either this sees the count, or the other waits for the decision. */
HEDDLE_COLD void heddle_change(const heddle_env *env) {
  heddle_sync *sync = env->sync;
  uint64_t none = 0;
  if (!__atomic_compare_exchange_n(&sync->wanted, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    return;
  heddle_linger();
  uint64_t point = 0;
  int32_t awaited = env->decide(env->crew, HEDDLE_CHANGE);
  if (awaited) {
    int32_t workers = __atomic_load_n(&sync->workers, __ATOMIC_RELAXED);
    for (int32_t u = 0; u < workers; u++) {
      uint64_t passed = __atomic_load_n(&env->units[u].passed, __ATOMIC_SEQ_CST);
      if (passed > point) point = passed;
    }
    __atomic_store_n(&sync->awaited, awaited, __ATOMIC_RELAXED);
    point += 2;
  }
  __atomic_store_n(&sync->wanted, point, __ATOMIC_SEQ_CST);
}

/* Waits until `*word` is at least `target`: looks, then yields, then sleeps. Time spent on a core that
 * others want is lost: the awaited worker may be the one that needs it.
 *
 * A sleeper counts itself in `sleepers` before the kernel compares the word again, and who changes
 * the word looks at `sleepers` after that; all four are sequentially consistent, so one sees the other. */
HEDDLE_COLD int32_t heddle_await(const heddle_env *env, uint64_t *word, uint32_t *sleepers,
                                 uint64_t target) {
  uint64_t end = 0;
  for (uint32_t looks = 1; env->patience; looks++) {
    heddle_pause();
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) >= target) return heddle_poll(env);
    if (looks % 64) continue;
    HEDDLE_TRY(heddle_poll(env));
    /* Most waits are over before the first look at the clock. */
    uint64_t now = heddle_now();
    if (!end) end = now + env->patience;
    if (now >= end) break;
  }
  for (uint32_t i = 0; i < env->yields; i++) {
    heddle_yield();
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) >= target) return heddle_poll(env);
    HEDDLE_TRY(heddle_poll(env));
  }
  int32_t code = 0;
  __atomic_store_n(&env->sync->overdue, 1, __ATOMIC_RELAXED);
  /* Now, since this worker has nothing else to do. */
  if (env->decide && env->decide(env->crew, HEDDLE_WAITED)) heddle_change(env);
  __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    uint64_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    if (seen >= target) break;
    code = heddle_poll(env);
    if (code) break;
    /* The bound makes a flag that is set without a wake-up (cancellation) noticed in time. */
    heddle_sleep(word, (uint32_t)seen, 2000000);
  }
  __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
  return code ? code : heddle_poll(env);
}

/* Barrier of all workers. Earlier writes of any worker are visible to all after it. */
HEDDLE_OUTLINE int32_t heddle_barrier(const heddle_env *env, int32_t worker, int32_t workers) {
  if (workers == 1) return heddle_poll(env);
  heddle_sync *sync = env->sync;
  uint64_t target = ++env->units[worker].round * (uint64_t)workers;
  int32_t is_last = __atomic_add_fetch(&sync->arrived, 1, __ATOMIC_SEQ_CST) >= target;
  heddle_linger();
  if (is_last) {
    if (HEDDLE_UNLIKELY(__atomic_load_n(&sync->sleepers, __ATOMIC_SEQ_CST)))
      heddle_wake(&sync->arrived);
    return heddle_poll(env);
  }
  return heddle_await(env, &sync->arrived, &sync->sleepers, target);
}

/* Signals `epoch` to the workers that wait for this one. Epochs of one worker only grow during a
 * dispatch and start above 0. Its earlier writes are visible to the waiters afterwards. */
HEDDLE_OUTLINE void heddle_signal(const heddle_env *env, int32_t worker, uint64_t epoch) {
  heddle_unit *unit = &env->units[worker];
  __atomic_exchange_n(&unit->signalled, epoch, __ATOMIC_SEQ_CST);
  if (HEDDLE_UNLIKELY(__atomic_load_n(&unit->sleepers, __ATOMIC_SEQ_CST)))
    heddle_wake(&unit->signalled);
}

/* Waits until worker `other` has signalled `epoch` or a later one. */
HEDDLE_OUTLINE int32_t heddle_wait(const heddle_env *env, int32_t other, uint64_t epoch) {
  heddle_unit *unit = &env->units[other];
  if (__atomic_load_n(&unit->signalled, __ATOMIC_ACQUIRE) >= epoch) return heddle_poll(env);
  return heddle_await(env, &unit->signalled, &unit->sleepers, epoch);
}

/* Waits until all of a team have come here. What any of them wrote before is seen by all after.
 *
 * The barrier is that of the worker in the team's middle, where heddle_part cuts it: no other team that exists at the same time
 * has the same one, as a team's parts end or begin there. Who comes last lets the others go; they wait for another number than
 * they saw before they came, so that a team may meet again, or another one here, while some have not left yet. */
HEDDLE_OUTLINE int32_t heddle_meet(const heddle_env *env, int32_t first, int32_t workers) {
  if (workers == 1) return heddle_poll(env);
  heddle_unit *unit = &env->units[first + workers / 2];
  uint64_t met = __atomic_load_n(&unit->met, __ATOMIC_ACQUIRE);
  int32_t is_last = __atomic_add_fetch(&unit->come, 1, __ATOMIC_SEQ_CST) == (uint64_t)workers;
  heddle_linger();
  if (is_last) {
    __atomic_store_n(&unit->come, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&unit->met, 1, __ATOMIC_SEQ_CST);
    if (HEDDLE_UNLIKELY(__atomic_load_n(&unit->asleep, __ATOMIC_SEQ_CST))) heddle_wake(&unit->met);
    return heddle_poll(env);
  }
  return heddle_await(env, &unit->met, &unit->asleep, met + 1);
}

/* The number of a worker's own memory. One that joins a run is called with -1 less that, and no workers. */
HEDDLE_INLINE int32_t heddle_slot(const heddle_env *env, int32_t worker) {
  return worker < 0 ? -1 - worker : __atomic_load_n(&env->units[worker].slot, __ATOMIC_RELAXED);
}

HEDDLE_COLD int32_t heddle_changes_here(const heddle_env *env, int32_t worker, uint64_t point) {
  heddle_sync *sync = env->sync;
  uint64_t tick = __atomic_load_n(&sync->tick, __ATOMIC_RELAXED);
  if (worker == 0 && tick && heddle_now() >= tick && env->decide &&
      env->decide(env->crew, HEDDLE_TICK))
    heddle_change(env);
  for (uint32_t looks = 1;; looks++) {
    uint64_t wanted = __atomic_load_n(&sync->wanted, __ATOMIC_ACQUIRE);
    if (wanted != 1) return wanted == point + 1;
    if (looks % 256) heddle_pause();
    else heddle_yield();
  }
}

/* Passes a point at which the team may change, the next one after `*passed`. Not zero if it does here. */
HEDDLE_INLINE int32_t heddle_changes(const heddle_env *env, int32_t worker, uint64_t *passed) {
  uint64_t point = ++*passed;
  __atomic_exchange_n(&env->units[worker].passed, point, __ATOMIC_SEQ_CST);
  heddle_linger();
  if (HEDDLE_LIKELY(!(__atomic_load_n(&env->sync->wanted, __ATOMIC_SEQ_CST) |
                      __atomic_load_n(&env->sync->tick, __ATOMIC_RELAXED))))
    return 0;
  return heddle_changes_here(env, worker, point);
}

/* Waits at a point for all of the team and of the next one, and takes this worker's place in that. `state` has the variables of
 * the program, the same on all workers. What any worker wrote before is seen by all after. */
HEDDLE_COLD int32_t heddle_gather(const heddle_env *env, int32_t slot, int32_t *worker,
                                  int32_t *workers, uint64_t passed, uint32_t point,
                                  const void *state) {
  heddle_sync *sync = env->sync;
  uint64_t seen = __atomic_load_n(&sync->moved, __ATOMIC_ACQUIRE);
  if (*worker >= 0) {
    const void *none = NULL;
    __atomic_store_n(&sync->point, point, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&sync->state, &none, state, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  }
  /* Read before this worker counts itself: afterwards the change may be over, and the next one awaits another number. */
  int32_t awaited = __atomic_load_n(&sync->awaited, __ATOMIC_RELAXED);
  int32_t is_last = __atomic_add_fetch(&sync->come, 1, __ATOMIC_SEQ_CST) == awaited;
  heddle_linger();
  if (is_last) {
    int32_t next = __atomic_load_n(&sync->next, __ATOMIC_RELAXED);
    for (int32_t u = 0; u < next; u++) {
      env->units[u].round = 0;
      __atomic_store_n(&env->units[u].passed, passed, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&sync->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->come, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->state, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->workers, next, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sync->moved, 1, __ATOMIC_SEQ_CST);
    /* From here on the next change may be decided on, which writes the other half of `share`. */
    __atomic_store_n(&sync->wanted, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&sync->asleep, __ATOMIC_SEQ_CST)) heddle_wake(&sync->moved);
  } else {
    HEDDLE_TRY(heddle_await(env, &sync->moved, &sync->asleep, seen + 1));
  }
  heddle_linger();
  /* The change after the next one writes this half again. It needs all of this team to have come to the next. */
  *worker = __atomic_load_n(&env->units[slot].share[(seen + 1) & 1], __ATOMIC_RELAXED);
  if (*worker < 0) return HEDDLE_LEFT;
  *workers = __atomic_load_n(&sync->workers, __ATOMIC_RELAXED);
  return heddle_poll(env);
}

/* Joins a run: waits until the team has come to a point with this worker in the next one. Then `env->sync` says which point, and
 * where the variables are. Gives up after a while, or when the run ends. */
HEDDLE_COLD int32_t heddle_join(const heddle_env *env, int32_t slot) {
  heddle_sync *sync = env->sync;
  uint32_t *ready = &env->units[slot].ready;
  uint64_t end = heddle_now() + 5000000;
  __atomic_store_n(ready, 1, __ATOMIC_SEQ_CST);
  for (uint32_t looks = 1;; looks++) {
    uint64_t moved = __atomic_load_n(&sync->moved, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(ready, __ATOMIC_ACQUIRE) == 2) {
      if (__atomic_load_n(&sync->state, __ATOMIC_ACQUIRE)) break;
      if (looks % 1024 == 0) heddle_sleep(&sync->moved, (uint32_t)moved, 100000);
    } else {
      uint32_t one = 1;
      heddle_change(env);
      if (heddle_now() >= end &&
          __atomic_compare_exchange_n(ready, &one, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return HEDDLE_LEFT;
    }
    HEDDLE_TRY(heddle_poll(env));
    if (__atomic_load_n(&sync->ended, __ATOMIC_ACQUIRE)) return HEDDLE_LEFT;
    if (looks % 64) heddle_pause();
    else heddle_yield();
  }
  __atomic_store_n(ready, 0, __ATOMIC_RELAXED);
  return 0;
}

/* The variables at the point that a worker joins at, and its number. */
HEDDLE_INLINE const void *heddle_state_of(const heddle_env *env) {
  return __atomic_load_n(&env->sync->state, __ATOMIC_ACQUIRE);
}
HEDDLE_INLINE uint32_t heddle_point_of(const heddle_env *env) {
  return __atomic_load_n(&env->sync->point, __ATOMIC_RELAXED);
}

/* Before iteration number `done` (from 0) of a loop: stops at the limit, or if the run stops. */
HEDDLE_INLINE int32_t heddle_iteration(const heddle_env *env, uint32_t site, int64_t done) {
  if (HEDDLE_UNLIKELY(done >= env->max_iterations))
    return heddle_fail(env, HEDDLE_ITERATIONS, site, done, env->max_iterations);
  return heddle_poll(env);
}

/* Before a call that makes the stack `depth` frames deep. */
HEDDLE_INLINE int32_t heddle_depth(const heddle_env *env, uint32_t site, int64_t depth) {
  if (HEDDLE_UNLIKELY(depth > env->max_depth))
    return heddle_fail(env, HEDDLE_DEPTH, site, depth, env->max_depth);
  return heddle_poll(env);
}

#endif
