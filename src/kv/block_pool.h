/* A pool of KV blocks: ids 0 .. n_blocks - 1 with reference counts. It hands out ids only; what
 * lies in a block belongs to the backend. */
#ifndef LN_KV_BLOCK_POOL_H
#define LN_KV_BLOCK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"

typedef struct ln_block_pool {
    size_t n_blocks, n_free;
    int32_t *free_blocks; /* [n_blocks], the first n_free count; the last is taken next */
    uint32_t *references; /* [n_blocks]; 0: free */
} ln_block_pool;

/* Adds the pool's part to a layout and returns its offset; `memory` below is at that offset of
 * the reservation, which outlives the pool. */
size_t ln_block_pool_plan(ln_layout *layout, size_t n_blocks);
void ln_block_pool_init(ln_block_pool *pool, size_t n_blocks, void *memory);

/* A free block with one reference, or -1. */
int32_t ln_block_pool_take(ln_block_pool *pool);
/* One more reference to a block that is in use. */
void ln_block_pool_share(ln_block_pool *pool, int32_t block);
/* One reference less; the block is free after the last. */
void ln_block_pool_release(ln_block_pool *pool, int32_t block);

/* Whether each block is either referenced or once in the free list. O(n_blocks^2); for tests. */
bool ln_block_pool_check(const ln_block_pool *pool);

#endif
