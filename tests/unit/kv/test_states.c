/* kv/states: which states of recurrent layers are kept, found, shared, forgotten and swapped. */
#include "test.h"

#include <stdlib.h>

#include "kv/states.h"
#include "kv/swap.h"

enum { CTX = 400, SEQS = 4, OWN = 0, STATE = 1, TAIL = 2, N_GROUPS = 3 };

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static size_t random_below(size_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % n);
}

/* One layer with attention, one with a state; n_more states beside those of the sequences. */
static ln_kv_shape shape_with(size_t n_more) {
    return (ln_kv_shape){
        .n_groups = N_GROUPS,
        .kinds = {LN_KV_GROUP_OWN, LN_KV_GROUP_STATE, LN_KV_GROUP_TAIL},
        .n_blocks = {SEQS * CTX / LN_KV_BLOCK_TOKENS, LN_KV_STATES_PER_SEQ * SEQS + n_more, SEQS},
        .n_swap_blocks = {40, 6, 3},
        .ctx_tokens = CTX,
        .max_seqs = SEQS,
        .max_chunk_tokens = CTX,
        .shares_prefixes = true};
}

static void *create(ln_kv_cache *cache, size_t n_more) {
    ln_kv_shape shape = shape_with(n_more);
    ln_layout layout = {0};
    ln_kv_cache_plan(&shape, &layout);
    void *memory = calloc(1, layout.bytes);
    assert_non_null(memory);
    ln_kv_cache_init(cache, &shape, memory);
    return memory;
}

/* A text that counts up, from another number after `common` tokens for each `kind` but 0. */
static const int32_t *text_of(size_t kind, size_t common) {
    static int32_t texts[8][CTX];
    for (size_t i = 0; i < CTX; i++)
        texts[kind][i] = (int32_t)(i < common ? i : i + 1000 * kind);
    return texts[kind];
}

static size_t admit(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens, size_t *n_cached) {
    ln_kv_arrival arrival = {.tokens = tokens, .n_tokens = n_tokens, .may_hit = true};
    size_t row = 0;
    assert_true(ln_kv_cache_admit(cache, &arrival, &row, n_cached));
    return row;
}

/* A step that reads the tokens n_cached .. n_tokens - 1 of a row. */
static void read_tokens(ln_kv_cache *cache, size_t row, const int32_t *tokens, size_t n_cached,
                        size_t n_tokens) {
    assert_true(ln_kv_cache_extend(cache, row, n_cached, n_tokens));
    ln_kv_cache_add_prefix(cache, row, tokens, n_tokens);
    assert_true(ln_kv_cache_check(cache));
    ln_kv_cache_end_step(cache);
    ln_kv_cache_trim(cache, row, n_tokens);
    assert_true(ln_kv_cache_check(cache));
}

/* Admits, reads in chunks and ends a sequence; its hit, in tokens. */
static size_t visit(ln_kv_cache *cache, const int32_t *tokens, size_t n_tokens, size_t chunk) {
    size_t n_cached, row = admit(cache, tokens, n_tokens, &n_cached), hit = n_cached;
    while (n_cached < n_tokens) {
        size_t end = n_tokens - n_cached < chunk ? n_tokens : n_cached + chunk;
        read_tokens(cache, row, tokens, n_cached, end);
        n_cached = end;
    }
    ln_kv_cache_release(cache, row);
    assert_true(ln_kv_cache_check(cache));
    return hit;
}

static void hits_end_where_a_state_is_kept(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create(&cache, 0);
    const int32_t *text = text_of(0, CTX);
    assert_int_equal(visit(&cache, text, 200, CTX), 0);
    assert_int_equal(visit(&cache, text, 200, CTX), 192);
    assert_int_equal(visit(&cache, text, 193, CTX), 192);
    assert_int_equal(visit(&cache, text, 192, CTX), 0); /* its last token must be computed */
    assert_int_equal(visit(&cache, text, 300, CTX), 192);
    assert_int_equal(visit(&cache, text, 300, CTX), 256);
    free(memory);
}

