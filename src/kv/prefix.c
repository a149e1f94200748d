#include "kv/prefix.h"

size_t ln_kv_prefix_find(ln_kv_group *groups, size_t n_groups, const uint64_t secret[2],
                         const int32_t *tokens, size_t n_tokens, uint64_t root, uint64_t *hashes) {
    size_t n_blocks = (n_tokens - 1) / LN_KV_BLOCK_TOKENS, longest = 0;
    size_t n_in_row[LN_KV_MAX_GROUPS] = {0}; /* blocks found without a gap up to here */
    for (size_t i = 0; i < n_blocks; i++) {
        ln_prefix_key key = ln_prefix_key_of(secret, root, tokens + i * LN_KV_BLOCK_TOKENS);
        bool is_whole = true;
        hashes[i] = root = key.hash;
        for (size_t g = 0; g < n_groups; g++) {
            ln_kv_group *group = &groups[g];
            int32_t block = ln_prefix_index_find(&group->pool.index, &key);
            if (block < 0 && group->window == 0)
                return longest;
            group->found[i] = block;
            n_in_row[g] = block < 0 ? 0 : n_in_row[g] + 1;
            size_t begin = ln_kv_first_seen(group->window, (i + 1) * LN_KV_BLOCK_TOKENS);
            is_whole &= n_in_row[g] >= i + 1 - begin;
        }
        if (is_whole)
            longest = i + 1;
    }
    return longest;
}

void ln_kv_prefix_add(ln_kv_group *groups, size_t n_groups, const uint64_t secret[2],
                      ln_kv_chain *chain, size_t row, const int32_t *tokens, size_t n_tokens) {
    for (; (chain->n_blocks + 1) * LN_KV_BLOCK_TOKENS <= n_tokens; chain->n_blocks++) {
        ln_prefix_key key =
            ln_prefix_key_of(secret, chain->hash, tokens + chain->n_blocks * LN_KV_BLOCK_TOKENS);
        chain->hash = key.hash;
        for (size_t g = 0; g < n_groups; g++) {
            ln_prefix_index *index = &groups[g].pool.index;
            const ln_block_table *table = &groups[g].tables[row];
            if (chain->n_blocks < table->begin || chain->n_blocks >= table->end)
                continue;
            int32_t block = table->blocks[chain->n_blocks];
            if (!index->has[block] && ln_prefix_index_find(index, &key) < 0)
                ln_prefix_index_add(index, block, &key);
        }
    }
}
