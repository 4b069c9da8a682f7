/* What emitted CUDA programs start with. A program is one persistent kernel: blocks are the units, their threads are lanes.
 *
 *   heddle_run<<<blocks, threads>>>(env)   all blocks must be resident (a cooperative launch)
 *
 * Nothing is included, so that it compiles without any toolkit beside the compiler. All lanes of a block get the same value from
 * a barrier, a wait or a poll, so that a block leaves as a whole.
 *
 * The target's words come first: types, qualifiers, a lane's place, barriers, votes, atomics, fences, and the kernel's entry. The
 * rest of a program uses these words alone. The simulator (heddle-runtime's sim.h, included before this text) defines the same
 * words for the host's C++ compiler, so that it builds this very text. */
#ifndef HEDDLE_SIM
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

#define HEDDLE_INLINE static __device__ __forceinline__
#define HEDDLE_COLD static __device__ __noinline__
/* A function that the compiler may inline or not; one that is not inlined, such as that of an operator; data that the host reads. */
#define HEDDLE_STATIC static __device__
#define HEDDLE_FUNCTION static __device__ __noinline__
#define HEDDLE_SYMBOL extern "C" __device__ const
#define HEDDLE_ALIGNED(bytes) __align__(bytes)
/* An array that the lanes of a block share, aligned for the widest copies. */
#define HEDDLE_SHARED(type, name, count) __shared__ __align__(16) type name[count]
/* Four neighbouring numbers, and their load from an address that is a multiple of 16. */
typedef struct HEDDLE_ALIGNED(16) heddle_quad {
  float v[4];
} heddle_quad;
#define heddle_load_quad(place) (*(const heddle_quad *)(place))
/* The shared array of resident operands, whose bytes a launch gives each block. */
#define HEDDLE_RESIDENTS(words) extern __shared__ __align__(16) float heddle_residents_array[]
#define heddle_residents() heddle_residents_array
/* The array lies in global memory: accesses need not find out which kind of memory an address is of. */
#define HEDDLE_GLOBAL(array) __builtin_assume(__isGlobal(array))
/* The array lies in the block's shared memory. */
#define HEDDLE_ON_CHIP(array) __builtin_assume(__isShared(array))
/* Before a loop whose trip count is a constant: it is written out, so that arrays that it indexes are registers. */
#define HEDDLE_UNROLL _Pragma("unroll")
/* Before others: the compiler leaves it as it is, or writes out a few iterations. */
#define HEDDLE_ROLLED _Pragma("unroll 1")
#define HEDDLE_ROLLED_IN_PART _Pragma("unroll 4")
/* The kernel: a block of up to 256 lanes for each multiprocessor, whose registers they share. Its argument is not copied to memory of each lane. */
#define HEDDLE_KERNEL                                                                              \
  extern "C" __global__ void __launch_bounds__(256, 1)                                             \
      heddle_run(const __grid_constant__ heddle_env env) {                                         \
    heddle_block_main(&env, heddle_block, heddle_blocks);                                          \
  }
/* Notes the line of a call that waits; for the simulator's messages. */
#define HEDDLE_HERE (void)0

/* This lane and the number of lanes, this block and the number of blocks. */
#define heddle_lane ((int64_t)threadIdx.x)
#define heddle_lanes ((int64_t)blockDim.x)
#define heddle_block ((int32_t)blockIdx.x)
#define heddle_blocks ((int32_t)gridDim.x)

/* Barrier of a block's lanes; the same, which is not 0 if a value is not 0 in one of them; the same of `count` lanes, a multiple of
 * the warp, at barrier `id` from 1 to 15. */
#define HEDDLE_UNIT_SYNC __syncthreads()
#define heddle_unit_or(value) __syncthreads_or(value)
#define heddle_named_sync(id, count)                                                               \
  asm volatile("bar.sync %0, %1;" : : "r"((int32_t)(id)), "r"((int32_t)(count)) : "memory")
