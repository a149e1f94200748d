/* What finishes heads of q and k: their norm and rotation. */
#ifndef LN_BACKEND_CUDA_QKV_CUH
#define LN_BACKEND_CUDA_QKV_CUH

#include "backend/cuda/norm.cuh"

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

/* Without the norms of whole rows. */
ln_qkv_args ln_make_qkv_args(const ln_op_qkv *p, const ln_cuda_step *step);

#endif
