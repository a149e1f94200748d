#include "backend/cuda/attention/args.cuh"

static size_t splits_of(size_t n_tokens) {
    return (n_tokens + LN_KV_SPLIT - 1) / LN_KV_SPLIT;
}

size_t ln_cuda_attention_bytes(size_t max_seqs, size_t max_heads, size_t max_tokens,
                               size_t head_dim) {
    return LN_ATTENTION_COUNTERS * sizeof(unsigned) +
           max_seqs * max_heads * splits_of(max_tokens) * (head_dim + 2) * sizeof(float);
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
    args.chunk = p->chunk;
    args.alibi_slopes = p->alibi_slopes;
    args.sinks = p->sinks;
    args.relative = p->relative;
    if (p->relative.table != NULL) {
        size_t n = p->relative.both_ways ? p->relative.n_buckets / 2 : p->relative.n_buckets;
        args.relative_growth = (float)log((double)p->relative.max_distance / (double)(n / 2));
    }
    args.sees_all = p->sees_all;
    args.indices = p->indices;
    args.top_k = p->top_k;
    args.out = p->out;
    args.block_tables = group->block_tables;
    args.max_blocks = group->max_blocks;
    args.lengths = group->lengths;
    args.positions = step->batch.positions;
    args.token_seqs = step->token_seqs;
    args.seq_starts = step->batch.seq_starts;
    return args;
}

ln_mma_attention_args ln_make_mma_attention_args(const ln_attention_args *a,
                                                 const ln_cuda_step *step) {
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    ln_mma_attention_args args;
    args.a = *a;
    args.heads_per_kv = split.heads_per_kv;
    args.block_shift = split.block_shift;
    args.n_splits = split.n_splits;
    args.split_keys = split.split_keys;
    args.uses_split_kv = split.uses_split_kv;
    args.reads_past_only = split.reads_past_only;
    args.arrival_counts = (unsigned *)step->scratch;
    args.partial_out = (float *)((char *)step->scratch + LN_ATTENTION_COUNTERS * sizeof(unsigned));
    args.partial_stats = (float2 *)(args.partial_out + split.n_items * a->kv.v_dim);
    return args;
}
