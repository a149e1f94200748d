/* Attention over the paged cache in float32: every head dim, cache type and variant. `exact` runs
 * it for all, `fast` for what the kernels on tensor cores do not take.
 *
 * Grid (n_heads, n_tokens), block 128: a block computes one head of one token, KV split by KV split
 * in order. In a split each warp scores every fourth key, lanes across k_dim; then each thread sums
 * P V of its elements of v_dim. Shared memory: q, the scores of a split and O, (k_dim +
 * LN_KV_SPLIT + v_dim) floats. Bytes moved: K and V once for each query head. */
#include "backend/cuda/attention/reference.cuh"

#include "backend/cuda/attention/scores.cuh"
#include "backend/cuda/ops/entries.cuh"

enum { THREADS = 128, WARPS = THREADS / LN_WARP };

/* entries: those that a token sees behind its positions, with has_entries. */
typedef struct reference_args {
    ln_attention_args a;
    size_t run_tokens; /* in which indices are chosen; 0: one by one */
    ln_relative_logits relative_logits;
    bool own_sinks; /* of each token */
    bool has_entries;
    ln_kv_layer entries;
    ln_kv_array entry_keys, entry_values;
    const int32_t *entry_tables;
    size_t max_entry_blocks; /* of a row of entry_tables */
} reference_args;

/* A token's cache of positions, or of entries. */
typedef struct token_cache {
    const ln_kv_layer *kv;
    ln_kv_array keys, values;
    const int32_t *table;   /* blocks of its sequence */
    const int32_t *indices; /* of its positions or entries, or NULL */
    size_t kv_head;
} token_cache;

/* The cache row of a position or entry, which counts among those that an indexer chose. */
static __device__ __forceinline__ size_t cache_row(const token_cache &cache, size_t position) {
    const ln_kv_layer &kv = *cache.kv;
    unsigned block_tokens = (unsigned)kv.block_tokens;
    position = cache.indices != NULL ? (size_t)cache.indices[position] : position;
    if (kv.entry_tokens > 0)
        return ln_entry_row(kv, cache.table, position);
    size_t block = (size_t)cache.table[(unsigned)position / block_tokens];
    return (block * kv.n_heads + cache.kv_head) * block_tokens + (unsigned)position % block_tokens;
}

/* A head of a token, and its softmax so far. */
typedef struct attention_row {
    size_t head, position;
    const float *q;        /* [k_dim] */
    const float *relative; /* the query of relative logits, [dim] or NULL */
    float *scores, *acc;   /* [LN_KV_SPLIT], [v_dim] */
    float row_max, row_sum;
} attention_row;

/* The row's relative logit for a key, by a warp. */
static __device__ float relative_logit(const ln_relative_logits &p, const attention_row &row,
                                       size_t key) {
    if (row.relative == NULL || key > row.position || row.position - key >= p.n_distances)
        return 0.0f;
    const float *embedding = p.table + (row.position - key) * p.dim;
    float bias = 0.0f;
    for (size_t i = threadIdx.x % LN_WARP; i < p.dim; i += LN_WARP)
        bias = fmaf(row.relative[i], embedding[i], bias);
    return ln_warp_sum(bias);
}

/* Positions or entries [begin, end), split by split, on top of what the row has. */
static __device__ void attend_range(const reference_args &args, const token_cache &cache,
                                    size_t begin, size_t end, attention_row &row) {
    const ln_attention_args &p = args.a;
    __shared__ float reduce[LN_MAX_WARPS];
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    float *scores = row.scores;
    while (begin < end) {
        size_t split_end = (begin / LN_KV_SPLIT + 1) * LN_KV_SPLIT;
        size_t n = (split_end < end ? split_end : end) - begin;
        for (size_t i = warp; i < n; i += WARPS) {
            size_t at = cache_row(cache, begin + i);
            float dot = 0.0f;
            for (size_t k = lane; k < p.kv.k_dim; k += LN_WARP)
                dot = fmaf(row.q[k], ln_kv_load(cache.keys, at, k), dot);
            dot = ln_warp_sum(dot);
            float bias = relative_logit(args.relative_logits, row, begin + i);
            if (lane == 0)
                scores[i] = ln_finish_score(p, dot, row.head, row.position, begin + i) + bias;
        }
        __syncthreads();
        float split_max = -INFINITY, split_sum = 0.0f;
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            split_max = fmaxf(split_max, scores[i]);
        split_max = ln_block_max(split_max, reduce);
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            split_sum += scores[i] = expf(scores[i] - split_max);
        split_sum = ln_block_sum(split_sum, reduce); /* scores are P from here on */
        float merged_max = fmaxf(row.row_max, split_max);
        float keep = expf(row.row_max - merged_max), add = expf(split_max - merged_max);
        for (size_t d = threadIdx.x; d < p.kv.v_dim; d += THREADS) {
            float split = 0.0f;
            for (size_t i = 0; i < n; i++)
                split = fmaf(scores[i], ln_kv_load(cache.values, cache_row(cache, begin + i), d),
                             split);
            row.acc[d] = row.acc[d] * keep + split * add;
        }
        row.row_sum = row.row_sum * keep + split_sum * add;
        row.row_max = merged_max;
        begin += n;
        __syncthreads();
    }
}

