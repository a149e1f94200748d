#include "kv/swap.h"

#include "kv/states.h"

static size_t count_group(ln_kv_group *group, const size_t *rows, size_t n_rows) {
    size_t n = 0;
    for (size_t r = 0; r < n_rows; r++) {
        const ln_block_table *table = &group->tables[rows[r]];
        for (size_t i = table->begin; i < table->end; i++) {
            if (table->blocks[i] < 0)
                continue;
            n += group->marks[table->blocks[i]] < 0;
            group->marks[table->blocks[i]] = 1;
        }
    }
    for (size_t r = 0; r < n_rows; r++) {
        const ln_block_table *table = &group->tables[rows[r]];
        for (size_t i = table->begin; i < table->end; i++)
            if (table->blocks[i] >= 0)
                group->marks[table->blocks[i]] = -1;
    }
    return n;
}

void ln_kv_swap_count(ln_kv_cache *cache, const size_t *rows, size_t n_rows, size_t *counts) {
    for (size_t g = 0; g < cache->n_groups; g++)
        counts[g] = count_group(&cache->groups[g], rows, n_rows);
}

/* Moves the blocks of rows from one pool to the other, noting a copy of each. */
static void move_group(ln_kv_cache *cache, size_t g, const size_t *rows, size_t n_rows,
                       ln_copy_direction direction) {
    ln_kv_group *group = &cache->groups[g];
    ln_block_pool *from = direction == LN_COPY_OUT ? &group->pool : &group->swap;
    ln_block_pool *to = direction == LN_COPY_OUT ? &group->swap : &group->pool;
    size_t first = cache->n_copies;
    for (size_t r = 0; r < n_rows; r++) {
        ln_block_table *table = &group->tables[rows[r]];
        for (size_t i = table->end; i-- > table->begin;) {
            int32_t block = table->blocks[i];
            if (block < 0) /* a state that nobody keeps */
                continue;
            int32_t moved = group->marks[block];
            if (moved >= 0) {
                ln_block_pool_share(to, moved);
            } else {
                moved = group->marks[block] = ln_block_pool_take(to);
                LN_BUG_ON(moved < 0 || cache->n_copies == cache->max_copies);
                cache->copies[cache->n_copies++] = (ln_block_copy){
                    .from = block, .to = moved, .group = (int32_t)g, .direction = direction};
            }
            table->blocks[i] = moved;
            ln_block_pool_release(from, block);
        }
        group->n_reserved -= table->n_reserved;
        table->n_reserved = 0;
        table->is_swapped = direction == LN_COPY_OUT;
    }
    for (size_t i = first; i < cache->n_copies; i++)
        group->marks[cache->copies[i].from] = -1;
    cache->n_swapped_blocks += cache->n_copies - first;
}

bool ln_kv_swap_out(ln_kv_cache *cache, const size_t *rows, size_t n_rows) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (count_group(&cache->groups[g], rows, n_rows) > cache->groups[g].swap.n_free)
            return false;
    for (size_t g = 0; g < cache->n_groups; g++)
        move_group(cache, g, rows, n_rows, LN_COPY_OUT);
    for (size_t r = 0; r < n_rows; r++)
        cache->rows[rows[r]].is_swapped = true;
    return true;
}

bool ln_kv_swap_in(ln_kv_cache *cache, const size_t *rows, const size_t *n_tokens, size_t n_rows,
                   bool is_alone) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        size_t wanted = count_group(group, rows, n_rows), growth = 0;
        for (size_t r = 0; r < n_rows && group->kind == LN_KV_GROUP_OWN; r++) {
            const ln_block_table *table = &group->tables[rows[r]];
            size_t missing = ln_kv_group_blocks_missing(group, table->end, n_tokens[r]);
            wanted += missing;
            growth += ln_kv_table_growth(table, missing);
        }
        if (!ln_kv_has_states(group) && !ln_kv_group_has_room(group, wanted, growth, is_alone))
            return false;
    }
    for (size_t g = 0; g < cache->n_groups; g++) {
        move_group(cache, g, rows, n_rows, LN_COPY_IN);
        for (size_t r = 0; r < n_rows && cache->groups[g].kind == LN_KV_GROUP_OWN; r++)
            ln_kv_group_reserve(&cache->groups[g], &cache->groups[g].tables[rows[r]], n_tokens[r]);
    }
    for (size_t r = 0; r < n_rows; r++)
        cache->rows[rows[r]].is_swapped = false;
    return true;
}
