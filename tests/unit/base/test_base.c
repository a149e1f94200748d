/* base/: arenas, buffers, half floats, random numbers, the thread pool. */
#include "test.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/half.h"
#include "base/layout.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/strbuf.h"

static void arena_allocates_zeroed_and_refuses_overflow(void **state) {
    (void)state;
    ln_arena arena;
    ln_arena_init(&arena);
    for (size_t bytes = 1; bytes < 100000; bytes *= 3) {
        unsigned char *memory = ln_arena_alloc(&arena, bytes, 1);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        assert_int_equal(memory[0] | memory[bytes - 1], 0);
        memset(memory, 0xff, bytes);
    }
    assert_null(ln_arena_alloc(&arena, SIZE_MAX / 2, 3));
    assert_null(ln_arena_alloc(&arena, SIZE_MAX, 1));
    ln_arena_free(&arena);
}

static void paths_name_models(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a/b.gguf", "b.gguf"},
        {"/m/folder/", "folder"},
        {"x", "x"},
        {"/c/models--Org--Some-Name/snapshots/0123abc", "Some-Name"},
        {"models--Org--A--B/snapshots/0123abc/", "A--B"},
        {"/c/models--gpt2/snapshots/0123abc", "gpt2"},
        {"/c/models--Org--Name/snapshots/0123abc/x.gguf", "x.gguf"},
        {"/c/other/snapshots/0123abc", "0123abc"},
        {"/snapshots/a", "a"},
        {"models--/snapshots/a", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_bytes;
        const char *name = ln_path_model_name(cases[i][0], &n_bytes);
        if (n_bytes != strlen(cases[i][1]) || memcmp(name, cases[i][1], n_bytes) != 0)
            fail_msg("%s: %.*s", cases[i][0], (int)n_bytes, name);
    }
}

static void layout_reports_overflow(void **state) {
    (void)state;
    ln_layout layout = {0};
    assert_int_equal(ln_layout_add(&layout, 3, 1), 0);
    assert_int_equal(ln_layout_add(&layout, 1, 8), LN_LAYOUT_ALIGN);
    assert_int_equal(layout.bytes, 2 * LN_LAYOUT_ALIGN);
    ln_error err = {0};
    assert_int_equal(ln_layout_check(&layout, "things", &err), LINNET_OK);
    ln_layout_add(&layout, SIZE_MAX / 2, 4);
    assert_int_equal(ln_layout_check(&layout, "things", &err), LINNET_ERR_LIMIT);
    assert_string_equal(err.message, "the size of the things overflows");
}

static void strbuf_appends_utf8(void **state) {
    (void)state;
    ln_strbuf buf;
    ln_strbuf_init(&buf);
    ln_strbuf_put_utf8(&buf, 'a');
    ln_strbuf_put_utf8(&buf, 0xe9);
    ln_strbuf_put_utf8(&buf, 0x20ac);
    ln_strbuf_put_utf8(&buf, 0x1f600);
    ln_strbuf_printf(&buf, "%d", 42);
    assert_string_equal(buf.data, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                                  "42");
    ln_strbuf_free(&buf);
}

