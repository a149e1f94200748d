/* kv/: the block pool, and the cache's tables, windows, prefixes, forks and swap space. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "kv/swap.h"

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static size_t random_below(size_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % n);
}

static void pool_counts_references(void **state) {
    (void)state;
    enum { N = 50 };
    ln_layout layout = {0};
    assert_int_equal(ln_block_pool_plan(&layout, N), 0);
    assert_true(layout.bytes >= N * 8);
    void *memory = malloc(layout.bytes);
    ln_block_pool pool;
    ln_block_pool_init(&pool, N, memory);
    int32_t held[1000];
    size_t n_held = 0;
    for (int turn = 0; turn < 5000; turn++) {
        size_t choice = random_below(3);
        if (choice == 0 || n_held == 0) {
            int32_t block = ln_block_pool_take(&pool);
            assert_true((block < 0) == (pool.n_free == 0 && n_held > 0 && block == -1));
            if (block >= 0)
                held[n_held++] = block;
        } else if (choice == 1 && n_held < 1000) {
            held[n_held] = held[random_below(n_held)];
            ln_block_pool_share(&pool, held[n_held++]);
        } else {
            size_t i = random_below(n_held);
            ln_block_pool_release(&pool, held[i]);
            held[i] = held[--n_held];
        }
        assert_true(ln_block_pool_check(&pool));
    }
    while (n_held > 0)
        ln_block_pool_release(&pool, held[--n_held]);
    assert_int_equal(pool.n_free, N);
    assert_true(ln_block_pool_check(&pool));
    pool.free_blocks[3] = pool.free_blocks[4];
    assert_false(ln_block_pool_check(&pool));
    free(memory);
}

static void *create(ln_kv_cache *cache, const ln_kv_shape *shape) {
    ln_layout layout = {0};
    ln_kv_cache_plan(shape, &layout);
    void *memory = calloc(1, layout.bytes);
    ln_kv_cache_init(cache, shape, memory);
    return memory;
}

static void needs_cover_every_alignment(void **state) {
    (void)state;
    assert_int_equal(ln_kv_blocks_needed(1, 0, 8), 1);
    assert_int_equal(ln_kv_blocks_needed(16, 0, 8), 1);
    assert_int_equal(ln_kv_blocks_needed(17, 0, 8), 2);
    assert_int_equal(ln_kv_blocks_needed(1000, 1, 1), 1);
    assert_int_equal(ln_kv_blocks_needed(1000, 2, 1), 2);
    assert_int_equal(ln_kv_blocks_needed(1000, 16, 1), 2);
    assert_int_equal(ln_kv_blocks_needed(1000, 16, 2), 2);
    assert_int_equal(ln_kv_blocks_needed(1000, 16, 3), 3);
    for (size_t window = 1; window < 70; window += 3)
        for (size_t chunk = 1; chunk < 70; chunk += 2)
            for (size_t begin = 0; begin + chunk <= 200; begin++) {
                size_t first = begin + 1 > window ? begin + 1 - window : 0;
                size_t blocks =
                    (begin + chunk - 1) / LN_KV_BLOCK_TOKENS - first / LN_KV_BLOCK_TOKENS + 1;
                assert_true(blocks <= ln_kv_blocks_needed(200, window, chunk));
            }
}

static const int32_t *counting(void) {
    static int32_t tokens[1000];
    for (int32_t i = 0; i < 1000; i++)
        tokens[i] = i;
    return tokens;
}

/* A row for tokens that count up from `first`. */
static bool admit(ln_kv_cache *cache, int32_t first, size_t n_tokens, size_t *row,
                  size_t *n_cached) {
    ln_kv_arrival arrival = {.tokens = counting() + first, .n_tokens = n_tokens, .may_hit = true};
    return ln_kv_cache_admit(cache, &arrival, row, n_cached);
}

