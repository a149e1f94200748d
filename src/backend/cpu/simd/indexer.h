/* The lightning indexer of sparse attention: scores of 16 positions at once, a lane for each. Keys
 * lie in rows (kv.h: there is no V, as with latents). Tokens are the items that workers take; where
 * there are fewer tokens than workers, the positions of each are shared out. Either way a score has
 * the same bits.
 *
 * Bytes moved: the keys of a sequence once per token. */
#ifndef LN_BACKEND_CPU_SIMD_INDEXER_H
#define LN_BACKEND_CPU_SIMD_INDEXER_H

#include "backend/cpu/simd/attention_tile.h"

enum { INDEX_HEADS = 4 }; /* whose sums are in registers together */

static size_t indexer_scratch(size_t max_positions, size_t head_dim) {
    return max_positions == 0 ? 0
                              : whole_vectors(max_positions) + 2 * LANES * whole_vectors(head_dim);
}

/* The scores of the 16 keys of a block, given as [k_dim][16]. */
static vf index_block(const ln_op_index *p, size_t token, const float *keys) {
    size_t dim = p->kv->k_dim;
    vf total = vf_set(0.0f);
    for (size_t first = 0; first < p->n_heads; first += INDEX_HEADS) {
        size_t n = p->n_heads - first < INDEX_HEADS ? p->n_heads - first : INDEX_HEADS;
        const float *q = p->q + (token * p->n_heads + first) * dim;
        vf sums[INDEX_HEADS];
        for (size_t head = 0; head < INDEX_HEADS; head++)
            sums[head] = vf_set(0.0f);
        for (size_t d = 0; d < dim; d++) {
            vf k = vf_load(keys + d * LANES);
            for (size_t head = 0; head < n; head++)
                sums[head] = vf_fma(vf_set(q[head * dim + d]), k, sums[head]);
        }
        for (size_t head = 0; head < n; head++)
            total = vf_fma(vf_set(p->weights[token * p->n_heads + first + head]),
                           vf_max(sums[head], vf_set(0.0f)), total);
    }
    return total;
}

/* Scores of a token with the blocks [first, last) of its sequence; those past the token count for
 * nothing. */
static void index_blocks(const ln_op *op, size_t token, const int32_t *block_table, size_t first,
                         size_t last, float *plain, float *scores) {
    const ln_op_index *p = &op->index;
    const ln_kv_layer *kv = p->kv;
    size_t width = whole_vectors(kv->k_dim);
    float *keys = plain + LANES * width;
    memset(plain, 0, LANES * width * sizeof *plain);
    for (size_t i = first; i < last; i++) {
        size_t row = (size_t)block_table[i] * LANES;
        for (size_t j = 0; j < LANES; j++)
            kv_load_key_row(kv, row + j, plain + j * width);
        for (size_t d = 0; d < width; d += LANES)
            vf_transpose(plain + d, width, keys + d * LANES);
        vf_store(scores + i * LANES, index_block(p, token, keys));
    }
}

/* One token after another, each by all workers. */
static void index_together(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_index *p = &op->index;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    float *scores = worker->shared;
    size_t seq = 0, begin, end;
    for (size_t token = 0; token < batch->n_tokens; token++) {
        while ((size_t)batch->seq_starts[seq + 1] <= token)
            seq++;
        size_t n = (size_t)batch->positions[token] + 1;
        int32_t *positions = p->positions + token * p->top_k;
        if (n <= p->top_k) {
            if (worker->index == 0)
                ln_scalar_all_positions(n, positions);
            continue;
        }
        ln_cpu_share(worker, (n + LANES - 1) / LANES, &begin, &end);
        index_blocks(op, token, group->block_tables + seq * group->max_blocks, begin, end,
                     worker->scratch, scores);
        ln_cpu_barrier(worker);
        if (worker->index == 0)
            ln_scalar_top_k(scores, n, p->top_k, positions);
        ln_cpu_barrier(worker);
    }
}

static void index_positions(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_index *p = &op->index;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    if (p->kv->block_tokens != LANES || p->kv->entry_tokens > 0) {
        ln_scalar_index(op, worker);
        return;
    }
    if (worker->count > 1 && batch->n_tokens < worker->count) {
        index_together(op, worker);
        return;
    }
    float *scores = worker->scratch + 2 * LANES * whole_vectors(p->kv->k_dim);
    size_t seq = 0, token;
    while (ln_cpu_take(worker, batch->n_tokens, &token)) {
        while ((size_t)batch->seq_starts[seq + 1] <= token)
            seq++;
        size_t n = (size_t)batch->positions[token] + 1;
        int32_t *positions = p->positions + token * p->top_k;
        if (n <= p->top_k) {
            ln_scalar_all_positions(n, positions);
            continue;
        }
        index_blocks(op, token, group->block_tables + seq * group->max_blocks, 0,
                     (n + LANES - 1) / LANES, worker->scratch, scores);
        ln_scalar_top_k(scores, n, p->top_k, positions);
    }
}

#endif
