/* Heads of 64, 128 or 256 elements, all of which rotate by halves, or none: a warp per head, of
 * which lane t has the elements t, t + 32 .., and so both of a pair. Sums are those of
 * ln_finish_head. */
#ifndef LN_BACKEND_CUDA_OPS_QKV_LANES_CUH
#define LN_BACKEND_CUDA_OPS_QKV_LANES_CUH

#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/ops/norm.cuh"

/* Where elements of a type without scales go. */
typedef struct ln_plain_rows {
    unsigned dtype; /* ln_kv_dtype */
    void *data;
} ln_plain_rows;

static __device__ __forceinline__ ln_plain_rows ln_plain_rows_of(const ln_kv_array &cache) {
    return {(unsigned)cache.dtype, cache.data};
}

static __device__ __forceinline__ void ln_find_angle(const ln_rope &rope, int32_t position,
                                                     unsigned pair, float *cos, float *sin) {
    float angle = (float)(position + rope.first) * rope.inv_freq[pair];
    *cos = cosf(angle) * rope.magnitude;
    *sin = sinf(angle) * rope.magnitude;
}

/* A norm's weights of a lane's elements. */
template <int N>
static __device__ __forceinline__ void ln_load_lane_weights(const ln_norm &norm,
                                                            float (&weight)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++)
        weight[k] = norm.weight != NULL ? norm.weight[threadIdx.x % LN_WARP + LN_WARP * k] : 0.0f;
}

/* The norm of a head. */
template <int N>
static __device__ __forceinline__ void ln_norm_lanes(const ln_norm &norm, const float (&weight)[N],
                                                     float (&x)[N]) {
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < N; k++)
        squares = fmaf(x[k], x[k], squares);
    float inverse = 1.0f / sqrtf(ln_warp_sum(squares) / (float)(unsigned)(N * LN_WARP) + norm.eps);
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = ln_norm_scale(norm, x[k], weight[k], 0.0f, 0.0f, inverse);
}

/* Rotates a head by the angles of which these are cos and sin. */
template <int N>
static __device__ __forceinline__ void ln_rotate_lanes(const float (&cos)[N / 2],
                                                       const float (&sin)[N / 2], float (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        float a = x[k], b = x[k + N / 2];
        x[k] = a * cos[k] - b * sin[k];
        x[k + N / 2] = b * cos[k] + a * sin[k];
    }
}

/* A head to float32, or 16 bits: lanes in pairs store two elements at once. */
template <int N>
static __device__ __forceinline__ void ln_store_lanes(const ln_plain_rows &to, size_t at,
                                                      const float (&x)[N]) {
    unsigned lane = threadIdx.x % LN_WARP;
    bool is_odd = lane % 2 != 0;
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        if (to.dtype == LN_KV_F32) {
            ((float *)to.data)[at + lane + LN_WARP * k] = x[k];
            ((float *)to.data)[at + lane + LN_WARP * (k + 1)] = x[k + 1];
            continue;
        }
        float other = __shfl_xor_sync(0xffffffffu, is_odd ? x[k] : x[k + 1], 1);
        float low = is_odd ? other : x[k], high = is_odd ? x[k + 1] : other;
        __half2 halves = __floats2half2_rn(low, high);
        size_t i = at + lane / 2 * 2 + LN_WARP * (k + is_odd);
        *(uint32_t *)((uint16_t *)to.data + i) =
            to.dtype == LN_KV_F16 ? *(uint32_t *)&halves : ln_pack_bf16(low, high);
    }
}

#endif