static void windows_give_blocks_back(void **state) {
    (void)state;
    ln_kv_shape shape = {
        .n_groups = 2, .windows = {0, 20}, .ctx_tokens = 200, .max_seqs = 1, .max_chunk_tokens = 5};
    shape.n_blocks[0] = ln_kv_blocks_needed(200, 0, 5);
    shape.n_blocks[1] = ln_kv_blocks_needed(200, 20, 5);
    assert_int_equal(shape.n_blocks[0], 13);
    assert_int_equal(shape.n_blocks[1], 3);
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t row, n_cached;
    assert_true(admit(&cache, 0, 200, &row, &n_cached));
    assert_int_equal(n_cached, 0);
    for (size_t n_tokens = 0; n_tokens < 200; n_tokens += 5) {
        assert_true(ln_kv_cache_extend(&cache, row, n_tokens, n_tokens + 5));
        for (size_t position = 0; position < n_tokens + 5; position++) {
            const ln_block_table *table = &cache.groups[1].tables[row];
            bool seen = position + 20 > n_tokens; /* by the chunk's first token */
            if (seen)
                ln_kv_cache_slot(&cache, 1, row, position);
            else if ((position / 16 + 1) * 16 + 20 <= n_tokens + 1)
                assert_int_equal(table->blocks[position / 16], -1);
            ln_kv_cache_slot(&cache, 0, row, position);
        }
        assert_true(ln_kv_cache_check(&cache));
        ln_kv_cache_trim(&cache, row, n_tokens + 5);
        assert_true(ln_kv_cache_check(&cache));
    }
    assert_int_equal(cache.groups[0].pool.n_free, 0);
    ln_kv_cache_release(&cache, row);
    assert_int_equal(cache.groups[0].pool.n_free, 13);
    assert_int_equal(cache.groups[1].pool.n_free, 3);
    free(memory);
}

static void what_fits_alone_is_known(void **state) {
    (void)state;
    ln_kv_shape shape = {
        .n_groups = 1, .n_blocks = {10}, .ctx_tokens = 320, .max_seqs = 4, .max_chunk_tokens = 8};
    assert_true(ln_kv_cache_fits(&shape, (ln_kv_need){1, 100, 160, 0}));
    assert_false(ln_kv_cache_fits(&shape, (ln_kv_need){1, 100, 161, 0}));
    assert_false(ln_kv_cache_fits(&shape, (ln_kv_need){1, 1, SIZE_MAX, 0}));
    assert_false(ln_kv_cache_fits(&shape, (ln_kv_need){5, 1, 2, 0}));
    assert_true(ln_kv_cache_fits(&shape, (ln_kv_need){2, 96, 128, 0})); /* 6 shared, 2 + 2 */
    assert_false(ln_kv_cache_fits(&shape, (ln_kv_need){2, 95, 128, 0}));
}

static void prompts_wait_for_blocks_and_rows(void **state) {
    (void)state;
    ln_kv_shape shape = {
        .n_groups = 1, .n_blocks = {10}, .ctx_tokens = 320, .max_seqs = 2, .max_chunk_tokens = 8};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t first, second, third, n_cached;
    assert_true(admit(&cache, 0, 81, &first, &n_cached));
    assert_false(admit(&cache, 100, 65, &second, &n_cached));
    assert_true(admit(&cache, 100, 64, &second, &n_cached));
    assert_false(admit(&cache, 200, 1, &third, &n_cached)); /* no row */
    assert_true(ln_kv_cache_extend(&cache, first, 0, 81));
    assert_true(ln_kv_cache_extend(&cache, first, 81, 96));
    assert_false(ln_kv_cache_extend(&cache, first, 96, 97)); /* the last are the second's */
    assert_true(ln_kv_cache_check(&cache));
    ln_kv_cache_release(&cache, second);
    assert_true(ln_kv_cache_extend(&cache, first, 96, 97));
    assert_true(ln_kv_cache_check(&cache));
    ln_kv_cache_release(&cache, first);
    assert_int_equal(cache.groups[0].pool.n_free, 10);
    free(memory);
}

/* ---- prefixes --------------------------------------------------------------------------- */

