/* Floating-point operations that C-family languages lack or define differently from the graph IR;
 * for every target whose prelude defines HEDDLE_INLINE and has C's functions of floats. Names are
 * heddle_OPERATION_TYPE. */

/* NaN if either is; the smaller or larger otherwise. */
#define HEDDLE_FLOATS(T, t, f)                                                                     \
  HEDDLE_INLINE T heddle_max_##t(T a, T b) { return a > b || a != a ? a : b; }                     \
  HEDDLE_INLINE T heddle_min_##t(T a, T b) { return a < b || a != a ? a : b; }                     \
  HEDDLE_INLINE T heddle_div_##t(T a, T b) { return a / b; }                                       \
  HEDDLE_INLINE T heddle_rem_##t(T a, T b) { return fmod##f(a, b); }                               \
  HEDDLE_INLINE T heddle_mod_##t(T a, T b) {                                                       \
    T r = fmod##f(a, b);                                                                           \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                               \
  }                                                                                                \
  HEDDLE_INLINE T heddle_sign_##t(T a) { return a > 0 ? 1 : a < 0 ? -1 : a != a ? a : 0; }

HEDDLE_FLOATS(float, f32, f)
HEDDLE_FLOATS(double, f64, )

HEDDLE_INLINE double heddle_sigmoid_f64(double a) {
  double e = exp(a < 0 ? a : -a);
  return (a < 0 ? e : 1) / (1 + e);
}
