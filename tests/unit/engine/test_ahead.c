/* Steps that are started before the tokens of the step before are known: the same tokens, and
 * nothing is left of a step that nobody asks for any more. */
#include "golden_llama.h"

#include <math.h>

/* Every block and row is free, and no step is under way. */
static void expect_nothing_left(linnet_engine *engine) {
    const ln_kv_cache *cache = &engine->cache;
    assert_true(ln_kv_cache_check(cache));
    for (size_t group = 0; group < cache->n_groups; group++) {
        const ln_block_pool *pool = &cache->groups[group].pool;
        assert_int_equal(ln_block_pool_available(pool), pool->n_blocks);
    }
    assert_int_equal(cache->n_free_rows, cache->n_rows);
}

/* The engine's thread has ended: what it started is finished. */
static void destroy(linnet_engine *engine) {
    const ahead_backend *backend = ahead_of(engine->backend);
    linnet_engine_destroy(engine);
    assert_int_equal(backend->n_started, backend->n_finished);
}

static void expect_golden(linnet_request *request, size_t prompt) {
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    assert_int_equal(receive(request, ids, &finish), GOLDEN_OUTPUT);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    assert_memory_equal(ids, g.greedy[prompt], sizeof g.greedy[prompt]);
}

static void only_the_first_token_waits_for_the_host(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&g, exact_options(128, 1, 0, 1));
    const ahead_backend *backend = ahead_of(engine->backend);
    linnet_request_options options = greedy_options(&g, 1);
    expect_golden(submit(engine, &options), 1);
    assert_int_equal(backend->n_ahead, GOLDEN_OUTPUT - 1);
    assert_int_equal(backend->n_started, GOLDEN_OUTPUT);
    expect_nothing_left(engine);
    destroy(engine);
}

/* Some end by a stop id, where a step that has their next token is under way. */
static void who_ends_leaves_the_step_ahead(void **state) {
    (void)state;
    enum { CROWD = 12 };
    linnet_engine *engine = engine_on(&g, exact_options(128, 4, 0, 2));
    for (size_t turn = 0; turn < 2; turn++) {
        linnet_request *requests[CROWD];
        gate held;
        gate_hold(&held, engine);
        for (size_t i = 0; i < CROWD; i++) {
            size_t prompt = i % GOLDEN_PROMPTS;
            linnet_request_options options = greedy_options(&g, prompt);
            options.stop_ids = &g.greedy[prompt][i];
            options.n_stop_ids = i % 4 > 0;
            requests[i] = submit(engine, &options);
        }
        gate_release(&held);
        for (size_t i = 0; i < CROWD; i++) {
            const int32_t *want = g.greedy[i % GOLDEN_PROMPTS];
            int32_t ids[MAX_IDS];
            linnet_finish finish;
            size_t n_want = 0, n = receive(requests[i], ids, &finish);
            while (n_want < GOLDEN_OUTPUT && (i % 4 == 0 || want[n_want] != want[i]))
                n_want++;
            assert_int_equal(n, n_want);
            assert_memory_equal(ids, want, n * sizeof *ids);
            assert_int_equal(finish, i % 4 > 0 ? LINNET_FINISH_STOP : LINNET_FINISH_LENGTH);
        }
        expect_nothing_left(engine);
    }
    assert_true(ahead_of(engine->backend)->n_ahead > 0);
    destroy(engine);
}

/* Some rows need the host: then all of the step wait for it, and have the same tokens. */
static void rows_of_the_host_and_the_device_mix(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&g, exact_options(128, 8, 0, 2));
    linnet_request *requests[2 * GOLDEN_PROMPTS];
    int32_t ids[MAX_IDS], again[MAX_IDS];
    linnet_finish finish;
    gate held;
    gate_hold(&held, engine);
    for (size_t i = 0; i < 2 * GOLDEN_PROMPTS; i++) {
        linnet_request_options options = greedy_options(&g, i % GOLDEN_PROMPTS);
        options.sampling.temperature = i == 1 || i == 4 ? 1.5f : 0;
        options.sampling.top_k = 0; /* is for the host */
        options.sampling.seed = 3;
        options.logprobs = i == 3;
        requests[i] = submit(engine, &options);
    }
    gate_release(&held);
    for (size_t i = 0; i < 2 * GOLDEN_PROMPTS; i++) {
        if (i != 1 && i != 4)
            expect_golden(requests[i], i % GOLDEN_PROMPTS);
        else
            assert_int_equal(receive(requests[i], i == 1 ? ids : again, &finish), GOLDEN_OUTPUT);
    }
    assert_memory_equal(ids, again, GOLDEN_OUTPUT * sizeof *ids);
    expect_nothing_left(engine);
    destroy(engine);
}

