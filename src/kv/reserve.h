/* Blocks kept for what will be written. */
#ifndef LN_KV_RESERVE_H
#define LN_KV_RESERVE_H

#include "kv/cache.h"

/* The blocks that a table with `end` still takes until it holds n_tokens. */
size_t ln_kv_reserve_wanted(const ln_kv_cache *cache, const ln_kv_group *group, size_t end,
                            size_t n_tokens);

/* One block in so many stays free for sequences that grow, unless nothing else runs. */
enum { LN_KV_WATERMARK = 100 };

/* Whether n_blocks can be taken or reserved. Alone, any number fits: see ln_kv_cache_fits. */
static inline bool ln_kv_reserve_fits(const ln_kv_group *group, size_t n_blocks, bool is_alone) {
    size_t kept = group->n_reserved + group->pool.n_blocks / LN_KV_WATERMARK;
    return is_alone || n_blocks + kept <= ln_block_pool_available(&group->pool);
}

/* Reserves what a table needs for n_tokens, as far as that is there. */
static inline void ln_kv_reserve(const ln_kv_cache *cache, ln_kv_group *group,
                                 ln_block_table *table, size_t n_tokens) {
    size_t wanted = ln_kv_reserve_wanted(cache, group, table->end, n_tokens);
    size_t room = ln_block_pool_available(&group->pool) - group->n_reserved;
    table->n_reserved = wanted < room ? wanted : room;
    group->n_reserved += table->n_reserved;
}

#endif
