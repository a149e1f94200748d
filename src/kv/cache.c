#include "kv/cache.h"

size_t ln_kv_table_blocks(size_t ctx_tokens) {
    return ctx_tokens / LN_KV_BLOCK_TOKENS + (ctx_tokens % LN_KV_BLOCK_TOKENS != 0);
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

/* Offsets in the cache's memory. */
typedef struct cache_layout {
    size_t free_rows;
    size_t pools[LN_KV_MAX_GROUPS], tables[LN_KV_MAX_GROUPS], blocks[LN_KV_MAX_GROUPS];
} cache_layout;

static cache_layout lay_out(const ln_kv_shape *shape, ln_layout *layout) {
    cache_layout c = {.free_rows = ln_layout_add(layout, shape->max_seqs, sizeof(size_t))};
    size_t row_bytes = ln_kv_table_blocks(shape->ctx_tokens) * sizeof(int32_t);
    for (size_t g = 0; g < shape->n_groups; g++) {
        c.pools[g] = ln_block_pool_plan(layout, shape->n_blocks[g]);
        c.tables[g] = ln_layout_add(layout, shape->max_seqs, sizeof(ln_block_table));
        c.blocks[g] = ln_layout_add(layout, shape->max_seqs, row_bytes);
    }
    return c;
}

void ln_kv_cache_plan(const ln_kv_shape *shape, ln_layout *layout) {
    lay_out(shape, layout);
}

void ln_kv_cache_init(ln_kv_cache *cache, const ln_kv_shape *shape, void *memory) {
    ln_layout layout = {0};
    cache_layout c = lay_out(shape, &layout);
    char *base = memory;
    *cache = (ln_kv_cache){
        .n_groups = shape->n_groups,
        .max_seqs = shape->max_seqs,
        .ctx_tokens = shape->ctx_tokens,
        .max_chunk_tokens = shape->max_chunk_tokens,
        .max_blocks = ln_kv_table_blocks(shape->ctx_tokens),
        .free_rows = (size_t *)(void *)(base + c.free_rows),
        .n_free_rows = shape->max_seqs,
    };
    for (size_t row = 0; row < shape->max_seqs; row++)
        cache->free_rows[row] = shape->max_seqs - 1 - row;
    for (size_t g = 0; g < shape->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        int32_t *blocks = (int32_t *)(void *)(base + c.blocks[g]);
        group->kind = shape->kinds[g];
        group->window = shape->windows[g];
        group->tables = (ln_block_table *)(void *)(base + c.tables[g]);
        ln_block_pool_init(&group->pool, shape->n_blocks[g], base + c.pools[g]);
        for (size_t row = 0; row < shape->max_seqs; row++)
            group->tables[row] = (ln_block_table){.blocks = blocks + row * cache->max_blocks};
        for (size_t i = 0; i < shape->max_seqs * cache->max_blocks; i++)
            blocks[i] = -1;
    }
}

static size_t blocks_needed(const ln_kv_cache *cache, const ln_kv_group *group, ln_kv_need need) {
    if (group->kind != LN_KV_GROUP_OWN)
        return ln_kv_table_blocks(need.n_encoder);
    return ln_kv_blocks_needed(need.max_tokens, group->window, cache->max_chunk_tokens);
}

ln_kv_answer ln_kv_cache_can_allocate(const ln_kv_cache *cache, ln_kv_need need) {
    ln_kv_answer answer = cache->n_free_rows > 0 ? LN_KV_OK : LN_KV_LATER;
    if (need.max_tokens > cache->ctx_tokens || need.n_encoder > cache->ctx_tokens)
        return LN_KV_NEVER;
    for (size_t g = 0; g < cache->n_groups; g++) {
        const ln_kv_group *group = &cache->groups[g];
        size_t needed = blocks_needed(cache, group, need);
        if (needed > group->pool.n_blocks)
            return LN_KV_NEVER;
        if (needed > group->pool.n_blocks - group->n_promised)
            answer = LN_KV_LATER;
    }
    return answer;
}

static void take_until(ln_kv_cache *cache, ln_kv_group *group, ln_block_table *table, size_t end) {
    LN_BUG_ON(end > table->begin + table->n_promised || end > cache->max_blocks);
    while (table->end < end) {
        int32_t block = ln_block_pool_take(&group->pool);
        LN_BUG_ON(block < 0);
        table->blocks[table->end++] = block;
    }
}

size_t ln_kv_cache_admit(ln_kv_cache *cache, ln_kv_need need) {
    LN_BUG_ON(ln_kv_cache_can_allocate(cache, need) != LN_KV_OK);
    size_t row = cache->free_rows[--cache->n_free_rows];
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        ln_block_table *table = &group->tables[row];
        table->n_promised = blocks_needed(cache, group, need);
        group->n_promised += table->n_promised;
        if (group->kind != LN_KV_GROUP_OWN)
            take_until(cache, group, table, table->n_promised);
    }
    return row;
}

