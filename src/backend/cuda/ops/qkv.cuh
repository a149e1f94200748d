/* Norm and rotation (RoPE) of heads of q and k, by a warp. */
#ifndef LN_BACKEND_CUDA_OPS_QKV_CUH
#define LN_BACKEND_CUDA_OPS_QKV_CUH

#include "backend/cuda/ops.h"
#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/ops/norm.cuh"

typedef struct ln_qkv_args {
    float *q, *k;
    const float *v;
    unsigned n_heads;
    bool normalizes; /* each head by itself */
    bool own_norms;  /* with weights of its own */
    uint8_t q_dtype; /* ln_kv_dtype: q is written as float32, or as 16 bits at its heads' starts */
    ln_norm q_norm, k_norm;
    bool norm_after_rope; /* write_qkv alone does this and the next */
    ln_query_scale q_scale;
    bool has_rope;
    ln_rope rope;
    ln_kv_layer kv;
    ln_kv_array keys, values;
    const int32_t *positions, *slots;
} ln_qkv_args;

/* Where the two elements of pair i are in a head. */
static __device__ __forceinline__ void ln_rope_pair(const ln_rope &rope, unsigned i,
                                                    unsigned *first, unsigned *second) {
    unsigned half = (unsigned)rope.n_dims / 2;
    *first = rope.style == LN_ROPE_HALF ? i : 2 * i;
    *second = rope.style == LN_ROPE_HALF ? i + half : 2 * i + 1;
}

/* Rotates the pair (*a, *b) by the angle of which these are cos and sin. */
static __device__ __forceinline__ void ln_rotate_pair(float cos, float sin, float *a, float *b) {
    float first = *a, second = *b;
    *a = first * cos - second * sin;
    *b = second * cos + first * sin;
}

/* Norm and rotation of one head x[dim]; out may be x. */
static __device__ void ln_finish_head(const ln_qkv_args &p, ln_norm norm, unsigned head,
                                      int32_t position, unsigned dim, const float *x, float *out) {
    if (p.own_norms)
        norm.weight += (size_t)head * dim;
    if (p.own_norms && norm.bias != NULL)
        norm.bias += (size_t)head * dim;
    unsigned lane = threadIdx.x % LN_WARP, n_rotated = 0, begin = 0; /* of what rotates */
    float mean = 0.0f, inverse = 1.0f;
    if (p.normalizes) {
        float sum = 0.0f, squares = 0.0f;
        for (unsigned i = lane; i < dim && norm.kind == LN_NORM_LAYER; i += LN_WARP)
            sum += x[i];
        if (norm.kind == LN_NORM_LAYER)
            mean = ln_warp_sum(sum) / (float)dim;
        for (unsigned i = lane; i < dim; i += LN_WARP)
            squares = fmaf(x[i] - mean, x[i] - mean, squares);
        inverse = 1.0f / sqrtf(ln_warp_sum(squares) / (float)dim + norm.eps);
    }
    if (p.has_rope) {
        n_rotated = (unsigned)p.rope.n_dims;
        begin = p.rope.last ? dim - n_rotated : 0;
        for (unsigned i = lane; i < n_rotated / 2; i += LN_WARP) {
            unsigned first, second;
            ln_rope_pair(p.rope, i, &first, &second);
            first += begin, second += begin;
            float angle = (float)(position + p.rope.first) * p.rope.inv_freq[i];
            float a = x[first], b = x[second];
            if (p.normalizes) {
                a = ln_norm_apply(norm, a, first, mean, inverse);
                b = ln_norm_apply(norm, b, second, mean, inverse);
            }
            ln_rotate_pair(cosf(angle) * p.rope.magnitude, sinf(angle) * p.rope.magnitude, &a, &b);
            out[first] = a;
            out[second] = b;
        }
    }
    for (unsigned j = lane; j < dim - n_rotated && (p.normalizes || out != x); j += LN_WARP) {
        unsigned i = j < begin ? j : j + n_rotated;
        out[i] = p.normalizes ? ln_norm_apply(norm, x[i], i, mean, inverse) : x[i];
    }
    __syncwarp();
}

/* cos and sin of a lane's pairs in registers, where heads have a rotation alone and few pairs, the
 * leading ones. */

typedef struct ln_rope_angles {
    bool are_valid;
    float cos[LN_ROPE_LANE_PAIRS], sin[LN_ROPE_LANE_PAIRS];
} ln_rope_angles;

static __host__ __device__ __forceinline__ bool ln_has_rope_angles(const ln_qkv_args &p) {
    return p.has_rope && !p.normalizes && p.rope.n_dims > 0 && !p.rope.last &&
           p.rope.n_dims <= 2 * LN_ROPE_LANE_PAIRS * LN_WARP;
}

static __device__ __forceinline__ void ln_load_rope_angles(const ln_qkv_args &p, int32_t position,
                                                           ln_rope_angles &angles) {
    angles.are_valid = ln_has_rope_angles(p);
    if (!angles.are_valid)
        return;
#pragma unroll
    for (unsigned k = 0; k < LN_ROPE_LANE_PAIRS; k++) {
        unsigned i = threadIdx.x % LN_WARP + k * LN_WARP;
        float angle = 0.0f;
        if (i < (unsigned)p.rope.n_dims / 2)
            angle = (float)(position + p.rope.first) * p.rope.inv_freq[i];
        angles.cos[k] = cosf(angle) * p.rope.magnitude;
        angles.sin[k] = sinf(angle) * p.rope.magnitude;
    }
}

/* Rotates one head x in place. */
static __device__ __forceinline__ void ln_rotate_head(const ln_rope &rope,
                                                      const ln_rope_angles &angles, float *x) {
    unsigned first[LN_ROPE_LANE_PAIRS], second[LN_ROPE_LANE_PAIRS],
        n_pairs = (unsigned)rope.n_dims / 2;
    float a[LN_ROPE_LANE_PAIRS], b[LN_ROPE_LANE_PAIRS];
#pragma unroll
    for (unsigned k = 0; k < LN_ROPE_LANE_PAIRS; k++) {
        unsigned i = min(threadIdx.x % LN_WARP + k * LN_WARP, n_pairs - 1);
        ln_rope_pair(rope, i, &first[k], &second[k]);
        a[k] = x[first[k]], b[k] = x[second[k]];
    }
#pragma unroll
    for (unsigned k = 0; k < LN_ROPE_LANE_PAIRS; k++)
        if (threadIdx.x % LN_WARP + k * LN_WARP < n_pairs) {
            ln_rotate_pair(angles.cos[k], angles.sin[k], &a[k], &b[k]);
            x[first[k]] = a[k];
            x[second[k]] = b[k];
        }
    __syncwarp();
}

/* Leaves out LN_QK_NORM_FULL, which normalises whole rows ahead of the heads. */
ln_qkv_args ln_make_qkv_args(const ln_op_qkv *p, const ln_cuda_step *step);

/* Whether ln_qkv_launch can write q as 16 bits. */
bool ln_qkv_narrows(const ln_qkv_args *args);
int ln_qkv_launch(const ln_qkv_args *args, size_t n_tokens, ln_cuda_stream stream);

#endif
