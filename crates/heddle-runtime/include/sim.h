/* A simulator of GPU programs, included before emitted CUDA text, which the host's compiler then builds as C++17.
 *
 * It defines the target's words (heddle-emit's prelude/cuda.h). Each GPU thread is a fiber with a stack of its own, all on the
 * operating system's thread that calls `heddle_main`; all blocks are resident. A fiber runs until it waits at a barrier or for
 * its warp, pauses, or ends; at an atomic or a fence it may give way. The order of blocks, warps and lanes in each round is
 * drawn from a seed, so that a missing barrier shows in some seed.
 *
 * Found, and reported with the line of the text: lanes of a block at different barriers, or some of them ended (divergence);
 * nothing can move (deadlock); nothing but pauses for many rounds (livelock); an element outside of a shared array (bounds). A
 * wait that spins has to pause. An element of a shared array that an asynchronous copy is still to write may not be touched before
 * the copy's thread has waited for it (asynchronous copy). Operands of a product of a warpgroup may not be written before its lanes have
 * waited for it, nor read before the lanes that wrote them have said so (asynchronous product).
 *
 * The clock counts rounds, so that a run takes the same time whenever it is repeated.
 *
 * Not modelled: weak memory order. Products of tensor cores round their operands as a GPU does, and add in another order. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

#define HEDDLE_SIM 1

/* What the host asks for, and the simulator's finding: `env->arguments`. */
struct heddle_simulation {
  uint32_t blocks, threads, warp;
  int32_t finding; /* 0, or one of heddle_sim::Finding */
  uint64_t seed;
  int64_t line; /* Of the text, from 1; 0: unknown. */
  uint64_t looks[2]; /* Loads of words in the host's memory: by block 0, by others. */
  uint32_t patient; /* Not zero: a launch without progress is no finding, and the clock runs ahead for its waits. */
  uint32_t cluster; /* Blocks of a cluster; 0 is 1. */
  char text[512];
};

namespace heddle_sim {

enum Finding { NONE, DIVERGENCE, DEADLOCK, LIVELOCK, MEMORY, BOUNDS, COPY, PRODUCT };
enum State : uint8_t { READY, PAUSED, BARRIER, NAMED, WARP, CLUSTER, DONE };
constexpr int STATES = DONE + 1;

/* What a launch with a finding returns: no error code, and not that of a worker that leaves its team. */
constexpr int32_t FOUND = -2;
/* Bytes of a fiber's stack, and of the page below, which no access may touch. */
constexpr size_t STACK = 256 << 10;
/* Nanoseconds of the clock that a round takes, about as long as a barrier on a GPU; one in which nothing has moved for long, if the
 * host is patient; the clock's start. */
constexpr uint64_t ROUND = 1000, AHEAD = UINT64_C(100000000), START = UINT64_C(1000000000);
/* Rounds of nothing but pauses after which a run ends. Nothing outside of it changes what it waits for, but for errors that the
 * host raises. */
constexpr int IDLE_ROUNDS = 1000;
constexpr int MOST_NAMED = 16, MOST_SHARED = 32, MOST_WARP = 64, MOST_COPIES = 64, MOST_PRODUCTS = 32;
/* Lanes of a warpgroup; rows that they multiply at a time, columns at most, and their places of 16 bits. */
constexpr uint32_t GROUP = 128;
constexpr int ROWS = 64, COLUMNS = 128, DEEP = 16;

/* A place in the text: the primitive's own line and function, and the line of the call that led there, if it was noted. */
struct Place {
  int line, call;
  const char *function;
};

/* An asynchronous copy that its thread has not waited for. */
struct Copy {
  uint8_t *to;
  const uint8_t *from;
  uint8_t content[16]; /* Of the source, if it is read as the copy begins. */
  uint8_t bytes;
  bool is_read;
  uint32_t group;
};

/* A product of a warpgroup that this lane has not waited for. */
struct Product {
  float *to, more[COLUMNS / 2]; /* The lane's sums, and what is added to them. */
  int count, columns;
  uint64_t a, b;    /* The descriptors of its operands, */
  uint64_t content; /* and a hash of what they were. */
  uint32_t group;
};

struct Fiber {
#if defined(__x86_64__) || defined(__aarch64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  uint32_t block, lane;
  State state;
  uint8_t named;       /* The barrier that it waits at. */
  uint8_t parity;      /* Of its next operation of the warp. */
  bool has_stored;     /* Since the round began. */
  int32_t given, vote; /* What it gives to a barrier, and what it gets. */
  uint32_t groups;     /* Groups of copies that were closed. */
  int copies;
  Copy *copy;          /* Room for MOST_COPIES, with the first one. */
  bool opened;         /* It may multiply with its warpgroup. */
  uint32_t closed;     /* Groups of products that were closed. */
  int products;
  Product *product;         /* Room for MOST_PRODUCTS, with the first one. */
  int unseen;               /* Rows of 16 bytes that tensor cores may not see yet. */
  const uint8_t **unseen_at; /* Room for MOST_COPIES, with the first one. */
  bool stays;          /* It comes to the barriers of its cluster until the others have ended. */
  int call;            /* The line of the call that it is in. */
  Place place;         /* Where it waits. */
};

struct Warp {
  uint64_t slots[2][MOST_WARP];
  uint32_t come;
};

/* Four warps: the matrices that they multiply. */
struct Warpgroup {
  uint32_t come;
  uint64_t a, b, content;
  Place place;
  float rows[ROWS * DEEP], columns[COLUMNS * DEEP];
};

struct Block {
  uint32_t waiting, begun, done;
  int32_t vote;
  uint32_t named_come[MOST_NAMED];
  const void *shared_keys[MOST_SHARED];
  void *shared[MOST_SHARED];
  size_t shared_bytes[MOST_SHARED];
  uint32_t copies; /* Copies into its shared arrays that are not waited for. */
  uint32_t unseen; /* Rows of its lanes that tensor cores may not see yet. */
};

struct Cluster {
  uint32_t come, done;
};

struct Grid {
  heddle_simulation *host;
  uint32_t blocks, threads, warp, warps, groups, cluster;
  uint64_t random, clock;
  char *stacks;
  size_t stride;
  Fiber *fibers;
  Block *states;
  Warp *all_warps;
  Warpgroup *all_groups;
  Cluster *clusters;
  uint32_t *order;
  uint32_t left;
  Fiber scheduler;
  void (*body)(void *);
  void *argument;
};

static thread_local Grid *grid;
static thread_local Fiber *self;

static inline uint32_t draw(uint32_t below) {
  uint64_t x = grid->random;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  grid->random = x;
  return (uint32_t)((x >> 32) * below >> 32);
}

#if defined(__x86_64__)
/* Saves what a call has to keep on this stack, and goes on on the other. */
extern "C" void heddle_sim_switch(void **from, void *to);
asm(".text\n.type heddle_sim_switch,@function\n.hidden heddle_sim_switch\n.globl heddle_sim_switch\nheddle_sim_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size heddle_sim_switch,.-heddle_sim_switch\n");
static void switch_to(Fiber *from, Fiber *to) { heddle_sim_switch(&from->stack_pointer, to->stack_pointer); }
static void begin_at(Fiber *fiber, char *top, void (*entry)()) {
  void **stack = (void **)top;
  *--stack = nullptr; /* The entry's caller; the stack is aligned as behind a call. */
  *--stack = (void *)entry;
  for (int i = 0; i < 6; i++) *--stack = nullptr;
  fiber->stack_pointer = stack;
}
#elif defined(__aarch64__)
extern "C" void heddle_sim_switch(void **from, void *to);
asm(".text\n.type heddle_sim_switch,%function\n.hidden heddle_sim_switch\n.globl heddle_sim_switch\nheddle_sim_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n.size heddle_sim_switch,.-heddle_sim_switch\n");
static void switch_to(Fiber *from, Fiber *to) { heddle_sim_switch(&from->stack_pointer, to->stack_pointer); }
static void begin_at(Fiber *fiber, char *top, void (*entry)()) {
  void **stack = (void **)(top - 160);
  memset(stack, 0, 160);
  stack[11] = (void *)entry;
  fiber->stack_pointer = stack;
}
#else
static void switch_to(Fiber *from, Fiber *to) { swapcontext(&from->context, &to->context); }
static void begin_at(Fiber *fiber, char *top, void (*entry)()) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = top - STACK / 2;
  fiber->context.uc_stack.ss_size = STACK / 2;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, entry, 0);
}
#endif

