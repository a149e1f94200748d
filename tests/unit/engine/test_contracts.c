/* engine/: refusals, the life of a request, cancelling, ends, many threads. */
#include "text_test.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/* ---- refusals --------------------------------------------------------------------------- */

static golden shared; /* llama */
static linnet_engine *shared_engine;

static int open_shared(void **state) {
    (void)state;
    golden_open(&shared, "llama");
    shared_engine = engine_on(&shared, exact_options(100, 4, 16, 2));
    return 0;
}
static int close_shared(void **state) {
    (void)state;
    linnet_engine_destroy(shared_engine);
    linnet_model_close(shared.model);
    return 0;
}

static void refuse_request(const linnet_request_options *options, linnet_status status,
                           const char *part) {
    linnet_request *request = (linnet_request *)(void *)&status;
    linnet_error err = {0};
    assert_int_equal(linnet_request_submit(shared_engine, options, &request, &err), status);
    assert_null(request);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void requests_are_refused_by_name(void **state) {
    (void)state;
    const linnet_request_options good = greedy_options(&shared, 0);
    linnet_request_options o = good;
    int32_t ids[101] = {0};
    o.struct_bytes = 0;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "struct_bytes");
    o = good, o.n_prompt_ids = 0;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "no tokens");
    o = good, o.prompt_ids = NULL;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "prompt_ids");
    o = good, o.prompt_ids = ids, o.n_prompt_ids = 100;
    refuse_request(&o, LINNET_ERR_LIMIT, "the prompt has 100 tokens and the context 100");
    o.n_prompt_ids = SIZE_MAX;
    refuse_request(&o, LINNET_ERR_LIMIT, "the context 100");
    o.kind = LINNET_REQUEST_SCORE, o.n_prompt_ids = 101;
    refuse_request(&o, LINNET_ERR_LIMIT, "101");
    o.n_prompt_ids = 100;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "on_logits");
    o = good, o.prompt_ids = ids, o.n_prompt_ids = 3, ids[2] = N_VOCAB;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "prompt_ids[2] is 256");
    ids[2] = -1;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "prompt_ids[2] is -1");
    o = good, o.kind = (linnet_request_kind)9;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "kind is 9");
    o = good, o.reasoning = (linnet_reasoning)3;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "reasoning is 3");
    o = good, o.sampling.top_p = NAN;
    refuse_request(&o, LINNET_ERR_ARGUMENT, "top_p");
    o = good, o.n_stop = 1, o.stop = (const char *const[]){"x"};
    refuse_request(&o, LINNET_ERR_ARGUMENT, "no tokenizer");
}

static void refuse_engine(linnet_engine_options options, linnet_status status, const char *part) {
    linnet_engine *engine;
    linnet_error err = {0};
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    assert_int_equal(linnet_engine_create(shared.model, &options, &engine, &err), status);
    assert_null(engine);
    if (strstr(err.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
    assert_int_equal(linnet_plan_memory(shared.model, &options, &plan, NULL), status);
}

static void engines_are_refused_by_name(void **state) {
    (void)state;
    const linnet_engine_options good = exact_options(64, 2, 16, 1);
    linnet_engine_options o = good;
    o.struct_bytes = sizeof o + 8;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "struct_bytes");
    o = good, o.precision = (linnet_precision)5;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "precision is 5");
    o = good, o.kv_type = (linnet_kv_type)-1;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "kv_type is -1");
    o = good, o.kv_type = (linnet_kv_type)(LINNET_KV_FP8 + 1);
    refuse_engine(o, LINNET_ERR_ARGUMENT, "kv_type is 6");
    o = good, o.backend = "abacus";
    refuse_engine(o, LINNET_ERR_ARGUMENT, "abacus");
    o = good, o.cpu = "6502";
    refuse_engine(o, LINNET_ERR_ARGUMENT, "6502");
    o = good, o.backend = NULL;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "backend");
    o = good, o.max_batch_tokens = 1;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "max_batch_tokens is 1");
    o = good, o.ctx_tokens = SIZE_MAX;
    refuse_engine(o, LINNET_ERR_ARGUMENT, "at most");
    o = good, o.ctx_tokens = INT32_MAX;
    o.max_seqs = o.max_batch_tokens = INT32_MAX;
    refuse_engine(o, LINNET_ERR_LIMIT, "KV cache");
    o = good, o.max_batch_tokens = INT32_MAX; /* terabytes of activations: planned, not had */
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    assert_int_equal(linnet_plan_memory(shared.model, &o, &plan, NULL), LINNET_OK);
    assert_true(plan.total_bytes > (size_t)1 << 40);
}