/* Of a warp, whose lanes all take part: a barrier, their number, a vote, another lane's value. */
#define HEDDLE_WARP_SYNC __syncwarp()
#define heddle_warp 32
#define heddle_warp_any(value) __any_sync(0xffffffffu, (value))
#define heddle_warp_all(value) __all_sync(0xffffffffu, (value))
#define heddle_shuffle(value, from) __shfl_sync(0xffffffffu, (value), (from))

/* Of a warp of 32 lanes: d += a b for rows of 16 and columns of 8, with operands of f32 that are rounded to tf32 (8 deep), bf16 or
 * f16 (16 deep) and sums in f32. Lanes hold the fragments of PTX's `mma.sync.m16n8k8` and `m16n8k16`; from sm_80 on. */
static __device__ __forceinline__ void heddle_mma_tf32(float (&d)[4], const float (&a)[4],
                                                       const float (&b)[2]) {
  uint32_t word[6];
  for (int i = 0; i < 6; i++)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word[i]) : "f"(i < 4 ? a[i] : b[i - 4]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
               "%7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(word[4]), "r"(word[5]));
}
#define HEDDLE_MMA(name)                                                                           \
  static __device__ __forceinline__ void heddle_mma_##name(float (&d)[4], const float (&a)[8],     \
                                                           const float (&b)[4]) {                  \
    uint32_t word[6];                                                                              \
    for (int i = 0; i < 6; i++) {                                                                  \
      const float low = i < 4 ? a[2 * i] : b[2 * i - 8], high = i < 4 ? a[2 * i + 1] : b[2 * i - 7]; \
      asm("cvt.rn." #name "x2.f32 %0, %1, %2;" : "=r"(word[i]) : "f"(high), "f"(low));             \
    }                                                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #name "." #name                          \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(word[4]),           \
                   "r"(word[5]));                                                                  \
  }
HEDDLE_MMA(bf16)
HEDDLE_MMA(f16)

/* The bits of a number that is rounded to tf32; of two neighbours that are rounded to bf16 or f16. */
static __device__ __forceinline__ uint32_t heddle_word_tf32(float x) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}
#define HEDDLE_WORD(name)                                                                         \
  static __device__ __forceinline__ uint32_t heddle_word_##name(float low, float high) {           \
    uint32_t word;                                                                                 \
    asm("cvt.rn." #name "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));                  \
    return word;                                                                                   \
  }
HEDDLE_WORD(bf16)
HEDDLE_WORD(f16)

/* Of a warpgroup, four warps whose first is a multiple of four, on sm_90a alone (PTX ISA, "Asynchronous Warpgroup Level Matrix
 * Instructions"): d += a b for 64 rows and 8 to 128 columns, by descriptors of both matrices in shared memory (`heddle_matrix`), 8 deep
 * with tf32 and 16 deep with bf16 or f16, sums in f32. Lane `l` of warp `w` has, in d[4 j + 2 i + k], row 16 w + 8 i + l / 4 and column
 * 8 j + l % 4 * 2 + k ("Register Fragments and Shared Memory Matrix Layouts").
 *
 * Elements are stored 16 bytes at a time (`heddle_wgmma_share`), already rounded, since of 32 bits the last 13 are ignored. Tensor cores
 * see them behind `heddle_wgmma_shared` of the lane that stored them and a barrier: theirs is the asynchronous proxy ("Async proxy").
 * Products stand between `heddle_wgmma_open`, which orders accesses to their sums before, and `heddle_wgmma_close`; sums are there, and
 * operands may be written again, behind `heddle_wgmma_wait`. */