/* Gives way to the scheduler. */
static void leave(State state) {
  Fiber *fiber = self;
  fiber->state = state;
  switch_to(fiber, &grid->scheduler);
}

/* Ends the run with a finding; the first one counts. Fibers are left where they are. */
static void find(Finding finding, const Fiber &fiber, const char *what) {
  heddle_simulation *host = grid->host;
  if (host->finding) return;
  const Place &at = fiber.place;
  host->finding = finding;
  host->line = at.call ? at.call : at.line;
  uint32_t states[STATES] = {}, first = fiber.block * grid->threads;
  for (uint32_t i = 0; i < grid->threads; i++) states[grid->fibers[first + i].state]++;
  snprintf(host->text, sizeof host->text,
           "%s: lane %u of block %u is in %s, line %d%s%.0d; of the block's %u lanes, %u wait at the barrier, %u at named ones,"
           " %u for their warp, %u at the cluster's, %u spin and %u have ended",
           what, fiber.lane, fiber.block, at.function ? at.function : "the kernel", at.line,
           at.call ? ", called from line " : "", at.call, grid->threads, states[BARRIER], states[NAMED], states[WARP],
           states[CLUSTER], states[PAUSED] + states[READY], states[DONE]);
}

static bool same_place(const Place &a, const Place &b) { return a.line == b.line && a.call == b.call; }

/* Releases the fibers of a range that wait in this state. */
static void release(uint32_t first, uint32_t count, State state, int named, int32_t vote) {
  for (uint32_t i = first; i < first + count; i++) {
    Fiber &fiber = grid->fibers[i];
    if (fiber.state != state || (state == NAMED && fiber.named != named)) continue;
    fiber.state = READY, fiber.vote = vote;
  }
}

static int32_t unit_or(int32_t value, int line, const char *function) {
  Fiber *fiber = self;
  Block &block = grid->states[fiber->block];
  fiber->place = {line, fiber->call, function};
  block.vote |= value;
  if (++block.waiting == grid->threads) {
    uint32_t first = fiber->block * grid->threads;
    for (uint32_t i = first; i < first + grid->threads; i++)
      if (!same_place(grid->fibers[i].place, fiber->place)) {
        fiber->state = BARRIER;
        find(DIVERGENCE, grid->fibers[i], "lanes of a block meet at different barriers");
        leave(BARRIER);
      }
    int32_t vote = block.vote;
    block.waiting = 0, block.vote = 0;
    fiber->state = BARRIER;
    release(first, grid->threads, BARRIER, 0, vote);
    leave(READY);
  } else {
    leave(BARRIER);
  }
  return fiber->vote != 0;
}

static void named_sync(int id, uint32_t count, int line, const char *function) {
  Fiber *fiber = self;
  Block &block = grid->states[fiber->block];
  fiber->place = {line, fiber->call, function};
  fiber->named = (uint8_t)id;
  if (++block.named_come[id % MOST_NAMED] == count) {
    block.named_come[id % MOST_NAMED] = 0;
    release(fiber->block * grid->threads, grid->threads, NAMED, id, 0);
    leave(READY);
  } else {
    leave(NAMED);
  }
}

