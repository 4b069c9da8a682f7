/* The grid barrier of NVIDIA's cooperative groups. */
#include <cooperative_groups.h>

extern "C" __global__ void group_barriers(int count) {
  for (int i = 0; i < count; i++) cooperative_groups::this_grid().sync();
}