/* Draws of the device and the host, alone and together, ahead or not. */
static void draws_are_those_of_the_host(void **state) {
    (void)state;
    enum { N = 9 };
    int32_t ids[3][N][MAX_IDS];
    for (size_t turn = 0; turn < 3; turn++) { /* the host alone, one by one, all together */
        engine_test_ahead = turn > 0;
        linnet_engine *engine = engine_on(&g, exact_options(128, N, 0, 2));
        linnet_request *requests[N];
        linnet_finish finish;
        gate held;
        if (turn == 2)
            gate_hold(&held, engine);
        for (size_t i = 0; i < N; i++) {
            linnet_request_options options = greedy_options(&g, i % GOLDEN_PROMPTS);
            options.sampling = (linnet_sampling){.temperature = i == 8 ? 0 : 0.5f + 0.5f * (float)i,
                                                 .top_k = i == 1 ? 1 : (int32_t)(20 * i + 10),
                                                 .top_p = i % 3 == 0 ? 0.7f : 1,
                                                 .min_p = i % 4 == 0 ? 0.05f : 0,
                                                 .repeat_penalty = 1,
                                                 .seed = i};
            requests[i] = submit(engine, &options);
            if (turn < 2)
                assert_int_equal(receive(requests[i], ids[turn][i], &finish), GOLDEN_OUTPUT);
        }
        if (turn == 2)
            gate_release(&held);
        for (size_t i = 0; turn == 2 && i < N; i++)
            assert_int_equal(receive(requests[i], ids[turn][i], &finish), GOLDEN_OUTPUT);
        for (size_t i = 0; i < N; i++)
            assert_memory_equal(ids[turn][i], ids[0][i], GOLDEN_OUTPUT * sizeof(int32_t));
        if (turn == 1)
            assert_int_equal(ahead_of(engine->backend)->n_ahead, N * (GOLDEN_OUTPUT - 1));
        linnet_engine_destroy(engine);
    }
    engine_test_ahead = true;
}

enum { N_OUTPUTS = 3, N_TOP = 4 };

/* All that a request gave. */
typedef struct given {
    int32_t ids[N_OUTPUTS][MAX_IDS];
    float logprobs[N_OUTPUTS][MAX_IDS];
    linnet_logprob top[N_OUTPUTS][MAX_IDS][N_TOP];
} given;

static void take_all(linnet_request *request, size_t n_outputs, size_t n_top, given *out) {
    size_t n_ids[N_OUTPUTS] = {0};
    *out = (given){0};
    for (size_t n_ended = 0; n_ended < n_outputs;) {
        linnet_event event;
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        n_ended += event.finish != LINNET_FINISH_NONE;
        if (event.token < 0)
            continue;
        size_t output = event.index, at = n_ids[output]++;
        out->ids[output][at] = event.token;
        out->logprobs[output][at] = event.logprob;
        if (n_top > 0)
            memcpy(out->top[output][at], event.top_logprobs, n_top * sizeof *event.top_logprobs);
    }
    for (size_t i = 0; i < n_outputs; i++)
        assert_int_equal(n_ids[i], GOLDEN_OUTPUT);
    linnet_request_close(request);
}

/* Penalties, biases, logprobs and several samples of a prompt, on the host and the device. */
static void edits_and_logprobs_are_those_of_the_host(void **state) {
    (void)state;
    enum { N = 8 };
    static given all[3][N];
    const linnet_logit_bias biases[] = {{.id = g.greedy[0][0], .bias = -4},
                                        {.id = g.greedy[1][1], .bias = 3},
                                        {.id = g.greedy[0][2], .bias = -INFINITY}};
    for (size_t turn = 0; turn < 3; turn++) { /* the host alone, one by one, all together */
        engine_test_ahead = turn > 0;
        linnet_engine *engine = engine_on(&g, exact_options(128, N * N_OUTPUTS, 0, 2));
        linnet_request *requests[N];
        gate held;
        if (turn == 2)
            gate_hold(&held, engine);
        for (size_t i = 0; i < N; i++) {
            linnet_request_options options = greedy_options(&g, i % GOLDEN_PROMPTS);
            options.sampling = (linnet_sampling){.temperature = i % 4 == 3 ? 0 : 0.7f,
                                                 .top_k = 30,
                                                 .top_p = 0.9f,
                                                 .repeat_penalty = i % 2 ? 1.4f : 1,
                                                 .repeat_last_n = i == 5 ? 3 : 64,
                                                 .frequency_penalty = i > 5 ? 0.5f : 0,
                                                 .presence_penalty = i == 4 ? 0.5f : 0,
                                                 .seed = i};
            options.logit_bias = biases;
            options.n_logit_bias = i % 3;
            options.logprobs = i % 4 > 0;
            options.top_logprobs = i % 4 > 1 ? N_TOP : 0;
            options.n = i == 6 ? N_OUTPUTS : 1;
            options.min_tokens = i == 2 ? 5 : 0;
            requests[i] = submit(engine, &options);
            if (turn < 2)
                take_all(requests[i], i == 6 ? N_OUTPUTS : 1, i % 4 > 1 ? N_TOP : 0, &all[turn][i]);
        }
        if (turn == 2)
            gate_release(&held);
        for (size_t i = 0; turn == 2 && i < N; i++)
            take_all(requests[i], i == 6 ? N_OUTPUTS : 1, i % 4 > 1 ? N_TOP : 0, &all[turn][i]);
        for (size_t i = 0; i < N; i++)
            assert_memory_equal(&all[turn][i], &all[0][i], sizeof all[0][i]);
        if (turn == 1) /* what follows the prompt of several comes from the host */
            assert_int_equal(ahead_of(engine->backend)->n_ahead, N * (GOLDEN_OUTPUT - 1) - 1);
        linnet_engine_destroy(engine);
    }
    engine_test_ahead = true;
}

