/* The invariants of a cache, for tests. */
#include "kv/cache.h"

/* How often the tables of rows that are swapped, or not, have the block. */
static uint32_t count_uses(const ln_kv_cache *cache, const ln_kv_group *group, int32_t block,
                           bool is_swapped) {
    uint32_t times = 0;
    for (size_t row = 0; row < cache->n_rows; row++)
        for (size_t i = 0; cache->rows[row].is_swapped == is_swapped && i < cache->max_blocks; i++)
            times += group->tables[row].blocks[i] == block;
    return times;
}

static bool check_pool(const ln_kv_cache *cache, const ln_kv_group *group, bool is_swapped) {
    const ln_block_pool *pool = is_swapped ? &group->swap : &group->pool;
    for (size_t block = 0; block < pool->n_blocks; block++)
        if (count_uses(cache, group, (int32_t)block, is_swapped) != pool->references[block])
            return false;
    return ln_block_pool_check(pool);
}

static bool check_group(const ln_kv_cache *cache, const ln_kv_group *group) {
    size_t n_reserved = 0;
    for (size_t row = 0; row < cache->n_rows; row++) {
        const ln_block_table *table = &group->tables[row];
        n_reserved += table->n_reserved;
        for (size_t i = 0; i < cache->max_blocks; i++)
            if ((table->blocks[i] >= 0) != (i >= table->begin && i < table->end) &&
                (group->kind != LN_KV_GROUP_STATE || table->blocks[i] >= 0))
                return false;
    }
    return n_reserved == group->n_reserved && n_reserved <= ln_block_pool_available(&group->pool) &&
           check_pool(cache, group, false) && check_pool(cache, group, true);
}

bool ln_kv_cache_check(const ln_kv_cache *cache) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (!check_group(cache, &cache->groups[g]))
            return false;
    return true;
}