/* Admits, writes and ends a sequence of tokens that count up. */
static void visit(ln_kv_cache *cache, int32_t first, size_t n_tokens, size_t expected_hit) {
    size_t row, n_cached;
    assert_true(admit(cache, first, n_tokens, &row, &n_cached));
    assert_int_equal(n_cached, expected_hit);
    while (n_cached < n_tokens) {
        size_t n = n_tokens - n_cached < 8 ? n_tokens - n_cached : 8;
        assert_true(ln_kv_cache_extend(cache, row, n_cached, n_cached + n));
        n_cached += n;
        ln_kv_cache_add_prefix(cache, row, counting() + first, n_cached);
        ln_kv_cache_trim(cache, row, n_cached);
        assert_true(ln_kv_cache_check(cache));
    }
    ln_kv_cache_release(cache, row);
    assert_true(ln_kv_cache_check(cache));
}

static void prefixes_are_found_and_evicted_from_the_tail(void **state) {
    (void)state;
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {10},
                         .ctx_tokens = 320,
                         .max_seqs = 2,
                         .max_chunk_tokens = 8,
                         .shares_prefixes = true};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    visit(&cache, 0, 100, 0);
    visit(&cache, 0, 100, 96);
    visit(&cache, 0, 96, 80);  /* the last token is computed, so its block is not taken */
    visit(&cache, 0, 160, 96); /* a longer one goes on from there */
    assert_int_equal(cache.groups[0].pool.n_cached, 10);
    visit(&cache, 500, 40, 0); /* takes three blocks: the last of the other */
    visit(&cache, 0, 160, 112);
    visit(&cache, 16, 40, 0); /* the same tokens behind others are not the same */
    assert_int_equal(cache.n_hit_tokens, 96 + 80 + 96 + 112);
    free(memory);
}

static void salts_are_apart(void **state) {
    (void)state;
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {10},
                         .ctx_tokens = 320,
                         .max_seqs = 2,
                         .max_chunk_tokens = 8,
                         .shares_prefixes = true,
                         .secret = {1, 2}};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    const char *const salts[] = {"", "one", "two", "one"};
    const size_t hits[] = {0, 0, 0, 32};
    for (size_t i = 0; i < 4; i++) {
        size_t row, n_cached;
        ln_kv_arrival arrival = {.tokens = counting(), .n_tokens = 40, .may_hit = true};
        arrival.root = ln_kv_cache_root(&cache, salts[i], strlen(salts[i]));
        assert_true(ln_kv_cache_admit(&cache, &arrival, &row, &n_cached));
        assert_int_equal(n_cached, hits[i]);
        assert_true(ln_kv_cache_extend(&cache, row, n_cached, 40));
        ln_kv_cache_add_prefix(&cache, row, counting(), 40);
        ln_kv_cache_release(&cache, row);
    }
    free(memory);
}

/* A window needs the blocks that the next token sees, and no others. */
static void windows_need_the_last_blocks_of_a_prefix(void **state) {
    (void)state;
    ln_kv_shape shape = {.n_groups = 2,
                         .windows = {0, 20},
                         .n_blocks = {40, 12},
                         .ctx_tokens = 320,
                         .max_seqs = 2,
                         .max_chunk_tokens = 8,
                         .shares_prefixes = true};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    visit(&cache, 0, 100, 0);
    size_t row, n_cached;
    assert_true(admit(&cache, 0, 120, &row, &n_cached));
    assert_int_equal(n_cached, 96);
    assert_int_equal(cache.groups[1].tables[row].begin, (96 - 20 + 1) / 16);
    assert_int_equal(cache.groups[1].tables[row].end, 6);
    ln_kv_cache_release(&cache, row);
    visit(&cache, 300, 200, 0); /* pushes the window's blocks out, not those of full attention */
    assert_int_equal(ln_kv_cache_find_prefix(&cache, counting(), 100, 0), 0);
    visit(&cache, 0, 100, 0);
    free(memory);
}

static void a_failed_step_is_forgotten(void **state) {
    (void)state;
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {10},
                         .ctx_tokens = 320,
                         .max_seqs = 2,
                         .max_chunk_tokens = 80,
                         .shares_prefixes = true};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t row, n_cached;
    assert_true(admit(&cache, 0, 80, &row, &n_cached));
    assert_true(ln_kv_cache_extend(&cache, row, 0, 32));
    ln_kv_cache_add_prefix(&cache, row, counting(), 32);
    assert_true(ln_kv_cache_extend(&cache, row, 32, 80));
    ln_kv_cache_add_prefix(&cache, row, counting(), 80);
    ln_kv_cache_forget_prefix(&cache, row, 32);
    ln_kv_cache_release(&cache, row);
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(ln_kv_cache_find_prefix(&cache, counting(), 80, 0), 2);
    free(memory);
}