/* Lanes of a warp exchange a word each; the words of all. */
static const uint64_t *exchange(uint64_t word, int line, const char *function) {
  Fiber *fiber = self;
  uint32_t number = fiber->lane / grid->warp, first = number * grid->warp;
  uint32_t lanes = grid->threads - first < grid->warp ? grid->threads - first : grid->warp;
  Warp &warp = grid->all_warps[fiber->block * grid->warps + number];
  fiber->place = {line, fiber->call, function};
  uint8_t parity = fiber->parity;
  /* The slots of one operation are read while the next one's are written. */
  fiber->parity ^= 1;
  warp.slots[parity][fiber->lane - first] = word;
  if (++warp.come == lanes) {
    warp.come = 0;
    release(fiber->block * grid->threads + first, lanes, WARP, 0, 0);
    leave(READY);
  } else {
    leave(WARP);
  }
  return warp.slots[parity];
}

template <class T>
static T shuffle(T value, int64_t from, int line = __builtin_LINE(), const char *function = __builtin_FUNCTION()) {
  static_assert(sizeof(T) <= 8, "one word");
  uint64_t word = 0;
  memcpy(&word, &value, sizeof value);
  memcpy(&value, &exchange(word, line, function)[(uint64_t)from % grid->warp], sizeof value);
  return value;
}

/* The number of lanes of this warp for which a condition holds; `lanes`: of how many. */
static uint32_t count(bool holds, uint32_t &lanes, int line, const char *function) {
  const uint64_t *words = exchange(holds, line, function);
  uint32_t first = self->lane / grid->warp * grid->warp, number = 0;
  lanes = grid->threads - first < grid->warp ? grid->threads - first : grid->warp;
  for (uint32_t i = 0; i < lanes; i++) number += words[i] != 0;
  return number;
}
static int32_t any(bool holds, int line = __builtin_LINE(), const char *function = __builtin_FUNCTION()) {
  uint32_t lanes;
  return count(holds, lanes, line, function) > 0;
}
static int32_t all(bool holds, int line = __builtin_LINE(), const char *function = __builtin_FUNCTION()) {
  uint32_t lanes;
  return count(holds, lanes, line, function) == lanes;
}

/* Ends the run at a place. */
[[noreturn]] static void stop(Finding finding, int line, const char *function, const char *what) {
  self->place = {line, self->call, function};
  find(finding, *self, what);
  leave(READY);
  abort();
}

/* Ends the barrier of a cluster if all of its lanes that run have come to it. */
static void meet_in_cluster(uint32_t number) {
  Cluster &cluster = grid->clusters[number];
  uint32_t lanes = grid->cluster * grid->threads, first = number * lanes;
  if (!cluster.come || cluster.come + cluster.done < lanes) return;
  const Fiber *one = nullptr;
  for (uint32_t i = first; i < first + lanes; i++) {
    const Fiber &fiber = grid->fibers[i];
    if (fiber.state != CLUSTER || fiber.stays) continue;
    if (!one) one = &fiber;
    if (!same_place(fiber.place, one->place)) return find(DIVERGENCE, fiber, "lanes of a cluster meet at different barriers");
  }
  cluster.come = 0;
  release(first, lanes, CLUSTER, 0, 0);
}

/* Barrier of all lanes of the cluster's blocks, but for those that have ended. */
static void cluster_sync(int line, const char *function, bool stays = false) {
  Fiber *fiber = self;
  fiber->stays = stays;
  fiber->place = {line, fiber->call, function};
  fiber->state = CLUSTER;
  uint32_t number = fiber->block / grid->cluster;
  grid->clusters[number].come++;
  meet_in_cluster(number);
  leave(fiber->state);
}

/* An array that a block shares, known by its declaration's key. Nothing is in it. */
static void *shared(uint32_t of, const void *key, size_t bytes) {
  Block &block = grid->states[of];
  for (int i = 0; i < MOST_SHARED; i++) {
    if (block.shared_keys[i] == key) return block.shared[i];
    if (block.shared_keys[i]) continue;
    block.shared_keys[i] = key, block.shared_bytes[i] = bytes;
    block.shared[i] = malloc(bytes);
    return memset(block.shared[i], 0xff, bytes);
  }
  abort();
}

/* The block whose shared array an address is in; null: none. */
static Block *sharing(const void *place) {
  for (uint32_t b = 0; b < grid->blocks; b++)
    for (int i = 0; i < MOST_SHARED && grid->states[b].shared[i]; i++) {
      size_t at = (size_t)((const uint8_t *)place - (const uint8_t *)grid->states[b].shared[i]);
      if (at < grid->states[b].shared_bytes[i]) return &grid->states[b];
    }
  return nullptr;
}

/* Is a copy still to write these bytes of a block's shared array? */
static bool is_awaited(uint32_t block, const void *place, size_t bytes) {
  if (!grid->states[block].copies) return false;
  const uint8_t *from = (const uint8_t *)place;
  for (uint32_t i = 0; i < grid->blocks * grid->threads; i++) {
    const Fiber &fiber = grid->fibers[i];
    for (int k = 0; k < fiber.copies; k++)
      if (fiber.copy[k].to < from + bytes && from < fiber.copy[k].to + fiber.copy[k].bytes) return true;
  }
  return false;
}

/* Begins a copy to a shared array. It is written as the thread waits for it, and read now or then. */
static void copy(void *to, const void *from, int bytes, int line, const char *function) {
  Fiber *fiber = self;
  Block *block = sharing(to);
  bool is_own = block == &grid->states[fiber->block] && sharing((uint8_t *)to + bytes - 1) == block;
  if (!is_own) stop(BOUNDS, line, function, "an asynchronous copy to no shared array of the block");
  if (sharing(from)) stop(BOUNDS, line, function, "an asynchronous copy from a shared array");
  bool fits = (bytes == 4 || bytes == 8 || bytes == 16) && (uintptr_t)to % bytes == 0 && (uintptr_t)from % bytes == 0;
  if (!fits) stop(BOUNDS, line, function, "an asynchronous copy of other than 4, 8 or 16 aligned bytes");
  if (!fiber->copy) fiber->copy = (Copy *)calloc(MOST_COPIES, sizeof(Copy));
  if (fiber->copies == MOST_COPIES) stop(COPY, line, function, "more asynchronous copies than are simulated");
  Copy &made = fiber->copy[fiber->copies++];
  made = {(uint8_t *)to, (const uint8_t *)from, {}, (uint8_t)bytes, draw(2) == 0, fiber->groups};
  if (made.is_read) memcpy(made.content, from, bytes);
  block->copies++;
}