/* How many of n positions or entries an indexer leaves. */
static __device__ __forceinline__ size_t count_chosen(const reference_args &p, size_t n) {
    if (n <= p.a.top_k)
        return n;
    return p.run_tokens > 0 ? p.a.top_k + 1 - p.run_tokens + n % p.run_tokens : p.a.top_k;
}

static __global__ void attend(const __grid_constant__ reference_args args) {
    extern __shared__ float q[];
    const ln_attention_args &p = args.a;
    size_t head = blockIdx.x, token = blockIdx.y;
    size_t item = token * p.n_heads + head;
    size_t seq = (size_t)p.token_seqs[token], position = (size_t)p.positions[token];
    const int32_t *indices = p.indices != NULL ? p.indices + token * p.top_k : NULL;
    size_t begin, end;
    ln_key_range(p, seq, position, &begin, &end);
    if (indices != NULL && !args.has_entries)
        end = count_chosen(args, end);
    attention_row row = {head,
                         position,
                         q,
                         NULL,
                         q + p.kv.k_dim,
                         q + p.kv.k_dim + LN_KV_SPLIT,
                         p.sinks != NULL ? p.sinks[args.own_sinks ? item : head] : -INFINITY,
                         p.sinks != NULL ? 1.0f : 0.0f};
    if (args.relative_logits.queries != NULL)
        row.relative = args.relative_logits.queries + item * args.relative_logits.dim;
    for (size_t i = threadIdx.x; i < p.kv.k_dim; i += THREADS)
        q[i] = p.q[item * p.kv.k_dim + i];
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        row.acc[i] = 0.0f;
    __syncthreads();
    token_cache cache = {&p.kv,
                         p.keys,
                         p.values,
                         p.block_tables + seq * p.max_blocks,
                         args.has_entries ? NULL : indices,
                         head / (p.n_heads / p.kv.n_heads)};
    attend_range(args, cache, begin, end, row);
    if (args.has_entries) {
        size_t n = ln_count_keys(args.entries, position);
        cache = {&args.entries,     args.entry_keys,
                 args.entry_values, args.entry_tables + seq * args.max_entry_blocks,
                 indices,           0};
        attend_range(args, cache, 0, indices != NULL ? count_chosen(args, n) : n, row);
    }
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        p.out[item * p.kv.v_dim + i] = row.acc[i] / row.row_sum;
}

static reference_args make_args(const ln_op_attention *p, const ln_attention_args *a,
                                const ln_cuda_step *step) {
    reference_args args = {};
    args.a = *a;
    args.run_tokens = p->run_tokens;
    args.relative_logits = p->relative_logits;
    args.own_sinks = p->own_sinks;
    args.has_entries = p->entries != NULL;
    if (p->entries == NULL)
        return args;
    const ln_batch_group *group = &step->batch.groups[p->entries->group];
    args.entries = *p->entries;
    args.entry_keys = ln_kv_keys(p->entries);
    args.entry_values = ln_kv_values(p->entries);
    args.entry_tables = group->block_tables;
    args.max_entry_blocks = group->max_blocks;
    return args;
}

int ln_attention_reference(const ln_op_attention *op, const ln_attention_args *a,
                           const ln_cuda_step *step, cudaStream_t stream) {
    static const size_t max_tokens = 65535; /* of a grid */
    const size_t k_dim = a->kv.k_dim, v_dim = a->kv.v_dim, n_tokens = step->batch.n_tokens;
    size_t shared = (k_dim + LN_KV_SPLIT + v_dim) * sizeof(float);
    reference_args args = make_args(op, a, step);
    for (size_t done = 0; done < n_tokens; done += max_tokens) {
        size_t n = n_tokens - done < max_tokens ? n_tokens - done : max_tokens;
        reference_args part = args;
        part.a.q += done * a->n_heads * k_dim;
        if (args.own_sinks)
            part.a.sinks += done * a->n_heads;
        if (args.relative_logits.queries != NULL)
            part.relative_logits.queries += done * a->n_heads * args.relative_logits.dim;
        part.a.out += done * a->n_heads * v_dim;
        part.a.positions += done;
        part.a.token_seqs += done;
        part.a.indices = a->indices != NULL ? a->indices + done * a->top_k : NULL;
        attend<<<dim3((unsigned)a->n_heads, (unsigned)n), THREADS, shared, stream>>>(part);
    }
    return cudaGetLastError();
}