/* ---- forks and swap --------------------------------------------------------------------- */

static void forks_copy_what_they_write_to(void **state) {
    (void)state;
    ln_kv_shape shape = {
        .n_groups = 1, .n_blocks = {6}, .ctx_tokens = 320, .max_seqs = 3, .max_chunk_tokens = 80};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t first, n_cached;
    assert_true(admit(&cache, 0, 40, &first, &n_cached));
    assert_true(ln_kv_cache_extend(&cache, first, 0, 40));
    size_t second = ln_kv_cache_take_row(&cache), third = ln_kv_cache_take_row(&cache);
    ln_kv_cache_fork(&cache, first, second);
    ln_kv_cache_fork(&cache, first, third);
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(cache.groups[0].pool.n_free, 3);
    const ln_block_table *tables = cache.groups[0].tables;
    int32_t shared = tables[first].blocks[2];
    assert_true(ln_kv_cache_extend(&cache, second, 40, 41));
    assert_true(ln_kv_cache_extend(&cache, third, 40, 41));
    assert_true(ln_kv_cache_extend(&cache, first, 40, 41)); /* the last writes where it is */
    assert_int_equal(cache.n_copies, 2);
    assert_int_equal(cache.copies[1].from, shared);
    assert_int_equal(cache.copies[1].to, tables[third].blocks[2]);
    assert_int_equal(tables[first].blocks[2], shared);
    assert_int_equal(tables[second].blocks[1], tables[first].blocks[1]);
    assert_true(ln_kv_cache_extend(&cache, first, 41, 49));
    assert_false(ln_kv_cache_extend(&cache, second, 41, 49)); /* nothing is left */
    assert_true(ln_kv_cache_check(&cache));
    ln_kv_cache_release(&cache, first);
    ln_kv_cache_release(&cache, third);
    ln_kv_cache_release(&cache, second);
    assert_int_equal(cache.groups[0].pool.n_free, 6);
    free(memory);
}

static void swapped_rows_still_share(void **state) {
    (void)state;
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {6},
                         .n_swap_blocks = {4},
                         .ctx_tokens = 320,
                         .max_seqs = 2,
                         .max_chunk_tokens = 80};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t rows[2], n_cached, count;
    assert_true(admit(&cache, 0, 40, &rows[0], &n_cached));
    assert_true(ln_kv_cache_extend(&cache, rows[0], 0, 40));
    rows[1] = ln_kv_cache_take_row(&cache);
    ln_kv_cache_fork(&cache, rows[0], rows[1]);
    assert_true(ln_kv_cache_extend(&cache, rows[1], 40, 41));
    ln_kv_cache_end_step(&cache);
    ln_kv_swap_count(&cache, rows, 2, &count);
    assert_int_equal(count, 4);
    assert_true(ln_kv_swap_out(&cache, rows, 2));
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(cache.n_copies, 4);
    assert_int_equal(cache.groups[0].pool.n_free, 6);
    assert_int_equal(cache.groups[0].swap.n_free, 0);
    size_t other;
    assert_true(admit(&cache, 100, 40, &other, &n_cached));
    assert_false(ln_kv_swap_in(&cache, rows, (size_t[]){41, 41}, 2, false));
    assert_true(ln_kv_cache_extend(&cache, other, 0, 40));
    assert_false(ln_kv_swap_out(&cache, &other, 1)); /* the swap space is full */
    ln_kv_cache_release(&cache, other);
    ln_kv_cache_end_step(&cache);
    assert_true(ln_kv_swap_in(&cache, rows, (size_t[]){41, 50}, 2, false));
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(cache.n_copies, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(cache.copies[i].direction, LN_COPY_IN);
    const ln_block_table *tables = cache.groups[0].tables;
    assert_int_equal(tables[rows[0]].blocks[1], tables[rows[1]].blocks[1]);
    assert_true(tables[rows[0]].blocks[2] != tables[rows[1]].blocks[2]);
    assert_true(ln_kv_swap_out(&cache, rows, 2));
    ln_kv_cache_release(&cache, rows[0]); /* ends while it is out */
    ln_kv_cache_release(&cache, rows[1]);
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(cache.groups[0].swap.n_free, 4);
    free(memory);
}

