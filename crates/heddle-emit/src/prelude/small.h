/* Elements of at most 16 bits: their layout in memory, their codes, and rounding to them. For every
 * target whose prelude defines HEDDLE_INLINE and heddle_bits. Floats of 16 bits are computed with
 * as float; elements of under 8 bits take a byte each. */

HEDDLE_INLINE double heddle_from_bits_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
HEDDLE_INLINE uint64_t heddle_bits_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Half precision. Without branches, so that loops over it become vector code. */
HEDDLE_INLINE float heddle_load_f16(uint16_t code) {
  uint32_t sign = (uint32_t)(code & 0x8000) << 16, magnitude = code & 0x7fff;
  /* A product corrects the exponent's bias; it is exact for subnormal numbers, too. */
  float value = heddle_from_bits(magnitude << 13) * heddle_from_bits(0x77800000);
  uint32_t bits = heddle_bits(value) | (magnitude >= 0x7c00 ? 0x7f800000 : 0);
  return heddle_from_bits(bits | sign);
}
HEDDLE_INLINE uint16_t heddle_store_f16(float x) {
  uint32_t bits = heddle_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  /* Rounds the significand to nearest even; a carry moves into the exponent. */
  uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  /* For subnormal numbers, adding a half aligns the last bit with the rounding position. */
  uint32_t small = heddle_bits(heddle_from_bits(magnitude) + 0.5f) - 0x3f000000;
  uint32_t code = magnitude < 0x38800000 ? small : normal;
  code = magnitude >= 0x47800000 ? 0x7c00 : code;
  code = magnitude > 0x7f800000 ? 0x7e00 : code;
  return (uint16_t)(code | sign);
}

/* The upper half of a float. */
HEDDLE_INLINE float heddle_load_bf16(uint16_t code) { return heddle_from_bits((uint32_t)code << 16); }
HEDDLE_INLINE uint16_t heddle_store_bf16(float x) {
  uint32_t bits = heddle_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

HEDDLE_INLINE float heddle_round_f16(float x) { return heddle_load_f16(heddle_store_f16(x)); }
HEDDLE_INLINE float heddle_round_bf16(float x) { return heddle_load_bf16(heddle_store_bf16(x)); }

/* A double as a float which, if inexact, has an odd significand: rounding that again equals
 * rounding the double once. */
HEDDLE_INLINE float heddle_odd(double x) {
  float f = (float)x;
  uint32_t bits = heddle_bits(f);
  if ((double)f == x || x != x || (bits & 1)) return f;
  return heddle_from_bits(fabs((double)f) < fabs(x) && fabs((double)f) < INFINITY ? bits + 1 : bits - 1);
}

/* Integers of 2 and 4 bits: their values, and wrapping or clamping to them. */
#define HEDDLE_SMALL_INTEGER(t, count, is_signed)                                                  \
  HEDDLE_INLINE int64_t heddle_value_##t(uint8_t code) {                                           \
    return is_signed ? (int8_t)(code << (8 - count)) >> (8 - count) : code;                        \
  }                                                                                                \
  HEDDLE_INLINE uint8_t heddle_wrap_##t(int64_t value) {                                           \
    return (uint8_t)(value & ((1 << count) - 1));                                                  \
  }                                                                                                \
  HEDDLE_INLINE uint8_t heddle_clamp_##t(double value) {                                           \
    const int64_t low = is_signed ? -(1 << (count - 1)) : 0;                                       \
    const int64_t high = is_signed ? (1 << (count - 1)) - 1 : (1 << count) - 1;                    \
    int64_t whole = value != value ? 0 : value <= low ? low : value >= high ? high : (int64_t)value; \
    return heddle_wrap_##t(whole);                                                                 \
  }

HEDDLE_SMALL_INTEGER(i4, 4, 1)
HEDDLE_SMALL_INTEGER(u4, 4, 0)
HEDDLE_SMALL_INTEGER(i2, 2, 1)
HEDDLE_SMALL_INTEGER(u2, 2, 0)

/* A float format: bits of the significand, the exponent's bias, and codes without sign of the
 * largest finite value, of overflow and of NaN; 0x100: none. If zero has no sign, its negative code
 * is the only NaN. */