#define heddle_shared_address(place) ((uint32_t)__cvta_generic_to_shared(place))
#define heddle_wgmma_share(place, word0, word1, word2, word3)                                      \
  (*(uint4 *)(place) = make_uint4((word0), (word1), (word2), (word3)))
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define heddle_wgmma_shared() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define heddle_wgmma_open() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define heddle_wgmma_close() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
/* Nothing reads the sums before. */
template <int count, int half>
static __device__ __forceinline__ void heddle_wgmma_wait(float (&d)[count][half]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  HEDDLE_UNROLL
  for (int i = 0; i < count; i++) {
    HEDDLE_UNROLL
    for (int j = 0; j < half; j++) asm volatile("" : "+f"(d[i][j])::"memory");
  }
}
#define HEDDLE_SUMS_8 "%0, %1, %2, %3"
#define HEDDLE_SUMS_16 HEDDLE_SUMS_8 ", %4, %5, %6, %7"
#define HEDDLE_SUMS_32 HEDDLE_SUMS_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define HEDDLE_SUMS_64                                                                             \
  HEDDLE_SUMS_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HEDDLE_SUMS_128                                                                            \
  HEDDLE_SUMS_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
                 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HEDDLE_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HEDDLE_LANES_8(d) HEDDLE_FOUR(d, 0)
#define HEDDLE_LANES_16(d) HEDDLE_LANES_8(d), HEDDLE_FOUR(d, 4)
#define HEDDLE_LANES_32(d) HEDDLE_LANES_16(d), HEDDLE_FOUR(d, 8), HEDDLE_FOUR(d, 12)
#define HEDDLE_LANES_64(d)                                                                         \
  HEDDLE_LANES_32(d), HEDDLE_FOUR(d, 16), HEDDLE_FOUR(d, 20), HEDDLE_FOUR(d, 24), HEDDLE_FOUR(d, 28)
#define HEDDLE_LANES_128(d)                                                                        \
  HEDDLE_LANES_64(d), HEDDLE_FOUR(d, 32), HEDDLE_FOUR(d, 36), HEDDLE_FOUR(d, 40),                  \
      HEDDLE_FOUR(d, 44), HEDDLE_FOUR(d, 48), HEDDLE_FOUR(d, 52), HEDDLE_FOUR(d, 56), HEDDLE_FOUR(d, 60)
/* The last words: d is added to, no operand is negated, and of 16 bits neither is transposed. */
#define HEDDLE_WGMMA(name, depth, columns, a_at, b_at, plain)                                      \
  static __device__ __forceinline__ void heddle_wgmma_##name(float (&d)[columns / 2], uint64_t a,  \
                                                             uint64_t b) {                         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k" #depth ".f32." #name "." #name   \
                 " {" HEDDLE_SUMS_##columns "}, " a_at ", " b_at ", 1, 1, 1" plain ";"             \
                 : HEDDLE_LANES_##columns(d)                                                       \
                 : "l"(a), "l"(b));                                                                \
  }
#define HEDDLE_WGMMAS(columns, a_at, b_at)                                                         \
  HEDDLE_WGMMA(tf32, 8, columns, a_at, b_at, "")                                                   \
  HEDDLE_WGMMA(bf16, 16, columns, a_at, b_at, ", 0, 0")                                            \
  HEDDLE_WGMMA(f16, 16, columns, a_at, b_at, ", 0, 0")
HEDDLE_WGMMAS(8, "%4", "%5")
HEDDLE_WGMMAS(16, "%8", "%9")
HEDDLE_WGMMAS(32, "%16", "%17")
HEDDLE_WGMMAS(64, "%32", "%33")
HEDDLE_WGMMAS(128, "%64", "%65")
#endif

/* Of a cluster, from sm_90 on: this block's number and the number of blocks, a barrier of all lanes, and the shared array of the
 * block of that number, whose elements are read and written by index. A block may not end before others are done with its arrays. */
#define heddle_rank (heddle_cluster_word(0))
#define heddle_ranks (heddle_cluster_word(1))
static __device__ __forceinline__ int32_t heddle_cluster_word(int number) {
  int32_t rank, ranks;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
  return number ? ranks : rank;
}
#define HEDDLE_CLUSTER_SYNC                                                                        \
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory")
template <class T> static __device__ __forceinline__ T *heddle_of_rank(T *array, int32_t rank) {
  uint64_t place;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(place) : "l"(array), "r"(rank));
  return (T *)place;
}

