#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static const char models[] = TEST_SOURCE_DIR "/tests/golden/models";

enum { MAX_MODELS = 320 };

void reference_check(linnet_status status, const linnet_error *err) {
    if (status != LINNET_OK)
        fail_msg("%s", err->message);
}

void reference_open(reference *golden, const char *name) {
    linnet_error err = {0};
    char *folder = ln_path_join(models, name);
    *golden = (reference){0};
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
    reference_check(ln_file_map_open(&golden->rows, path, &err), &err);
    free(path);

    path = ln_path_join(folder, "model.gguf");
    reference_check(linnet_model_open(ln_file_exists(path) ? path : folder, &golden->model, &err),
                    &err);
    free(path);
    free(folder);
}

void reference_close(reference *golden) {
    linnet_engine_destroy(golden->engine);
    linnet_model_close(golden->model);
    ln_file_map_close(&golden->rows);
    json_decref(golden->json);
}

void reference_use(reference *golden, const linnet_engine_options *options) {
    linnet_error err = {0};
    linnet_engine_destroy(golden->engine);
    golden->engine = NULL;
    reference_check(linnet_engine_create(golden->model, options, &golden->engine, &err), &err);
}

int32_t *reference_take_ids(const reference *golden, const char *key, size_t index, size_t *count) {
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

bool reference_is_suppressed(float logit) {
    return logit < -1e30F;
}

static void compare_row(void *user, size_t position, const float *row, size_t n_vocab) {
    comparison *sum = user;
    if (position != sum->next_row || position >= sum->n_rows || n_vocab != sum->n_vocab) {
        sum->is_in_order = false;
        return;
    }
    const float *expected = sum->expected + position * n_vocab;
    for (size_t i = 0; i < n_vocab; i++) {
        if (reference_is_suppressed(expected[i])) {
            sum->is_in_order &= reference_is_suppressed(row[i]);
            continue;
        }
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
        return reference_take_ids(golden, "prompts", index, count);
    int32_t *ids = reference_take_ids(golden, "greedy", index, count);
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
    int32_t *source = reference_take_ids(golden, "prompts", index, &options.n_encoder_ids);
    options.prompt_ids = scored;
    options.encoder_ids = source;
    if (!golden->has_encoder)
        options.n_encoder_ids = 0;
    options.on_logits = compare_row;
    options.user = sum;
    linnet_request *request = NULL;
    linnet_event event = {0};
    reference_check(linnet_request_submit(golden->engine, &options, &request, &err), &err);
    while (event.finish == LINNET_FINISH_NONE)
        reference_check(linnet_request_next(request, -1, &event, &err), &err);
    if (event.finish == LINNET_FINISH_ERROR)
        fail_msg("%s", event.error);
    linnet_request_close(request);
    free(scored);
    free(source);
    assert_true(sum->is_in_order);
    assert_int_equal(sum->next_row, sum->n_rows);
}

double reference_logits_error(const reference *golden) {
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

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int reference_run_all(void (*test)(void **state)) {
    struct CMUnitTest tests[MAX_MODELS] = {0};
    struct dirent **entries = NULL;
    int n_entries = scandir(models, &entries, is_visible, alphasort);
    if (n_entries <= 0 || n_entries > MAX_MODELS)
        return 1;
    for (int i = 0; i < n_entries; i++)
        tests[i] = (struct CMUnitTest){
            .name = entries[i]->d_name, .test_func = test, .initial_state = entries[i]->d_name};
    int status = _cmocka_run_group_tests("models", tests, (size_t)n_entries, NULL, NULL);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return status;
}
