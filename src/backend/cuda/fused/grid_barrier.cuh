/* A barrier of all blocks of a grid, which are all resident. A counter in device memory, 0 at
 * first, turns its bit 31, the phase, at every barrier: block 0 adds 2^31 less one for each other
 * block. What a block wrote before it arrives is seen by all after they have waited. */
#ifndef LN_BACKEND_CUDA_FUSED_GRID_BARRIER_CUH
#define LN_BACKEND_CUDA_FUSED_GRID_BARRIER_CUH

#include <cuda_runtime.h>

/* The phase, before the block's first barrier. */
static __device__ __forceinline__ unsigned ln_grid_barrier_phase(const unsigned *count) {
    unsigned now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    return now & 0x80000000u;
}

/* Arrive and wait: by one thread of each block, between barriers of the block. */
static __device__ __forceinline__ void ln_grid_barrier_arrive(unsigned *count) {
    unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(count), "r"(add) : "memory");
}

static __device__ __forceinline__ void ln_grid_barrier_wait(const unsigned *count,
                                                            unsigned *phase) {
    unsigned now;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    while (((*phase ^ now) & 0x80000000u) == 0);
    *phase ^= 0x80000000u;
}

static __device__ __forceinline__ void ln_grid_barrier(unsigned *count, unsigned *phase) {
    __syncthreads();
    if (threadIdx.x == 0) {
        ln_grid_barrier_arrive(count);
        ln_grid_barrier_wait(count, phase);
    }
    __syncthreads();
}

#endif