/* Stores to the same element of an array that each of the cluster's first `ranks` blocks has at the same place of its shared memory. */
#define heddle_store_ranks(array, at, value, ranks)                                                \
  heddle_store_to_ranks<ranks>((array) + (at), (value))
template <int32_t ranks>
static __device__ __forceinline__ void heddle_store_to_ranks(float *place, float value) {
  const uint32_t own = (uint32_t)__cvta_generic_to_shared(place);
  HEDDLE_UNROLL
  for (int32_t rank = 0; rank < ranks; rank++) {
    uint32_t other;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" : : "r"(other), "f"(value) : "memory");
  }
}
/* The barrier of a block that stays for the others of its cluster, which may be anywhere in the program. */
#define HEDDLE_CLUSTER_STAY HEDDLE_CLUSTER_SYNC

/* Asynchronous copies of 4, 8 or 16 aligned bytes to a shared array, from sm_80 on: a thread closes groups of its copies, and waits
 * until at most so many of the last groups are on their way. Other lanes see what was copied behind a barrier after that. */
#if __CUDA_ARCH__ >= 800
#define heddle_copy_async(to, from, bytes)                                                         \
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"                                         \
               :                                                                                   \
               : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes)                \
               : "memory")
#define heddle_copy_close() asm volatile("cp.async.commit_group;" ::: "memory")
#define heddle_copy_wait(groups) asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory")
#else
#define heddle_copy_async(to, from, bytes) memcpy((to), (from), (bytes))
#define heddle_copy_close() (void)0
#define heddle_copy_wait(groups) (void)(groups)
#endif

/* Nanoseconds since some time before the launch. */
static __device__ __forceinline__ uint64_t heddle_clock() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

/* A word in the host's memory, which takes a microsecond or more; a store to one. */
#define heddle_load_host(word) (*(const volatile uint32_t *)(word))
#define heddle_store_host(word, value) (*(volatile uint32_t *)(word) = (value))
/* Words in global memory that blocks share. */
#define heddle_pause() __nanosleep(32)
#define heddle_fence() __threadfence()
#define heddle_fence_system() __threadfence_system()
static __device__ __forceinline__ uint32_t heddle_load_relaxed(const uint32_t *word) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
#define heddle_swap_if(word, expected, value) atomicCAS((word), (expected), (value))
#define heddle_add(word, value)                                                                    \
  ((uint64_t)atomicAdd((unsigned long long *)(word), (unsigned long long)(value)))
