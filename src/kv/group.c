#include "kv/group.h"

enum { WATERMARK = 100 }; /* one block in so many is kept for tables that grow */

size_t ln_kv_table_blocks(size_t n_tokens) {
    return n_tokens / LN_KV_BLOCK_TOKENS + (n_tokens % LN_KV_BLOCK_TOKENS != 0);
}

/* A step sees window - 1 tokens before its chunk; a span of n tokens, wherever it begins, touches
 * at most ceil((n - 1) / block) + 1 blocks. */
size_t ln_kv_blocks_needed(size_t n_tokens, size_t window, size_t max_chunk_tokens) {
    size_t all = ln_kv_table_blocks(n_tokens);
    if (window == 0 || window >= n_tokens || max_chunk_tokens >= n_tokens)
        return all;
    size_t span = window - 1 + max_chunk_tokens;
    size_t seen = ln_kv_table_blocks(span - 1) + 1;
    return seen < all ? seen : all;
}

size_t ln_kv_group_blocks_missing(const ln_kv_group *group, size_t end, size_t n_tokens) {
    size_t all = ln_kv_table_blocks(n_tokens), rest = all > end ? all - end : 0;
    size_t most = ln_kv_blocks_needed(n_tokens, group->window, group->max_chunk_tokens);
    return rest < most ? rest : most;
}

size_t ln_kv_table_growth(const ln_block_table *table, size_t n_blocks) {
    size_t held = table->end - table->begin + table->n_reserved + n_blocks;
    return table->most > held ? (table->most - held) * (1 + table->n_forks) : 0;
}

/* n_growth and what all tables may grow by beyond what is reserved, as far as `most`. */
static size_t sum_growth(const ln_kv_group *group, size_t n_growth, size_t most) {
    for (size_t row = 0; row < group->n_rows && n_growth < most; row++)
        if (!group->tables[row].is_swapped)
            n_growth += ln_kv_table_growth(&group->tables[row], 0);
    return n_growth < most ? n_growth : most;
}

bool ln_kv_group_has_room(const ln_kv_group *group, size_t n_blocks, size_t n_growth,
                          bool is_alone) {
    size_t kept = group->n_reserved + sum_growth(group, n_growth, group->pool.n_blocks / WATERMARK);
    return is_alone || n_blocks + kept <= ln_block_pool_available(&group->pool);
}

void ln_kv_group_reserve(ln_kv_group *group, ln_block_table *table, size_t n_tokens) {
    size_t missing = ln_kv_group_blocks_missing(group, table->end, n_tokens);
    size_t room = ln_block_pool_available(&group->pool) - group->n_reserved;
    table->n_reserved = missing < room ? missing : room;
    group->n_reserved += table->n_reserved;
}