static void prompts_keep_further_states_at_distances(void **state) {
    (void)state;
    for (size_t n_more = 0; n_more < 2; n_more++) {
        ln_kv_cache cache;
        void *memory = create(&cache, n_more);
        visit(&cache, text_of(0, CTX), 390, CTX);
        assert_int_equal(visit(&cache, text_of(0, CTX), 383, CTX), n_more * 256);
        free(memory);
    }
}

static void a_state_is_kept_where_texts_part(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create(&cache, 2);
    assert_int_equal(visit(&cache, text_of(1, 100), 200, CTX), 0);
    assert_int_equal(visit(&cache, text_of(2, 100), 200, CTX), 0); /* keeps one after 64 */
    assert_int_equal(visit(&cache, text_of(3, 100), 200, CTX), 64);
    free(memory);
}

static void states_of_the_same_step_are_not_found(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create(&cache, 0);
    const int32_t *text = text_of(0, CTX);
    size_t n_cached, first = admit(&cache, text, 130, &n_cached);
    assert_true(ln_kv_cache_extend(&cache, first, 0, 130));
    ln_kv_cache_add_prefix(&cache, first, text, 130);
    assert_int_equal(ln_kv_cache_find_prefix(&cache, text, 200, 0), 0);
    ln_kv_cache_end_step(&cache);
    assert_int_equal(ln_kv_cache_find_prefix(&cache, text, 200, 0), 128 / LN_KV_BLOCK_TOKENS);
    free(memory);
}

static void a_failed_step_leaves_no_state(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create(&cache, 0);
    const int32_t *text = text_of(0, CTX);
    size_t n_cached, row = admit(&cache, text, 300, &n_cached);
    read_tokens(&cache, row, text, 0, 70);
    assert_true(ln_kv_cache_extend(&cache, row, 70, 300));
    ln_kv_cache_add_prefix(&cache, row, text, 300);
    ln_kv_cache_forget_prefix(&cache, row, 70);
    ln_kv_cache_end_step(&cache);
    ln_kv_cache_release(&cache, row);
    assert_true(ln_kv_cache_check(&cache));
    assert_int_equal(visit(&cache, text, 300, CTX), 64);
    free(memory);
}

static void forks_share_the_state_and_copy_the_tail(void **state) {
    (void)state;
    ln_kv_cache cache;
    void *memory = create(&cache, 0);
    const int32_t *text = text_of(0, CTX);
    size_t n_cached, first = admit(&cache, text, 64, &n_cached);
    read_tokens(&cache, first, text, 0, 64);
    size_t second = ln_kv_cache_take_row(&cache);
    ln_kv_cache_fork(&cache, first, second);
    const ln_block_table *states = cache.groups[STATE].tables, *tails = cache.groups[TAIL].tables;
    assert_int_equal(states[first].blocks[1], states[second].blocks[1]);
    int32_t shared = tails[first].blocks[0];
    assert_int_equal(tails[second].blocks[0], shared);
    assert_true(ln_kv_cache_extend(&cache, second, 64, 65));
    assert_true(ln_kv_cache_extend(&cache, first, 64, 65));
    assert_int_equal(states[first].blocks[1], states[second].blocks[1]);
    assert_int_equal(tails[first].blocks[0], shared);
    assert_true(tails[second].blocks[0] != shared);
    assert_int_equal(cache.n_copies, 1); /* the keys' last block is full */
    assert_int_equal(cache.copies[0].group, TAIL);
    assert_int_equal(cache.copies[0].from, shared);
    assert_true(ln_kv_cache_check(&cache));
    free(memory);
}

/* ---- at random -------------------------------------------------------------------------- */

enum { ROWS = 2 * SEQS };

typedef struct crowd {
    ln_kv_cache cache;
    const int32_t *texts[ROWS]; /* NULL: the row is free */
    size_t lengths[ROWS], limits[ROWS];
} crowd;

static size_t count_running(const crowd *c) {
    size_t n = 0;
    for (size_t row = 0; row < ROWS; row++)
        n += c->texts[row] != NULL && !c->cache.rows[row].is_swapped;
    return n;
}

