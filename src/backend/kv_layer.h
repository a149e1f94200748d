/* One layer's share of the KV cache: where its rows lie, and how many bytes they take. */
#ifndef LN_BACKEND_KV_LAYER_H
#define LN_BACKEND_KV_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a row of the last two in which something is infinite or NaN the scale is NaN: all of it counts
 * as NaN. */
typedef enum ln_kv_dtype {
    LN_KV_F32,
    LN_KV_F16,
    LN_KV_BF16,
    LN_KV_Q8_0, /* int8, with a float32 scale for each token of a head */
    LN_KV_FP8   /* E4M3, with such a scale */
} ln_kv_dtype;

static inline bool ln_kv_has_scales(ln_kv_dtype dtype) {
    return dtype == LN_KV_Q8_0 || dtype == LN_KV_FP8;
}

/* One layer's share of the KV cache. Both arrays: [block][kv head][token in block][head dim]; a
 * quantised one has the scales of a head, [token in block], behind its rows in the block. */
typedef struct ln_kv_layer {
    ln_kv_dtype dtype;
    size_t group; /* index into ln_batch.groups */
    size_t block_tokens;
    /* Of entries that each sum up so many tokens (ln_op_compress), else 0: block_tokens counts the
     * entries of a block, of as many tokens as table_tokens says */
    size_t entry_tokens, table_tokens;
    size_t n_heads;
    size_t k_dim, v_dim; /* elements of a head */
    size_t v_stride;     /* elements from one token's V to the next: v_dim, or k_dim when V is the
                            beginning of K (a latent) and v == k */
    void *k, *v;
    const struct ln_state_cache *recurrent; /* of the states of a recurrent layer, else NULL */
} ln_kv_layer;

/* Where the scales of a quantised head lie, in bytes from the start of its rows. */
static inline size_t ln_kv_scales_offset(size_t block_tokens, size_t dim) {
    return (block_tokens * dim + 3) / 4 * 4;
}

/* Bytes of one head in one block, its rows of `dim` elements and their scales. */
static inline size_t ln_kv_head_bytes(ln_kv_dtype dtype, size_t block_tokens, size_t dim) {
    if (ln_kv_has_scales(dtype))
        return ln_kv_scales_offset(block_tokens, dim) + block_tokens * sizeof(float);
    return block_tokens * dim * (dtype == LN_KV_F32 ? 4 : 2);
}

/* Entries that end in one block, at most. */
static inline size_t ln_kv_block_entries(size_t entry_tokens, size_t table_tokens) {
    return (table_tokens + entry_tokens - 1) / entry_tokens;
}

/* The row of entry number `entry` of a sequence, which is in the block of its last token. */
static inline size_t ln_kv_entry_row(const ln_kv_layer *kv, const int32_t *block_table,
                                     size_t entry) {
    size_t last = (entry + 1) * kv->entry_tokens - 1;
    size_t block = (size_t)block_table[last / kv->table_tokens];
    return block * kv->block_tokens + last % kv->table_tokens / kv->entry_tokens;
}

/* Entries that are complete once the token at `position` is there. */
static inline size_t ln_kv_entries(const ln_kv_layer *kv, size_t position) {
    return (position + 1) / kv->entry_tokens;
}

#endif
