/* Scalar operations that C lacks or defines differently from the graph IR, in front of emitted C
 * programs. Names are heddle_OPERATION_TYPE; types are those of the graph IR. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define HEDDLE_ASSERT(holds, text) _Static_assert(holds, text)

/* In a loop: its iterations are not computed side by side; those of loops within may be. */
#define HEDDLE_IN_ORDER __asm__ volatile("")

/* Before a loop over the elements of a vector: written out, GCC 12 computes them one by one. */
#define HEDDLE_ROLLED _Pragma("GCC unroll 1")

/* Bytes of a vector. Tests define HEDDLE_LONG_VECTORS, since a compiler makes vectors of 64 bytes of shorter ones on other processors. */
#if defined(__AVX512F__) || defined(HEDDLE_LONG_VECTORS)
#define HEDDLE_VECTOR 64
#elif defined(__AVX__)
#define HEDDLE_VECTOR 32
#else
#define HEDDLE_VECTOR 16
#endif

/* A vector that several operations use is loaded once: otherwise GCC 12 folds the load into each of them. */
#if defined(HEDDLE_LONG_VECTORS)
#define HEDDLE_IN_REGISTER(x) (void)(x)
#elif defined(__x86_64__)
#define HEDDLE_IN_REGISTER(x) __asm__ volatile("" : "+v"(x))
#elif defined(__aarch64__)
#define HEDDLE_IN_REGISTER(x) __asm__ volatile("" : "+w"(x))
#else
#define HEDDLE_IN_REGISTER(x) (void)(x)
#endif

/* A sum is computed before what a later step loads. A barrier for memory holds back loads alone: clang 19 moves the sums of several steps
 * behind the loads of all of them, and spills the factors. */
#if defined(__clang__)
#define HEDDLE_IN_TURN(x) HEDDLE_IN_REGISTER(x)
#else
#define HEDDLE_IN_TURN(x) (void)(x)
#endif

/* Elements of tables, at any address. */
#define HEDDLE_UNALIGNED(type) typedef type heddle_unaligned_##type __attribute__((aligned(1)))
HEDDLE_UNALIGNED(float);
HEDDLE_UNALIGNED(double);
HEDDLE_UNALIGNED(int8_t);
HEDDLE_UNALIGNED(int16_t);
HEDDLE_UNALIGNED(int32_t);
HEDDLE_UNALIGNED(int64_t);
HEDDLE_UNALIGNED(uint8_t);
HEDDLE_UNALIGNED(uint16_t);
HEDDLE_UNALIGNED(uint32_t);
HEDDLE_UNALIGNED(uint64_t);

/* Vectors of sixteen bytes, to move elements of four and eight bytes. */
typedef int32_t heddle_words __attribute__((vector_size(16), aligned(4), may_alias));
typedef int64_t heddle_pairs __attribute__((vector_size(16), aligned(8), may_alias));
#if defined(__clang__)
#define HEDDLE_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define HEDDLE_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (heddle_##type){__VA_ARGS__})
#endif

/* An index into an axis of this size; a negative one counts from the end. Out of range raises an error and gives 0. */
HEDDLE_INLINE int64_t heddle_at(const heddle_env *env, uint32_t site, int64_t i, int64_t size) {
  int64_t k = i < 0 ? i + size : i;
  if (HEDDLE_LIKELY(k >= 0 && k < size)) return k;
  if (env) heddle_fail(env, HEDDLE_INDEX, site, i, size);
  return 0;
}

/* The bits of a number, and the number of bits. */
HEDDLE_INLINE uint32_t heddle_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
HEDDLE_INLINE float heddle_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* For random.h. */
#define heddle_high(a, b) ((uint64_t)((unsigned __int128)(a) * (b) >> 64))
#define heddle_zeros(a) __builtin_clzll(a)
#define heddle_root(a) sqrt(a)