static __device__ __forceinline__ uint64_t heddle_load_acquire(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
static __device__ __forceinline__ void heddle_store_release(uint64_t *word, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}
/* The same without an order of other accesses. */
static __device__ __forceinline__ uint64_t heddle_load_word(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
static __device__ __forceinline__ void heddle_store_word(uint64_t *word, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}
static __device__ __forceinline__ void heddle_arrive(uint64_t *word) {
  asm volatile("red.release.gpu.global.add.u64 [%0], 1;" : : "l"(word) : "memory");
}

/* The host compilers' builtins that the shared functions call. */
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_sqrtf sqrtf
#define __builtin_isnan isnan

/* The bits of a number; the number of zeros before the first bit; for random.h. */
HEDDLE_INLINE uint32_t heddle_bits(float x) { return __float_as_uint(x); }
HEDDLE_INLINE float heddle_from_bits(uint32_t bits) { return __uint_as_float(bits); }
#define heddle_high(a, b) __umul64hi(a, b)
#define heddle_zeros(a) __clzll((int64_t)(a))
#define heddle_root(a) __dsqrt_rn(a)
#endif
/* The end of the target's words. */

#define HEDDLE_LIKELY(x) (x)
#define HEDDLE_UNLIKELY(x) (x)

/* Leaves the function with the code of `call` if that is not zero. A block that waited there notes the line. */
#define HEDDLE_TRY(call)                                                                           \
  do {                                                                                             \
    HEDDLE_HERE;                                                                                   \
    int32_t heddle_code_ = (call);                                                                 \
    if (heddle_code_) return heddle_tried(env, __LINE__, heddle_code_);                             \
  } while (0)

/* Of hosts that change the number of units in a launch; here it is fixed. */
typedef int32_t heddle_decide(void *crew, int32_t ask);
/* Commits bytes of the segment that begins in a slot, in total; else an error code and its values. */
typedef int32_t heddle_commit(void *growth, int64_t slot, int64_t bytes, int64_t values[2]);

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

/* Raises an error unless there is one. */
HEDDLE_COLD int32_t heddle_fail(const heddle_env *env, uint32_t code, uint32_t site, int64_t a,
                                int64_t b) {
  uint32_t before = HEDDLE_OK;
  uint32_t standing = heddle_swap_if(&env->error->code, before, code);
  if (standing == HEDDLE_UNWATCHED) {
    before = standing;
    standing = heddle_swap_if(&env->error->code, before, code);
  }
  if (standing != before) return (int32_t)standing;
  env->error->site = site;
  env->error->values[0] = a;
  env->error->values[1] = b;
  return (int32_t)code;
}

/* Nanoseconds between a block's looks at the host's word. */
#define HEDDLE_LOOK_NS 100000

/* One lane's view: an error was raised, or the run was cancelled. Block 0 alone looks at the host's word, now and then, and
 * raises an error for the others, which read the device's memory. */
HEDDLE_INLINE int32_t heddle_look(const heddle_env *env) {
  uint32_t code = heddle_load_relaxed(&env->error->code);
  if (code == HEDDLE_OK && heddle_block > 0) return 0;
  if (code != HEDDLE_OK && code != HEDDLE_UNWATCHED) return (int32_t)code;
  uint64_t *looked = &env->units[heddle_block].looked, now = heddle_clock();
  /* The end of a launch is too short for a look of each block. */
  if (heddle_block > 0 && *looked == 0) *looked = now;
  if (now - *looked < HEDDLE_LOOK_NS) return 0;
  *looked = now;
  return heddle_load_host(env->cancel) ? heddle_fail(env, HEDDLE_CANCELLED, 0, 0, 0) : 0;
}

/* The whole block's decision: not zero if the run stops. */
HEDDLE_INLINE int32_t heddle_poll(const heddle_env *env) {
  return heddle_unit_or(heddle_lane == 0 ? heddle_look(env) : 0);
}

/* Notes a wait of this block that an error ends: its kind, the blocks that it is for, and their number of the barrier,
 * signal or meeting. Nothing is noted while all goes well. */
HEDDLE_COLD int32_t heddle_waited(const heddle_env *env, int32_t code, uint32_t kind, int32_t first,
                                  int32_t count, uint64_t awaited) {
  heddle_unit *unit = &env->units[heddle_block];
  unit->waits = kind;
  unit->first = first, unit->count = count, unit->awaited = awaited;
  return code;
}

/* Notes the line of that wait. */
HEDDLE_COLD int32_t heddle_tried(const heddle_env *env, uint32_t line, int32_t code) {
  heddle_unit *unit = &env->units[heddle_block];
  if (heddle_lane == 0 && unit->waits != HEDDLE_WAITS_NOTHING && unit->line == 0) unit->line = line;
  return code;
}

/* Looks of a wait between two at the clock. */
#define HEDDLE_LOOKS 256

/* One lane's view after so many looks of a wait: an error was raised, also by this wait, if it began long ago. */
HEDDLE_INLINE int32_t heddle_awaited(const heddle_env *env, uint32_t looks, uint64_t *begin) {
  int32_t code = heddle_look(env);
  if (looks % HEDDLE_LOOKS == 0 && code == 0) {
    const uint64_t now = heddle_clock();
    if (*begin == 0) *begin = now;
    if (now - *begin > env->watchdog) code = heddle_fail(env, HEDDLE_STUCK, 0, heddle_block, 0);
  }
  return code;
}

/* A wait that ends well has not looked for errors: whoever an error ends does not come to the next wait, and a loop looks. */

/* Waits, in one lane, until `*word` is at least `target`; the rest is what `heddle_waited` notes. */
HEDDLE_INLINE int32_t heddle_await(const heddle_env *env, const uint64_t *word, uint64_t target,
                                   uint32_t kind, int32_t first, int32_t count, uint64_t awaited) {
  uint64_t begin = 0;
  for (uint32_t looks = 1; heddle_load_acquire(word) < target; looks++) {
    int32_t code = heddle_awaited(env, looks, &begin);
    if (code) return heddle_waited(env, code, kind, first, count, awaited);
    heddle_pause();
  }
  return 0;
}

/* Functions of syncs are not inlined: a program has hundreds of calls in one function, and a call takes less than any of them.
 *
 * Blocks synchronise by a release and an acquire in one lane each. The barriers of a block's lanes around them order the accesses of the
 * other lanes, since causality in PTX's memory model passes through both: no fence is needed besides. */

/* Barrier of all blocks. Earlier writes of any block are visible to all after it. */
HEDDLE_FUNCTION int32_t heddle_barrier(const heddle_env *env, int32_t worker, int32_t workers) {
  int32_t code = 0;
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) {
    uint64_t round = ++env->units[worker].round;
    heddle_arrive(&env->sync->arrived);
    code = heddle_await(env, &env->sync->arrived, round * (uint64_t)workers, HEDDLE_WAITS_BARRIER,
                        0, workers, round);
  }
  return heddle_unit_or(code);
}

/* Signals `epoch` to the blocks that wait for this one. */
HEDDLE_FUNCTION void heddle_signal(const heddle_env *env, int32_t worker, uint64_t epoch) {
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) heddle_store_release(&env->units[worker].signalled, epoch);
}

