#include "kv/cache.h"

#include "base/hash/siphash.h"
#include "kv/states.h"

/* ---- memory ----------------------------------------------------------------------------- */

/* Offsets in the cache's memory. */
typedef struct cache_layout {
    size_t rows, free_rows, hashes, copies;
    size_t n_rows, max_copies;
    struct {
        size_t pool, swap, tables, blocks, marks, found, written_in;
        size_t n_marks;
    } groups[LN_KV_MAX_GROUPS];
} cache_layout;

static cache_layout lay_out(const ln_kv_shape *shape, ln_layout *layout) {
    cache_layout c = {.n_rows = shape->max_seqs};
    size_t max_blocks = ln_kv_table_blocks(shape->ctx_tokens);
    for (size_t g = 0; g < shape->n_groups; g++) {
        c.max_copies += shape->max_seqs + 2 * shape->n_swap_blocks[g];
        if (shape->n_swap_blocks[g] > 0)
            c.n_rows = 2 * shape->max_seqs;
    }
    c.rows = ln_layout_add(layout, c.n_rows, sizeof(ln_kv_row));
    c.free_rows = ln_layout_add(layout, c.n_rows, sizeof(size_t));
    c.hashes = ln_layout_add(layout, max_blocks, sizeof(uint64_t));
    c.copies = ln_layout_add(layout, c.max_copies, sizeof(ln_block_copy));
    for (size_t g = 0; g < shape->n_groups; g++) {
        size_t n_blocks = shape->n_blocks[g], n_swap = shape->n_swap_blocks[g];
        c.groups[g].n_marks = n_blocks > n_swap ? n_blocks : n_swap;
        c.groups[g].pool = ln_block_pool_plan(layout, n_blocks);
        c.groups[g].swap = ln_block_pool_plan(layout, n_swap);
        c.groups[g].tables = ln_layout_add(layout, c.n_rows, sizeof(ln_block_table));
        c.groups[g].blocks = ln_layout_add(layout, c.n_rows, max_blocks * sizeof(int32_t));
        c.groups[g].marks = ln_layout_add(layout, c.groups[g].n_marks, sizeof(int32_t));
        c.groups[g].found = ln_layout_add(layout, max_blocks, sizeof(int32_t));
        bool has_states = shape->kinds[g] == LN_KV_GROUP_STATE;
        c.groups[g].written_in = ln_layout_add(layout, has_states ? n_blocks : 0, sizeof(uint64_t));
    }
    return c;
}

void ln_kv_cache_plan(const ln_kv_shape *shape, ln_layout *layout) {
    lay_out(shape, layout);
}

static void init_group(ln_kv_cache *cache, const ln_kv_shape *shape, size_t g,
                       const cache_layout *c, char *base) {
    ln_kv_group *group = &cache->groups[g];
    int32_t *blocks = (int32_t *)(void *)(base + c->groups[g].blocks);
    *group = (ln_kv_group){
        .kind = shape->kinds[g],
        .window = shape->windows[g],
        .max_chunk_tokens = shape->max_chunk_tokens,
        .n_rows = c->n_rows,
        .tables = (ln_block_table *)(void *)(base + c->groups[g].tables),
        .marks = (int32_t *)(void *)(base + c->groups[g].marks),
        .found = (int32_t *)(void *)(base + c->groups[g].found),
        .written_in = (uint64_t *)(void *)(base + c->groups[g].written_in),
    };
    if (group->kind == LN_KV_GROUP_STATE)
        group->max_kept = shape->n_blocks[g] - LN_KV_STATES_PER_SEQ * shape->max_seqs;
    ln_block_pool_init(&group->pool, shape->n_blocks[g], base + c->groups[g].pool);
    ln_block_pool_init(&group->swap, shape->n_swap_blocks[g], base + c->groups[g].swap);
    for (size_t row = 0; row < cache->n_rows; row++)
        group->tables[row] = (ln_block_table){.blocks = blocks + row * cache->max_blocks};
    for (size_t i = 0; i < cache->n_rows * cache->max_blocks; i++)
        blocks[i] = -1;
    for (size_t i = 0; i < c->groups[g].n_marks; i++)
        group->marks[i] = -1;
}

