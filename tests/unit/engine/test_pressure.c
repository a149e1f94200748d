/* Too many requests for too small a cache: what gives way comes back, and nobody can tell. */
#include "golden_llama.h"

#include <pthread.h>

#include "engine/engine.h"

enum { CROWD = 64, LENGTH = 24, KV_TOKENS = 640 };

/* Request i of a crowd: prompts of 1 to 48 tokens, some with a common beginning; greedy, sampled
 * with penalties, mirostat. */
static linnet_request_options make_request(size_t i, int32_t *prompt) {
    linnet_request_options options = greedy_options(&g, 0);
    options.n_prompt_ids = 1 + i * 5 % 48;
    for (size_t at = 0; at < options.n_prompt_ids; at++)
        prompt[at] = (int32_t)((at * 13 + (i % 3 == 0 ? 0 : i * 29)) % N_VOCAB);
    options.prompt_ids = prompt;
    options.max_tokens = LENGTH;
    options.sampling.seed = i;
    if (i % 4 > 0) {
        options.sampling.temperature = 1.1f;
        options.sampling.repeat_penalty = 1.2f;
        options.sampling.mirostat_tau = i % 4 == 2 ? 4.0f : 0;
    }
    return options;
}

typedef struct crowd {
    int32_t ids[CROWD][LENGTH];
} crowd;

static void ask(linnet_engine *engine, bool together, crowd *out) {
    linnet_request *requests[CROWD];
    int32_t prompt[MAX_IDS], ids[MAX_IDS];
    linnet_finish finish;
    gate held;
    if (together)
        gate_hold(&held, engine);
    for (size_t i = 0; i < CROWD; i++) {
        linnet_request_options options = make_request(i, prompt);
        requests[i] = submit(engine, &options);
        if (!together) {
            assert_int_equal(receive(requests[i], ids, &finish), LENGTH);
            memcpy(out->ids[i], ids, sizeof out->ids[i]);
        }
    }
    if (together)
        gate_release(&held);
    for (size_t i = 0; together && i < CROWD; i++) {
        assert_int_equal(receive(requests[i], ids, &finish), LENGTH);
        memcpy(out->ids[i], ids, sizeof out->ids[i]);
    }
    const ln_kv_cache *cache = &engine->cache;
    assert_true(ln_kv_cache_check(cache));
    for (size_t group = 0; group < cache->n_groups; group++) {
        const ln_kv_group *kv = &cache->groups[group];
        assert_int_equal(ln_block_pool_available(&kv->pool), kv->pool.n_blocks);
        assert_int_equal(kv->swap.n_free, kv->swap.n_blocks);
        assert_int_equal(kv->n_reserved, 0);
    }
    assert_int_equal(cache->n_free_rows, cache->n_rows);
}

static void check_crowd(linnet_precision precision, linnet_kv_type kv_type, const crowd *alone) {
    static crowd together;
    static const linnet_preemption preemptions[] = {LINNET_PREEMPTION_RECOMPUTE,
                                                    LINNET_PREEMPTION_SWAP, LINNET_PREEMPTION_AUTO};
    for (size_t variant = 0; variant < 12; variant++) {
        linnet_engine_options options = exact_options(96, 24, 0, 1 + variant % 3);
        options.precision = precision;
        options.kv_type = kv_type;
        options.max_batch_tokens = variant % 4 < 2 ? 33 : 256;
        options.kv_tokens = KV_TOKENS;
        options.prefix_cache = variant % 2 == 0;
        options.preemption = preemptions[variant / 4];
        options.swap_bytes = options.preemption == LINNET_PREEMPTION_RECOMPUTE ? 0 : 400000;
        options.policy = variant % 4 == 3 ? LINNET_POLICY_PREFILL_FIRST : LINNET_POLICY_CHUNKED;
        linnet_engine *engine = engine_on(&g, options);
        ask(engine, true, &together);
        assert_memory_equal(&together, alone, sizeof together);
        linnet_engine_stats stats = stats_of(engine);
        if (variant < 4)
            assert_true(stats.n_recompute_preemptions > 0 && stats.n_swap_preemptions == 0);
        else if (variant < 8)
            assert_true(stats.n_swap_preemptions > 0 && stats.n_swapped_blocks > 0);
        else
            assert_true(stats.n_swap_preemptions + stats.n_recompute_preemptions > 0);
        linnet_engine_destroy(engine);
    }
}

