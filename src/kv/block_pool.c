#include "kv/block_pool.h"

size_t ln_block_pool_plan(ln_layout *layout, size_t n_blocks) {
    return ln_layout_add(layout, n_blocks, sizeof(int32_t) + sizeof(uint32_t));
}

void ln_block_pool_init(ln_block_pool *pool, size_t n_blocks, void *memory) {
    *pool = (ln_block_pool){
        .n_blocks = n_blocks,
        .n_free = n_blocks,
        .free_blocks = memory,
        .references = (uint32_t *)memory + n_blocks,
    };
    for (size_t i = 0; i < n_blocks; i++) {
        pool->free_blocks[i] = (int32_t)(n_blocks - 1 - i); /* low ids first */
        pool->references[i] = 0;
    }
}

int32_t ln_block_pool_take(ln_block_pool *pool) {
    if (pool->n_free == 0)
        return -1;
    int32_t block = pool->free_blocks[--pool->n_free];
    pool->references[block] = 1;
    return block;
}

static bool is_used(const ln_block_pool *pool, int32_t block) {
    return block >= 0 && (size_t)block < pool->n_blocks && pool->references[block] > 0;
}

void ln_block_pool_share(ln_block_pool *pool, int32_t block) {
    LN_BUG_ON(!is_used(pool, block));
    pool->references[block]++;
}

void ln_block_pool_release(ln_block_pool *pool, int32_t block) {
    LN_BUG_ON(!is_used(pool, block));
    if (--pool->references[block] == 0)
        pool->free_blocks[pool->n_free++] = block;
}

bool ln_block_pool_check(const ln_block_pool *pool) {
    for (size_t block = 0; block < pool->n_blocks; block++) {
        size_t times_free = 0;
        for (size_t i = 0; i < pool->n_free; i++)
            times_free += pool->free_blocks[i] == (int32_t)block;
        if (times_free != (pool->references[block] == 0 ? 1u : 0u))
            return false;
    }
    return true;
}