/* Waits until block `other` has signalled `epoch` or a later one. */
HEDDLE_FUNCTION int32_t heddle_wait(const heddle_env *env, int32_t other, uint64_t epoch) {
  int32_t code = 0;
  if (heddle_lane == 0) {
    code = heddle_await(env, &env->units[other].signalled, epoch, HEDDLE_WAITS_SIGNAL, other, 1,
                        epoch);
  }
  return heddle_unit_or(code);
}

/* The same of the blocks from one to before another: lanes look at their signals side by side, and vote. */
HEDDLE_FUNCTION int32_t heddle_wait_for(const heddle_env *env, int32_t from, int32_t to,
                                        uint64_t epoch) {
  uint64_t begin = 0;
  for (uint32_t looks = 1;; looks++) {
    bool late = false;
    for (int64_t other = from + heddle_lane; other < to; other += heddle_lanes)
      late |= heddle_load_acquire(&env->units[other].signalled) < epoch;
    if (!heddle_unit_or(late)) return 0;
    int32_t code = 0;
    if (heddle_lane == 0) {
      code = heddle_awaited(env, looks, &begin);
      if (code) {
        int32_t first = from;
        while (first + 1 < to && heddle_load_acquire(&env->units[first].signalled) >= epoch) first++;
        heddle_waited(env, code, HEDDLE_WAITS_SIGNAL, first, 1, epoch);
      }
    }
    code = heddle_unit_or(code);
    if (code) return code;
    heddle_pause();
  }
}

/* Barrier of a team's blocks; it is that of the team's middle block, where the team is cut. */
HEDDLE_FUNCTION int32_t heddle_meet(const heddle_env *env, int32_t first, int32_t workers) {
  if (workers == 1) return heddle_poll(env);
  int32_t code = 0;
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) {
    heddle_unit *unit = &env->units[first + workers / 2];
    uint64_t met = heddle_load_acquire(&unit->met);
    heddle_fence();
    if (heddle_add(&unit->come, 1) + 1 == (uint64_t)workers) {
      heddle_fence(); /* `met` releases the writes of all other blocks */
      heddle_store_release(&unit->come, 0);
      heddle_store_release(&unit->met, met + 1);
      code = heddle_look(env);
    } else {
      code = heddle_await(env, &unit->met, met + 1, HEDDLE_WAITS_MEETING, first, workers, met + 1);
    }
    heddle_fence();
  }
  return heddle_unit_or(code);
}