void ln_kv_cache_init(ln_kv_cache *cache, const ln_kv_shape *shape, void *memory) {
    ln_layout layout = {0};
    cache_layout c = lay_out(shape, &layout);
    char *base = memory;
    *cache = (ln_kv_cache){
        .n_groups = shape->n_groups,
        .n_rows = c.n_rows,
        .max_blocks = ln_kv_table_blocks(shape->ctx_tokens),
        .shares_prefixes = shape->shares_prefixes,
        .secret = {shape->secret[0], shape->secret[1]},
        .rows = (ln_kv_row *)(void *)(base + c.rows),
        .free_rows = (size_t *)(void *)(base + c.free_rows),
        .n_free_rows = c.n_rows,
        .hashes = (uint64_t *)(void *)(base + c.hashes),
        .copies = (ln_block_copy *)(void *)(base + c.copies),
        .max_copies = c.max_copies,
    };
    for (size_t row = 0; row < c.n_rows; row++)
        cache->free_rows[row] = c.n_rows - 1 - row;
    for (size_t g = 0; g < shape->n_groups; g++) {
        cache->shares_prefixes &=
            shape->kinds[g] != LN_KV_GROUP_SOURCE && shape->kinds[g] != LN_KV_GROUP_ENCODER;
        init_group(cache, shape, g, &c, base);
    }
}

/* ---- room ------------------------------------------------------------------------------- */

bool ln_kv_cache_fits(const ln_kv_shape *shape, ln_kv_need need) {
    if (need.max_tokens > shape->ctx_tokens || need.n_encoder > shape->ctx_tokens ||
        need.n_sequences > shape->max_seqs)
        return false;
    for (size_t g = 0; g < shape->n_groups; g++) {
        size_t window = shape->windows[g];
        size_t own = ln_kv_blocks_needed(need.max_tokens, window, shape->max_chunk_tokens);
        size_t shared = window == 0 ? need.n_prompt / LN_KV_BLOCK_TOKENS : 0;
        size_t needed = shared + need.n_sequences * (own - shared);
        if (shape->kinds[g] == LN_KV_GROUP_STATE || shape->kinds[g] == LN_KV_GROUP_TAIL)
            needed = 0; /* every sequence has its own */
        else if (shape->kinds[g] != LN_KV_GROUP_OWN)
            needed = ln_kv_table_blocks(need.n_encoder);
        if (needed > shape->n_blocks[g])
            return false;
    }
    return true;
}

/* Blocks of `found` from begin to end that somebody uses already do not count as taken. */
static size_t count_cached(const ln_kv_group *group, size_t begin, size_t end) {
    size_t n = 0;
    for (size_t i = begin; i < end; i++)
        n += group->pool.references[group->found[i]] == 0;
    return n;
}

static size_t most_blocks(const ln_kv_group *group, const ln_kv_arrival *arrival) {
    return ln_kv_blocks_needed(arrival->max_tokens, group->window, group->max_chunk_tokens);
}

/* Whether there is room behind a prefix of n_found blocks. */
static bool has_room(const ln_kv_cache *cache, const ln_kv_arrival *arrival, size_t n_found) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        const ln_kv_group *group = &cache->groups[g];
        size_t wanted = ln_kv_table_blocks(arrival->n_encoder), taken = 0, growth = 0;
        if (ln_kv_has_states(group))
            continue;
        if (group->kind == LN_KV_GROUP_OWN) {
            size_t begin = ln_kv_first_seen(group->window, n_found * LN_KV_BLOCK_TOKENS);
            taken = count_cached(group, begin, n_found);
            wanted = ln_kv_group_blocks_missing(group, n_found, arrival->n_tokens);
            size_t most = most_blocks(group, arrival), held = n_found - begin + wanted;
            growth = most > held ? (most - held) * (1 + arrival->n_forks) : 0;
        }
        if (!ln_kv_group_has_room(group, taken + wanted, growth, arrival->is_alone))
            return false;
    }
    return true;
}

