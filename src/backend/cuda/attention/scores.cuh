/* What scale, soft-cap, ALiBi, relative bias and masks make of q.k. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SCORES_CUH
#define LN_BACKEND_CUDA_ATTENTION_SCORES_CUH

#include "backend/cuda/attention/args.cuh"

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

/* The score of a query at `position` and a key: scale, soft-cap and biases of their dot product. */
static __device__ __forceinline__ float ln_finish_score(const ln_attention_args &p, float dot,
                                                        size_t head, size_t position, size_t key) {
    float score = p.scale * dot;
    if (p.softcap > 0.0f)
        score = p.softcap * tanhf(score / p.softcap);
    if (p.alibi_slopes != NULL)
        score -= p.alibi_slopes[head] * fabsf((float)position - (float)key);
    if (p.relative.table != NULL)
        score += p.relative.table[ln_relative_bucket(p.relative, p.relative_growth, position, key) *
                                      p.n_heads +
                                  head];
    return score;
}

/* The keys [begin, end) that a token sees: causal, or all of its sequence, within the window, which
 * then reaches both ways, or within the chunk. Neither falls from a token to the next one. */
static __device__ __forceinline__ void ln_key_range(const ln_attention_args &p, size_t seq,
                                                    size_t position, size_t *begin, size_t *end) {
    *end = position + 1;
    *begin = p.window > 0 && *end > p.window ? *end - p.window : 0;
    if (p.sees_all)
        *end = p.window > 0 ? min(position + p.window, (size_t)p.lengths[seq])
                            : (size_t)p.lengths[seq];
    if (p.chunk > 0)
        *begin = (unsigned)position - (unsigned)position % (unsigned)p.chunk;
}

#endif
