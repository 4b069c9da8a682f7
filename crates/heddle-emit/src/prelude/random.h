/* Random numbers: functions of a key and a counter in integer arithmetic, the same on every target; for every target whose prelude
 * defines HEDDLE_INLINE, heddle_high (the upper half of a product), heddle_zeros (leading zeros) and heddle_root (the square root
 * of a double). The graph interpreter has the same steps, in Rust. */

/* The 128 random bits of a key and a counter, Philox 4x32-10. */
typedef struct heddle_random {
  uint64_t first, second;
} heddle_random;

HEDDLE_INLINE heddle_random heddle_random_bits(uint64_t key, uint64_t counter) {
  uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
  uint32_t k = (uint32_t)key, l = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t x = UINT64_C(0xd2511f53) * a, y = UINT64_C(0xcd9e8d57) * c;
    a = (uint32_t)(y >> 32) ^ b ^ k;
    b = (uint32_t)y;
    c = (uint32_t)(x >> 32) ^ d ^ l;
    d = (uint32_t)x;
    k += 0x9e3779b9u;
    l += 0xbb67ae85u;
  }
  heddle_random bits;
  bits.first = (uint64_t)b << 32 | a;
  bits.second = (uint64_t)d << 32 | c;
  return bits;
}

HEDDLE_INLINE uint64_t heddle_philox_u64(uint64_t key, uint64_t counter) {
  return heddle_random_bits(key, counter).first;
}

/* ln(1 + t) / t for 0 <= t <= sqrt(2) - 1; t in units of 2^-64, the result in units of 2^-63. */
HEDDLE_INLINE uint64_t heddle_log_over(uint64_t t) {
  uint64_t p = UINT64_C(0x00aab0d022455781);
  p = UINT64_C(0x02cb50a1e6403b4b) - heddle_high(p, t);
  p = UINT64_C(0x05ee2c4a734c396d) - heddle_high(p, t);
  p = UINT64_C(0x08dd8bd3ffbbcb20) - heddle_high(p, t);
  p = UINT64_C(0x0b058b4b1daffcf6) - heddle_high(p, t);
  p = UINT64_C(0x0ca5084ffdba0c32) - heddle_high(p, t);
  p = UINT64_C(0x0e317c3b014d2b55) - heddle_high(p, t);
  p = UINT64_C(0x0ffeff06d5ee42c3) - heddle_high(p, t);
  p = UINT64_C(0x12490bb5b5832eea) - heddle_high(p, t);
  p = UINT64_C(0x155553ac0ffd3701) - heddle_high(p, t);
  p = UINT64_C(0x19999986f34feb7d) - heddle_high(p, t);
  p = UINT64_C(0x1fffffff81591443) - heddle_high(p, t);
  p = UINT64_C(0x2aaaaaaaa8e67ef2) - heddle_high(p, t);
  p = UINT64_C(0x3ffffffffffd809b) - heddle_high(p, t);
  p = UINT64_C(0x7fffffffffffff69) - heddle_high(p, t);
  return p;
}

/* sin(q pi / 2) / q for x = q^2 <= 1, in the same units. */
HEDDLE_INLINE uint64_t heddle_sin_over(uint64_t x) {
  uint64_t p = UINT64_C(0x00000000033a8c40);
  p = UINT64_C(0x000000016f7acdb9) - heddle_high(p, x);
  p = UINT64_C(0x0000007a3cd9d7b9) - heddle_high(p, x);
  p = UINT64_C(0x00001e3074dfaf88) - heddle_high(p, x);
  p = UINT64_C(0x000541e0d2154615) - heddle_high(p, x);
  p = UINT64_C(0x009969667313e42f) - heddle_high(p, x);
  p = UINT64_C(0x0a335e33bad53e48) - heddle_high(p, x);
  p = UINT64_C(0x52aef39896f94915) - heddle_high(p, x);
  p = UINT64_C(0xc90fdaa22168c232) - heddle_high(p, x);
  return p;
}

/* -ln(u) in units of 2^-57, for u = (bits | 1) / 2^64. */
HEDDLE_INLINE uint64_t heddle_minus_log(uint64_t bits) {
  uint64_t odd = bits | 1;
  uint64_t zeros = (uint64_t)heddle_zeros(odd);
  uint64_t whole = odd << zeros;
  uint64_t divided = heddle_high(whole, UINT64_C(0xb504f333f9de6484));
  uint64_t half = divided >> 63;
  uint64_t t = (half ? divided : whole) << 1;
  uint64_t log = heddle_high(heddle_log_over(t), t) >> 6;
  uint64_t twos = (2 * zeros + 2 - half) * UINT64_C(0x00b17217f7d1cf7a);
  return twos > log ? twos - log : 0;
}

/* A standard normal number, an int64_t in units of 2^-53. */
HEDDLE_INLINE uint64_t heddle_normal_u64(uint64_t key, uint64_t counter) {
  heddle_random bits = heddle_random_bits(key, counter);
  uint64_t radius = (uint64_t)(int64_t)(heddle_root((double)(int64_t)heddle_minus_log(bits.first)) * 2147483648.0);
  uint64_t q = bits.second << 1 | 1;
  uint64_t size = heddle_high(radius, heddle_high(q, heddle_sin_over(heddle_high(q, q)))) >> 5;
  return bits.second >> 63 ? 0 - size : size;
}

/* A standard Gumbel number, in the same form. */
HEDDLE_INLINE uint64_t heddle_gumbel_u64(uint64_t key, uint64_t counter) {
  uint64_t exponential = heddle_minus_log(heddle_philox_u64(key, counter));
  return (heddle_minus_log(exponential) >> 4) - UINT64_C(0x009b43d4f8d7958a);
}
