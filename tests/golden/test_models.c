/* Every folder of golden/models through the public API, against the reference answers that lie
 * in it: logits of the prompts, and greedy ids. README.md beside this file describes them.
 * usage: golden_models [BACKEND [fast]]; without, the CPU, exact */
#include <dirent.h>
#include <jansson.h>
#include <linnet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"
#include "test_backend.h"

static const char models[] = TEST_SOURCE_DIR "/tests/golden/models";

enum { MAX_MODELS = 256, N_GREEDY = 32 };
static double max_error = 1e-5; /* 1e-4 on other backends */
static const char *backend = "cpu";
static linnet_precision precision = LINNET_PRECISION_EXACT;
/* With keys and values in int8. Whatever is rounded in t5_gated, its logits move ten times as far
 * as those of the others. */
static const double max_q8_error = 5e-2;
/* Of t5_gated, whose scores are not scaled, and deepseek_v3_fp8, where an expert changes. */
static const double max_q8_error_sensitive = 0.25;
static double min_gap = 1e-3; /* below it either of two tokens is right */

typedef struct reference {
    json_t *json;
    ln_file_map rows; /* float32 [sum of logits_rows][n_vocab] */
    linnet_model *model;
    linnet_engine *engine;
    size_t n_vocab;
    bool has_encoder; /* then prompts are what it reads */
    int32_t start_id; /* what its decoder begins with */
} reference;

static void check(linnet_status status, const linnet_error *err) {
    if (status != LINNET_OK)
        fail_msg("%s", err->message);
}

/* Replaces the engine by one with such a cache; all else is exact. */
static void use_kv_type(reference *golden, linnet_kv_type kv_type) {
    linnet_error err = {0};
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.precision = precision;
    options.n_threads = 2;
    options.kv_type = kv_type;
    options.backend = backend;
    linnet_engine_destroy(golden->engine);
    check(linnet_engine_create(golden->model, &options, &golden->engine, &err), &err);
}