static void halves_round_trip_every_value(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float f16 = ln_f32_from_f16((uint16_t)bits);
        float bf16 = ln_f32_from_bf16((uint16_t)bits);
        if (isnan(f16))
            assert_true(isnan(ln_f32_from_f16(ln_f16_from_f32(f16))));
        else
            assert_int_equal(ln_f16_from_f32(f16), bits);
        if (isnan(bf16))
            assert_true(isnan(ln_f32_from_bf16(ln_bf16_from_f32(bf16))));
        else
            assert_int_equal(ln_bf16_from_f32(bf16), bits);
    }
    assert_int_equal(ln_f16_from_f32(65519.0f), 0x7bff);
    assert_int_equal(ln_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(ln_f16_from_f32(0x1p-25f), 0);   /* a tie goes to even */
    assert_int_equal(ln_f16_from_f32(0x1.8p-24f), 2); /* likewise */
    assert_int_equal(ln_f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(ln_f16_from_f32(1.0f + 0x1.8p-10f), 0x3c02);
}

/* Numbers between two of E4M3 go to the nearer one, and from the middle to the even one. */
static void e4m3_rounds_to_nearest_even(void **state) {
    (void)state;
    for (unsigned byte = 0; byte < 0x7e; byte++) {
        float low = ln_f32_from_e4m3((uint8_t)byte), high = ln_f32_from_e4m3((uint8_t)(byte + 1));
        float middle = (low + high) / 2;
        for (unsigned sign = 0; sign <= 0x80; sign += 0x80) {
            float s = sign ? -1.0f : 1.0f;
            assert_int_equal(ln_e4m3_from_f32(s * low), sign | byte);
            assert_int_equal(ln_e4m3_from_f32(s * middle), sign | (byte + byte % 2));
            assert_int_equal(ln_e4m3_from_f32(s * nextafterf(middle, 0)), sign | byte);
            assert_int_equal(ln_e4m3_from_f32(s * nextafterf(middle, 500)), sign | (byte + 1));
        }
    }
    assert_int_equal(ln_e4m3_from_f32(448.0f), 0x7e);
    assert_int_equal(ln_e4m3_from_f32(1e30f), 0x7e);
    assert_int_equal(ln_e4m3_from_f32(-INFINITY), 0xfe);
}

/* The known answers published with Random123. */
static void philox_matches_its_reference(void **state) {
    (void)state;
    uint32_t out[4];
    ln_rng_philox(0, (uint32_t[4]){0, 0, 0, 0}, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    ln_rng_philox(~0ull, (uint32_t[4]){~0u, ~0u, ~0u, ~0u}, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[3], 0x6d5451fd);
}

enum { ROUNDS = 200 };
typedef struct pool_probe {
    ln_pool *pool;
    _Atomic size_t steps[ROUNDS];
    _Atomic size_t failures;
} pool_probe;

static void walk_together(void *context, size_t worker) {
    pool_probe *probe = context;
    for (int round = 0; round < ROUNDS; round++) {
        atomic_fetch_add(&probe->steps[round], 1);
        ln_pool_barrier(probe->pool, worker);
        if (atomic_load(&probe->steps[round]) % ln_pool_size(probe->pool) != 0)
            atomic_fetch_add(&probe->failures, 1);
        ln_pool_barrier(probe->pool, worker);
    }
}

static void pool_barriers_hold_everyone(void **state) {
    (void)state;
    for (size_t n = 1; n <= 5; n++) {
        pool_probe probe = {0};
        assert_int_equal(ln_pool_create(n, &probe.pool, NULL), LINNET_OK);
        for (int run = 0; run < 5; run++)
            ln_pool_run(probe.pool, walk_together, &probe);
        assert_int_equal(probe.failures, 0);
        assert_int_equal(probe.steps[ROUNDS - 1], 5 * n);
        ln_pool_destroy(probe.pool);
    }
    ln_error err = {0};
    ln_pool *pool;
    assert_int_equal(ln_pool_create(0, &pool, &err), LINNET_ERR_ARGUMENT);
}

/* Threads that spin would wait for one another here. */
static void pool_barriers_hold_on_one_processor(void **state) {
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    ln_pool_pin_caller(); /* and all that it starts */
    pool_barriers_hold_everyone(state);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* How many processors each worker may run on. */
static void count_processors(void *context, size_t worker) {
    cpu_set_t set;
    int *counts = context;
    counts[worker] = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

static void pinned_threads_keep_to_one_processor(void **state) {
    (void)state;
    enum { THREADS = 5 };
    cpu_set_t before;
    int free_counts[THREADS], counts[THREADS];
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    ln_pool *pool;
    assert_int_equal(ln_pool_create(THREADS, &pool, NULL), LINNET_OK);
    ln_pool_run(pool, count_processors, free_counts);
    ln_pool_pin(pool);
    ln_pool_run(pool, count_processors, counts);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(free_counts[i], CPU_COUNT(&before));
        assert_int_equal(counts[i], i == 0 ? CPU_COUNT(&before) : 1);
    }
    ln_pool_pin_caller();
    ln_pool_run(pool, count_processors, counts);
    assert_int_equal(counts[0], 1);
    ln_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_allocates_zeroed_and_refuses_overflow),
        cmocka_unit_test(layout_reports_overflow),
        cmocka_unit_test(paths_name_models),
        cmocka_unit_test(strbuf_appends_utf8),
        cmocka_unit_test(halves_round_trip_every_value),
        cmocka_unit_test(e4m3_rounds_to_nearest_even),
        cmocka_unit_test(philox_matches_its_reference),
        cmocka_unit_test(pool_barriers_hold_everyone),
        cmocka_unit_test(pool_barriers_hold_on_one_processor),
        cmocka_unit_test(pinned_threads_keep_to_one_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