static int32_t take_block(ln_kv_group *group, ln_block_table *table) {
    if (table->n_reserved > 0) {
        table->n_reserved--;
        group->n_reserved--;
    }
    int32_t block = ln_block_pool_take(&group->pool);
    LN_BUG_ON(block < 0);
    return block;
}

/* ---- prefixes --------------------------------------------------------------------------- */

uint64_t ln_kv_cache_root(const ln_kv_cache *cache, const char *salt, size_t n_bytes) {
    return ln_siphash(cache->secret, salt, n_bytes);
}

static ln_kv_groups groups_of(ln_kv_cache *cache) {
    return (ln_kv_groups){cache->groups, cache->n_groups, cache->step, cache->secret};
}

static ln_kv_prefix find_prefix(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens,
                                uint64_t root) {
    ln_kv_groups groups = groups_of(cache);
    return ln_kv_prefix_find(&groups, tokens, n_tokens, root, cache->hashes);
}

size_t ln_kv_cache_find_prefix(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens,
                               uint64_t root) {
    return find_prefix(cache, tokens, n_tokens, root).n_blocks;
}

void ln_kv_cache_add_prefix(ln_kv_cache *cache, size_t row, const int32_t *tokens,
                            size_t n_tokens) {
    ln_kv_groups groups = groups_of(cache);
    if (cache->shares_prefixes)
        ln_kv_prefix_add(&groups, &cache->rows[row].chain, row, tokens, n_tokens);
}

void ln_kv_cache_end_step(ln_kv_cache *cache) {
    cache->n_copies = 0;
    cache->step++;
    for (size_t g = 0; g < cache->n_groups; g++)
        cache->groups[g].n_kept = 0;
}

void ln_kv_cache_forget_prefix(ln_kv_cache *cache, size_t row, size_t n_cached) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        const ln_block_table *table = &group->tables[row];
        size_t i = n_cached / LN_KV_BLOCK_TOKENS;
        if (group->kind == LN_KV_GROUP_STATE) /* the one that it began with is good */
            i = n_cached / LN_KV_STATE_TOKENS + 1;
        for (i = i < table->begin ? table->begin : i; i < table->end; i++)
            if (table->blocks[i] >= 0)
                ln_block_pool_forget(&group->pool, table->blocks[i]);
    }
}

/* ---- a sequence's blocks ---------------------------------------------------------------- */

size_t ln_kv_cache_take_row(ln_kv_cache *cache) {
    LN_BUG_ON(cache->n_free_rows == 0);
    size_t row = cache->free_rows[--cache->n_free_rows];
    cache->rows[row] = (ln_kv_row){0};
    return row;
}

static void take_prefix(ln_kv_group *group, ln_block_table *table, size_t n_found) {
    table->begin = ln_kv_first_seen(group->window, n_found * LN_KV_BLOCK_TOKENS);
    table->end = n_found;
    for (size_t i = table->begin; i < n_found; i++) {
        table->blocks[i] = group->found[i];
        ln_block_pool_share(&group->pool, table->blocks[i]);
    }
}