/* Requests that are closed at any time: the others do not notice. */
static void requests_come_and_go(void **state) {
    (void)state;
    enum { OPEN = 6, TURNS = 400 };
    uint64_t seed = 7;
    linnet_engine_options engine_options = exact_options(128, 4, 16, 2);
    engine_options.kv_tokens = 320;
    linnet_engine *engine = engine_on(&g, engine_options);
    linnet_request *requests[OPEN] = {0};
    for (size_t turn = 0; turn < TURNS; turn++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t i = (size_t)(seed >> 33) % OPEN, prompt = i % GOLDEN_PROMPTS;
        unsigned deed = (unsigned)(seed >> 60);
        linnet_event event;
        if (requests[i] == NULL) {
            linnet_request_options options = greedy_options(&g, prompt);
            options.logprobs = deed == 1;
            options.timeout_ms = deed == 2 ? 1 : 0;
            requests[i] = submit(engine, &options);
        } else if (deed < 4) {
            linnet_request_cancel(requests[i]);
            while (linnet_request_next(requests[i], -1, &event, NULL) == LINNET_OK) {
            }
            linnet_request_close(requests[i]);
            requests[i] = NULL;
        } else if (linnet_request_next(requests[i], -1, &event, NULL) == LINNET_OK &&
                   event.token >= 0) {
            assert_int_equal(event.token, g.greedy[prompt][event.n_output_tokens - 1]);
        } else {
            linnet_request_close(requests[i]);
            requests[i] = NULL;
        }
    }
    for (size_t i = 0; i < OPEN; i++)
        if (requests[i] != NULL)
            linnet_request_close(requests[i]);
    linnet_request_options options = greedy_options(&g, 0);
    expect_golden(submit(engine, &options), 0);
    destroy(engine);
}

static void expect_failure(linnet_engine *engine) {
    linnet_request_options options = greedy_options(&g, 0);
    linnet_request *request = submit(engine, &options);
    linnet_event event;
    do
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    while (event.finish == LINNET_FINISH_NONE);
    assert_int_equal(event.finish, LINNET_FINISH_ERROR);
    assert_non_null(strstr(event.error, "failed"));
    assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_ERR_STATE);
    linnet_request_close(request);
    expect_nothing_left(engine);
}

static void failures_end_requests_once(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&g, exact_options(128, 1, 0, 1));
    ahead_backend *backend = ahead_of(engine->backend);
    linnet_request_options options = greedy_options(&g, 2);
    for (size_t n = 1; n < 5; n++) {
        backend->fails_finish = n;
        expect_failure(engine);
    }
    backend->fails_start = 1;
    expect_failure(engine);
    for (size_t n = 2; n < 5; n++) { /* one ahead: the step is started again when its turn comes */
        backend->fails_start = n;
        expect_golden(submit(engine, &options), 2);
    }
    destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_token_waits_for_the_host),
        cmocka_unit_test(who_ends_leaves_the_step_ahead),
        cmocka_unit_test(rows_of_the_host_and_the_device_mix),
        cmocka_unit_test(draws_are_those_of_the_host),
        cmocka_unit_test(edits_and_logprobs_are_those_of_the_host),
        cmocka_unit_test(requests_come_and_go),
        cmocka_unit_test(failures_end_requests_once),
    };
    engine_test_ahead = true;
    return cmocka_run_group_tests(tests, open_model, close_model);
}