void ln_kv_cache_extend(ln_kv_cache *cache, size_t row, size_t n_tokens) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        if (group->kind == LN_KV_GROUP_OWN)
            take_until(cache, group, &group->tables[row], ln_kv_table_blocks(n_tokens));
    }
}

static void free_before(ln_kv_group *group, ln_block_table *table, size_t begin) {
    for (; table->begin < begin && table->begin < table->end; table->begin++) {
        ln_block_pool_release(&group->pool, table->blocks[table->begin]);
        table->blocks[table->begin] = -1;
    }
}

void ln_kv_cache_trim(ln_kv_cache *cache, size_t row, size_t n_tokens) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        if (group->window == 0 || n_tokens < group->window)
            continue;
        size_t first_seen = n_tokens - group->window + 1;
        free_before(group, &group->tables[row], first_seen / LN_KV_BLOCK_TOKENS);
    }
}

static void release_table(ln_kv_group *group, ln_block_table *table) {
    free_before(group, table, table->end);
    group->n_promised -= table->n_promised;
    table->begin = table->end = table->n_promised = 0;
}

void ln_kv_cache_drop_encoder(ln_kv_cache *cache, size_t row) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].kind == LN_KV_GROUP_ENCODER)
            release_table(&cache->groups[g], &cache->groups[g].tables[row]);
}

void ln_kv_cache_release(ln_kv_cache *cache, size_t row) {
    for (size_t g = 0; g < cache->n_groups; g++)
        release_table(&cache->groups[g], &cache->groups[g].tables[row]);
    cache->free_rows[cache->n_free_rows++] = row;
}

int32_t ln_kv_cache_slot(const ln_kv_cache *cache, size_t group, size_t row, size_t position) {
    const ln_block_table *table = &cache->groups[group].tables[row];
    size_t index = position / LN_KV_BLOCK_TOKENS;
    LN_BUG_ON(index < table->begin || index >= table->end);
    return table->blocks[index] * LN_KV_BLOCK_TOKENS + (int32_t)(position % LN_KV_BLOCK_TOKENS);
}

static bool check_group(const ln_kv_cache *cache, const ln_kv_group *group) {
    size_t n_promised = 0;
    for (size_t row = 0; row < cache->max_seqs; row++) {
        const ln_block_table *table = &group->tables[row];
        n_promised += table->n_promised;
        if (table->end - table->begin > table->n_promised)
            return false;
        for (size_t i = 0; i < cache->max_blocks; i++)
            if ((table->blocks[i] >= 0) != (i >= table->begin && i < table->end))
                return false;
    }
    for (size_t block = 0; block < group->pool.n_blocks; block++) {
        uint32_t times = 0;
        for (size_t row = 0; row < cache->max_seqs; row++)
            for (size_t i = 0; i < cache->max_blocks; i++)
                times += group->tables[row].blocks[i] == (int32_t)block;
        if (times != group->pool.references[block])
            return false;
    }
    return n_promised == group->n_promised && n_promised <= group->pool.n_blocks &&
           ln_block_pool_check(&group->pool);
}

bool ln_kv_cache_check(const ln_kv_cache *cache) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (!check_group(cache, &cache->groups[g]))
            return false;
    return true;
}
