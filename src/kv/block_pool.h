/* A pool of KV blocks, their allocator: ids 0 .. n_blocks - 1 with reference counts. It hands out
 * ids only; what lies in a block belongs to the backend.
 *
 * A block is in use (referenced), free, or cached: nobody references it, but the prefix index knows
 * its tokens. When nothing is free, take evicts the block that has been cached for the longest
 * time (LRU). */
#ifndef LN_KV_BLOCK_POOL_H
#define LN_KV_BLOCK_POOL_H

#include "kv/prefix_index.h"

typedef struct ln_block_pool {
    size_t n_blocks, n_free, n_cached;
    int32_t *free_blocks; /* [n_blocks], the first n_free count; the last is taken next */
    uint32_t *references; /* [n_blocks] */
    int32_t *older;       /* [n_blocks + 1] the list of cached blocks; its ends meet at n_blocks */
    int32_t *newer;       /* [n_blocks + 1] */
    ln_prefix_index index;
} ln_block_pool;

/* Adds the pool's part to a layout and returns its offset; `memory` below is at that offset of
 * the reservation, which outlives the pool. */
size_t ln_block_pool_plan(ln_layout *layout, size_t n_blocks);
void ln_block_pool_init(ln_block_pool *pool, size_t n_blocks, void *memory);

/* Blocks that take can give. */
static inline size_t ln_block_pool_available(const ln_block_pool *pool) {
    return pool->n_free + pool->n_cached;
}

/* Allocates a block, with one reference, and evicts a cached one if need be; or -1. */
int32_t ln_block_pool_take(ln_block_pool *pool);
/* One more reference to a block that is in use or cached. */
void ln_block_pool_share(ln_block_pool *pool, int32_t block);
/* One reference less; after the last the block is cached or free. */
void ln_block_pool_release(ln_block_pool *pool, int32_t block);
/* Takes the block out of the prefix index, if it is there. */
void ln_block_pool_forget(ln_block_pool *pool, int32_t block);

/* Whether each block is either referenced, or cached, or once in the free list, with counts exact.
 * O(n_blocks^2); for tests. */
bool ln_block_pool_check(const ln_block_pool *pool);

#endif