static void golden_open(reference *golden, const char *folder) {
    linnet_error err = {0};
    char *path = ln_path_join(folder, "golden.json");
    golden->json = json_load_file(path, 0, NULL);
    assert_non_null(golden->json);
    free(path);
    golden->n_vocab = (size_t)json_integer_value(json_object_get(golden->json, "vocab"));
    golden->has_encoder = json_is_true(json_object_get(golden->json, "encoder_decoder"));
    path = ln_path_join(folder, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    golden->start_id =
        (int32_t)json_integer_value(json_object_get(config, "decoder_start_token_id"));
    json_decref(config);
    free(path);
    path = ln_path_join(folder, "golden.bin");
    check(ln_file_map_open(&golden->rows, path, &err), &err);
    free(path);

    check(linnet_model_open(folder, &golden->model, &err), &err);
    use_kv_type(golden, LINNET_KV_AUTO);
}

static void golden_close(reference *golden) {
    linnet_engine_destroy(golden->engine);
    linnet_model_close(golden->model);
    ln_file_map_close(&golden->rows);
    json_decref(golden->json);
}

/* The ids of prompts[index] or greedy[index]; malloc'd. */
static int32_t *take_ids(const reference *golden, const char *key, size_t index, size_t *count) {
    json_t *list = json_array_get(json_object_get(golden->json, key), index);
    *count = json_array_size(list);
    int32_t *ids = calloc(*count + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* ---- logits ----------------------------------------------------------------------------- */

typedef struct comparison {
    const float *expected; /* [n_rows][n_vocab] */
    size_t n_rows, n_vocab;
    size_t next_row;
    bool is_in_order;
    double difference, norm; /* sums of squares */
} comparison;

static void compare_row(void *user, size_t position, const float *row, size_t n_vocab) {
    comparison *sum = user;
    if (position != sum->next_row || position >= sum->n_rows || n_vocab != sum->n_vocab) {
        sum->is_in_order = false;
        return;
    }
    const float *expected = sum->expected + position * n_vocab;
    for (size_t i = 0; i < n_vocab; i++) {
        double distance = (double)row[i] - (double)expected[i];
        sum->difference += distance * distance;
        sum->norm += (double)expected[i] * (double)expected[i];
    }
    sum->next_row++;
}

/* What the rows of golden.bin belong to: the prompt, or with an encoder the start token and the
 * greedy ids but the last. */
static int32_t *take_scored_ids(const reference *golden, size_t index, size_t *count) {
    if (!golden->has_encoder)
        return take_ids(golden, "prompts", index, count);
    int32_t *ids = take_ids(golden, "greedy", index, count);
    memmove(ids + 1, ids, (*count - 1) * sizeof *ids);
    ids[0] = golden->start_id;
    return ids;
}

/* Adds a prompt's rows to difference and norm. */
static void compare_prompt(const reference *golden, size_t index, comparison *sum) {
    linnet_error err = {0};
    linnet_request_options options;
    linnet_request_options_init(&options);
    options.kind = LINNET_REQUEST_SCORE;
    int32_t *scored = take_scored_ids(golden, index, &options.n_prompt_ids);
    int32_t *source = take_ids(golden, "prompts", index, &options.n_encoder_ids);
    options.prompt_ids = scored;
    options.encoder_ids = source;
    if (!golden->has_encoder)
        options.n_encoder_ids = 0;
    options.on_logits = compare_row;
    options.user = sum;
    linnet_request *request = NULL;
    linnet_event event = {0};
    check(linnet_request_submit(golden->engine, &options, &request, &err), &err);
    while (event.finish == LINNET_FINISH_NONE)
        check(linnet_request_next(request, -1, &event, &err), &err);
    if (event.finish == LINNET_FINISH_ERROR)
        fail_msg("%s", event.error);
    linnet_request_close(request);
    free(scored);
    free(source);
    assert_true(sum->is_in_order);
    assert_int_equal(sum->next_row, sum->n_rows);
}

static double logits_error(const reference *golden) {
    json_t *row_counts = json_object_get(golden->json, "logits_rows");
    comparison sum = {.expected = (const float *)(const void *)golden->rows.data,
                      .n_vocab = golden->n_vocab,
                      .is_in_order = true};
    size_t first_row = 0;
    for (size_t i = 0; i < json_array_size(row_counts); i++) {
        sum.n_rows = (size_t)json_integer_value(json_array_get(row_counts, i));
        sum.next_row = 0;
        compare_prompt(golden, i, &sum);
        sum.expected += sum.n_rows * sum.n_vocab;
        first_row += sum.n_rows;
    }
    assert_int_equal(first_row * golden->n_vocab * sizeof(float), golden->rows.bytes);
    return sqrt(sum.difference / sum.norm);
}

/* ---- greedy ids ------------------------------------------------------------------------- */

static size_t generate(const reference *golden, const int32_t *prompt, size_t n_prompt,
                       int32_t *ids) {
    linnet_error err = {0};
    linnet_request_options options;
    linnet_request_options_init(&options);
    if (golden->has_encoder) { /* the decoder begins with its start token by itself */
        options.encoder_ids = prompt;
        options.n_encoder_ids = n_prompt;
    } else {
        options.prompt_ids = prompt;
        options.n_prompt_ids = n_prompt;
    }
    options.max_tokens = N_GREEDY;
    options.ignore_eos = true;
    options.sampling.temperature = 0;
    linnet_request *request = NULL;
    linnet_event event = {0};
    size_t count = 0;
    check(linnet_request_submit(golden->engine, &options, &request, &err), &err);
    while (event.finish == LINNET_FINISH_NONE) {
        check(linnet_request_next(request, -1, &event, &err), &err);
        if (event.token >= 0 && count < N_GREEDY)
            ids[count++] = event.token;
    }
    assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
    assert_int_equal(event.n_output_tokens, count);
    linnet_request_close(request);
    return count;
}

/* Steps of a prompt that were compared: all of them, or up to the first narrow gap. */
static size_t compare_greedy(const reference *golden, size_t index) {
    json_t *gaps = json_array_get(json_object_get(golden->json, "gaps"), index);
    size_t n_prompt, n_expected;
    int32_t ids[N_GREEDY];
    int32_t *prompt = take_ids(golden, "prompts", index, &n_prompt);
    int32_t *expected = take_ids(golden, "greedy", index, &n_expected);
    assert_int_equal(n_expected, N_GREEDY);
    assert_int_equal(json_array_size(gaps), N_GREEDY);
    assert_int_equal(generate(golden, prompt, n_prompt, ids), N_GREEDY);
    size_t step = 0;
    for (; step < N_GREEDY; step++) {
        if (json_number_value(json_array_get(gaps, step)) < min_gap)
            break;
        if (ids[step] != expected[step])
            fail_msg("prompt %zu, step %zu: id %d instead of %d", index, step, (int)ids[step],
                     (int)expected[step]);
    }
    free(prompt);
    free(expected);
    return step;
}

static void test_model(void **state) {
    const char *name = *state;
    char *folder = ln_path_join(models, name);
    reference golden = {0};
    golden_open(&golden, folder);
    size_t n_steps = 0;
    double error = logits_error(&golden);
    for (size_t i = 0; i < json_array_size(json_object_get(golden.json, "prompts")); i++)
        n_steps += compare_greedy(&golden, i);
    use_kv_type(&golden, LINNET_KV_Q8_0);
    double q8_error = logits_error(&golden);
    printf("%-18s relative error %.2e, %.2e with a q8_0 cache, %zu greedy ids equal\n", name, error,
           q8_error, n_steps);
    assert_true(error <= max_error);
    bool is_sensitive = strcmp(name, "t5_gated") == 0 || strcmp(name, "deepseek_v3_fp8") == 0;
    assert_true(q8_error <= (is_sensitive ? max_q8_error_sensitive : max_q8_error));
    golden_close(&golden);
    free(folder);
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    if (argc > 1) {
        backend = argv[1];
        max_error = 1e-4;
        if (!test_has_backend(backend))
            return TEST_EXIT_SKIPPED;
    }
    if (argc > 2 && strcmp(argv[2], "fast") == 0) {
        precision = LINNET_PRECISION_FAST;
        max_error = 2e-2;
        min_gap = 0.2;
    }
    struct CMUnitTest tests[MAX_MODELS] = {0};
    struct dirent **entries = NULL;
    int n_entries = scandir(models, &entries, is_visible, alphasort);
    if (n_entries <= 0 || n_entries > MAX_MODELS)
        return 1;
    for (int i = 0; i < n_entries; i++)
        tests[i] = (struct CMUnitTest){.name = entries[i]->d_name,
                                       .test_func = test_model,
                                       .initial_state = entries[i]->d_name};
    int status = _cmocka_run_group_tests("models", tests, (size_t)n_entries, NULL, NULL);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return status;
}
