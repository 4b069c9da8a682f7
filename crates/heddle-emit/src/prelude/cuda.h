/* What emitted CUDA programs start with. A program is one persistent kernel: blocks are the units, their threads are lanes.
 *
 *   heddle_plan_memory<<<1, 1>>>(sizes, table, &total)   fills the table, as heddle_plan does on a CPU
 *   heddle_run<<<blocks, threads>>>(env)                 all blocks must be resident (a cooperative launch)
 *
 * Nothing is included, so that it compiles without any toolkit beside the compiler. What all lanes of a block return from
 * a barrier, a wait or a poll is the same, so that a block leaves as a whole. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define UINT64_MAX UINT64_C(18446744073709551615)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

#define HEDDLE_MAX_RANK 8
#define HEDDLE_INLINE static __device__ __forceinline__
#define HEDDLE_COLD static __device__ __noinline__
#define HEDDLE_LIKELY(x) (x)
#define HEDDLE_UNLIKELY(x) (x)

/* Leaves the function with the code of `call` if that is not zero. */
#define HEDDLE_TRY(call)                                                                           \
  do {                                                                                             \
    int32_t heddle_code_ = (call);                                                                 \
    if (heddle_code_) return heddle_code_;                                                         \
  } while (0)

/* The codes of errors, as on a CPU. */
enum {
  HEDDLE_OK = 0,
  HEDDLE_CANCELLED = 1,
  HEDDLE_TIMEOUT = 2,
  HEDDLE_INDEX = 3,
  HEDDLE_SHAPE = 4,
  HEDDLE_DEPTH = 5,
  HEDDLE_ITERATIONS = 6,
  HEDDLE_BOUND = 7,
  HEDDLE_FIRST_CUSTOM = 256,
};

struct heddle_tensor {
  void *data;
  int64_t dims[HEDDLE_MAX_RANK];
  int32_t rank;
  int32_t reserved;
};

struct heddle_error {
  uint32_t code;
  uint32_t site;
  int64_t values[2];
};

/* A block's counter, which others wait on, on a line of its own the barriers that it has passed, and the barrier
 * of a team. All are 0 before a launch. */
struct heddle_lane_state {
  __align__(128) uint64_t signalled;
  __align__(128) uint64_t round;
  __align__(128) uint64_t met; /* how often the team has met whose middle this block is */
  uint64_t come;               /* how many of it are here this time */
};

struct heddle_env {
  const heddle_tensor *inputs;
  heddle_tensor *outputs;
  const void *const *constants;
  const int64_t *sizes;
  const int64_t *table;
  uint8_t *scratch;
  uint64_t *arrived; /* at the grid's barrier; 0 before a launch */
  heddle_lane_state *lanes;
  heddle_error *error;
  const uint32_t *cancel;
  int64_t max_depth;
  int64_t max_iterations;
};

/* This lane and the number of lanes. */
#define heddle_lane ((int64_t)threadIdx.x)
#define heddle_lanes ((int64_t)blockDim.x)
#define HEDDLE_UNIT_SYNC __syncthreads()
/* The pause of a wait that spins; a host shim replaces it. */
#ifndef HEDDLE_PAUSE
#define HEDDLE_PAUSE __nanosleep(32)
#endif

HEDDLE_INLINE uint64_t heddle_load(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

HEDDLE_INLINE void heddle_store(uint64_t *word, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

HEDDLE_INLINE void heddle_arrive(uint64_t *word) {
  asm volatile("red.release.gpu.global.add.u64 [%0], 1;" : : "l"(word) : "memory");
}

/* Raises an error unless there is one. */
HEDDLE_COLD int32_t heddle_fail(const heddle_env *env, uint32_t code, uint32_t site, int64_t a,
                                int64_t b) {
  uint32_t standing = atomicCAS(&env->error->code, 0u, code);
  if (standing) return (int32_t)standing;
  env->error->site = site;
  env->error->values[0] = a;
  env->error->values[1] = b;
  return (int32_t)code;
}

/* What one lane sees: an error that was raised, or that the run was cancelled. */
HEDDLE_INLINE int32_t heddle_look(const heddle_env *env) {
  uint32_t code = *(volatile uint32_t *)&env->error->code;
  if (code) return (int32_t)code;
  return *(const volatile uint32_t *)env->cancel
             ? heddle_fail(env, HEDDLE_CANCELLED, 0, 0, 0)
             : 0;
}

/* The block's verdict: not zero when the run is to stop. */
HEDDLE_INLINE int32_t heddle_poll(const heddle_env *env) {
  return __syncthreads_or(threadIdx.x == 0 ? heddle_look(env) : 0);
}

/* Waits, in one lane, until `*word` is at least `target`. */
HEDDLE_INLINE int32_t heddle_await(const heddle_env *env, const uint64_t *word, uint64_t target) {
  while (heddle_load(word) < target) {
    int32_t code = heddle_look(env);
    if (code) return code;
    HEDDLE_PAUSE;
  }
  return heddle_look(env);
}

/* Waits until all blocks have come here. What any of them wrote before is seen by all after. */
HEDDLE_INLINE int32_t heddle_barrier(const heddle_env *env, int32_t worker, int32_t workers) {
  int32_t code = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint64_t target = ++env->lanes[worker].round * (uint64_t)workers;
    __threadfence();
    heddle_arrive(env->arrived);
    code = heddle_await(env, env->arrived, target);
    __threadfence();
  }
  return __syncthreads_or(code);
}

/* Lets others go on who wait for this block to reach `epoch`. */
HEDDLE_INLINE void heddle_signal(const heddle_env *env, int32_t worker, uint64_t epoch) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    heddle_store(&env->lanes[worker].signalled, epoch);
  }
}