/* Waits until at most so many of this thread's last groups of copies are still on their way. */
static void copy_wait(uint32_t groups) {
  Fiber *fiber = self;
  int left = 0;
  for (int k = 0; k < fiber->copies; k++) {
    Copy &copy = fiber->copy[k];
    if (copy.group + groups >= fiber->groups) {
      fiber->copy[left++] = copy;
      continue;
    }
    memcpy(copy.to, copy.is_read ? copy.content : copy.from, copy.bytes);
    grid->states[fiber->block].copies--;
  }
  fiber->copies = left;
}

/* An index, with the line that it stands in. */
struct Index {
  int64_t value;
  int line;
  const char *function;
  template <class I>
  Index(I value, int line = __builtin_LINE(), const char *function = __builtin_FUNCTION())
      : value((int64_t)value), line(line), function(function) {}
};

/* An array that a block shares. Its elements are reached by their index alone, which is checked. */
template <class T, int64_t Count> struct Shared {
  const void *key;
  uint32_t block;
  T *elements;
  explicit Shared(const void *key) : Shared(key, self->block) {}
  Shared(const void *key, uint32_t block) : key(key), block(block), elements((T *)shared(block, key, sizeof(T) * Count)) {}
  T &operator[](Index at) const {
    if (at.value < 0 || at.value >= Count) {
      char text[96];
      snprintf(text, sizeof text, "element %lld of a shared array of %lld", (long long)at.value, (long long)Count);
      stop(BOUNDS, at.line, at.function, text);
    }
    if (is_awaited(block, &elements[at.value], sizeof(T)))
      stop(COPY, at.line, at.function, "an element that an asynchronous copy is still to write");
    if (block != self->block && grid->states[block].done == grid->threads)
      stop(BOUNDS, at.line, at.function, "a shared array of a block that has ended");
    return elements[at.value];
  }
};

/* The same array of another block of the cluster. */
template <class T, int64_t Count>
static Shared<T, Count> of_rank(const Shared<T, Count> &array, int64_t rank, int line = __builtin_LINE(),
                                const char *function = __builtin_FUNCTION()) {
  if (rank < 0 || rank >= grid->cluster) stop(BOUNDS, line, function, "a shared array of a block that is not in the cluster");
  return Shared<T, Count>(array.key, self->block / grid->cluster * grid->cluster + (uint32_t)rank);
}

/* Stores to an element of an array at the same place of the shared memory of the cluster's first `ranks` blocks. */
static void store_ranks(float *array, int64_t at, float value, uint32_t ranks, int line, const char *function) {
  Block &own = grid->states[self->block];
  const uint8_t *place = (const uint8_t *)(array + at);
  int i = 0;
  while (i < MOST_SHARED && own.shared[i] && (size_t)(place - (const uint8_t *)own.shared[i]) >= own.shared_bytes[i]) i++;
  if (i == MOST_SHARED || !own.shared[i]) stop(BOUNDS, line, function, "a store to no shared array of the block");
  if (ranks > grid->cluster) stop(BOUNDS, line, function, "a shared array of a block that is not in the cluster");
  size_t offset = (size_t)(place - (const uint8_t *)own.shared[i]);
  uint32_t first = self->block / grid->cluster * grid->cluster;
  for (uint32_t other = first; other < first + ranks; other++) {
    const Block &block = grid->states[other];
    if (block.begun < grid->threads) stop(BOUNDS, line, function, "a shared array of a block that has not begun");
    if (block.done) stop(BOUNDS, line, function, "a shared array of a block that has ended");
    memcpy((uint8_t *)shared(other, own.shared_keys[i], own.shared_bytes[i]) + offset, &value, sizeof value);
  }
}

/* A float with so many bits of its mantissa, rounded to the nearest; ties go to even, or away from zero. */
static float rounded(float x, int bits, bool even) {
  uint32_t word, drop = 23 - bits, half = 1u << (drop - 1);
  memcpy(&word, &x, sizeof word);
  if ((word & 0x7f800000) == 0x7f800000) return x;
  uint32_t odd = word >> drop & 1;
  word = (word + (even ? half - 1 + odd : half)) >> drop << drop;
  memcpy(&x, &word, sizeof x);
  return x;
}
static float as_tf32(float x) { return rounded(x, 10, false); }
static float as_bf16(float x) { return rounded(x, 7, true); }
/* Below the normal numbers a half has the bits of a multiple of 2^-24; beyond the largest it is infinite. */
static float as_f16(float x) {
  if (fabsf(x) < 0x1p-14f) return rintf(x * 0x1p24f) * 0x1p-24f;
  float half = rounded(x, 10, true);
  return fabsf(half) > 65504 ? copysignf(INFINITY, half) : half;
}

/* d = a b + d of a warp, whose lanes hold fragments as `mma.sync.m16n8k8` (K = 8) and `m16n8k16` of PTX have them. */
template <int K>
static void mma(float (&d)[4], const float (&a)[K / 2], const float (&b)[K / 4], float (*round)(float), int line, const char *function) {
  if (grid->warp != 32) stop(DIVERGENCE, line, function, "tensor cores are of a warp of 32 lanes");
  float all[32][K / 2 + K / 4];
  for (int pair = 0; pair < (K / 2 + K / 4) / 2; pair++) {
    float own[2];
    for (int i = 0; i < 2; i++) {
      int k = 2 * pair + i;
      own[i] = round(k < K / 2 ? a[k] : b[k - K / 2]);
    }
    uint64_t word;
    memcpy(&word, own, sizeof word);
    const uint64_t *words = exchange(word, line, function);
    for (int lane = 0; lane < 32; lane++) memcpy(&all[lane][2 * pair], &words[lane], sizeof word);
  }
  /* A lane holds neighbours along k: one of 32 bits, two of 16. Behind four times as many come the next ones. */
  const int wide = K / 8;
  int lane = self->lane % 32;
  for (int out = 0; out < 4; out++) {
    int row = lane / 4 + out / 2 * 8, column = lane % 4 * 2 + out % 2;
    float sum = 0;
    for (int k = 0; k < K; k++) {
      int part = k / (4 * wide), of = k % (4 * wide) / wide, at = k % wide;
      float left = all[row % 8 * 4 + of][part * 2 * wide + row / 8 * wide + at];
      float right = all[column * 4 + of][K / 2 + part * wide + at];
      sum += left * right;
    }
    d[out] += sum;
  }
}