/* A step holds the prompts of several sequences, however short these are. */
static void steps_are_as_long_as_sequences_can_fill(void **state) {
    (void)state;
    static const size_t expected[][3] = {/* ctx_tokens, max_seqs, max_batch_tokens */
                                         {64, 1, 64},
                                         {64, 3, 192},
                                         {64, 32, 512},
                                         {512, 1, 512},
                                         {16, 1000, 1000}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const linnet_engine_options o = exact_options(expected[i][0], expected[i][1], 0, 1);
        linnet_memory_plan plan = {.struct_bytes = sizeof plan};
        assert_int_equal(linnet_plan_memory(shared.model, &o, &plan, NULL), LINNET_OK);
        assert_int_equal(plan.max_batch_tokens, expected[i][2]);
    }
}

/* ---- the life of a request -------------------------------------------------------------- */

static void stop_ids_stop(void **state) {
    (void)state;
    /* the first prompt's greedy continuation: 7 ids, then the 2 that ends a text */
    linnet_request_options options = greedy_options(&shared, 0);
    assert_int_equal(shared.greedy[0][7], 2);
    options.ignore_eos = false;
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), 7);
    assert_int_equal(finish, LINNET_FINISH_STOP);
    assert_memory_equal(ids, shared.greedy[0], 7 * sizeof *ids);
}

static void lengths_are_kept(void **state) {
    (void)state;
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    linnet_request_options options = greedy_options(&shared, 2);
    options.max_tokens = 1;
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), 1);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    options.max_tokens = 0; /* until the context of 100 is full */
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), 30);
    assert_int_equal(finish, LINNET_FINISH_LENGTH);
    options.max_tokens = SIZE_MAX;
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), 30);
    int32_t full[99];
    for (int32_t i = 0; i < 99; i++)
        full[i] = i;
    options.prompt_ids = full;
    options.n_prompt_ids = 99;
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), 1);
}

static void events_wait_and_poll(void **state) {
    (void)state;
    linnet_request_options options = greedy_options(&shared, 1);
    linnet_request *request = submit(shared_engine, &options);
    struct pollfd fd = {.fd = linnet_request_get_fd(request), .events = POLLIN};
    linnet_event event;
    size_t n_events = 0;
    do {
        assert_int_equal(poll(&fd, 1, 60000), 1);
        assert_int_equal(linnet_request_next(request, 0, &event, NULL), LINNET_OK);
        assert_non_null(event.text);
        assert_int_equal(event.n_prompt_tokens, shared.n_prompts[1]);
        n_events++;
    } while (event.finish == LINNET_FINISH_NONE);
    assert_int_equal(n_events, GOLDEN_OUTPUT + 1);
    assert_int_equal(poll(&fd, 1, 0), 0);
    linnet_request_cancel(request); /* too late, and harmless */
    linnet_request_cancel(request);
    assert_int_equal(poll(&fd, 1, 50), 0);
    linnet_request_close(request);
}

static void cancelling_takes_one_step(void **state) {
    (void)state;
    gate held;
    linnet_engine *engine = engine_on(&shared, exact_options(100, 2, 16, 2));
    linnet_event event;
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    gate_hold(&held, engine);
    linnet_request_options options = greedy_options(&shared, 1);
    linnet_request *running = submit(engine, &options), *waiting = submit(engine, &options);
    linnet_request *other = submit(engine, &options);
    assert_int_equal(linnet_request_next(running, 20, &event, NULL), LINNET_ERR_TIMEOUT);
    linnet_request_cancel(running);
    linnet_request_cancel(waiting);
    gate_release(&held);
    assert_int_equal(receive(running, ids, &finish), 0);
    assert_int_equal(finish, LINNET_FINISH_CANCELLED);
    assert_int_equal(receive(waiting, ids, &finish), 0);
    assert_int_equal(finish, LINNET_FINISH_CANCELLED);
    assert_int_equal(receive(other, ids, &finish), GOLDEN_OUTPUT);
    assert_memory_equal(ids, shared.greedy[1], sizeof shared.greedy[1]);
    linnet_engine_destroy(engine);
}