/* Iterations of a loop between two that look for errors, but for the first ones: a look takes as long as a load from the L2. */
#define HEDDLE_ITERATIONS_UNSEEN 8

/* Before iteration number `done` (from 0) of a loop: stops at the limit, or if the run stops. */
HEDDLE_FUNCTION int32_t heddle_iteration(const heddle_env *env, uint32_t site, int64_t done) {
  if (done >= env->max_iterations) {
    if (heddle_lane == 0) heddle_fail(env, HEDDLE_ITERATIONS, site, done, env->max_iterations);
    return heddle_poll(env);
  }
  if (done >= HEDDLE_ITERATIONS_UNSEEN && done % HEDDLE_ITERATIONS_UNSEEN != 0) return 0;
  return heddle_poll(env);
}

/* Before a call that makes the stack `depth` frames deep. */
HEDDLE_FUNCTION int32_t heddle_depth(const heddle_env *env, uint32_t site, int64_t depth) {
  if (depth > env->max_depth && heddle_lane == 0)
    heddle_fail(env, HEDDLE_DEPTH, site, depth, env->max_depth);
  return heddle_poll(env);
}

/* The product of two sizes, or more bytes than there are if it overflows. */
HEDDLE_INLINE int64_t heddle_times(int64_t a, int64_t b) {
  const int64_t product = (int64_t)((uint64_t)a * (uint64_t)b);
  const bool fits = heddle_high((uint64_t)a, (uint64_t)b) == 0 && product >= 0;
  return fits ? product : 0x7fffffffffffffffLL;
}

/* The larger of two numbers of bytes. */
HEDDLE_INLINE int64_t heddle_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* True if fewer bytes of a segment are committed than `bytes` from a place in it on and those before. A kernel
 * that runs cannot commit more: it ends with the slot and the bytes, and is launched again when the host has. */
HEDDLE_INLINE bool heddle_lacks(const heddle_env *env, const void *place, int64_t bytes) {
  const int64_t at = (const uint8_t *)place - env->segments, slot = at >> env->slot_bits;
  return bytes > env->committed[slot] - (at - (slot << env->slot_bits));
}

/* Ends the kernel for want of bytes; the next launch goes on at `point`, or begins anew if that is 0. The point is
 * in the upper half of the first value. */
HEDDLE_COLD int32_t heddle_leave(const heddle_env *env, uint32_t site, int64_t point,
                                 const void *place, int64_t bytes) {
  const int64_t at = (const uint8_t *)place - env->segments, slot = at >> env->slot_bits;
  const int64_t before = at - (slot << env->slot_bits), most = 0x7fffffffffffffffLL;
  if (heddle_lane == 0)
    heddle_fail(env, HEDDLE_SEGMENT, site, point << 32 | slot,
                bytes > most - before ? most : bytes + before);
  return heddle_poll(env);
}

/* Where the variables cannot be kept: begins anew. */
HEDDLE_INLINE int32_t heddle_grow(const heddle_env *env, uint32_t site, const void *place,
                                  int64_t bytes) {
  return heddle_lacks(env, place, bytes) ? heddle_leave(env, site, 0, place, bytes) : 0;
}

/* Calls an operator. A build with HEDDLE_NOTES tells the host the line of the operator that a block is in, 0 between two: the
 * device's memory is lost with a fault, the host's is not. Each lane's stores have arrived before the note says that it is done. */
#ifdef HEDDLE_NOTES
#define HEDDLE_RUN(...)                                                                            \
  do {                                                                                             \
    heddle_note(env, __LINE__);                                                                    \
    __VA_ARGS__;                                                                                   \
    heddle_note(env, 0);                                                                           \
  } while (0)
