/* The lightning indexer of sparse attention: scores of all positions, and the best of them. */
#include <string.h>

#include "backend/cpu/scalar/scalar.h"

/* Unsigned numbers in the order of floats. */
static uint32_t order_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static size_t count_from(const float *scores, size_t n, uint32_t least) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += order_of(scores[i]) >= least;
    return count;
}

void ln_scalar_top_k(const float *scores, size_t n, size_t top_k, int32_t *positions) {
    uint32_t least = 0; /* the greatest that top_k scores or more reach */
    for (uint32_t bit = UINT32_C(1) << 31; bit > 0; bit >>= 1)
        if (count_from(scores, n, least | bit) >= top_k)
            least |= bit;
    size_t n_equal = top_k; /* that have room behind those above */
    if (least < UINT32_MAX)
        n_equal -= count_from(scores, n, least + 1);
    for (size_t i = 0, at = 0; at < top_k; i++) {
        uint32_t order = order_of(scores[i]);
        if (order == least && n_equal > 0)
            n_equal--;
        else if (order <= least)
            continue;
        positions[at++] = (int32_t)i;
    }
}

void ln_scalar_all_positions(size_t n, int32_t *positions) {
    for (size_t i = 0; i < n; i++)
        positions[i] = (int32_t)i;
}

static float score_of(const ln_op_index *p, size_t token, const float *key) {
    float sum = 0.0f;
    for (size_t head = 0; head < p->n_heads; head++) {
        size_t item = token * p->n_heads + head;
        float score = ln_scalar_dot(p->q + item * p->kv->k_dim, key, p->kv->k_dim);
        sum += p->weights[item] * (score > 0.0f ? score : 0.0f);
    }
    return sum;
}

/* Positions, or entries, that the token at `position` may read. */
static size_t count_keys(const ln_kv_layer *kv, size_t position) {
    return kv->entry_tokens > 0 ? ln_kv_entries(kv, position) : position + 1;
}

static size_t key_row(const ln_kv_layer *kv, const int32_t *block_table, size_t i) {
    if (kv->entry_tokens > 0)
        return ln_kv_entry_row(kv, block_table, i);
    size_t slot = (size_t)block_table[i / kv->block_tokens] * kv->block_tokens;
    return ln_scalar_kv_row(kv, slot + i % kv->block_tokens, 0);
}

/* Entries become the tokens that they sum up, from the last on, with those behind all entries. */
static void count_in_tokens(const ln_kv_layer *kv, size_t position, size_t n, int32_t *positions) {
    size_t run = kv->entry_tokens, n_behind = (position + 1) % run;
    for (size_t i = n; i-- > 0;) {
        int32_t first = positions[i] * (int32_t)run;
        for (size_t j = run; j-- > 0;)
            positions[i * run + j] = first + (int32_t)j;
    }
    for (size_t j = 0; j < n_behind; j++)
        positions[n * run + j] = (int32_t)(position + 1 - n_behind + j);
}

void ln_scalar_index(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_index *p = &op->index;
    const ln_kv_layer *kv = p->kv;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[kv->group];
    float *key = worker->scratch, *scores = key + kv->k_dim;
    size_t seq = 0, width = ln_index_width(p->top_k, p->in_tokens ? kv->entry_tokens : 0);
    for (size_t token = 0; token < batch->n_tokens; token++) {
        while ((size_t)batch->seq_starts[seq + 1] <= token)
            seq++;
        if (token % worker->count != worker->index)
            continue;
        size_t n = count_keys(kv, (size_t)batch->positions[token]);
        size_t n_chosen = n < p->top_k ? n : p->top_k;
        int32_t *positions = p->positions + token * width;
        const int32_t *table = group->block_tables + seq * group->max_blocks;
        for (size_t i = 0; i < n && n > p->top_k; i++) {
            const float *k = ln_scalar_load_key(kv, key_row(kv, table, i), key);
            scores[i] = score_of(p, token, k);
        }
        if (n > p->top_k)
            ln_scalar_top_k(scores, n, p->top_k, positions);
        else
            ln_scalar_all_positions(n, positions);
        if (p->in_tokens)
            count_in_tokens(kv, (size_t)batch->positions[token], n_chosen, positions);
    }
}
