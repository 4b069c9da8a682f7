/* Kernels that decide conditional nodes of graphs; the driver itself has the function that they call. */
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);

/* Counts iterations of a WHILE node, which goes on until `limit`. */
extern "C" __global__ void count_up(unsigned long long handle, unsigned *counter, unsigned limit) {
  const unsigned next = *counter + 1;
  *counter = next < limit ? next : 0;
  cudaGraphSetConditional(handle, next < limit);
}

/* Sets a condition to a bool of memory, or to its opposite. */
extern "C" __global__ void decide(unsigned long long handle, const unsigned char *flag, unsigned negate) {
  cudaGraphSetConditional(handle, (*flag != 0) != (negate != 0));
}
