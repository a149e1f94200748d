/* What tests of the engine share: golden checkpoints, engines on them, requests run to their end.
 * A checkpoint of tests/golden has no tokenizer and 3 prompts with 32 greedy ids each. */
#ifndef LN_TESTS_UNIT_ENGINE_ENGINE_TEST_H
#define LN_TESTS_UNIT_ENGINE_ENGINE_TEST_H

#include "ahead.h"
#include "gate.h"
#include "test.h"
#include "test_backend.h"

#include <jansson.h>
#include <linnet.h>
#include <stdlib.h>
#include <string.h>

enum { GOLDEN_PROMPTS = 3, GOLDEN_OUTPUT = 32, MAX_IDS = 256, N_VOCAB = 256 };

/* What exact_options names: the program's argument, when it has one. */
static const char *engine_test_backend = "cpu";
static bool engine_test_ahead; /* "ahead": a CPU that starts steps behind one another */

/* Takes the program's arguments; false when the backend that they name is not there. */
static inline bool engine_test_begin(int argc, char **argv) {
    if (argc > 1)
        engine_test_backend = argv[1];
    engine_test_ahead = strcmp(engine_test_backend, "ahead") == 0;
    if (engine_test_ahead)
        engine_test_backend = "cpu";
    return test_has_backend(engine_test_backend);
}

typedef struct golden {
    linnet_model *model;
    int32_t prompts[GOLDEN_PROMPTS][MAX_IDS];
    size_t n_prompts[GOLDEN_PROMPTS];
    int32_t greedy[GOLDEN_PROMPTS][GOLDEN_OUTPUT];
} golden;

static inline size_t read_ids(json_t *list, int32_t *ids) {
    size_t index;
    json_t *id;
    json_array_foreach(list, index, id) ids[index] = (int32_t)json_integer_value(id);
    return json_array_size(list);
}

static inline void golden_open(golden *g, const char *name) {
    char path[1024];
    linnet_error err = {0};
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", TEST_SOURCE_DIR, name);
    if (linnet_model_open(path, &g->model, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    strcat(path, "/golden.json");
    json_t *file = json_load_file(path, 0, NULL);
    assert_non_null(file);
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        g->n_prompts[i] =
            read_ids(json_array_get(json_object_get(file, "prompts"), i), g->prompts[i]);
        read_ids(json_array_get(json_object_get(file, "greedy"), i), g->greedy[i]);
    }
    json_decref(file);
}

/* `name` and `variant` are for the message. */
static inline void expect_golden_ids(const golden *g, int32_t (*ids)[MAX_IDS], const char *name,
                                     size_t variant) {
    for (size_t p = 0; p < GOLDEN_PROMPTS; p++)
        for (size_t k = 0; k < GOLDEN_OUTPUT; k++)
            if (ids[p][k] != g->greedy[p][k])
                fail_msg("%s, %zu, prompt %zu: id %zu is %d, not %d", name, variant, p, k,
                         (int)ids[p][k], (int)g->greedy[p][k]);
}

static inline linnet_engine_options exact_options(size_t ctx, size_t seqs, size_t batch,
                                                  size_t threads) {
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.backend = engine_test_backend;
    options.precision = LINNET_PRECISION_EXACT;
    options.ctx_tokens = ctx;
    options.max_seqs = seqs;
    options.max_batch_tokens = batch;
    options.n_threads = threads;
    return options;
}

static inline linnet_engine *engine_on(const golden *g, linnet_engine_options options) {
    linnet_engine *engine;
    linnet_error err = {0};
    if (linnet_engine_create(g->model, &options, &engine, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    if (engine_test_ahead)
        ahead_play(engine);
    return engine;
}

static inline linnet_engine_stats stats_of(linnet_engine *engine) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    return stats;
}

/* Greedy, without stop ids. */
static inline linnet_request_options greedy_options(const golden *g, size_t prompt) {
    linnet_request_options options;
    linnet_request_options_init(&options);
    options.prompt_ids = g->prompts[prompt];
    options.n_prompt_ids = g->n_prompts[prompt];
    options.max_tokens = GOLDEN_OUTPUT;
    options.ignore_eos = true;
    options.sampling.temperature = 0;
    return options;
}

static inline linnet_request *submit(linnet_engine *engine, const linnet_request_options *options) {
    linnet_request *request;
    linnet_error err = {0};
    if (linnet_request_submit(engine, options, &request, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return request;
}

/* Receives to the end and closes; returns the number of ids written to ids[MAX_IDS]. */
static inline size_t receive(linnet_request *request, int32_t *ids, linnet_finish *finish) {
    size_t n_ids = 0;
    linnet_event event;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        if (event.token >= 0)
            ids[n_ids++] = event.token;
        assert_int_equal(event.n_output_tokens, n_ids);
        assert_true((event.finish == LINNET_FINISH_NONE) == (event.token >= 0));
    } while (event.finish == LINNET_FINISH_NONE);
    assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_ERR_STATE);
    linnet_request_close(request);
    *finish = event.finish;
    return n_ids;
}

/* A request that scores a golden prompt with an adapter, or NULL; on_logits gets its rows. */
static inline linnet_request *
submit_score(linnet_engine *engine, const golden *g, size_t prompt, const char *adapter,
             void (*on_logits)(void *user, size_t position, const float *row, size_t n_vocab),
             void *user) {
    linnet_request_options options = greedy_options(g, prompt);
    options.kind = LINNET_REQUEST_SCORE;
    options.on_logits = on_logits;
    options.user = user;
    options.adapter = adapter;
    return submit(engine, &options);
}

/* Receives the end of such a request and closes it. */
static inline void finish_score(linnet_request *request) {
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    receive(request, ids, &finish);
    assert_int_equal(finish, LINNET_FINISH_STOP);
}

/* The plan is what the engine then has. Greedy ids of all of a golden model's prompts at once, and
 * what the engine counted. */
static inline linnet_engine_stats answer_as_planned(const golden *g, linnet_engine_options options,
                                                    int32_t ids[][MAX_IDS]) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan}, memory = {.struct_bytes = sizeof plan};
    linnet_error err = {0};
    if (linnet_plan_memory(g->model, &options, &plan, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    linnet_engine *engine = engine_on(g, options);
    linnet_engine_get_memory(engine, &memory);
    assert_memory_equal(&plan, &memory, sizeof plan);
    linnet_request *requests[GOLDEN_PROMPTS];
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        linnet_request_options request = greedy_options(g, i);
        requests[i] = submit(engine, &request);
    }
    for (size_t i = 0; i < GOLDEN_PROMPTS; i++) {
        linnet_finish finish;
        assert_int_equal(receive(requests[i], ids[i], &finish), GOLDEN_OUTPUT);
        assert_int_equal(finish, LINNET_FINISH_LENGTH);
    }
    linnet_engine_stats stats = stats_of(engine);
    linnet_engine_destroy(engine);
    return stats;
}

/* Planning a golden model ends with the status, and an error that holds the text. */
static inline void refuse_plan(const char *name, linnet_engine_options options,
                               linnet_status status, const char *text) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_error err = {0};
    golden g;
    golden_open(&g, name);
    assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), status);
    if (strstr(err.message, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, err.message);
    linnet_model_close(g.model);
}

#endif