static void a_crowd_changes_nothing(void **state) {
    (void)state;
    static crowd alone;
    static const linnet_precision precisions[] = {LINNET_PRECISION_EXACT, LINNET_PRECISION_FAST,
                                                  LINNET_PRECISION_FAST};
    static const linnet_kv_type kv_types[] = {LINNET_KV_AUTO, LINNET_KV_AUTO, LINNET_KV_FP8};
    for (size_t i = 0; i < 3; i++) {
        linnet_engine_options options = exact_options(96, 1, 64, 1);
        options.precision = precisions[i];
        options.kv_type = kv_types[i];
        options.prefix_cache = false;
        linnet_engine *engine = engine_on(&g, options);
        ask(engine, false, &alone);
        linnet_engine_destroy(engine);
        check_crowd(precisions[i], kv_types[i], &alone);
    }
}

/* Rows of a SCORE request come once each, in order, although it gives way while it is read. */
static void scores_come_once(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)row;
    (void)n_vocab;
    size_t *next = user;
    *next = position == *next ? position + 1 : SIZE_MAX;
}

static void everything_else_survives_too(void **state) {
    (void)state;
    enum { N = 24 };
    linnet_engine_options options = exact_options(96, 8, 16, 1);
    options.kv_tokens = 192;
    linnet_engine *engine = engine_on(&g, options);
    linnet_request *requests[N];
    size_t next[N] = {0}, n_tokens[N] = {0};
    gate held;
    gate_hold(&held, engine);
    for (size_t i = 0; i < N; i++) {
        int32_t prompt[MAX_IDS];
        linnet_request_options o = make_request(i, prompt);
        if (i % 3 == 0) {
            o.kind = LINNET_REQUEST_SCORE;
            o.on_logits = scores_come_once;
            o.user = &next[i];
        } else if (i % 3 == 1) {
            o.prompt_logprobs = o.logprobs = true;
            o.top_logprobs = 2;
        } else {
            o.n = 3;
        }
        requests[i] = submit(engine, &o);
    }
    gate_release(&held);
    for (size_t i = 0; i < N; i++) {
        linnet_event event;
        do {
            assert_int_equal(linnet_request_next(requests[i], -1, &event, NULL), LINNET_OK);
            n_tokens[i] += event.token >= 0;
        } while (event.n_open > 0);
        if (i % 3 == 0)
            assert_int_equal(next[i], event.n_prompt_tokens);
        else
            assert_int_equal(n_tokens[i], i % 3 == 1 ? LENGTH : 3 * LENGTH);
        linnet_request_close(requests[i]);
    }
    assert_true(stats_of(engine).n_recompute_preemptions > 0);
    assert_true(ln_kv_cache_check(&engine->cache));
    linnet_engine_destroy(engine);
}

