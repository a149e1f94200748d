/* Online softmax of attention (Milakov and Gimelshein, 2018; FlashAttention), with which decode and
 * prefill give a row the same bits.
 *
 * A row's state within a KV split: running max m, row sum l of P = 2^(score - m), accumulator O of
 * P V. Scores are base-2 logarithms once multiplied by ln_score_factor. A KV tile rescales l and O
 * only where its largest score exceeds m by more than a threshold, so most tiles leave them as they
 * are. A masked score is -infinity: its P is 0 and it never moves m, so masks change no bit of the
 * others. KV splits start from nothing and merge in order of positions. */
#ifndef LN_BACKEND_CUDA_ATTENTION_ONLINE_SOFTMAX_CUH
#define LN_BACKEND_CUDA_ATTENTION_ONLINE_SOFTMAX_CUH

#include "backend/cuda/attention/args.cuh"

/* How far scores may exceed the running max before a tile rescales, and how far above the largest
 * score it then sets the max. P becomes f16; where V has scales (QUANT), P times a scale must fit,
 * so P is never more than 1 there, and the margin spares rescaling. */
#define LN_RESCALE_THRESHOLD(QUANT) ((QUANT) ? 0.0f : 12.0f)
#define LN_MAX_MARGIN(QUANT)        ((QUANT) ? 6.0f : 0.0f)

/* What scores are multiplied by to become base-2 logarithms; greater than 0. Plain scores have not
 * been scaled before. */
static __device__ __forceinline__ float ln_score_factor(const ln_attention_args &p) {
    return ln_has_plain_scores(p) ? p.scale * 1.44269504088896340736f : 1.44269504088896340736f;
}

static __device__ __forceinline__ float ln_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 2^(x - row_max); 0 where no key has been seen, as x is -infinity, too, then. */
static __device__ __forceinline__ float ln_softmax_exp2(float x, float row_max) {
    return ln_exp2(x - (row_max == -INFINITY ? 0.0f : row_max));
}

/* P of a score. */
static __device__ __forceinline__ float ln_softmax_p(float score, float factor, float row_max) {
    return ln_exp2(fmaf(score, factor, -(row_max == -INFINITY ? 0.0f : row_max)));
}

/* The running max after a tile whose largest score is tile_max; -infinity: no key was seen yet. */
static __device__ __forceinline__ float ln_update_max(float row_max, float tile_max, float factor,
                                                      float threshold, float margin = 0.0f) {
    return fmaf(tile_max, factor, -row_max) > threshold ? fmaf(tile_max, factor, margin) : row_max;
}

/* What row sum and O are multiplied by when the running max moves to `now`. */
static __device__ __forceinline__ float ln_rescale_factor(float row_max, float now) {
    return row_max == now ? 1.0f : ln_softmax_exp2(row_max, now);
}

/* The row sum over the four lanes that share a row. */
static __device__ __forceinline__ float ln_reduce_row_sum(float row_sum) {
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 1);
    return row_sum + __shfl_xor_sync(0xffffffffu, row_sum, 2);
}

/* ---- merging KV splits ----------------------------------------------------------------------- */

/* A row before its first split: nothing, or the head's attention sink. */
static __device__ __forceinline__ void ln_merge_init(const ln_mma_attention_args &p, size_t head,
                                                     float *row_max, float *row_sum) {
    *row_max = p.a.sinks != NULL ? p.a.sinks[head] * 1.44269504088896340736f : -INFINITY;
    *row_sum = p.a.sinks != NULL ? 1.0f : 0.0f;
}

/* Factors of the next split: merged = merged * keep + split * add. Moves the merged running max. */
static __device__ __forceinline__ void ln_merge_scales(float *merged_max, float split_max,
                                                       float *keep, float *add) {
    float now = fmaxf(*merged_max, split_max);
    *keep = ln_rescale_factor(*merged_max, now);
    *add = ln_softmax_exp2(split_max, now);
    *merged_max = now;
}

static __device__ __forceinline__ float ln_merge(float merged, float keep, float split, float add) {
    return fmaf(split, add, merged * keep);
}

/* What O is multiplied by at the end. */
static __device__ __forceinline__ float ln_normalizer(float row_sum) {
    return 1.0f / row_sum;
}

#endif
