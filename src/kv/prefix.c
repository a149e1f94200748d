#include "kv/prefix.h"

#include "kv/states.h"

/* Looks the block up that ends a prefix of n_blocks blocks; whether the prefix lacks nothing in the
 * group. n_in_row: blocks found without a gap up to there. */
static bool find_in_group(const ln_kv_groups *cache, ln_kv_group *group, const ln_prefix_key *key,
                          size_t n_blocks, size_t *n_in_row) {
    if (group->kind == LN_KV_GROUP_TAIL)
        return true;
    if (group->kind == LN_KV_GROUP_STATE && !ln_kv_is_at_state(n_blocks))
        return false;
    int32_t block = ln_prefix_index_find(&group->pool.index, key);
    if (group->kind == LN_KV_GROUP_STATE) {
        group->found[n_blocks * LN_KV_BLOCK_TOKENS / LN_KV_STATE_TOKENS] = block;
        return block >= 0 && group->written_in[block] < cache->step;
    }
    group->found[n_blocks - 1] = block;
    *n_in_row = block < 0 ? 0 : *n_in_row + 1;
    return *n_in_row >= n_blocks - ln_kv_first_seen(group->window, n_blocks * LN_KV_BLOCK_TOKENS);
}

ln_kv_prefix ln_kv_prefix_find(const ln_kv_groups *cache, const int32_t *tokens, size_t n_tokens,
                               uint64_t root, uint64_t *hashes) {
    size_t n_blocks = (n_tokens - 1) / LN_KV_BLOCK_TOKENS;
    size_t n_in_row[LN_KV_MAX_GROUPS] = {0};
    ln_kv_prefix longest = {0};
    for (size_t i = 0; i < n_blocks; i++) {
        ln_prefix_key key = ln_prefix_key_of(cache->secret, root, tokens + i * LN_KV_BLOCK_TOKENS);
        bool has_states = true, has_rest = true;
        hashes[i] = root = key.hash;
        for (size_t g = 0; g < cache->n_groups; g++) {
            ln_kv_group *group = &cache->groups[g];
            bool has = find_in_group(cache, group, &key, i + 1, &n_in_row[g]);
            if (!has && group->window == 0 && !ln_kv_has_states(group))
                return longest;
            *(ln_kv_has_states(group) ? &has_states : &has_rest) &= has;
        }
        if (has_rest)
            longest.n_cached = i + 1;
        if (has_rest && has_states)
            longest.n_blocks = i + 1;
    }
    return longest;
}

/* The block of a row's table that is full, or is the state, after n_blocks blocks; -1: none. */
static int32_t block_after(const ln_kv_group *group, size_t row, size_t n_blocks) {
    const ln_block_table *table = &group->tables[row];
    size_t at = n_blocks - 1;
    if (group->kind == LN_KV_GROUP_STATE)
        at = n_blocks * LN_KV_BLOCK_TOKENS / LN_KV_STATE_TOKENS;
    if (group->kind == LN_KV_GROUP_TAIL ||
        (group->kind == LN_KV_GROUP_STATE && !ln_kv_is_at_state(n_blocks)))
        return -1;
    return at < table->begin || at >= table->end ? -1 : table->blocks[at];
}

void ln_kv_prefix_add(const ln_kv_groups *cache, ln_kv_chain *chain, size_t row,
                      const int32_t *tokens, size_t n_tokens) {
    for (; (chain->n_blocks + 1) * LN_KV_BLOCK_TOKENS <= n_tokens; chain->n_blocks++) {
        ln_prefix_key key = ln_prefix_key_of(cache->secret, chain->hash,
                                             tokens + chain->n_blocks * LN_KV_BLOCK_TOKENS);
        const ln_prefix_stored stored = {&key, chain->origin, chain->n_blocks == 0};
        chain->hash = key.hash;
        for (size_t g = 0; g < cache->n_groups; g++) {
            ln_kv_group *group = &cache->groups[g];
            ln_prefix_index *index = &group->pool.index;
            int32_t block = block_after(group, row, chain->n_blocks + 1);
            if (block < 0 || index->has[block] || ln_prefix_index_find(index, &key) >= 0)
                continue;
            ln_prefix_index_add(index, block, &stored);
            if (group->kind == LN_KV_GROUP_STATE)
                group->written_in[block] = cache->step;
        }
    }
}
