/* What finishes heads of q and k: their norm and rotation. */
#ifndef LN_BACKEND_CUDA_OPS_QKV_CUH
#define LN_BACKEND_CUDA_OPS_QKV_CUH

#include "backend/cuda/ops/norm.cuh"

typedef struct ln_qkv_args {
    float *q, *k;
    const float *v;
    unsigned n_heads;
    bool normalizes; /* each head by itself */
    bool own_norms;  /* with weights of its own */
    ln_norm q_norm, k_norm;
    bool has_rope;
    ln_rope rope;
    ln_kv_layer kv;
    ln_kv_array keys, values;
    const int32_t *positions, *slots;
} ln_qkv_args;

/* Where the two numbers of pair i are in a head. */
static __device__ __forceinline__ void ln_find_pair(const ln_rope &rope, unsigned i,
                                                    unsigned *first, unsigned *second) {
    unsigned half = (unsigned)rope.n_dims / 2;
    *first = rope.style == LN_ROPE_HALF ? i : 2 * i;
    *second = rope.style == LN_ROPE_HALF ? i + half : 2 * i + 1;
}

/* The pair (*a, *b) turned by the angle of which these are cos and sin. */
static __device__ __forceinline__ void ln_turn_pair(float cos, float sin, float *a, float *b) {
    float first = *a, second = *b;
    *a = first * cos - second * sin;
    *b = second * cos + first * sin;
}

/* Norm of one head x[dim] and its rotation, by a warp; out may be x. */
static __device__ void ln_finish_head(const ln_qkv_args &p, ln_norm norm, unsigned head,
                                      int32_t position, unsigned dim, const float *x, float *out) {
    if (p.own_norms)
        norm.weight += (size_t)head * dim;
    unsigned lane = threadIdx.x % LN_WARP, n_rotated = 0;
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
        for (unsigned i = lane; i < n_rotated / 2; i += LN_WARP) {
            unsigned first, second;
            ln_find_pair(p.rope, i, &first, &second);
            float angle = (float)position * p.rope.inv_freq[i], a = x[first], b = x[second];
            if (p.normalizes) {
                a = ln_norm_apply(norm, a, first, mean, inverse);
                b = ln_norm_apply(norm, b, second, mean, inverse);
            }
            ln_turn_pair(cosf(angle) * p.rope.magnitude, sinf(angle) * p.rope.magnitude, &a, &b);
            out[first] = a;
            out[second] = b;
        }
    }
    for (unsigned i = n_rotated + lane; i < dim && (p.normalizes || out != x); i += LN_WARP)
        out[i] = p.normalizes ? ln_norm_apply(norm, x[i], i, mean, inverse) : x[i];
    __syncwarp();
}

/* cos and sin of a lane's pairs, where it has few and nothing but a rotation finishes heads. */
enum { LN_HELD_PAIRS = 2 };

typedef struct ln_held_angles {
    bool are_there;
    float cos[LN_HELD_PAIRS], sin[LN_HELD_PAIRS];
} ln_held_angles;

static __host__ __device__ __forceinline__ bool ln_can_hold_angles(const ln_qkv_args &p) {
    return p.has_rope && !p.normalizes && p.rope.n_dims > 0 &&
           p.rope.n_dims <= 2 * LN_HELD_PAIRS * LN_WARP;
}

static __device__ __forceinline__ void ln_hold_angles(const ln_qkv_args &p, int32_t position,
                                                      ln_held_angles &angles) {
    angles.are_there = ln_can_hold_angles(p);
    if (!angles.are_there)
        return;
#pragma unroll
    for (unsigned k = 0; k < LN_HELD_PAIRS; k++) {
        unsigned i = threadIdx.x % LN_WARP + k * LN_WARP;
        float angle = i < (unsigned)p.rope.n_dims / 2 ? (float)position * p.rope.inv_freq[i] : 0.0f;
        angles.cos[k] = cosf(angle) * p.rope.magnitude;
        angles.sin[k] = sinf(angle) * p.rope.magnitude;
    }
}

/* The rotation of one head x in place, by a warp. */
static __device__ __forceinline__ void ln_turn_head(const ln_rope &rope,
                                                    const ln_held_angles &angles, float *x) {
    unsigned first[LN_HELD_PAIRS], second[LN_HELD_PAIRS], n_pairs = (unsigned)rope.n_dims / 2;
    float a[LN_HELD_PAIRS], b[LN_HELD_PAIRS];
#pragma unroll
    for (unsigned k = 0; k < LN_HELD_PAIRS; k++) {
        unsigned i = min(threadIdx.x % LN_WARP + k * LN_WARP, n_pairs - 1);
        ln_find_pair(rope, i, &first[k], &second[k]);
        a[k] = x[first[k]], b[k] = x[second[k]];
    }
#pragma unroll
    for (unsigned k = 0; k < LN_HELD_PAIRS; k++)
        if (threadIdx.x % LN_WARP + k * LN_WARP < n_pairs) {
            ln_turn_pair(angles.cos[k], angles.sin[k], &a[k], &b[k]);
            x[first[k]] = a[k];
            x[second[k]] = b[k];
        }
    __syncwarp();
}

/* Without the norms of whole rows. */
ln_qkv_args ln_make_qkv_args(const ln_op_qkv *p, const ln_cuda_step *step);

#endif