static void random_sequences_keep_the_invariants(void **state) {
    (void)state;
    enum { SEQS = 6, CTX = 150, CHUNK = 24, ROWS = 2 * SEQS };
    ln_kv_shape shape = {.n_groups = 3,
                         .windows = {0, 33, 1},
                         .n_blocks = {30, 18, 12},
                         .n_swap_blocks = {8, 5, 3},
                         .ctx_tokens = CTX,
                         .max_seqs = SEQS,
                         .max_chunk_tokens = CHUNK,
                         .shares_prefixes = true};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t lengths[ROWS], limits[ROWS] = {0};
    for (int turn = 0; turn < 6000; turn++) {
        size_t row = random_below(ROWS), n_cached, choice = random_below(20);
        bool is_swapped = cache.rows[row].is_swapped;
        ln_kv_cache_end_step(&cache);
        if (limits[row] == 0) {
            size_t limit = 1 + random_below(CTX);
            if (admit(&cache, (int32_t)random_below(2), limit, &row, &n_cached)) {
                assert_int_equal(limits[row], 0);
                limits[row] = limit;
                lengths[row] = n_cached;
            }
        } else if (lengths[row] == limits[row] || choice == 0) {
            ln_kv_cache_release(&cache, row);
            limits[row] = 0;
        } else if (choice == 1 && !is_swapped && cache.n_free_rows > 0) {
            size_t to = ln_kv_cache_take_row(&cache);
            ln_kv_cache_fork(&cache, row, to);
            lengths[to] = lengths[row];
            limits[to] = limits[row];
        } else if (is_swapped) {
            ln_kv_swap_in(&cache, &row, &limits[row], 1, false);
        } else if (choice == 2) {
            ln_kv_swap_out(&cache, &row, 1);
        } else {
            size_t n = 1 + random_below(CHUNK);
            if (n > limits[row] - lengths[row])
                n = limits[row] - lengths[row];
            if (ln_kv_cache_extend(&cache, row, lengths[row], lengths[row] + n)) {
                lengths[row] += n;
                ln_kv_cache_trim(&cache, row, lengths[row]);
            }
        }
        assert_true(ln_kv_cache_check(&cache));
    }
    for (size_t row = 0; row < ROWS; row++)
        if (limits[row] > 0)
            ln_kv_cache_release(&cache, row);
    for (size_t g = 0; g < 3; g++) {
        assert_int_equal(ln_block_pool_available(&cache.groups[g].pool), shape.n_blocks[g]);
        assert_int_equal(cache.groups[g].swap.n_free, shape.n_swap_blocks[g]);
        assert_int_equal(cache.groups[g].n_reserved, 0);
    }
    assert_int_equal(cache.n_free_rows, ROWS);
    free(memory);
}

typedef struct heard {
    size_t n_stored, n_first, n_removed;
    uint64_t hash;                  /* of the last event */
    const ln_prefix_origin *origin; /* of the last block that was stored */
} heard;

static void hear_stored(void *context, const ln_prefix_stored *block) {
    heard *own = context;
    own->n_stored++;
    own->n_first += block->is_first;
    own->hash = block->key->hash;
    own->origin = block->origin;
}

static void hear_removed(void *context, const ln_prefix_key *key) {
    heard *own = context;
    own->n_removed++;
    own->hash = key->hash;
}

