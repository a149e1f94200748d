/* What every kernel of attention takes, and how a score is finished. */
#ifndef LN_BACKEND_CUDA_ATTENTION_ARGS_CUH
#define LN_BACKEND_CUDA_ATTENTION_ARGS_CUH

#include "backend/cuda/ptx/common.cuh"
#include "backend/cuda/attention/select.h"
#include "backend/cuda/ops/qkv.cuh"
#include "backend/cuda/activations/convert.cuh"

typedef struct ln_attention_args {
    const float *q;
    ln_kv_layer kv;
    ln_kv_array keys, values;
    size_t n_heads;
    float scale, softcap;
    size_t window;
    const float *alibi_slopes, *sinks;
    ln_relative_bias relative;
    float relative_growth; /* log(max distance / exact buckets) */
    bool sees_all;
    float *out;
    const int32_t *block_tables, *lengths, *positions, *token_seqs, *seq_starts;
    size_t max_blocks;
} ln_attention_args;

/* As ln_scalar_relative_bucket. The logarithm passes through double precision, so that the borders
 * of buckets are those of a correctly rounded single one. */
static __device__ __noinline__ size_t ln_relative_bucket(const ln_relative_bias &relative,
                                                         float relative_growth, size_t query,
                                                         size_t key) {
    size_t n = relative.both_ways ? relative.n_buckets / 2 : relative.n_buckets;
    size_t first = relative.both_ways && key > query ? n : 0;
    size_t exact = n / 2;
    size_t distance = key > query ? (relative.both_ways ? key - query : 0) : query - key;
    if (distance < exact)
        return first + distance;
    float growth = (float)log((double)((float)distance / (float)exact)) / relative_growth;
    size_t bucket = exact + (size_t)(growth * (float)(n - exact));
    return first + (bucket < n ? bucket : n - 1);
}

/* The row of the cache for a position. */
static __device__ __forceinline__ size_t ln_cache_row(const ln_attention_args &p,
                                                      const int32_t *table, size_t position,
                                                      size_t kv_head) {
    unsigned block_tokens = (unsigned)p.kv.block_tokens;
    size_t block = (size_t)table[(unsigned)position / block_tokens];
    return (block * p.kv.n_heads + kv_head) * block_tokens + (unsigned)position % block_tokens;
}

/* What scale, cap and biases make of q.k. */
static __device__ __forceinline__ float ln_finish_score(const ln_attention_args &p, float dot,
                                                        size_t head, size_t position, size_t key) {
    float score = p.scale * dot;
    if (p.softcap > 0.0f)
        score = p.softcap * tanhf(score / p.softcap);
    if (p.alibi_slopes != NULL)
        score -= p.alibi_slopes[head] * (float)(position - key);
    if (p.relative.table != NULL)
        score += p.relative.table[ln_relative_bucket(p.relative, p.relative_growth, position, key) *
                                      p.n_heads +
                                  head];
    return score;
}

/* Where a token's keys begin and end. */
static __device__ __forceinline__ void ln_key_range(const ln_attention_args &p, size_t seq,
                                                    size_t position, size_t *begin, size_t *end) {
    *end = p.sees_all ? (size_t)p.lengths[seq] : position + 1;
    *begin = p.window > 0 && *end > p.window ? *end - p.window : 0;
}

ln_attention_args ln_make_attention_args(const ln_op_attention *p, const ln_cuda_step *step);

/* Attention on tensor cores (mma.cu), for cases that it takes (select.h). step->scratch has
 * ln_cuda_attention_bytes. qkv: what stands in front of it, where q, k and v are finished, too, or
 * NULL; to: where the result is converted for a linear, too, not by_row, or NULL. */
int ln_mma_attention(const ln_attention_args *args, const ln_qkv_args *qkv,
                     const ln_cuda_step *step, const ln_act_view *to, cudaStream_t stream);

#endif