HEDDLE_INLINE double heddle_small_value(uint8_t code, int significand, int bias, int width, int largest,
                                        int beyond, int nan, int unsigned_zero) {
  int sign_bit = 1 << (width - 1), magnitude = code & (sign_bit - 1);
  if (unsigned_zero && code == sign_bit) return NAN;
  double value;
  if (!unsigned_zero && magnitude > largest) {
    value = beyond == magnitude && nan != beyond ? (double)INFINITY : (double)NAN;
  } else {
    int exponent = magnitude >> significand, fraction = magnitude & ((1 << significand) - 1);
    value = (exponent > 0 ? 1 << significand : 0) + fraction;
    value = ldexp(value, (exponent > 1 ? exponent : 1) - bias - significand);
  }
  return code & sign_bit ? -value : value;
}
HEDDLE_INLINE uint8_t heddle_small_code(double value, int saturate, int significand, int bias, int width,
                                        int largest, int beyond, int nan, int unsigned_zero) {
  int sign_bit = 1 << (width - 1);
  int sign = heddle_bits_f64(value) >> 63 ? sign_bit : 0;
  if (value != value) return (uint8_t)(nan > 0xff ? sign_bit : unsigned_zero ? nan : nan | sign);
  int too_large = beyond > 0xff || saturate ? largest | sign : unsigned_zero ? beyond : beyond | sign;
  double magnitude = fabs(value);
  if (magnitude == (double)INFINITY) return (uint8_t)too_large;
  int exponent = (int)(heddle_bits_f64(magnitude) >> 52) - 1023;
  if (exponent < 1 - bias) exponent = 1 - bias;
  /* Codes of one sign are ordered by value, so a carry into the next exponent is correct. */
  double steps = rint(ldexp(magnitude, significand - exponent));
  if (steps > 512) return (uint8_t)too_large;
  int64_t code = (int64_t)(exponent + bias - 1) * (1 << significand) + (int64_t)steps;
  if (code > largest) return (uint8_t)too_large;
  return (uint8_t)(code == 0 && unsigned_zero ? 0 : code | sign);
}

#define HEDDLE_SMALL_FLOAT(t, ...)                                                                 \
  HEDDLE_INLINE double heddle_value_##t(uint8_t code) { return heddle_small_value(code, __VA_ARGS__); } \
  HEDDLE_INLINE uint8_t heddle_narrow_##t(double value, int saturate, int round) {                 \
    (void)round;                                                                                   \
    return heddle_small_code(value, saturate, __VA_ARGS__);                                        \
  }

HEDDLE_SMALL_FLOAT(f4e2m1, 1, 1, 4, 0x7, 0x100, 0x100, 0)
HEDDLE_SMALL_FLOAT(f8e4m3fn, 3, 7, 8, 0x7e, 0x7f, 0x7f, 0)
HEDDLE_SMALL_FLOAT(f8e4m3fnuz, 3, 8, 8, 0x7f, 0x80, 0x80, 1)
HEDDLE_SMALL_FLOAT(f8e5m2, 2, 15, 8, 0x7b, 0x7c, 0x7f, 0)
HEDDLE_SMALL_FLOAT(f8e5m2fnuz, 2, 16, 8, 0x7f, 0x80, 0x80, 1)

/* Powers of two. Rounds up if `round` is 1, down if 0, to nearest if 2; underflow gives the
 * smallest one if saturating, otherwise NaN. */
HEDDLE_INLINE double heddle_value_f8e8m0(uint8_t code) {
  return code == 255 ? (double)NAN : ldexp(1.0, code - 127);
}
HEDDLE_INLINE uint8_t heddle_narrow_f8e8m0(double value, int saturate, int round) {
  double magnitude = fabs(value);
  if (value != value) return 255;
  if (magnitude < ldexp(1.0, -127)) return saturate ? 0 : 255;
  uint64_t bits = heddle_bits_f64(magnitude), fraction = bits & ((UINT64_C(1) << 52) - 1);
  int64_t code = (int64_t)(bits >> 52) - 1023 + 127;
  code += round == 1 ? fraction > 0 : round == 2 ? fraction >= UINT64_C(1) << 51 : 0;
  return (uint8_t)(code > 254 ? (saturate ? 254 : 255) : code);
}
