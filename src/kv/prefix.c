#include "kv/prefix.h"

#include "base/siphash.h"

uint64_t ln_kv_prefix_root(const ln_kv_cache *cache, const char *salt, size_t n_bytes) {
    return ln_siphash(cache->secret, salt, n_bytes);
}

size_t ln_kv_prefix_find(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens,
                         uint64_t root) {
    size_t n_blocks = (n_tokens - 1) / LN_KV_BLOCK_TOKENS, longest = 0;
    size_t n_in_row[LN_KV_MAX_GROUPS] = {0}; /* blocks found without a gap up to here */
    for (size_t i = 0; i < n_blocks; i++) {
        ln_prefix_key key = ln_prefix_key_of(cache->secret, root, tokens + i * LN_KV_BLOCK_TOKENS);
        bool is_whole = true;
        cache->chain[i] = root = key.hash;
        for (size_t g = 0; g < cache->n_groups; g++) {
            ln_kv_group *group = &cache->groups[g];
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

void ln_kv_prefix_add(ln_kv_cache *cache, size_t row, const int32_t *tokens, size_t n_tokens) {
    ln_kv_row *r = &cache->rows[row];
    if (!cache->shares_prefixes)
        return;
    for (; (r->n_keyed + 1) * LN_KV_BLOCK_TOKENS <= n_tokens; r->n_keyed++) {
        ln_prefix_key key =
            ln_prefix_key_of(cache->secret, r->chain, tokens + r->n_keyed * LN_KV_BLOCK_TOKENS);
        r->chain = key.hash;
        for (size_t g = 0; g < cache->n_groups; g++) {
            ln_kv_group *group = &cache->groups[g];
            const ln_block_table *table = &group->tables[row];
            if (r->n_keyed < table->begin || r->n_keyed >= table->end)
                continue;
            int32_t block = table->blocks[r->n_keyed];
            if (!group->pool.index.has[block] && ln_prefix_index_find(&group->pool.index, &key) < 0)
                ln_prefix_index_add(&group->pool.index, block, &key);
        }
    }
}

void ln_kv_prefix_forget(ln_kv_cache *cache, size_t row, size_t n_cached) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        const ln_block_table *table = &group->tables[row];
        size_t i = n_cached / LN_KV_BLOCK_TOKENS;
        for (i = i < table->begin ? table->begin : i; i < table->end; i++)
            ln_block_pool_forget(&group->pool, table->blocks[i]);
    }
}
