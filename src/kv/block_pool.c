#include "kv/block_pool.h"

typedef struct pool_layout {
    size_t free_blocks, references, older, newer, index;
} pool_layout;

static pool_layout lay_out(ln_layout *layout, size_t n_blocks) {
    pool_layout p;
    p.free_blocks = ln_layout_add(layout, n_blocks, sizeof(int32_t));
    p.references = ln_layout_add(layout, n_blocks, sizeof(uint32_t));
    p.older = ln_layout_add(layout, n_blocks + 1, sizeof(int32_t));
    p.newer = ln_layout_add(layout, n_blocks + 1, sizeof(int32_t));
    p.index = ln_prefix_index_plan(layout, n_blocks);
    return p;
}

size_t ln_block_pool_plan(ln_layout *layout, size_t n_blocks) {
    return lay_out(layout, n_blocks).free_blocks;
}

void ln_block_pool_init(ln_block_pool *pool, size_t n_blocks, void *memory) {
    ln_layout layout = {0};
    pool_layout at = lay_out(&layout, n_blocks);
    char *base = memory;
    *pool = (ln_block_pool){
        .n_blocks = n_blocks,
        .n_free = n_blocks,
        .free_blocks = (int32_t *)(void *)(base + at.free_blocks),
        .references = (uint32_t *)(void *)(base + at.references),
        .older = (int32_t *)(void *)(base + at.older),
        .newer = (int32_t *)(void *)(base + at.newer),
    };
    for (size_t i = 0; i < n_blocks; i++) {
        pool->free_blocks[i] = (int32_t)(n_blocks - 1 - i); /* low ids first */
        pool->references[i] = 0;
    }
    pool->older[n_blocks] = pool->newer[n_blocks] = (int32_t)n_blocks;
    ln_prefix_index_init(&pool->index, n_blocks, base + at.index);
}

/* ---- the list of cached blocks: newer[n_blocks] is the oldest ---------------------------- */

static void append_cached(ln_block_pool *pool, int32_t block) {
    int32_t end = (int32_t)pool->n_blocks, newest = pool->older[end];
    pool->older[block] = newest;
    pool->newer[block] = end;
    pool->newer[newest] = block;
    pool->older[end] = block;
    pool->n_cached++;
}

static void remove_cached(ln_block_pool *pool, int32_t block) {
    pool->newer[pool->older[block]] = pool->newer[block];
    pool->older[pool->newer[block]] = pool->older[block];
    pool->n_cached--;
}

/* ---- references ------------------------------------------------------------------------- */

int32_t ln_block_pool_take(ln_block_pool *pool) {
    int32_t block;
    if (pool->n_free > 0) {
        block = pool->free_blocks[--pool->n_free];
    } else if (pool->n_cached > 0) {
        block = pool->newer[pool->n_blocks]; /* evicts the oldest */
        remove_cached(pool, block);
        ln_prefix_index_remove(&pool->index, block);
    } else {
        return -1;
    }
    pool->references[block] = 1;
    return block;
}

void ln_block_pool_share(ln_block_pool *pool, int32_t block) {
    LN_BUG_ON(block < 0 || (size_t)block >= pool->n_blocks);
    if (pool->references[block]++ > 0)
        return;
    LN_BUG_ON(!pool->index.has[block]);
    remove_cached(pool, block);
}

void ln_block_pool_release(ln_block_pool *pool, int32_t block) {
    LN_BUG_ON(block < 0 || (size_t)block >= pool->n_blocks || pool->references[block] == 0);
    if (--pool->references[block] > 0)
        return;
    if (pool->index.has[block])
        append_cached(pool, block);
    else
        pool->free_blocks[pool->n_free++] = block;
}

void ln_block_pool_forget(ln_block_pool *pool, int32_t block) {
    if (!pool->index.has[block])
        return;
    ln_prefix_index_remove(&pool->index, block);
    if (pool->references[block] > 0)
        return;
    remove_cached(pool, block);
    pool->free_blocks[pool->n_free++] = block;
}

bool ln_block_pool_check(const ln_block_pool *pool) {
    size_t n_cached = 0;
    int32_t end = (int32_t)pool->n_blocks;
    for (int32_t block = pool->newer[end]; block != end; block = pool->newer[block])
        if (++n_cached > pool->n_cached || pool->references[block] > 0 || !pool->index.has[block] ||
            pool->older[pool->newer[block]] != block)
            return false;
    for (size_t block = 0; block < pool->n_blocks; block++) {
        size_t times_free = 0;
        for (size_t i = 0; i < pool->n_free; i++)
            times_free += pool->free_blocks[i] == (int32_t)block;
        bool is_free = pool->references[block] == 0 && !pool->index.has[block];
        if (times_free != (is_free ? 1u : 0u))
            return false;
        if (pool->index.has[block] &&
            ln_prefix_index_find(&pool->index, &pool->index.keys[block]) != (int32_t)block)
            return false;
        n_cached -= pool->index.has[block] && pool->references[block] == 0;
    }
    return n_cached == 0;
}
