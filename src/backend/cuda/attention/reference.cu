/* Attention over the paged cache in float32: every head dim, cache type and variant. `exact` runs
 * it for all, `fast` for what the kernels on tensor cores do not take.
 *
 * Grid (n_heads, n_tokens), block 128: a block computes one head of one token, KV split by KV split
 * in order. In a split each warp scores every fourth key, lanes across k_dim; then each thread sums
 * P V of its elements of v_dim. Shared memory: q, the scores of a split and O, (k_dim +
 * LN_KV_SPLIT + v_dim) floats. Bytes moved: K and V once for each query head. */
#include "backend/cuda/attention/reference.cuh"

#include "backend/cuda/attention/scores.cuh"

enum { THREADS = 128, WARPS = THREADS / LN_WARP };

/* A token's cache. */
typedef struct token_cache {
    const int32_t *table;   /* blocks of its sequence */
    const int32_t *indices; /* of its positions, or NULL */
    size_t kv_head;
} token_cache;

/* The cache row of a position, which counts among those that an indexer chose. */
static __device__ __forceinline__ size_t cache_row(const ln_attention_args &p,
                                                   const token_cache &cache, size_t position) {
    unsigned block_tokens = (unsigned)p.kv.block_tokens;
    position = cache.indices != NULL ? (size_t)cache.indices[position] : position;
    size_t block = (size_t)cache.table[(unsigned)position / block_tokens];
    return (block * p.kv.n_heads + cache.kv_head) * block_tokens +
           (unsigned)position % block_tokens;
}

static __global__ void attend(const __grid_constant__ ln_attention_args p) {
    extern __shared__ float q[];
    __shared__ float reduce[LN_MAX_WARPS];
    float *scores = q + p.kv.k_dim, *acc = scores + LN_KV_SPLIT;
    size_t head = blockIdx.x, token = blockIdx.y;
    size_t item = token * p.n_heads + head;
    size_t seq = (size_t)p.token_seqs[token], position = (size_t)p.positions[token];
    size_t begin, end;
    ln_key_range(p, seq, position, &begin, &end);
    if (p.indices != NULL && end > p.top_k)
        end = p.top_k;
    token_cache cache = {p.block_tables + seq * p.max_blocks,
                         p.indices != NULL ? p.indices + token * p.top_k : NULL,
                         head / (p.n_heads / p.kv.n_heads)};
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    float row_max = p.sinks != NULL ? p.sinks[head] : -INFINITY;
    float row_sum = p.sinks != NULL ? 1.0f : 0.0f;
    for (size_t i = threadIdx.x; i < p.kv.k_dim; i += THREADS)
        q[i] = p.q[item * p.kv.k_dim + i];
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        acc[i] = 0.0f;
    __syncthreads();
    while (begin < end) {
        size_t split_end = (begin / LN_KV_SPLIT + 1) * LN_KV_SPLIT;
        size_t n = (split_end < end ? split_end : end) - begin;
        for (size_t i = warp; i < n; i += WARPS) {
            size_t row = cache_row(p, cache, begin + i);
            float dot = 0.0f;
            for (size_t k = lane; k < p.kv.k_dim; k += LN_WARP)
                dot = fmaf(q[k], ln_kv_load(p.keys, row, k), dot);
            dot = ln_warp_sum(dot);
            if (lane == 0)
                scores[i] = ln_finish_score(p, dot, head, position, begin + i);
        }
        __syncthreads();
        float split_max = -INFINITY, split_sum = 0.0f;
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            split_max = fmaxf(split_max, scores[i]);
        split_max = ln_block_max(split_max, reduce);
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            split_sum += scores[i] = expf(scores[i] - split_max);
        split_sum = ln_block_sum(split_sum, reduce); /* scores are P from here on */
        float merged_max = fmaxf(row_max, split_max);
        float keep = expf(row_max - merged_max), add = expf(split_max - merged_max);
        for (size_t d = threadIdx.x; d < p.kv.v_dim; d += THREADS) {
            float split = 0.0f;
            for (size_t i = 0; i < n; i++) {
                size_t row = cache_row(p, cache, begin + i);
                split = fmaf(scores[i], ln_kv_load(p.values, row, d), split);
            }
            acc[d] = acc[d] * keep + split * add;
        }
        row_sum = row_sum * keep + split_sum * add;
        row_max = merged_max;
        begin += n;
        __syncthreads();
    }
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        p.out[item * p.kv.v_dim + i] = acc[i] / row_sum;
}

int ln_attention_reference(const ln_attention_args *args, size_t n_tokens, cudaStream_t stream) {
    static const size_t max_tokens = 65535; /* of a grid */
    const size_t k_dim = args->kv.k_dim, v_dim = args->kv.v_dim;
    size_t shared = (k_dim + LN_KV_SPLIT + v_dim) * sizeof(float);
    for (size_t done = 0; done < n_tokens; done += max_tokens) {
        size_t n = n_tokens - done < max_tokens ? n_tokens - done : max_tokens;
        ln_attention_args part = *args;
        part.q += done * args->n_heads * k_dim;
        part.out += done * args->n_heads * v_dim;
        part.positions += done;
        part.token_seqs += done;
        part.indices = args->indices != NULL ? args->indices + done * args->top_k : NULL;
        attend<<<dim3((unsigned)args->n_heads, (unsigned)n), THREADS, shared, stream>>>(part);
    }
    return cudaGetLastError();
}
