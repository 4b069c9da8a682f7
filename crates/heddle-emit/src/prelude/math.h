/* Single-precision functions without branches, so that loops over them become vector code; for every target whose
 * prelude defines HEDDLE_INLINE, heddle_bits and heddle_from_bits. Names are heddle_OPERATION_TYPE.
 *
 * Polynomials are least-maximum fits to the functions themselves, by Remez' algorithm in 40 digits; errors are at most 2 units in
 * the last place (crates/heddle-emit/tests/emit/math.rs measures them). A comparison is written so that NaN falls through it. */

/* Adding this rounds to the nearest integer, which then stands in the lowest bits. */
#define HEDDLE_ROUND 0x1.8p23f

/* 2^n for -126 <= n <= 127. */
HEDDLE_INLINE float heddle_power_of_two(int32_t n) {
  return heddle_from_bits((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; *n is n. The high part of ln 2 has few bits, so its multiples are exact. */
HEDDLE_INLINE float heddle_reduce_exp(float x, int32_t *n) {
  float shifted = x * 0x1.715476p+0f + HEDDLE_ROUND;
  float whole = shifted - HEDDLE_ROUND;
  *n = (int32_t)(heddle_bits(shifted) - heddle_bits(HEDDLE_ROUND));
  return x - whole * 0x1.62e4p-1f - whole * 0x1.7f7d1cp-20f;
}

/* exp(r) for |r| <= ln 2 / 2. */
HEDDLE_INLINE float heddle_exp_near(float r) {
  float q = 0x1.6a234ap-10f;
  q = q * r + 0x1.123a6cp-7f;
  q = q * r + 0x1.5558f4p-5f;
  q = q * r + 0x1.555490p-3f;
  q = q * r + 0x1.fffffcp-2f;
  return r * r * q + r + 1;
}

HEDDLE_INLINE float heddle_exp_f32(float x) {
  /* Below -104 the result is 0. At -176 so is each half of the power: a product of numbers that are too small for it takes some
   * processors a hundred cycles. */
  float low = -104 > x ? -176 : x;
  float in = 89 < low ? 89 : low;
  int32_t n;
  float p = heddle_exp_near(heddle_reduce_exp(in, &n));
  /* The power is applied in two halves: it may itself be out of range. */
  int32_t half = n >> 1;
  return p * heddle_power_of_two(half) * heddle_power_of_two(n - half);
}

/* exp(x) for x <= 0. The exponent stays in range until the last step, which may round to a subnormal number; the bits of NaN do not
 * survive, so that it is added. */
HEDDLE_INLINE float heddle_exp_below(float x) {
  int32_t n;
  float r = heddle_reduce_exp(-104 > x ? -104 : x, &n);
  uint32_t bits = heddle_bits(heddle_exp_near(r)) + ((uint32_t)(n + 24) << 23);
  return heddle_from_bits(bits) * 0x1p-24f + 0 * r;
}

/* (exp(x) - 1) / 2 for -40 <= x <= 89. */
HEDDLE_INLINE float heddle_half_expm1(float x) {
  int32_t n;
  float r = heddle_reduce_exp(x, &n);
  float q = 0x1.a2a44ep-13f;
  q = q * r + 0x1.6d83f6p-10f;
  q = q * r + 0x1.11101cp-7f;
  q = q * r + 0x1.55549ep-5f;
  q = q * r + 0x1.555556p-3f;
  q = q * r + 0.5f;
  float p = r * r * q + r;
  /* 2^n (p + 1) - 1, by half of the power: 2^128 is no number. */
  float scale = heddle_power_of_two(n - 1);
  return p * scale + (scale - 0.5f);
}

HEDDLE_INLINE float heddle_expm1_f32(float x) {
  float low = -40 > x ? -40 : x;
  return 2 * heddle_half_expm1(89 < low ? 89 : low);
}

/* 1 / (1 + exp(-x)), without overflow. */
HEDDLE_INLINE float heddle_sigmoid_f32(float x) {
  float e = heddle_exp_below(-__builtin_fabsf(x));
  return (x < 0 ? e : 1) / (1 + e);
}

HEDDLE_INLINE float heddle_tanh_f32(float x) {
  float a = __builtin_fabsf(x);
  float e = heddle_half_expm1(2 * (10 < a ? 10 : a));
  return __builtin_copysignf(e / (e + 1), x);
}

/* log(x) = n ln 2 + log(1 + t) for the n that puts 1 + t nearest to 1. */
HEDDLE_INLINE float heddle_log_f32(float x) {
  int small = x < 0x1p-126f;
  float scaled = small ? x * 0x1p23f : x;
  int32_t n = (int32_t)(heddle_bits(scaled) - heddle_bits(0x1.6a09e6p-1f)) >> 23;
  float t = heddle_from_bits(heddle_bits(scaled) - ((uint32_t)n << 23)) - 1;
  float p = 0x1.1457e4p-4f;
  p = p * t - 0x1.de3bf6p-4f;
  p = p * t + 0x1.e6f03cp-4f;
  p = p * t - 0x1.fc2208p-4f;
  p = p * t + 0x1.23376cp-3f;
  p = p * t - 0x1.555c4ep-3f;
  p = p * t + 0x1.99a4b6p-3f;
  p = p * t - 0x1.000006p-2f;
  p = p * t + 0x1.555548p-2f;
  float power = (float)(small ? n - 23 : n);
  float low = t * t * t * p + power * 0x1.7f7d1cp-20f;
  float y = t - 0.5f * t * t + low + power * 0x1.62e4p-1f;
  float outside = x == 0 ? -INFINITY : x > 0 ? x : NAN;
  return x > 0 && x < INFINITY ? y : outside;
}

HEDDLE_INLINE float heddle_erf_f32(float x) {
  float a = __builtin_fabsf(x);
  float s = a * a;
  float near = 0x1.4969f6p-14f;
  near = near * s - 0x1.a3f6e8p-11f;
  near = near * s + 0x1.5405aep-8f;
  near = near * s - 0x1.b7f90cp-6f;
  near = near * s + 0x1.ce2cf8p-4f;
  near = near * s - 0x1.81273ep-2f;
  near = near * s + 0x1.06eba8p-3f;
  /* Further out it is 1 minus the exponential of a polynomial. */
  float in = 4 < a ? 4 : a;
  float far = -0x1.871c72p-13f;
  far = far * in + 0x1.828310p-9f;
  far = far * in - 0x1.65e04ap-6f;
  far = far * in + 0x1.a65e8cp-4f;
  far = far * in + 0x1.46b93cp-1f;
  far = far * in + 0x1.208972p+0f;
  far = far * in + 0x1.63f7f4p-12f;
  float y = a > 1 ? 1 - heddle_exp_f32(-far) : a + a * near;
  return __builtin_copysignf(y, x);
}