static void observers_hear_what_can_be_found(void **state) {
    (void)state;
    enum { ROOT = 7 };
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {4},
                         .ctx_tokens = 64,
                         .max_seqs = 2,
                         .max_chunk_tokens = 64,
                         .shares_prefixes = true,
                         .secret = {1, 2}};
    ln_layout layout = {0};
    ln_kv_cache_plan(&shape, &layout);
    void *memory = calloc(1, layout.bytes);
    ln_kv_cache cache;
    ln_kv_cache_init(&cache, &shape, memory);
    heard seen = {0};
    ln_prefix_observer observer = {hear_stored, hear_removed, &seen};
    ln_kv_cache_observe(&cache, 0, &observer);

    int32_t tokens[64] = {1, 2, 3}, others[64] = {4, 5, 6};
    size_t row, n_cached;
    const ln_prefix_origin origin = {.adapter = "a", .adapter_number = 1};
    ln_kv_arrival arrival = {.tokens = tokens,
                             .n_tokens = 33,
                             .root = ROOT,
                             .may_hit = true,
                             .is_alone = true,
                             .origin = &origin};
    assert_true(ln_kv_cache_admit(&cache, &arrival, &row, &n_cached));
    assert_true(ln_kv_cache_extend(&cache, row, 0, 33));
    ln_kv_cache_add_prefix(&cache, row, tokens, 33); /* two full blocks */
    assert_int_equal(seen.n_stored, 2);
    assert_int_equal(seen.n_first, 1);
    assert_ptr_equal(seen.origin, &origin);
    ln_prefix_key first = ln_prefix_key_of(shape.secret, ROOT, tokens);
    ln_prefix_key second = ln_prefix_key_of(shape.secret, first.hash, tokens + 16);
    assert_int_equal(seen.hash, second.hash);
    ln_kv_cache_end_step(&cache);
    ln_kv_cache_release(&cache, row);
    assert_int_equal(seen.n_removed, 0); /* they are free, and found */

    arrival.tokens = others;
    arrival.n_tokens = 64;
    assert_true(ln_kv_cache_admit(&cache, &arrival, &row, &n_cached));
    assert_true(ln_kv_cache_extend(&cache, row, 0, 64));
    assert_int_equal(seen.n_stored, 2);
    assert_int_equal(seen.n_removed, 2);
    assert_int_equal(seen.hash, first.hash); /* evicted from the tail */
    ln_kv_cache_add_prefix(&cache, row, others, 64);
    assert_int_equal(seen.n_stored, 6);
    ln_kv_cache_forget_prefix(&cache, row, 16); /* the step failed */
    assert_int_equal(seen.n_removed, 5);
    ln_kv_cache_release(&cache, row);
    free(memory);
}

/* A pool for as many whole contexts as there are rows takes them all; of a smaller one, sequences
 * that run on leave what they may grow by. */
static void room_is_kept_for_what_may_grow(void **state) {
    (void)state;
    enum { N_ROWS = 5, CTX = 640 };
    for (size_t n_lacking = 0; n_lacking < 2; n_lacking++)
        for (size_t n_growth = 0; n_growth < 2; n_growth++) {
            ln_kv_shape shape = {.n_groups = 1,
                                 .n_blocks = {N_ROWS * CTX / LN_KV_BLOCK_TOKENS - n_lacking},
                                 .ctx_tokens = CTX,
                                 .max_seqs = N_ROWS,
                                 .max_chunk_tokens = CTX};
            ln_kv_cache cache;
            void *memory = create(&cache, &shape);
            size_t row, n_cached;
            ln_kv_arrival arrival = {.tokens = counting(), .n_tokens = CTX, .max_tokens = CTX};
            for (size_t i = 0; i < N_ROWS - 1; i++)
                assert_true(ln_kv_cache_admit(&cache, &arrival, &row, &n_cached));
            arrival.n_tokens = CTX - LN_KV_BLOCK_TOKENS;
            arrival.max_tokens = arrival.n_tokens + n_growth * LN_KV_BLOCK_TOKENS;
            assert_int_equal(ln_kv_cache_admit(&cache, &arrival, &row, &n_cached),
                             n_lacking == 0 || n_growth == 0);
            free(memory);
        }
}

/* Room that is kept: no more than one block in a hundred, so that the pools here are large. */
enum { MANY = 1000 };

static void *create_many(ln_kv_cache *cache) {
    return create(cache, &(ln_kv_shape){.n_groups = 1,
                                        .n_blocks = {MANY},
                                        .n_swap_blocks = {MANY},
                                        .ctx_tokens = MANY * LN_KV_BLOCK_TOKENS,
                                        .max_seqs = 8,
                                        .max_chunk_tokens = MANY * LN_KV_BLOCK_TOKENS});
}