bool ln_kv_cache_admit(ln_kv_cache *cache, const ln_kv_arrival *arrival, size_t *out,
                       size_t *n_cached) {
    bool looks = arrival->may_hit && cache->shares_prefixes;
    if (cache->n_free_rows == 0)
        return false;
    ln_kv_prefix prefix = {0};
    if (looks)
        prefix = find_prefix(cache, arrival->tokens, arrival->n_tokens, arrival->root);
    size_t n_found = prefix.n_blocks;
    if (!has_room(cache, arrival, n_found))
        return false;
    size_t row = ln_kv_cache_take_row(cache);
    cache->rows[row].chain = (ln_kv_chain){n_found > 0 ? cache->hashes[n_found - 1] : arrival->root,
                                           n_found, arrival->origin};
    cache->rows[row].wanted_state = prefix.n_cached * LN_KV_BLOCK_TOKENS;
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        ln_block_table *table = &group->tables[row];
        if (group->kind == LN_KV_GROUP_OWN) {
            take_prefix(group, table, n_found);
            ln_kv_group_reserve(group, table, arrival->n_tokens);
            table->most = most_blocks(group, arrival);
            table->n_forks = arrival->n_forks;
            continue;
        }
        if (group->kind == LN_KV_GROUP_STATE)
            ln_kv_states_take_prefix(group, table, n_found * LN_KV_BLOCK_TOKENS);
        for (size_t i = ln_kv_has_states(group) ? 0 : ln_kv_table_blocks(arrival->n_encoder); i > 0;
             i--)
            table->blocks[table->end++] = take_block(group, table);
    }
    cache->n_query_tokens += looks ? arrival->n_tokens : 0;
    cache->n_hit_tokens += n_found * LN_KV_BLOCK_TOKENS;
    *out = row;
    *n_cached = n_found * LN_KV_BLOCK_TOKENS;
    return true;
}

/* Whether the block that token n_cached is written to exists and is another's too. */
static bool writes_to_shared(const ln_kv_group *group, const ln_block_table *table,
                             size_t n_cached) {
    size_t at = n_cached / LN_KV_BLOCK_TOKENS;
    return at < table->end && group->pool.references[table->blocks[at]] > 1;
}

static bool can_extend(const ln_kv_group *group, const ln_block_table *table, size_t n_cached,
                       size_t n_tokens) {
    size_t end = ln_kv_table_blocks(n_tokens);
    size_t wanted = end > table->end ? end - table->end : 0;
    wanted += writes_to_shared(group, table, n_cached);
    size_t others = group->n_reserved - table->n_reserved;
    return wanted <= ln_block_pool_available(&group->pool) - others;
}

/* Copy on write: writing to a shared block copies it first. */
static void own_block(ln_kv_cache *cache, size_t g, ln_block_table *table, size_t at) {
    ln_kv_group *group = &cache->groups[g];
    int32_t shared = table->blocks[at];
    LN_BUG_ON(cache->n_copies == cache->max_copies);
    table->blocks[at] = take_block(group, table);
    cache->copies[cache->n_copies++] =
        (ln_block_copy){.from = shared, .to = table->blocks[at], .group = (int32_t)g};
    ln_block_pool_release(&group->pool, shared);
}

/* The one block of a tail, which every step writes to. */
static void extend_tail(ln_kv_cache *cache, size_t g, ln_block_table *table) {
    const ln_kv_group *group = &cache->groups[g];
    if (table->end == 0)
        table->blocks[table->end++] = take_block(&cache->groups[g], table);
    else if (group->pool.references[table->blocks[0]] > 1)
        own_block(cache, g, table, 0);
}

bool ln_kv_cache_extend(ln_kv_cache *cache, size_t row, size_t n_cached, size_t n_tokens) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].kind == LN_KV_GROUP_OWN &&
            !can_extend(&cache->groups[g], &cache->groups[g].tables[row], n_cached, n_tokens))
            return false;
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        ln_block_table *table = &group->tables[row];
        if (group->kind == LN_KV_GROUP_STATE)
            ln_kv_states_extend(group, table, n_cached, n_tokens, cache->rows[row].wanted_state);
        if (group->kind == LN_KV_GROUP_TAIL)
            extend_tail(cache, g, table);
        if (group->kind != LN_KV_GROUP_OWN)
            continue;
        LN_BUG_ON(ln_kv_table_blocks(n_tokens) > cache->max_blocks);
        if (writes_to_shared(group, table, n_cached))
            own_block(cache, g, table, n_cached / LN_KV_BLOCK_TOKENS);
        while (table->end < ln_kv_table_blocks(n_tokens))
            table->blocks[table->end++] = take_block(group, table);
    }
    return true;
}

