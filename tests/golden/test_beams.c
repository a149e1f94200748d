/* Beam search gives the beams and scores of the Hugging Face implementation, alone and in company,
 * in chunks, and when it has to give way. */
#include "gate.h"
#include "test.h"

#include <jansson.h>
#include <linnet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IDS = 256, MAX_BEAMS = 8, MAX_BAD_WORDS = 4 };

static size_t read_ids(const json_t *list, int32_t *ids) {
    size_t index;
    json_t *id;
    json_array_foreach(list, index, id) ids[index] = (int32_t)json_integer_value(id);
    return json_array_size(list);
}

static json_t *load(const char *model, const char *file) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/models/%s/%s", TEST_SOURCE_DIR, model, file);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    return json;
}

typedef struct search {
    const json_t *expected;
    linnet_request *request;
} search;

static linnet_request *submit(linnet_engine *engine, const json_t *prompt, bool has_encoder,
                              size_t width, size_t max_tokens, const json_t *expected) {
    int32_t ids[MAX_IDS], stop_ids[MAX_IDS];
    linnet_request_options options;
    linnet_request_options_init(&options);
    size_t n_ids = read_ids(prompt, ids);
    if (has_encoder) {
        options.encoder_ids = ids;
        options.n_encoder_ids = n_ids;
    } else {
        options.prompt_ids = ids;
        options.n_prompt_ids = n_ids;
    }
    options.n = options.beam_width = (uint32_t)width;
    options.length_penalty = (float)json_real_value(json_object_get(expected, "length_penalty"));
    options.max_tokens = max_tokens;
    const json_t *early = json_object_get(expected, "early_stopping");
    if (!json_is_false(early))
        options.early_stopping =
            json_is_true(early) ? LINNET_EARLY_STOPPING_ON : LINNET_EARLY_STOPPING_NEVER;
    options.ignore_eos = true;
    options.stop_ids = stop_ids;
    options.n_stop_ids = read_ids(json_object_get(expected, "stop_ids"), stop_ids);
    int32_t bad_ids[MAX_BAD_WORDS][MAX_IDS];
    linnet_token_list bad_words[MAX_BAD_WORDS];
    const json_t *words = json_object_get(expected, "bad_words");
    options.n_bad_words = json_array_size(words);
    assert_in_range(options.n_bad_words, 0, MAX_BAD_WORDS);
    options.bad_words = bad_words;
    for (size_t i = 0; i < options.n_bad_words; i++)
        bad_words[i] =
            (linnet_token_list){bad_ids[i], read_ids(json_array_get(words, i), bad_ids[i])};
    if (json_object_get(expected, "repeat_penalty") != NULL)
        options.sampling.repeat_penalty =
            (float)json_real_value(json_object_get(expected, "repeat_penalty"));
    options.sampling.repeat_last_n = MAX_IDS;
    linnet_request *request;
    linnet_error err = {0};
    if (linnet_request_submit(engine, &options, &request, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return request;
}

/* Receives and compares; a stop id, which is no event, is the last of an expected beam. */
static void check(linnet_request *request, const json_t *expected, size_t width) {
    int32_t ids[MAX_BEAMS][MAX_IDS], beam[MAX_IDS];
    size_t n_ids[MAX_BEAMS] = {0};
    float scores[MAX_BEAMS];
    linnet_finish finish[MAX_BEAMS];
    linnet_event event;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        assert_true(event.index < width);
        if (event.finish == LINNET_FINISH_NONE) {
            ids[event.index][n_ids[event.index]++] = event.token;
        } else {
            scores[event.index] = event.score;
            finish[event.index] = event.finish;
        }
    } while (event.n_open > 0);
    linnet_request_close(request);
    for (size_t i = 0; i < width; i++) {
        size_t n = read_ids(json_array_get(json_object_get(expected, "beams"), i), beam);
        double score = json_real_value(json_array_get(json_object_get(expected, "scores"), i));
        assert_int_equal(n_ids[i] + (finish[i] == LINNET_FINISH_STOP), n);
        assert_memory_equal(ids[i], beam, n_ids[i] * sizeof *beam);
        assert_true(fabs((double)scores[i] - score) < 2e-4 * (1 + fabs(score)));
    }
}

/* All searches, one after another or together. */
static void search_all(const linnet_model *model, bool has_encoder, const json_t *golden,
                       const json_t *beams, const linnet_engine_options *options, bool together) {
    const json_t *searches = json_object_get(beams, "searches");
    size_t width = (size_t)json_integer_value(json_object_get(beams, "width")), index, n = 0;
    size_t max_tokens = (size_t)json_integer_value(json_object_get(beams, "max_tokens"));
    search all[64];
    linnet_engine *engine;
    linnet_error err = {0};
    if (linnet_engine_create(model, options, &engine, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    gate held;
    if (together && !has_encoder)
        gate_hold(&held, engine);
    json_t *expected;
    json_array_foreach(searches, index, expected) {
        size_t prompt = (size_t)json_integer_value(json_object_get(expected, "prompt"));
        all[n] = (search){expected,
                          submit(engine, json_array_get(json_object_get(golden, "prompts"), prompt),
                                 has_encoder, width, max_tokens, expected)};
        if (together)
            n++;
        else
            check(all[n].request, expected, width);
    }
    if (together && !has_encoder)
        gate_release(&held);
    for (size_t i = 0; i < n; i++)
        check(all[i].request, all[i].expected, width);
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_kv_used + stats.n_swap_used, 0);
    if (options->kv_tokens > 0)
        assert_true(stats.n_swap_preemptions + stats.n_recompute_preemptions > 0);
    linnet_engine_destroy(engine);
}

static void check_model(const char *name, bool has_encoder) {
    char path[1024];
    linnet_model *model;
    linnet_error err = {0};
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", TEST_SOURCE_DIR, name);
    if (linnet_model_open(path, &model, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    json_t *golden = load(name, "golden.json"), *beams = load(name, "beams.json");
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.precision = LINNET_PRECISION_EXACT;
    options.ctx_tokens = 160;
    options.max_seqs = 4;
    options.max_batch_tokens = 128;
    options.n_threads = 1;
    search_all(model, has_encoder, golden, beams, &options, false);
    options.max_seqs = 14;
    options.max_batch_tokens = has_encoder ? 128 : 19;
    search_all(model, has_encoder, golden, beams, &options, true);
    if (!has_encoder) { /* not enough for three searches */
        options.kv_tokens = 320;
        search_all(model, has_encoder, golden, beams, &options, true);
        options.swap_bytes = 400000;
        options.preemption = LINNET_PREEMPTION_SWAP;
        search_all(model, has_encoder, golden, beams, &options, true);
    }
    json_decref(golden);
    json_decref(beams);
    linnet_model_close(model);
}

static void llama(void **state) {
    (void)state;
    check_model("llama", false);
}
static void qwen3(void **state) {
    (void)state;
    check_model("qwen3", false);
}
static void t5(void **state) {
    (void)state;
    check_model("t5", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(qwen3),
        cmocka_unit_test(t5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
