/* Merge of the KV splits of a decode row (split-KV, flash decoding): partial O, running max and row
 * sum of each split, in order of positions. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SPLIT_KV_CUH
#define LN_BACKEND_CUDA_ATTENTION_SPLIT_KV_CUH

#include "backend/cuda/attention/online_softmax.cuh"
#include "backend/cuda/attention/scores.cuh"

/* Element d of a head's row of the result. */
template <int D>
static __device__ __forceinline__ float ln_merge_splits(const ln_mma_attention_args &p, size_t seq,
                                                        size_t token, size_t head, unsigned d) {
    size_t begin, end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token], &begin, &end);
    float row_max, row_sum, merged = 0.0f;
    ln_merge_init(p, head, &row_max, &row_sum);
    unsigned last = (unsigned)(end - 1) / LN_KV_SPLIT;
#pragma unroll 4
    for (unsigned split = (unsigned)begin / LN_KV_SPLIT; split <= last; split++) {
        size_t at = (seq * p.a.n_heads + head) * p.n_splits + split;
        float2 stats = p.partial_stats[at];
        float partial = p.partial_out[at * D + d], keep, add;
        ln_merge_scales(&row_max, stats.x, &keep, &add);
        row_sum = ln_merge(row_sum, keep, stats.y, add);
        merged = ln_merge(merged, keep, partial, add);
    }
    return merged * ln_normalizer(row_sum);
}

#endif
