/* Conversions between float32, f16, bf16, E4M3 and int8, one element or a packed pair. */
#ifndef LN_BACKEND_CUDA_PTX_FLOAT16_CUH
#define LN_BACKEND_CUDA_PTX_FLOAT16_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ float ln_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

static __device__ __forceinline__ float ln_bf16(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

static __device__ __forceinline__ float ln_round_to_bf16(float x) {
    return __bfloat162float(__float2bfloat16_rn(x));
}

static __device__ __forceinline__ uint32_t ln_pack_f16(float low, float high) {
    return (uint32_t)__half_as_ushort(__float2half_rn(low)) |
           (uint32_t)__half_as_ushort(__float2half_rn(high)) << 16;
}

static __device__ __forceinline__ uint32_t ln_pack_bf16(float low, float high) {
    return (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(low)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
}

/* Two of E4M3 to f16. */
static __device__ __forceinline__ __half2 ln_two_f8(uint32_t bits) {
    __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)bits, __NV_E4M3);
    return *(__half2 *)&raw;
}

/* Two of int8 to f16: 1024 + 128 + q as f16 is 0x6400 | q ^ 0x80. */
static __device__ __forceinline__ __half2 ln_two_i8(uint32_t bits) {
    const uint32_t bias = 0x64806480u; /* 1024 + 128 */
    uint32_t two = __byte_perm(bits ^ 0x8080u, 0x64u, 0x4140);
    return __hsub2(*(__half2 *)&two, *(const __half2 *)&bias);
}

#endif