static uint32_t bits_of(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  return word;
}
static uint32_t bits_tf32(float x) { return bits_of(as_tf32(x)); }
static uint32_t bits_bf16(float x) { return x != x ? 0x7fff : bits_of(as_bf16(x)) >> 16; }
static uint32_t bits_f16(float x) {
  float half = as_f16(x), size = fabsf(half);
  uint32_t sign = bits_of(half) >> 31 << 15;
  if (x != x) return 0x7fff;
  if (size > 65504) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | (uint32_t)(size * 0x1p24f);
  return sign | ((bits_of(size) >> 13) - (112 << 10));
}

/* The elements of such bits. Tensor cores ignore the last ones of a tf32. */
static float of_bits(uint32_t word) {
  float x;
  memcpy(&x, &word, sizeof x);
  return x;
}
static float of_tf32(uint32_t word) { return of_bits(word & ~UINT32_C(0x1fff)); }
static float of_bf16(uint32_t half) { return of_bits(half << 16); }
static float of_f16(uint32_t half) {
  uint32_t sign = half >> 15 << 31, exponent = half >> 10 & 31, rest = half & 1023;
  if (exponent == 31) return of_bits(sign | 0x7f800000 | rest << 13);
  if (exponent == 0) return of_bits(sign | bits_of((float)rest * 0x1p-24f));
  return of_bits(sign | (exponent + 112) << 23 | rest << 13);
}

/* Shared arrays lie behind each other at multiples of 128, from here on. */
constexpr uint32_t FIRST_SHARED = 1024;
static uint32_t room(size_t bytes) { return (uint32_t)(bytes + 127) / 128 * 128; }

/* The address of an element of this block's shared arrays. */
static uint32_t shared_address(const void *place, int line, const char *function) {
  const Block &block = grid->states[self->block];
  uint32_t first = FIRST_SHARED;
  for (int i = 0; i < MOST_SHARED && block.shared[i]; first += room(block.shared_bytes[i++])) {
    size_t at = (size_t)((const uint8_t *)place - (const uint8_t *)block.shared[i]);
    if (at < block.shared_bytes[i]) return first + (uint32_t)at;
  }
  stop(BOUNDS, line, function, "an operand of tensor cores in no shared array of the block");
}

/* The 16 bytes at an address, which tensor cores read. */
static const uint8_t *shared_row(uint32_t address, int line, const char *function) {
  const Block &block = grid->states[self->block];
  uint32_t first = FIRST_SHARED;
  for (int i = 0; i < MOST_SHARED && block.shared[i]; first += room(block.shared_bytes[i++])) {
    uint32_t at = address - first;
    if (at < block.shared_bytes[i] && at + 16 <= block.shared_bytes[i]) return (const uint8_t *)block.shared[i] + at;
  }
  stop(BOUNDS, line, function, "tensor cores read beyond the shared arrays of the block");
}

/* Calls `each` with the 16 bytes of each row and part of a matrix that a descriptor of PTX describes, 32 bytes wide. */
template <class Each> static void each_row(uint64_t matrix, int rows, int line, const char *function, Each each) {
  uint32_t start = (uint32_t)(matrix & 0x3fff) << 4, along = (uint32_t)(matrix >> 16 & 0x3fff) << 4;
  uint32_t below = (uint32_t)(matrix >> 32 & 0x3fff) << 4;
  if (matrix >> 46) stop(BOUNDS, line, function, "operands of tensor cores that are swizzled are not simulated");
  for (int row = 0; row < rows; row++)
    for (int part = 0; part < 2; part++)
      each(row, part, shared_row(start + row / 8 * below + row % 8 * 16 + part * along, line, function));
}

/* A number that differs if one of these bytes does, most probably. */
static uint64_t mixed(uint64_t hash, const uint8_t *bytes) {
  uint64_t words[2];
  memcpy(words, bytes, sizeof words);
  for (uint64_t word : words) hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 32;
  return hash;
}
static uint64_t content(uint64_t a, uint64_t b, int columns, int line, const char *function) {
  uint64_t hash = 0;
  auto mix = [&](int, int, const uint8_t *bytes) { hash = mixed(hash, bytes); };
  each_row(a, ROWS, line, function, mix);
  each_row(b, columns, line, function, mix);
  return hash;
}

/* May tensor cores not see these 16 bytes yet, since the lane that wrote them has not said so? */
static bool is_unseen(const uint8_t *bytes) {
  if (!grid->states[self->block].unseen) return false;
  for (uint32_t i = 0; i < grid->threads; i++) {
    const Fiber &fiber = grid->fibers[self->block * grid->threads + i];
    for (int k = 0; k < fiber.unseen; k++)
      if (fiber.unseen_at[k] < bytes + 16 && bytes < fiber.unseen_at[k] + 16) return true;
  }
  return false;
}

/* Stores 16 bytes of an operand. */
static void wgmma_share(void *place, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, int line, const char *function) {
  Fiber *fiber = self;
  if (shared_address(place, line, function) % 16) stop(BOUNDS, line, function, "a row of an operand at no multiple of 16");
  shared_address((uint8_t *)place + 15, line, function);
  uint32_t words[4] = {w0, w1, w2, w3};
  memcpy(place, words, sizeof words);
  if (!fiber->unseen_at) fiber->unseen_at = (const uint8_t **)calloc(MOST_COPIES, sizeof(uint8_t *));
  if (fiber->unseen == MOST_COPIES) stop(PRODUCT, line, function, "more rows of operands than are simulated");
  fiber->unseen_at[fiber->unseen++] = (const uint8_t *)place;
  grid->states[fiber->block].unseen++;
}

