/* Largest magnitudes, by which the fused decode kernel scales activations. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ABSMAX_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ABSMAX_CUH

#include <cuda_runtime.h>

/* The larger magnitude, or a NaN if either is one. */
static __device__ __forceinline__ float ln_decode_absmax(float a, float b) {
    float largest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(fabsf(a)), "f"(fabsf(b)));
    return largest;
}

static __device__ __forceinline__ float ln_decode_absmax(const float4 &v) {
    return ln_decode_absmax(ln_decode_absmax(v.x, v.y), ln_decode_absmax(v.z, v.w));
}

#endif