/* Admits a sequence of so many blocks, which may grow, as may its forks. */
static bool admit_blocks(ln_kv_cache *cache, size_t n_blocks, size_t n_growth, size_t n_forks,
                         size_t *row) {
    static const int32_t tokens[MANY * LN_KV_BLOCK_TOKENS];
    size_t n_cached;
    ln_kv_arrival arrival = {.tokens = tokens,
                             .n_tokens = n_blocks * LN_KV_BLOCK_TOKENS,
                             .max_tokens = (n_blocks + n_growth) * LN_KV_BLOCK_TOKENS,
                             .n_forks = n_forks};
    return ln_kv_cache_admit(cache, &arrival, row, &n_cached);
}

/* The largest sequence that is admitted leaves just the room that is kept. */
static void expect_kept(ln_kv_cache *cache, size_t n_free, size_t n_kept) {
    size_t row;
    assert_false(admit_blocks(cache, n_free - n_kept + 1, 0, 0, &row));
    assert_true(admit_blocks(cache, n_free - n_kept, 0, 0, &row));
    ln_kv_cache_release(cache, row);
}

static void room_is_kept_for_forks(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create_many(&cache);
    size_t rows[3];
    assert_true(admit_blocks(&cache, 10, 2, 2, &rows[0]));
    expect_kept(&cache, MANY - 10, 6);
    assert_true(ln_kv_cache_extend(&cache, rows[0], 0, 10 * LN_KV_BLOCK_TOKENS));
    for (size_t i = 1; i < 3; i++) {
        rows[i] = ln_kv_cache_take_row(&cache);
        ln_kv_cache_fork(&cache, rows[0], rows[i]);
        expect_kept(&cache, MANY - 10, 6); /* a fork has its own growth, and is awaited no more */
    }
    assert_false(admit_blocks(&cache, MANY - 18, 2, 1, &rows[0])); /* the arrival's own, as well */
    assert_true(admit_blocks(&cache, MANY - 18, 2, 0, &rows[0]));
    assert_true(ln_kv_cache_check(&cache));
    free(memory);
}

static void room_is_kept_for_no_swapped_row(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create_many(&cache);
    size_t row, other;
    assert_true(admit_blocks(&cache, 10, 5, 0, &row));
    assert_true(ln_kv_cache_extend(&cache, row, 0, 10 * LN_KV_BLOCK_TOKENS));
    expect_kept(&cache, MANY - 10, 5);
    assert_true(ln_kv_swap_out(&cache, &row, 1));
    expect_kept(&cache, MANY, 0);
    size_t n_tokens = 11 * LN_KV_BLOCK_TOKENS; /* with one block that it lacks, and 4 to grow by */
    assert_true(admit_blocks(&cache, MANY - 14, 0, 0, &other));
    assert_false(ln_kv_swap_in(&cache, &row, &n_tokens, 1, false));
    ln_kv_cache_release(&cache, other);
    assert_true(admit_blocks(&cache, MANY - 15, 0, 0, &other));
    assert_true(ln_kv_swap_in(&cache, &row, &n_tokens, 1, false));
    ln_kv_cache_release(&cache, other);
    expect_kept(&cache, MANY - 11, 4);
    assert_true(ln_kv_cache_check(&cache));
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_counts_references),
        cmocka_unit_test(needs_cover_every_alignment),
        cmocka_unit_test(windows_give_blocks_back),
        cmocka_unit_test(what_fits_alone_is_known),
        cmocka_unit_test(prompts_wait_for_blocks_and_rows),
        cmocka_unit_test(prefixes_are_found_and_evicted_from_the_tail),
        cmocka_unit_test(salts_are_apart),
        cmocka_unit_test(windows_need_the_last_blocks_of_a_prefix),
        cmocka_unit_test(a_failed_step_is_forgotten),
        cmocka_unit_test(forks_copy_what_they_write_to),
        cmocka_unit_test(swapped_rows_still_share),
        cmocka_unit_test(random_sequences_keep_the_invariants),
        cmocka_unit_test(observers_hear_what_can_be_found),
        cmocka_unit_test(room_is_kept_for_what_may_grow),
        cmocka_unit_test(room_is_kept_for_forks),
        cmocka_unit_test(room_is_kept_for_no_swapped_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