/* What this lane has stored is there for tensor cores. */
static void wgmma_shared() {
  grid->states[self->block].unseen -= (uint32_t)self->unseen;
  self->unseen = 0;
}

/* Begins d = a b + d of a warpgroup, with fragments as `wgmma.mma_async` of PTX has them. The operands are read now, sums are there when
 * the lane has waited. */
template <int K, int Half>
static void wgmma(float (&d)[Half], uint64_t a, uint64_t b, float (*element)(uint32_t), int line, const char *function) {
  Fiber *fiber = self;
  if (grid->warp != 32 || grid->threads % GROUP) stop(DIVERGENCE, line, function, "a warpgroup is four warps of 32 lanes");
  if (!fiber->opened) stop(PRODUCT, line, function, "a product whose sums may still be written");
  uint32_t number = fiber->lane / GROUP, first = fiber->block * grid->threads + number * GROUP;
  Warpgroup &group = grid->all_groups[fiber->block * grid->groups + number];
  fiber->place = {line, fiber->call, function};
  if (!group.come) group.a = a, group.b = b, group.place = fiber->place;
  if (group.a != a || group.b != b || !same_place(group.place, fiber->place))
    stop(DIVERGENCE, line, function, "lanes of a warpgroup begin different products");
  if (++group.come == GROUP) {
    constexpr int wide = 32 / K; /* bytes of an element */
    group.come = 0, group.content = content(a, b, 2 * Half, line, function);
    auto read = [&](float *to) {
      return [=](int row, int part, const uint8_t *bytes) {
        if (is_awaited(fiber->block, bytes, 16)) stop(COPY, line, function, "an operand that an asynchronous copy is still to write");
        if (is_unseen(bytes)) stop(PRODUCT, line, function, "an operand that tensor cores may not see yet");
        for (int k = 0; k < K / 2; k++) {
          uint32_t word = 0;
          memcpy(&word, bytes + k * wide, wide);
          to[row * K + part * (K / 2) + k] = element(word);
        }
      };
    };
    each_row(a, ROWS, line, function, read(group.rows));
    each_row(b, 2 * Half, line, function, read(group.columns));
    release(first, GROUP, WARP, 0, 0);
    leave(READY);
  } else {
    leave(WARP);
  }
  if (!fiber->product) fiber->product = (Product *)calloc(MOST_PRODUCTS, sizeof(Product));
  if (fiber->products == MOST_PRODUCTS) stop(PRODUCT, line, function, "more products on their way than are simulated");
  Product &made = fiber->product[fiber->products++];
  made.to = d, made.count = Half, made.columns = 2 * Half, made.a = a, made.b = b;
  made.content = group.content, made.group = fiber->closed;
  int lane = fiber->lane % GROUP;
  for (int out = 0; out < Half; out++) {
    const float *left = group.rows + (lane / 32 * 16 + out / 2 % 2 * 8 + lane % 32 / 4) * K;
    const float *right = group.columns + (out / 4 * 8 + lane % 4 * 2 + out % 2) * K;
    float sum = 0;
    for (int k = 0; k < K; k++) sum += left[k] * right[k];
    made.more[out] = sum;
  }
}

/* Waits for this lane's products, of groups that were closed; a lane of each warp sees that their operands were not written meanwhile. */
static void wgmma_wait(int line, const char *function) {
  Fiber *fiber = self;
  int left = 0;
  for (int k = 0; k < fiber->products; k++) {
    Product &made = fiber->product[k];
    if (made.group == fiber->closed) {
      fiber->product[left++] = made;
      continue;
    }
    if (fiber->lane % 32 == 0 && content(made.a, made.b, made.columns, line, function) != made.content)
      stop(PRODUCT, line, function, "an operand was written before the product was waited for");
    for (int out = 0; out < made.count; out++) made.to[out] += made.more[out];
  }
  fiber->products = left;
  fiber->opened = false;
}

static void pause(int line = __builtin_LINE(), const char *function = __builtin_FUNCTION()) {
  self->place = {line, self->call, function};
  leave(PAUSED);
}

/* At an atomic or a fence: another fiber may come first. That is no progress, as a pause is none. */
static void give_way() {
  if (draw(8) == 0) leave(PAUSED);
}

static uint64_t load(const uint64_t *word) {
  give_way();
  return *(const volatile uint64_t *)word;
}
static void store(uint64_t *word, uint64_t value) {
  give_way();
  self->has_stored = true;
  *(volatile uint64_t *)word = value;
}
static uint64_t add(uint64_t *word, uint64_t value) {
  give_way();
  self->has_stored = true;
  uint64_t before = *word;
  *(volatile uint64_t *)word = before + value;
  return before;
}

static uint32_t load_host(const uint32_t *word) {
  grid->host->looks[self->block > 0]++;
  return *(const volatile uint32_t *)word;
}

/* The line of the call that a fiber is in, while this lives. */
struct Here {
  int before;
  explicit Here(int line) : before(self->call) { self->call = line; }
  ~Here() { self->call = before; }
};

static void run_fiber() {
  grid->states[self->block].begun++;
  grid->body(grid->argument);
  self->has_stored = true;
  grid->states[self->block].done++;
  self->state = DONE;
  uint32_t cluster = self->block / grid->cluster;
  grid->clusters[cluster].done++;
  meet_in_cluster(cluster);
  grid->left--;
  /* Copies that nobody waits for are not written. */
  grid->states[self->block].copies -= self->copies;
  self->copies = 0;
  leave(DONE);
  abort();
}

/* Shuffles `count` numbers from `first` on. */
static void shuffled(uint32_t *numbers, uint32_t count, uint32_t first) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t other = draw(i + 1);
    numbers[i] = numbers[other];
    numbers[other] = first + i;
  }
}

