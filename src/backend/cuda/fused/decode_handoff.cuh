/* Hand-off of results between blocks without a barrier. Results go to device memory that was filled
 * with a word no result is; a reader polls until the word is gone. That takes one round trip to the
 * L2 cache, where a grid barrier takes one for what was written before it, one for its counter and
 * one for the results. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_HANDOFF_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_HANDOFF_CUH

#include "backend/cuda/ptx/reduce.cuh"

#define LN_HANDOFF_EMPTY 0xffffffffu /* a NaN, instead of which another one is handoff */

static __device__ __forceinline__ bool ln_handoff_is_empty(float x) {
    return __float_as_uint(x) == LN_HANDOFF_EMPTY;
}

static __device__ __forceinline__ bool ln_handoff_is_empty(const float4 &x) {
    return ln_handoff_is_empty(x.x) || ln_handoff_is_empty(x.y) || ln_handoff_is_empty(x.z) ||
           ln_handoff_is_empty(x.w);
}

/* What is there now, past the L1 cache. */
static __device__ __forceinline__ float ln_load_relaxed(const float *at) {
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(at) : "memory");
    return x;
}

static __device__ __forceinline__ float4 ln_load_relaxed(const float4 *at) {
    float4 x;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(at)
                 : "memory");
    return x;
}

static __device__ __forceinline__ void ln_handoff_store(float *to, float x) {
    uint32_t bits = __float_as_uint(x);
    bits = bits == LN_HANDOFF_EMPTY ? 0x7fffffffu : bits;
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(bits) : "memory");
}

/* Fills a thread's share of the hand-off memory with LN_HANDOFF_EMPTY. */
static __device__ __forceinline__ void ln_handoff_clear(float *handoff, unsigned n_floats) {
    const uint4 missing =
        make_uint4(LN_HANDOFF_EMPTY, LN_HANDOFF_EMPTY, LN_HANDOFF_EMPTY, LN_HANDOFF_EMPTY);
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n_floats / 4;
         i += gridDim.x * blockDim.x)
        ((uint4 *)handoff)[i] = missing;
}

#endif