static void destroying_ends_every_request(void **state) {
    (void)state;
    linnet_engine *engine = engine_on(&shared, exact_options(100, 2, 16, 2));
    linnet_request *requests[6];
    linnet_request_options options = greedy_options(&shared, 1);
    options.max_tokens = 0;
    for (size_t i = 0; i < 6; i++)
        requests[i] = submit(engine, &options);
    linnet_engine_destroy(engine);
    for (size_t i = 0; i < 6; i++) {
        int32_t ids[MAX_IDS];
        linnet_finish finish;
        linnet_request_cancel(requests[i]);
        receive(requests[i], ids, &finish);
        assert_true(finish == LINNET_FINISH_CANCELLED || finish == LINNET_FINISH_LENGTH);
    }
}

static void destroy_is_fine_with_nothing(void **state) {
    (void)state;
    linnet_engine_destroy(NULL);
    linnet_model_close(NULL);
    linnet_request_close(NULL);
    linnet_free(NULL);
    linnet_engine *engine;
    linnet_error err = {0};
    linnet_engine_options options = {.struct_bytes = sizeof(size_t)}; /* all defaults */
    if (linnet_engine_create(shared.model, &options, &engine, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_get_memory(engine, &plan);
    assert_int_equal(plan.ctx_tokens, 512);
    assert_int_equal(plan.max_seqs, 1);
    assert_int_equal(plan.max_batch_tokens, 512);
    linnet_engine_destroy(engine);
}

/* ---- many threads ----------------------------------------------------------------------- */

static void ignore_row(void *user, size_t position, const float *row, size_t n_vocab) {
    size_t *count = user; /* dies with the caller's frame: close must end the calls */
    *count += position < 100 && row[n_vocab - 1] <= INFINITY;
}

static void *make_trouble(void *argument) {
    unsigned seed = *(unsigned *)argument;
    for (int turn = 0; turn < 60; turn++) {
        linnet_request_options options = greedy_options(&shared, (size_t)rand_r(&seed) % 3);
        size_t n_rows = 0;
        options.max_tokens = (size_t)rand_r(&seed) % 40;
        if (rand_r(&seed) % 4 == 0) {
            options.kind = LINNET_REQUEST_SCORE;
            options.on_logits = ignore_row;
            options.user = &n_rows;
        }
        linnet_request *request = NULL;
        linnet_event event = {0};
        if (linnet_request_submit(shared_engine, &options, &request, NULL) != LINNET_OK)
            return argument;
        for (int i = rand_r(&seed) % 50; i > 0 && event.finish == LINNET_FINISH_NONE; i--)
            if (rand_r(&seed) % 16 == 0)
                linnet_request_cancel(request);
            else if (linnet_request_next(request, rand_r(&seed) % 3 - 1, &event, NULL) ==
                     LINNET_ERR_STATE)
                return argument;
        linnet_request_close(request);
    }
    return NULL;
}

static void trouble_leaves_every_block_free(void **state) {
    (void)state;
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_trouble, &seeds[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    linnet_request_options options = greedy_options(&shared, 1);
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    assert_int_equal(receive(submit(shared_engine, &options), ids, &finish), GOLDEN_OUTPUT);
    assert_memory_equal(ids, shared.greedy[1], sizeof shared.greedy[1]);
    /* what was cancelled before ended before, and the engine sleeps */
    const ln_kv_group *group = &shared_engine->cache.groups[0];
    assert_int_equal(ln_block_pool_available(&group->pool), group->pool.n_blocks);
    assert_true(ln_kv_cache_check(&shared_engine->cache));
    assert_true(ln_scheduler_is_idle(&shared_engine->scheduler));
}

static void the_idle_engine_sleeps(void **state) {
    (void)state;
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    long spent_us =
        (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
    assert_in_range(spent_us, 0, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_refused_by_name),
        cmocka_unit_test(engines_are_refused_by_name),
        cmocka_unit_test(steps_are_as_long_as_sequences_can_fill),
        cmocka_unit_test(stop_ids_stop),
        cmocka_unit_test(lengths_are_kept),
        cmocka_unit_test(events_wait_and_poll),
        cmocka_unit_test(cancelling_takes_one_step),
        cmocka_unit_test(destroying_ends_every_request),
        cmocka_unit_test(destroy_is_fine_with_nothing),
        cmocka_unit_test(trouble_leaves_every_block_free),
        cmocka_unit_test(the_idle_engine_sleeps),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}