static void arrive(crowd *c) {
    size_t kind = random_below(3), n_tokens = 1 + random_below(CTX), n_cached = 0, row = 0;
    const int32_t *text = text_of(kind, 90 * kind);
    ln_kv_arrival arrival = {.tokens = text, .n_tokens = n_tokens, .may_hit = true};
    if (count_running(c) == SEQS || !ln_kv_cache_admit(&c->cache, &arrival, &row, &n_cached))
        return;
    assert_null(c->texts[row]);
    c->texts[row] = text;
    c->lengths[row] = n_cached;
    c->limits[row] = n_tokens;
}

static void fork_row(crowd *c, size_t row) {
    if (count_running(c) == SEQS || c->cache.n_free_rows == 0)
        return;
    size_t to = ln_kv_cache_take_row(&c->cache);
    ln_kv_cache_fork(&c->cache, row, to);
    c->texts[to] = c->texts[row];
    c->lengths[to] = c->lengths[row];
    c->limits[to] = c->limits[row];
}

/* A step, of which some of the last tokens are drafts that are refused. */
static void advance(crowd *c, size_t row) {
    size_t left = c->limits[row] - c->lengths[row];
    size_t n = 1 + random_below(random_below(4) == 0 ? 200 : 20);
    n = n < left ? n : left;
    if (!ln_kv_cache_extend(&c->cache, row, c->lengths[row], c->lengths[row] + n))
        return;
    size_t refused = random_below(n < 40 ? n : 40);
    c->lengths[row] += n - refused;
    ln_kv_cache_add_prefix(&c->cache, row, c->texts[row], c->lengths[row]);
    assert_true(ln_kv_cache_check(&c->cache));
    ln_kv_cache_end_step(&c->cache);
    ln_kv_cache_trim(&c->cache, row, c->lengths[row]);
}

static void move_in_time(crowd *c, size_t row) {
    size_t choice = random_below(24);
    if (c->texts[row] == NULL) {
        arrive(c);
    } else if (c->lengths[row] == c->limits[row] || choice == 0) {
        ln_kv_cache_release(&c->cache, row);
        c->texts[row] = NULL;
    } else if (c->cache.rows[row].is_swapped) {
        if (count_running(c) < SEQS)
            ln_kv_swap_in(&c->cache, &row, &c->limits[row], 1, false);
    } else if (choice == 1) {
        fork_row(c, row);
    } else if (choice == 2) {
        ln_kv_swap_out(&c->cache, &row, 1);
    } else {
        advance(c, row);
    }
}

static void random_sequences_keep_the_invariants(void **state) {
    (void)state;
    for (size_t n_more = 0; n_more < 7; n_more += 3) {
        crowd c = {0};
        ln_kv_shape shape = shape_with(n_more);
        void *memory = create(&c.cache, n_more);
        for (int turn = 0; turn < 4000; turn++) {
            move_in_time(&c, random_below(ROWS));
            assert_true(ln_kv_cache_check(&c.cache));
            ln_kv_cache_end_step(&c.cache);
        }
        assert_true(c.cache.n_hit_tokens > 0);
        for (size_t row = 0; row < ROWS; row++)
            if (c.texts[row] != NULL)
                ln_kv_cache_release(&c.cache, row);
        for (size_t g = 0; g < N_GROUPS; g++) {
            const ln_kv_group *group = &c.cache.groups[g];
            assert_int_equal(ln_block_pool_available(&group->pool), shape.n_blocks[g]);
            assert_int_equal(group->swap.n_free, shape.n_swap_blocks[g]);
        }
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_end_where_a_state_is_kept),
        cmocka_unit_test(prompts_keep_further_states_at_distances),
        cmocka_unit_test(a_state_is_kept_where_texts_part),
        cmocka_unit_test(states_of_the_same_step_are_not_found),
        cmocka_unit_test(a_failed_step_leaves_no_state),
        cmocka_unit_test(forks_share_the_state_and_copy_the_tail),
        cmocka_unit_test(random_sequences_keep_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