static void free_block(ln_kv_group *group, ln_block_table *table, size_t at, bool is_swapped) {
    if (table->blocks[at] < 0) /* a state that nobody keeps */
        return;
    ln_block_pool_release(is_swapped ? &group->swap : &group->pool, table->blocks[at]);
    table->blocks[at] = -1;
}

void ln_kv_cache_trim(ln_kv_cache *cache, size_t row, size_t n_tokens) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        ln_block_table *table = &group->tables[row];
        if (group->kind == LN_KV_GROUP_STATE)
            ln_kv_states_trim(group, table, n_tokens);
        if (ln_kv_has_states(group))
            continue;
        size_t begin = ln_kv_first_seen(group->window, n_tokens);
        for (; table->begin < begin && table->begin < table->end; table->begin++)
            free_block(group, table, table->begin, false);
    }
}

void ln_kv_cache_fork(ln_kv_cache *cache, size_t from, size_t to) {
    cache->rows[to] = cache->rows[from];
    for (size_t g = 0; g < cache->n_groups; g++) {
        ln_kv_group *group = &cache->groups[g];
        ln_block_table *source = &group->tables[from], *table = &group->tables[to];
        LN_BUG_ON(table->end != 0);
        source->n_forks -= source->n_forks > 0; /* which is there now */
        table->begin = source->begin;
        table->end = source->end;
        table->most = source->most;
        for (size_t i = source->begin; i < source->end; i++) {
            table->blocks[i] = source->blocks[i];
            if (table->blocks[i] >= 0)
                ln_block_pool_share(&group->pool, table->blocks[i]);
        }
    }
}

/* The last blocks first, so that they are evicted before those that they need. */
static void clear_table(ln_kv_group *group, ln_block_table *table, bool is_swapped) {
    for (size_t i = table->end; i > table->begin; i--)
        free_block(group, table, i - 1, is_swapped);
    group->n_reserved -= table->n_reserved;
    table->begin = table->end = table->n_reserved = table->most = table->n_forks = 0;
    table->is_swapped = false;
}

void ln_kv_cache_drop_encoder(ln_kv_cache *cache, size_t row) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].kind == LN_KV_GROUP_ENCODER)
            clear_table(&cache->groups[g], &cache->groups[g].tables[row], false);
}

void ln_kv_cache_clear(ln_kv_cache *cache, size_t row) {
    for (size_t g = 0; g < cache->n_groups; g++)
        clear_table(&cache->groups[g], &cache->groups[g].tables[row], cache->rows[row].is_swapped);
    cache->rows[row] = (ln_kv_row){0};
}

void ln_kv_cache_release(ln_kv_cache *cache, size_t row) {
    ln_kv_cache_clear(cache, row);
    cache->free_rows[cache->n_free_rows++] = row;
}

void ln_kv_cache_observe(ln_kv_cache *cache, size_t group, const ln_prefix_observer *observer) {
    cache->groups[group].pool.index.observer = observer;
}

/* How much of prefixes a group tells: of those without a window all, of states a few ends. */
static int rank_group(const ln_kv_group *group) {
    return group->kind == LN_KV_GROUP_OWN && group->window == 0 ? 3
           : group->kind == LN_KV_GROUP_OWN                     ? 2
           : group->kind == LN_KV_GROUP_STATE                   ? 1
                                                                : 0;
}

size_t ln_kv_cache_main_group(const ln_kv_cache *cache) {
    size_t best = 0;
    for (size_t g = 1; g < cache->n_groups; g++)
        if (rank_group(&cache->groups[g]) > rank_group(&cache->groups[best]))
            best = g;
    return best;
}

int32_t ln_kv_cache_slot(const ln_kv_cache *cache, size_t group, size_t row, size_t position) {
    const ln_block_table *table = &cache->groups[group].tables[row];
    size_t index = position / LN_KV_BLOCK_TOKENS;
    LN_BUG_ON(index < table->begin || index >= table->end);
    return table->blocks[index] * LN_KV_BLOCK_TOKENS + (int32_t)(position % LN_KV_BLOCK_TOKENS);
}