/* Waits until block `other` has signalled `epoch` or a later one. */
HEDDLE_INLINE int32_t heddle_wait(const heddle_env *env, int32_t other, uint64_t epoch) {
  int32_t code = 0;
  if (threadIdx.x == 0) {
    code = heddle_await(env, &env->lanes[other].signalled, epoch);
    __threadfence();
  }
  return __syncthreads_or(code);
}

/* Waits until all blocks of a team have come here; the barrier is that of its middle, where it is cut into parts. */
HEDDLE_INLINE int32_t heddle_meet(const heddle_env *env, int32_t first, int32_t workers) {
  if (workers == 1) return heddle_poll(env);
  int32_t code = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    heddle_lane_state *lane = &env->lanes[first + workers / 2];
    uint64_t met = heddle_load(&lane->met);
    __threadfence();
    if (atomicAdd((unsigned long long *)&lane->come, 1ull) + 1 == (unsigned long long)workers) {
      __threadfence(); /* what the others wrote before they came is let go with `met` */
      heddle_store(&lane->come, 0);
      heddle_store(&lane->met, met + 1);
      code = heddle_look(env);
    } else {
      code = heddle_await(env, &lane->met, met + 1);
    }
    __threadfence();
  }
  return __syncthreads_or(code);
}

/* Before iteration number `done` (from 0) of a loop: stops at the limit, or when the run is to stop. */
HEDDLE_INLINE int32_t heddle_iteration(const heddle_env *env, uint32_t site, int64_t done) {
  if (done >= env->max_iterations && threadIdx.x == 0)
    heddle_fail(env, HEDDLE_ITERATIONS, site, done, env->max_iterations);
  return heddle_poll(env);
}

/* Before a call that makes the stack `depth` frames deep. */
HEDDLE_INLINE int32_t heddle_depth(const heddle_env *env, uint32_t site, int64_t depth) {
  if (depth > env->max_depth && threadIdx.x == 0)
    heddle_fail(env, HEDDLE_DEPTH, site, depth, env->max_depth);
  return heddle_poll(env);
}

/* Adds count * size, rounded up to 64, to *total; keeps it negative once it has overflowed. */
HEDDLE_INLINE void heddle_reserve(int64_t *total, int64_t count, int64_t size) {
  if (*total < 0 || count < 0 || (count > 0 && size > (INT64_MAX - 128) / count)) {
    *total = -1;
    return;
  }
  int64_t bytes = (count * size + 63) & ~INT64_C(63);
  *total = bytes > INT64_MAX - *total ? -1 : *total + bytes;
}

/* The product of two sizes; negative where it overflows or one of them is. */
HEDDLE_INLINE int64_t heddle_count(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a < 0 || b < 0 || b > INT64_MAX / a ? -1 : a * b;
}

#define HEDDLE_PROGRAM(inputs, outputs, constants, sizes, table_len)                               \
  extern "C" __device__ const int64_t heddle_program[] = {1,         (inputs), (outputs),          \
                                                          (constants), (sizes), (table_len)}
#define HEDDLE_PLAN static __device__ int64_t heddle_plan(const int64_t *sizes, int64_t *table)
#define HEDDLE_MAIN                                                                                \
  static __device__ int32_t heddle_main(const heddle_env *env, int32_t worker, int32_t workers)

HEDDLE_PLAN;
HEDDLE_MAIN;

extern "C" __global__ void heddle_plan_memory(const int64_t *sizes, int64_t *table, int64_t *total) {
  *total = heddle_plan(sizes, table);
}

extern "C" __global__ void __launch_bounds__(256) heddle_run(heddle_env env) {
  heddle_main(&env, (int32_t)blockIdx.x, (int32_t)gridDim.x);
}

/* An index into an axis of this size; a negative one counts from the end. Out of range raises an error and gives 0. */
HEDDLE_INLINE int64_t heddle_at(const heddle_env *env, uint32_t site, int64_t i, int64_t size) {
  int64_t k = i < 0 ? i + size : i;
  if (k >= 0 && k < size) return k;
  if (env) heddle_fail(env, HEDDLE_INDEX, site, i, size);
  return 0;
}

/* What the shared functions call by the host compilers' names. */
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_sqrtf sqrtf
#define __builtin_isnan isnan

/* The bits of a number, and the number of bits. */
HEDDLE_INLINE uint32_t heddle_bits(float x) { return __float_as_uint(x); }
HEDDLE_INLINE float heddle_from_bits(uint32_t bits) { return __uint_as_float(bits); }
