/* Reductions over a warp (shfl.sync, redux.sync) and over a thread block, in a fixed order. */
#ifndef LN_BACKEND_CUDA_PTX_REDUCE_CUH
#define LN_BACKEND_CUDA_PTX_REDUCE_CUH

#include <cuda_runtime.h>

enum { LN_WARP = 32, LN_MAX_WARPS = 32 };

/* The sum over all lanes, in every lane. */
static __device__ __forceinline__ float ln_warp_sum(float x) {
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

static __device__ __forceinline__ float ln_warp_max(float x) {
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* The sum over all threads of the block, in every thread. `shared` [LN_MAX_WARPS] may be used again
 * after the call. */
static __device__ __forceinline__ float ln_block_sum(float x, float *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned n_warps = blockDim.x / LN_WARP;
    x = ln_warp_sum(x);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = ln_warp_sum(lane < n_warps ? shared[lane] : 0.0f);
    __syncthreads();
    return x;
}

static __device__ __forceinline__ float ln_block_max(float x, float *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned n_warps = blockDim.x / LN_WARP;
    x = ln_warp_max(x);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = ln_warp_max(lane < n_warps ? shared[lane] : -INFINITY);
    __syncthreads();
    return x;
}

/* The maximum of values that are not negative, in every thread of the block; redux.sync on their
 * bits. `shared` [LN_MAX_WARPS] may be used again behind another barrier. */
static __device__ __forceinline__ float ln_block_greatest(float x, unsigned *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned bits = __reduce_max_sync(0xffffffffu, __float_as_uint(x));
    if (lane == 0)
        shared[warp] = bits;
    __syncthreads();
    bits = lane < blockDim.x / LN_WARP ? shared[lane] : 0;
    return __uint_as_float(__reduce_max_sync(0xffffffffu, bits));
}

#endif