/* A new order of all fibers: of blocks, of the warps of each, and of their lanes. */
static void reorder() {
  uint32_t blocks[1024], warps[1024], at = 0;
  shuffled(blocks, grid->blocks, 0);
  for (uint32_t b = 0; b < grid->blocks; b++) {
    shuffled(warps, grid->warps, 0);
    for (uint32_t w = 0; w < grid->warps; w++) {
      uint32_t first = warps[w] * grid->warp;
      uint32_t lanes = grid->threads - first < grid->warp ? grid->threads - first : grid->warp;
      shuffled(grid->order + at, lanes, blocks[b] * grid->threads + first);
      at += lanes;
    }
  }
}

/* A block whose lanes can't come together again. */
static const Fiber *diverged() {
  for (uint32_t b = 0; b < grid->blocks; b++) {
    Block &block = grid->states[b];
    const Fiber *stuck = nullptr;
    bool moves = false;
    for (uint32_t i = 0; i < grid->threads; i++) {
      const Fiber &fiber = grid->fibers[b * grid->threads + i];
      moves |= fiber.state == READY || fiber.state == PAUSED;
      if (fiber.state != DONE) stuck = &fiber;
    }
    if (stuck && !moves && (block.done || block.waiting)) return stuck;
  }
  return nullptr;
}

static void schedule() {
  uint32_t all = grid->blocks * grid->threads;
  heddle_simulation *host = grid->host;
  for (int idle = 0; grid->left && !host->finding;) {
    reorder();
    grid->clock += idle < IDLE_ROUNDS ? ROUND : AHEAD;
    bool ran = false, moved = false;
    for (uint32_t i = 0; i < all && !host->finding; i++) {
      Fiber *fiber = &grid->fibers[grid->order[i]];
      if (fiber->state != READY && fiber->state != PAUSED) continue;
      ran = true;
      fiber->has_stored = false;
      self = fiber;
      switch_to(&grid->scheduler, fiber);
      moved |= fiber->state != PAUSED || fiber->has_stored;
    }
    idle = moved ? 0 : idle < IDLE_ROUNDS ? idle + 1 : idle;
    if (host->finding || !grid->left || (ran && (idle < IDLE_ROUNDS || host->patient))) continue;
    if (const Fiber *stuck = diverged()) {
      find(DIVERGENCE, *stuck, "lanes of a block part at a barrier");
      continue;
    }
    for (uint32_t i = 0; i < all; i++)
      if (grid->fibers[i].state != DONE)
        find(ran ? LIVELOCK : DEADLOCK, grid->fibers[i], ran ? "all that run spin, and nothing is stored" : "nothing can move");
  }
}

