/* Micro-benchmarks beside the prelude: clusters, launches, rates and latencies of memories. */
extern "C" __global__ void nothing() {}

/* Barriers of a warp's threads, behind a store that they order. */
extern "C" __global__ void warp_barriers(int count) {
  __shared__ volatile int word;
  for (int i = 0; i < count; i++) {
    if (threadIdx.x == 0) word = i;
    __syncwarp();
  }
}

/* Barriers of a block's threads. */
extern "C" __global__ void block_barriers(int count) {
  for (int i = 0; i < count; i++) __syncthreads();
}

/* Barriers of a cluster. */
extern "C" __global__ void cluster_barriers(int count) {
  for (int i = 0; i < count; i++)
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Two blocks of a cluster pass a word through each other's shared memory; an iteration is two ways. */
extern "C" __global__ void cluster_words(int count) {
  __shared__ volatile unsigned word;
  unsigned rank, there, here = (unsigned)__cvta_generic_to_shared((void *)&word);
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) word = 0;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (rank < 2 && threadIdx.x == 0) {
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(1 - rank));
    for (unsigned i = 1; i <= (unsigned)count; i++) {
      unsigned seen = 0;
      if (rank == 0) asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" : : "r"(there), "r"(i) : "memory");
      while (seen != i) asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(here) : "memory");
      if (rank == 1) asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" : : "r"(there), "r"(i) : "memory");
    }
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Multiplications whose operands are registers: 64 for each thread and iteration. */
extern "C" __global__ void registers(int count, float *sink) {
  float sum[8], a = threadIdx.x * 1e-9f, b = blockIdx.x * 1e-9f;
  for (int j = 0; j < 8; j++) sum[j] = j;
  for (int i = 0; i < count; i++) {
#pragma unroll
    for (int j = 0; j < 64; j++) sum[j % 8] = fmaf(sum[j % 8], a, b);
  }
  float all = 0;
  for (int j = 0; j < 8; j++) all += sum[j];
  if (all == 12345.f) *sink = all;
}

/* Reads 32 KiB of shared memory in each iteration, 16 bytes a lane. */
extern "C" __global__ void shared_reads(int count, float *sink) {
  __shared__ float4 tile[2048];
  for (int j = threadIdx.x; j < 2048; j += blockDim.x) tile[j] = make_float4(j, 1, 2, 3);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < count; i++)
#pragma unroll 8
    for (int j = 0; j < 2048; j += blockDim.x) {
      float4 v;
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "r"((unsigned)__cvta_generic_to_shared(&tile[(j + threadIdx.x) % 2048])));
      sum += v.x + v.y + v.z + v.w;
    }
  if (sum == 12345.f) *sink = sum;
}

/* Reads `vectors` of 16 bytes in each iteration, all blocks together, past the L1. */
extern "C" __global__ void global_reads(int count, float *sink, const float4 *from, long long vectors) {
  float sum = 0;
  const long long step = (long long)gridDim.x * blockDim.x;
  for (int i = 0; i < count; i++)
#pragma unroll 8
    for (long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x; j < vectors; j += step) {
      float4 v;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "l"(from + j));
      sum += v.x + v.y + v.z + v.w;
    }
  if (sum == 12345.f) *sink = sum;
}

/* Links each line of 128 bytes to one that is far away, in a circle through all of `lines`, a power of two. */
extern "C" __global__ void link(unsigned *words, unsigned lines) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x)
    words[(size_t)i * 32] = (i * 1664525u + 1013904223u) % lines;
}

/* Dependent loads past the L1, from line to line. */
extern "C" __global__ void global_chain(int count, unsigned *sink, const unsigned *words, unsigned start) {
  unsigned at = start;
  for (int i = 0; i < count; i++)
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(at) : "l"(words + (size_t)at * 32) : "memory");
  *sink = at;
}

/* Dependent loads from shared memory; each word has the address of another one. */
extern "C" __global__ void shared_chain(int count, unsigned *sink) {
  __shared__ unsigned next[1024];
  const unsigned first = (unsigned)__cvta_generic_to_shared(next);
  for (unsigned j = 0; j < 1024; j++) next[j] = first + 4 * ((j * 37 + 11) % 1024);
  unsigned at = first;
  for (int i = 0; i < count; i++) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at) : : "memory");
  *sink = at;
}
