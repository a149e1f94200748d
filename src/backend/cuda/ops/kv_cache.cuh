/* Rows of the paged KV cache: a block holds block_tokens tokens of each KV head, whose rows of K or
 * V are f32, f16 or bf16, or int8 or E4M3 with a float32 scale each (backend/op.h). */
#ifndef LN_BACKEND_CUDA_OPS_KV_CACHE_CUH
#define LN_BACKEND_CUDA_OPS_KV_CACHE_CUH

#include "backend/cuda/ops.h"
#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/ptx/reduce.cuh"

/* One head's row of the cache at a slot, counted in rows from the start of k or v. */
static __device__ __forceinline__ size_t ln_kv_row(const ln_kv_layer &kv, size_t slot,
                                                   size_t head) {
    size_t block = slot / kv.block_tokens, offset = slot % kv.block_tokens;
    return (block * kv.n_heads + head) * kv.block_tokens + offset;
}

/* One of a layer's two arrays. */
typedef struct ln_kv_array {
    ln_kv_dtype dtype;
    size_t block_tokens;
    size_t dim;                       /* elements from row to row */
    size_t head_bytes, scales_offset; /* with scales: of a head in a block */
    char *data;
} ln_kv_array;

static inline ln_kv_array ln_kv_array_of(const ln_kv_layer *kv, void *data, size_t dim) {
    ln_kv_array array;
    array.dtype = kv->dtype;
    array.block_tokens = kv->block_tokens;
    array.dim = dim;
    array.head_bytes = ln_kv_head_bytes(kv->dtype, kv->block_tokens, dim);
    array.scales_offset = ln_kv_scales_offset(kv->block_tokens, dim);
    array.data = (char *)data;
    return array;
}

static inline ln_kv_array ln_kv_keys(const ln_kv_layer *kv) {
    return ln_kv_array_of(kv, kv->k, kv->k_dim);
}

static inline ln_kv_array ln_kv_values(const ln_kv_layer *kv) {
    return ln_kv_array_of(kv, kv->v, kv->v_stride);
}

static __device__ __forceinline__ float *ln_kv_scale(const ln_kv_array &array, size_t row) {
    char *head = array.data + row / array.block_tokens * array.head_bytes;
    return (float *)(head + array.scales_offset) + row % array.block_tokens;
}

/* The bytes of a row with a scale. */
static __device__ __forceinline__ int8_t *ln_kv_bytes(const ln_kv_array &array, size_t row) {
    char *head = array.data + row / array.block_tokens * array.head_bytes;
    return (int8_t *)head + row % array.block_tokens * array.dim;
}

/* E4M3, whose bits are those of a half 256 times smaller. */
static __device__ __forceinline__ float ln_kv_e4m3(int8_t byte) {
    return 256.0f * ln_f16((uint16_t)(byte * 128 & 0xbf80));
}

/* Element i of a row. */
static __device__ __forceinline__ float ln_kv_load(const ln_kv_array &array, size_t row, size_t i) {
    if (array.dtype == LN_KV_F32)
        return ((const float *)array.data)[row * array.dim + i];
    if (array.dtype == LN_KV_Q8_0)
        return (float)ln_kv_bytes(array, row)[i] * *ln_kv_scale(array, row);
    if (array.dtype == LN_KV_FP8)
        return ln_kv_e4m3(ln_kv_bytes(array, row)[i]) * *ln_kv_scale(array, row);
    uint16_t bits = ((const uint16_t *)array.data)[row * array.dim + i];
    return array.dtype == LN_KV_F16 ? ln_f16(bits) : ln_bf16(bits);
}

/* Writes x[n] as a row; by one warp. What is too small for a scale counts as zero. */
static __device__ void ln_kv_store(const ln_kv_array &array, size_t row, const float *x, size_t n) {
    unsigned lane = threadIdx.x % LN_WARP;
    size_t at = row * array.dim;
    if (array.dtype == LN_KV_F32) {
        for (size_t i = lane; i < n; i += LN_WARP)
            ((float *)array.data)[at + i] = x[i];
    } else if (array.dtype == LN_KV_F16) {
        for (size_t i = lane; i < n; i += LN_WARP)
            ((uint16_t *)array.data)[at + i] = __half_as_ushort(__float2half_rn(x[i]));
    } else if (array.dtype == LN_KV_BF16) {
        for (size_t i = lane; i < n; i += LN_WARP)
            ((uint16_t *)array.data)[at + i] = __bfloat16_as_ushort(__float2bfloat16_rn(x[i]));
    } else {
        float largest = 0.0f;
        for (size_t i = lane; i < n; i += LN_WARP)
            largest = fmaxf(largest, isnan(x[i]) ? INFINITY : fabsf(x[i]));
        largest = ln_warp_max(largest);
        if (largest == INFINITY)
            largest = NAN;
        bool counts = !(largest <= 1e-30f);
        float most = array.dtype == LN_KV_FP8 ? 448.0f : 127.0f;
        float inverse = counts ? most / largest : 0.0f;
        if (lane == 0)
            *ln_kv_scale(array, row) = counts ? largest / most : 0.0f;
        for (size_t i = lane; i < n; i += LN_WARP) {
            float y = x[i] * inverse;
            ln_kv_bytes(array, row)[i] =
                array.dtype == LN_KV_FP8
                    ? (int8_t)__nv_cvt_float_to_fp8(y, __NV_SATFINITE, __NV_E4M3)
                    : (int8_t)__float2int_rn(y);
        }
    }
}

#endif
