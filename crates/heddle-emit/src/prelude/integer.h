/* Integer operations that C-family languages lack or define differently from the graph IR; for
 * every target whose prelude defines HEDDLE_INLINE. Names are heddle_OPERATION_TYPE; types are
 * those of the graph IR. */

/* By zero: 0. The quotient that overflows wraps. */
#define HEDDLE_INTEGERS(T, t)                                                                      \
  HEDDLE_INLINE T heddle_max_##t(T a, T b) { return a > b ? a : b; }                               \
  HEDDLE_INLINE T heddle_min_##t(T a, T b) { return a < b ? a : b; }                               \
  HEDDLE_INLINE T heddle_div_##t(T a, T b) {                                                       \
    return b == 0 ? 0 : b == (T)-1 && (T)-1 < 0 ? (T)(0 - (uint64_t)a) : (T)(a / b);               \
  }                                                                                                \
  HEDDLE_INLINE T heddle_rem_##t(T a, T b) {                                                       \
    return b == 0 || (b == (T)-1 && (T)-1 < 0) ? 0 : (T)(a % b);                                   \
  }                                                                                                \
  HEDDLE_INLINE T heddle_mod_##t(T a, T b) {                                                       \
    T r = heddle_rem_##t(a, b);                                                                    \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                          \
  }                                                                                                \
  HEDDLE_INLINE T heddle_sign_##t(T a) { return (T)((a > 0) - (a < 0)); }                          \
  HEDDLE_INLINE T heddle_abs_##t(T a) { return a < 0 ? (T)(0 - (uint64_t)a) : a; }                 \
  HEDDLE_INLINE T heddle_shl_##t(T a, T b) {                                                       \
    return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)((uint64_t)a << b);                               \
  }                                                                                                \
  HEDDLE_INLINE T heddle_shr_##t(T a, T b) {                                                       \
    uint64_t all = sizeof(T) == 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * sizeof(T) % 64)) - 1;      \
    return (uint64_t)b >= 8 * sizeof(T) ? 0 : (T)(((uint64_t)a & all) >> b);                       \
  }                                                                                                \
  HEDDLE_INLINE T heddle_pow_##t(T a, T b) {                                                       \
    if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (T)(b % 2 ? -1 : 1) : 0;                           \
    uint64_t r = 1, x = (uint64_t)a;                                                               \
    for (uint64_t n = (uint64_t)b; n; n >>= 1, x *= x)                                             \
      if (n & 1) r *= x;                                                                           \
    return (T)r;                                                                                   \
  }

HEDDLE_INTEGERS(int8_t, i8)
HEDDLE_INTEGERS(int16_t, i16)
HEDDLE_INTEGERS(int32_t, i32)
HEDDLE_INTEGERS(int64_t, i64)
HEDDLE_INTEGERS(uint8_t, u8)
HEDDLE_INTEGERS(uint16_t, u16)
HEDDLE_INTEGERS(uint32_t, u32)
HEDDLE_INTEGERS(uint64_t, u64)

/* A unit's number, counted from another one on. */
HEDDLE_INLINE int32_t heddle_from(int32_t worker, int32_t workers, int32_t first) {
  return (worker + workers - first % workers) % workers;
}

/* The start of a unit's share of `count` places, in multiples of `grain`. */
HEDDLE_INLINE int64_t heddle_share(int64_t count, int64_t grain, int64_t unit, int64_t units) {
  int64_t place = (count + grain - 1) / grain * unit / units * grain;
  return place < count ? place : count;
}

/* Float to integer: toward zero, clamped; NaN gives 0. */
#define HEDDLE_TO_INTEGER(T, t, low, high)                                                         \
  HEDDLE_INLINE T heddle_to_##t(double a) {                                                        \
    return a != a ? 0 : a <= (double)(low) ? (low) : a >= (double)(high) ? (high) : (T)a;          \
  }

HEDDLE_TO_INTEGER(int8_t, i8, INT8_MIN, INT8_MAX)
HEDDLE_TO_INTEGER(int16_t, i16, INT16_MIN, INT16_MAX)
HEDDLE_TO_INTEGER(int32_t, i32, INT32_MIN, INT32_MAX)
HEDDLE_TO_INTEGER(int64_t, i64, INT64_MIN, INT64_MAX)
HEDDLE_TO_INTEGER(uint8_t, u8, 0, UINT8_MAX)
HEDDLE_TO_INTEGER(uint16_t, u16, 0, UINT16_MAX)
HEDDLE_TO_INTEGER(uint32_t, u32, 0, UINT32_MAX)
HEDDLE_TO_INTEGER(uint64_t, u64, 0, UINT64_MAX)