static void refuse(linnet_engine *engine, const linnet_request_options *options, const char *part) {
    linnet_request *request;
    linnet_error err = {0};
    assert_int_equal(linnet_request_submit(engine, options, &request, &err), LINNET_ERR_LIMIT);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void what_can_never_fit_is_refused(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(96, 4, 16, 1);
    options.kv_tokens = 64;
    linnet_engine *engine = engine_on(&g, options);
    int32_t prompt[MAX_IDS];
    linnet_request_options o = make_request(0, prompt);
    o.n_prompt_ids = 64;
    memset(prompt, 0, sizeof prompt);
    refuse(engine, &o, "the KV cache holds 64 tokens");
    o.n_prompt_ids = 50;
    o.max_tokens = 15;
    refuse(engine, &o, "has room for 14");
    o.n_prompt_ids = 20;
    o.max_tokens = 13;
    o.n = 4; /* a shared block, and one of their own for each */
    refuse(engine, &o, "the KV cache holds 64 tokens");
    o.n = 3;
    refuse(engine, &o, "has room for 12");
    o.n = 5;
    refuse(engine, &o, "n is 5; a step holds 4");
    o.n = 3;
    o.max_tokens = 0; /* as much as there is room for */
    linnet_request *request = submit(engine, &o);
    linnet_event event;
    do
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    while (event.n_open > 0);
    assert_int_equal(event.n_output_tokens, 12);
    linnet_request_close(request);
    linnet_engine_destroy(engine);
}

/* ---- random operations ------------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 2500, HELD = 6 };

typedef struct worker {
    linnet_engine *engine;
    unsigned seed;
} worker;

/* Submits, receives a little, cancels, closes; returns whether anything was wrong. */
static void *make_trouble(void *argument) {
    worker *w = argument;
    linnet_request *held[HELD] = {0};
    int32_t prompt[MAX_IDS];
    for (size_t turn = 0; turn < TURNS; turn++) {
        size_t at = (size_t)rand_r(&w->seed) % HELD;
        linnet_event event;
        if (held[at] == NULL) {
            linnet_request_options options = make_request((size_t)rand_r(&w->seed) % 97, prompt);
            options.n = 1 + (uint32_t)rand_r(&w->seed) % 3;
            options.best_of = rand_r(&w->seed) % 4 == 0 ? options.n + 1 : 0;
            options.max_tokens = 1 + (size_t)rand_r(&w->seed) % 40;
            options.priority = rand_r(&w->seed) % 3;
            if (linnet_request_submit(w->engine, &options, &held[at], NULL) != LINNET_OK)
                return w;
            continue;
        }
        switch (rand_r(&w->seed) % 4) {
        case 0: linnet_request_cancel(held[at]); break;
        case 1:
            linnet_request_close(held[at]);
            held[at] = NULL;
            break;
        default:
            if (linnet_request_next(held[at], rand_r(&w->seed) % 2, &event, NULL) ==
                LINNET_ERR_STATE) {
                linnet_request_close(held[at]);
                held[at] = NULL;
            }
        }
    }
    for (size_t at = 0; at < HELD; at++)
        linnet_request_close(held[at]);
    return NULL;
}

static void random_operations_end_with_every_block_free(void **state) {
    (void)state;
    for (size_t variant = 0; variant < 2; variant++) {
        linnet_engine_options options = exact_options(96, 12, 48, 1);
        options.kv_tokens = 320; /* any of them fits alone */
        options.swap_bytes = 100000;
        options.preemption = variant == 0 ? LINNET_PREEMPTION_SWAP : LINNET_PREEMPTION_AUTO;
        options.order = variant == 0 ? LINNET_ORDER_FCFS : LINNET_ORDER_PRIORITY;
        options.policy = variant == 0 ? LINNET_POLICY_CHUNKED : LINNET_POLICY_PREFILL_FIRST;
        linnet_engine *engine = engine_on(&g, options);
        pthread_t threads[THREADS];
        worker workers[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            workers[i] = (worker){engine, (unsigned)(100 * variant + i)};
            assert_int_equal(pthread_create(&threads[i], NULL, make_trouble, &workers[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        crowd answers;
        ask(engine, true, &answers); /* checks the cache, once all before have ended */
        linnet_engine_stats stats = stats_of(engine);
        assert_true(stats.n_swap_preemptions + stats.n_recompute_preemptions > 0);
        linnet_engine_destroy(engine);
    }
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_changes_nothing),
        cmocka_unit_test(everything_else_survives_too),
        cmocka_unit_test(what_can_never_fit_is_refused),
        cmocka_unit_test(random_operations_end_with_every_block_free),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