/* Runs `body` in each fiber. */
static void simulate(heddle_simulation *host, void (*body)(void *), void *argument) {
  Grid all = {};
  size_t fibers = (size_t)host->blocks * host->threads, page = (size_t)sysconf(_SC_PAGESIZE);
  all.host = host, all.body = body, all.argument = argument;
  all.blocks = host->blocks, all.threads = host->threads, all.warp = host->warp;
  all.warps = (host->threads + host->warp - 1) / host->warp;
  all.groups = (host->threads + GROUP - 1) / GROUP;
  all.cluster = host->cluster ? host->cluster : 1;
  all.random = (host->seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  /* Seeds that follow each other begin alike. */
  for (int i = 0; i < 16; i++) all.random ^= all.random << 13, all.random ^= all.random >> 7, all.random ^= all.random << 17;
  all.clock = START;
  all.stride = STACK + page;
  all.left = (uint32_t)fibers;
  all.fibers = (Fiber *)calloc(fibers, sizeof(Fiber));
  all.states = (Block *)calloc(all.blocks, sizeof(Block));
  all.all_warps = (Warp *)calloc((size_t)all.blocks * all.warps, sizeof(Warp));
  all.all_groups = (Warpgroup *)calloc((size_t)all.blocks * all.groups, sizeof(Warpgroup));
  all.clusters = (Cluster *)calloc(all.blocks, sizeof(Cluster));
  all.order = (uint32_t *)calloc(fibers, sizeof(uint32_t));
  void *stacks = mmap(nullptr, fibers * all.stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool fits = all.fibers && all.states && all.all_warps && all.all_groups && all.clusters && all.order && stacks != MAP_FAILED;
  for (size_t i = 0; fits && i < fibers; i++) {
    char *stack = (char *)stacks + i * all.stride;
    fits = mprotect(stack, page, PROT_NONE) == 0;
    all.fibers[i].block = (uint32_t)(i / all.threads), all.fibers[i].lane = (uint32_t)(i % all.threads);
    /* Tops of stacks lie in different cache sets. */
    begin_at(&all.fibers[i], stack + all.stride - i % 32 * 128, run_fiber);
  }
  Grid *outer = grid;
  Fiber *caller = self;
  grid = &all;
  if (fits) {
    schedule();
  } else {
    host->finding = MEMORY;
    snprintf(host->text, sizeof host->text, "the system gives no %zu bytes for the stacks of %zu lanes", fibers * all.stride, fibers);
  }
  grid = outer, self = caller;
  for (uint32_t b = 0; all.states && b < all.blocks; b++)
    for (int i = 0; i < MOST_SHARED; i++) free(all.states[b].shared[i]);
  if (stacks != MAP_FAILED) munmap(stacks, fibers * all.stride);
  for (size_t i = 0; all.fibers && i < fibers; i++)
    free(all.fibers[i].copy), free(all.fibers[i].product), free(all.fibers[i].unseen_at);
  free(all.fibers), free(all.states), free(all.all_warps), free(all.all_groups), free(all.clusters), free(all.order);
}

/* A launch of as many blocks as `env` has units. Returns the code of the first error. */
template <class Env> static int32_t launch(const Env *env, int32_t (*kernel)(const Env *, int32_t, int32_t)) {
  heddle_simulation *host = (heddle_simulation *)env->arguments;
  struct Call {
    const Env *env;
    decltype(kernel) function;
  } call = {env, kernel};
  auto body = [](void *argument) {
    const Call *call = (const Call *)argument;
    call->function(call->env, (int32_t)self->block, (int32_t)grid->blocks);
  };
  simulate(host, body, &call);
  return host->finding ? FOUND : (int32_t)env->error->code;
}

} // namespace heddle_sim

#define HEDDLE_INLINE static inline
#define HEDDLE_COLD static inline __attribute__((noinline, unused))
#define HEDDLE_STATIC static
#define HEDDLE_FUNCTION static __attribute__((noinline, unused))
#define HEDDLE_SYMBOL extern "C" __attribute__((visibility("default"))) const
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
#define HEDDLE_KERNEL                                                                              \
  extern "C" __attribute__((visibility("default"))) int32_t heddle_main(const heddle_env *env,     \
                                                                        int32_t, int32_t) {        \
    int32_t code = heddle_sim::launch(env, heddle_block_main);                                     \
    return code == HEDDLE_UNWATCHED ? 0 : code;                                                    \
  }
#define HEDDLE_HERE heddle_sim::Here heddle_here_(__LINE__)

#define heddle_lane ((int64_t)heddle_sim::self->lane)
#define heddle_lanes ((int64_t)heddle_sim::grid->threads)
#define heddle_block ((int32_t)heddle_sim::self->block)
#define heddle_blocks ((int32_t)heddle_sim::grid->blocks)

#define HEDDLE_UNIT_SYNC ((void)heddle_sim::unit_or(0, __LINE__, __func__))
#define heddle_unit_or(value) heddle_sim::unit_or((value), __LINE__, __func__)
#define heddle_named_sync(id, count) heddle_sim::named_sync((id), (uint32_t)(count), __LINE__, __func__)
#define HEDDLE_WARP_SYNC ((void)heddle_sim::any(false))
#define heddle_warp ((int64_t)heddle_sim::grid->warp)
#define heddle_warp_any(value) heddle_sim::any(value)
#define heddle_warp_all(value) heddle_sim::all(value)
#define heddle_shuffle(value, from) heddle_sim::shuffle((value), (from))
#define heddle_mma_tf32(d, a, b) heddle_sim::mma<8>((d), (a), (b), heddle_sim::as_tf32, __LINE__, __func__)
#define heddle_mma_bf16(d, a, b) heddle_sim::mma<16>((d), (a), (b), heddle_sim::as_bf16, __LINE__, __func__)
#define heddle_mma_f16(d, a, b) heddle_sim::mma<16>((d), (a), (b), heddle_sim::as_f16, __LINE__, __func__)
#define heddle_word_tf32(x) heddle_sim::bits_tf32(x)
#define heddle_word_bf16(low, high) (heddle_sim::bits_bf16(low) | heddle_sim::bits_bf16(high) << 16)
#define heddle_word_f16(low, high) (heddle_sim::bits_f16(low) | heddle_sim::bits_f16(high) << 16)
#define heddle_shared_address(place) heddle_sim::shared_address((place), __LINE__, __func__)
#define heddle_wgmma_share(place, word0, word1, word2, word3)                                      \
  heddle_sim::wgmma_share((place), (word0), (word1), (word2), (word3), __LINE__, __func__)
#define heddle_wgmma_shared() heddle_sim::wgmma_shared()
#define heddle_wgmma_open() ((void)(heddle_sim::self->opened = true))
#define heddle_wgmma_close() ((void)heddle_sim::self->closed++)
#define heddle_wgmma_wait(d) heddle_sim::wgmma_wait(__LINE__, __func__)
#define heddle_wgmma_tf32(d, a, b) heddle_sim::wgmma<8>((d), (a), (b), heddle_sim::of_tf32, __LINE__, __func__)
#define heddle_wgmma_bf16(d, a, b) heddle_sim::wgmma<16>((d), (a), (b), heddle_sim::of_bf16, __LINE__, __func__)
#define heddle_wgmma_f16(d, a, b) heddle_sim::wgmma<16>((d), (a), (b), heddle_sim::of_f16, __LINE__, __func__)
#define heddle_rank ((int32_t)(heddle_sim::self->block % heddle_sim::grid->cluster))
#define heddle_ranks ((int32_t)heddle_sim::grid->cluster)
#define HEDDLE_CLUSTER_SYNC heddle_sim::cluster_sync(__LINE__, __func__)
#define heddle_of_rank(array, rank) heddle_sim::of_rank((array), (rank))
#define HEDDLE_CLUSTER_STAY heddle_sim::cluster_sync(__LINE__, __func__, true)
#define heddle_store_ranks(array, at, value, ranks) heddle_sim::store_ranks((array), (at), (value), (ranks), __LINE__, __func__)
#define heddle_copy_async(to, from, bytes) heddle_sim::copy((to), (from), (bytes), __LINE__, __func__)
#define heddle_copy_close() ((void)heddle_sim::self->groups++)
#define heddle_copy_wait(groups) heddle_sim::copy_wait(groups)

#define heddle_clock() (heddle_sim::grid->clock)
#define heddle_load_host(word) heddle_sim::load_host(word)
#define heddle_store_host(word, value) (*(volatile uint32_t *)(word) = (value))
#define heddle_pause() heddle_sim::pause()
#define heddle_fence() heddle_sim::give_way()
#define heddle_fence_system() heddle_sim::give_way()
#define heddle_load_relaxed(word) (*(const volatile uint32_t *)(word))
#define heddle_load_acquire(word) heddle_sim::load(word)
#define heddle_store_release(word, value) heddle_sim::store((word), (value))
#define heddle_load_word(word) heddle_sim::load(word)
#define heddle_store_word(word, value) heddle_sim::store((word), (value))
#define heddle_arrive(word) ((void)heddle_sim::add((word), 1))
#define heddle_add(word, value) heddle_sim::add((word), (value))
/* The host raises errors from another thread. */
static inline uint32_t heddle_swap_if(uint32_t *word, uint32_t expected, uint32_t value) {
  heddle_sim::self->has_stored = true;
  __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
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
