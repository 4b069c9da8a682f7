/* Vectors of up to so many bytes, at any element, and their lengths. */
#define HEDDLE_UP_TO(type, bytes)                                                                  \
  typedef type heddle_##type##_##bytes                                                             \
      __attribute__((vector_size((bytes) < HEDDLE_VECTOR ? (bytes) : HEDDLE_VECTOR),               \
                     aligned(sizeof(type)), may_alias));                                           \
  enum { heddle_lanes_##type##_##bytes = sizeof(heddle_##type##_##bytes) / sizeof(type) };
HEDDLE_UP_TO(float, 64)
HEDDLE_UP_TO(float, 32)
HEDDLE_UP_TO(float, 16)
HEDDLE_UP_TO(double, 64)
HEDDLE_UP_TO(double, 32)
HEDDLE_UP_TO(double, 16)
