/* Attention over the paged cache: for every head size and variant here, in float32; some go to
 * mma.cu.
 *
 * Grid: (n_heads, n_tokens) blocks of 128 threads; a block owns one head of one token and walks
 * its slices in order. In a slice each warp scores every fourth key, lanes across k_dim; then each
 * thread sums its elements of v_dim over the slice's values. Shared memory: the query, the scores
 * of a slice and the running sum, (k_dim + LN_ATTENTION_SLICE + v_dim) floats. K and V are read
 * once for each query head. */
#include "backend/cuda/attention/args.cuh"

enum { THREADS = 128, WARPS = THREADS / LN_WARP };

static __global__ void attend(const __grid_constant__ ln_attention_args p) {
    extern __shared__ float q[];
    __shared__ float reduce[LN_MAX_WARPS];
    float *scores = q + p.kv.k_dim, *sum = scores + LN_ATTENTION_SLICE;
    size_t head = blockIdx.x, token = blockIdx.y;
    size_t kv_head = head / (p.n_heads / p.kv.n_heads), item = token * p.n_heads + head;
    size_t seq = (size_t)p.token_seqs[token], position = (size_t)p.positions[token];
    size_t begin, end;
    ln_key_range(p, seq, position, &begin, &end);
    const int32_t *table = p.block_tables + seq * p.max_blocks;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    float largest = p.sinks != NULL ? p.sinks[head] : -INFINITY;
    float total = p.sinks != NULL ? 1.0f : 0.0f;
    for (size_t i = threadIdx.x; i < p.kv.k_dim; i += THREADS)
        q[i] = p.q[item * p.kv.k_dim + i];
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        sum[i] = 0.0f;
    __syncthreads();
    while (begin < end) {
        size_t slice_end = (begin / LN_ATTENTION_SLICE + 1) * LN_ATTENTION_SLICE;
        size_t n = (slice_end < end ? slice_end : end) - begin;
        for (size_t i = warp; i < n; i += WARPS) {
            size_t row = ln_cache_row(p, table, begin + i, kv_head);
            float dot = 0.0f;
            for (size_t k = lane; k < p.kv.k_dim; k += LN_WARP)
                dot = fmaf(q[k], ln_kv_load(p.keys, row, k), dot);
            dot = ln_warp_sum(dot);
            if (lane == 0)
                scores[i] = ln_finish_score(p, dot, head, position, begin + i);
        }
        __syncthreads();
        float most = -INFINITY, weights = 0.0f;
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            most = fmaxf(most, scores[i]);
        most = ln_block_max(most, reduce);
        for (size_t i = threadIdx.x; i < n; i += THREADS)
            weights += scores[i] = expf(scores[i] - most);
        weights = ln_block_sum(weights, reduce); /* and all scores are weights now */
        float merged = fmaxf(largest, most);
        float keep = expf(largest - merged), add = expf(most - merged);
        for (size_t d = threadIdx.x; d < p.kv.v_dim; d += THREADS) {
            float slice = 0.0f;
            for (size_t i = 0; i < n; i++) {
                size_t row = ln_cache_row(p, table, begin + i, kv_head);
                slice = fmaf(scores[i], ln_kv_load(p.values, row, d), slice);
            }
            sum[d] = sum[d] * keep + slice * add;
        }
        total = total * keep + weights * add;
        largest = merged;
        begin += n;
        __syncthreads();
    }
    for (size_t i = threadIdx.x; i < p.kv.v_dim; i += THREADS)
        p.out[item * p.kv.v_dim + i] = sum[i] / total;
}

ln_attention_args ln_make_attention_args(const ln_op_attention *p, const ln_cuda_step *step) {
    const ln_batch_group *group = &step->batch.groups[p->kv->group];
    ln_attention_args args = {};
    args.q = p->q;
    args.kv = *p->kv;
    args.keys = ln_kv_keys(p->kv);
    args.values = ln_kv_values(p->kv);
    args.n_heads = p->n_heads;
    args.scale = p->scale;
    args.softcap = p->softcap;
    args.window = p->window;
    args.alibi_slopes = p->alibi_slopes;
    args.sinks = p->sinks;
    args.relative = p->relative;
    if (p->relative.table != NULL) {
        size_t n = p->relative.both_ways ? p->relative.n_buckets / 2 : p->relative.n_buckets;
        args.relative_growth = (float)log((double)p->relative.max_distance / (double)(n / 2));
    }
    args.sees_all = p->sees_all;
    args.out = p->out;
    args.block_tables = group->block_tables;
    args.max_blocks = group->max_blocks;
    args.lengths = group->lengths;
    args.positions = step->batch.positions;
    args.token_seqs = step->token_seqs;
    args.seq_starts = step->batch.seq_starts;
    return args;
}

int ln_cuda_attention(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_attention *p = &op->attention;
    ln_attention_args args = ln_make_attention_args(p, step);
    if (ln_takes_mma_attention(p, step))
        return ln_mma_attention(&args, NULL, step, NULL, stream);
    size_t shared = (p->kv->k_dim + LN_ATTENTION_SLICE + p->kv->v_dim) * sizeof(float);
    static const size_t max_tokens = 65535; /* of a grid */
    size_t n_tokens = step->batch.n_tokens;
    for (size_t done = 0; done < n_tokens; done += max_tokens) {
        size_t n = n_tokens - done < max_tokens ? n_tokens - done : max_tokens;
        ln_attention_args part = args;
        part.q += done * p->n_heads * p->kv->k_dim;
        part.out += done * p->n_heads * p->kv->v_dim;
        part.positions += done;
        part.token_seqs += done;
        attend<<<dim3((unsigned)p->n_heads, (unsigned)n), THREADS, shared, stream>>>(part);
    }
    return cudaGetLastError();
}
