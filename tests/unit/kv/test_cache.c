/* kv/: the block pool, and the cache's tables, promises and windows. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "kv/cache.h"

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
    size_t row = ln_kv_cache_admit(&cache, (ln_kv_need){200, 0});
    for (size_t n_tokens = 0; n_tokens < 200; n_tokens += 5) {
        ln_kv_cache_extend(&cache, row, n_tokens + 5);
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

static void answers_ok_later_never(void **state) {
    (void)state;
    ln_kv_shape shape = {
        .n_groups = 1, .n_blocks = {10}, .ctx_tokens = 320, .max_seqs = 2, .max_chunk_tokens = 8};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){160, 0}), LN_KV_OK);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){161, 0}), LN_KV_NEVER);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){321, 0}), LN_KV_NEVER);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){SIZE_MAX, 0}), LN_KV_NEVER);
    size_t first = ln_kv_cache_admit(&cache, (ln_kv_need){81, 0});
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){65, 0}), LN_KV_LATER);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){64, 0}), LN_KV_OK);
    size_t second = ln_kv_cache_admit(&cache, (ln_kv_need){1, 0});
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){1, 0}),
                     LN_KV_LATER); /* no row */
    ln_kv_cache_release(&cache, first);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){144, 0}), LN_KV_OK);
    ln_kv_cache_release(&cache, second);
    assert_int_equal(ln_kv_cache_can_allocate(&cache, (ln_kv_need){160, 0}), LN_KV_OK);
    free(memory);
}

static void random_sequences_keep_the_invariants(void **state) {
    (void)state;
    enum { SEQS = 6, CTX = 150, CHUNK = 24 };
    ln_kv_shape shape = {.n_groups = 3,
                         .windows = {0, 33, 1},
                         .n_blocks = {30, 18, 9},
                         .ctx_tokens = CTX,
                         .max_seqs = SEQS,
                         .max_chunk_tokens = CHUNK};
    ln_kv_cache cache;
    void *memory = create(&cache, &shape);
    size_t lengths[SEQS], limits[SEQS] = {0};
    for (int turn = 0; turn < 3000; turn++) {
        size_t row = random_below(SEQS);
        if (limits[row] == 0) {
            size_t limit = 1 + random_below(CTX);
            if (ln_kv_cache_can_allocate(&cache, (ln_kv_need){limit, 0}) == LN_KV_OK) {
                row = ln_kv_cache_admit(&cache, (ln_kv_need){limit, 0});
                assert_int_equal(limits[row], 0);
                limits[row] = limit;
                lengths[row] = 0;
            }
        } else if (lengths[row] == limits[row] || random_below(20) == 0) {
            ln_kv_cache_release(&cache, row);
            limits[row] = 0;
        } else {
            size_t n = 1 + random_below(CHUNK);
            if (n > limits[row] - lengths[row])
                n = limits[row] - lengths[row];
            ln_kv_cache_extend(&cache, row, lengths[row] + n);
            lengths[row] += n;
            ln_kv_cache_trim(&cache, row, lengths[row]);
        }
        assert_true(ln_kv_cache_check(&cache));
    }
    for (size_t row = 0; row < SEQS; row++)
        if (limits[row] > 0)
            ln_kv_cache_release(&cache, row);
    for (size_t g = 0; g < 3; g++)
        assert_int_equal(cache.groups[g].pool.n_free, shape.n_blocks[g]);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_counts_references),
        cmocka_unit_test(needs_cover_every_alignment),
        cmocka_unit_test(windows_give_blocks_back),
        cmocka_unit_test(answers_ok_later_never),
        cmocka_unit_test(random_sequences_keep_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