HEDDLE_COLD void heddle_note(const heddle_env *env, uint32_t line) {
  heddle_fence_system();
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) heddle_store_host(&env->notes[heddle_block], line);
  heddle_fence_system();
  HEDDLE_UNIT_SYNC;
}
#else
#define HEDDLE_RUN(...) __VA_ARGS__
#endif

#define HEDDLE_ASSERT(holds, text) static_assert(holds, text)

#define HEDDLE_PROGRAM(inputs, outputs, constants, sizes, table_len)                               \
  HEDDLE_SYMBOL heddle_about heddle_program = {                                                    \
      HEDDLE_ABI, (inputs), (outputs), (constants), (sizes), (table_len)}
/* A block whose shared memory others of its cluster store to ends when they do so no more. A program has a barrier of the cluster behind
 * the last store. A block that an error ends before comes to the barriers of the others until these have ended, too. */
HEDDLE_FUNCTION int32_t heddle_stay(const heddle_env *env, int32_t worker, int32_t code) {
  HEDDLE_UNIT_SYNC;
  if (heddle_lane == 0) heddle_store_release(&env->units[worker].passed, 1);
  if (code == 0) return 0;
  const int32_t first = worker - heddle_rank, end = first + heddle_ranks;
  int32_t stays = 1;
  while (stays) {
    HEDDLE_CLUSTER_STAY;
    stays = 0;
    for (int64_t other = first + heddle_lane; other < end; other += heddle_lanes)
      stays |= heddle_load_acquire(&env->units[other].passed) == 0;
    stays = heddle_unit_or(stays);
  }
  return code;
}

/* The main function, and one that is a part of the kernel; the same of programs whose blocks store to each other's shared memory. */
#define HEDDLE_MAIN                                                                                \
  HEDDLE_FUNCTION int32_t heddle_unit_main(const heddle_env *env, int32_t worker, int32_t workers)
#define HEDDLE_MAIN_INLINED                                                                        \
  HEDDLE_INLINE int32_t heddle_unit_main(const heddle_env *env, int32_t worker, int32_t workers)

#define HEDDLE_TOGETHER(qualifier)                                                                 \
  qualifier int32_t heddle_together(const heddle_env *env, int32_t worker, int32_t workers);       \
  qualifier int32_t heddle_unit_main(const heddle_env *env, int32_t worker, int32_t workers) {     \
    return heddle_stay(env, worker, heddle_together(env, worker, workers));                        \
  }                                                                                                \
  qualifier int32_t heddle_together(const heddle_env *env, int32_t worker, int32_t workers)
#define HEDDLE_MAIN_TOGETHER HEDDLE_TOGETHER(HEDDLE_FUNCTION)
#define HEDDLE_MAIN_INLINED_TOGETHER HEDDLE_TOGETHER(HEDDLE_INLINE)

HEDDLE_STATIC int32_t heddle_unit_main(const heddle_env *env, int32_t worker, int32_t workers);

/* The program of a block. After block 0 the others look at the host's word themselves. */
HEDDLE_INLINE int32_t heddle_block_main(const heddle_env *env, int32_t worker, int32_t workers) {
  int32_t code = heddle_unit_main(env, worker, workers);
  if (code != 0 || heddle_lane != 0) return code;
  env->units[worker].waits = HEDDLE_WAITS_ENDED;
  if (worker == 0)
    heddle_swap_if(&env->error->code, (uint32_t)HEDDLE_OK, (uint32_t)HEDDLE_UNWATCHED);
  return code;
}

HEDDLE_KERNEL

/* An index into an axis of this size; a negative one counts from the end. Out of range raises an error and gives 0. */
HEDDLE_INLINE int64_t heddle_at(const heddle_env *env, uint32_t site, int64_t i, int64_t size) {
  int64_t k = i < 0 ? i + size : i;
  if (k >= 0 && k < size) return k;
  if (env) heddle_fail(env, HEDDLE_INDEX, site, i, size);
  return 0;
}
