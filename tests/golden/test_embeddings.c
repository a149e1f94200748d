/* Every folder of golden/embeddings through the public API: vectors of texts by each pooling, and
 * logits of classes, against what the Hugging Face implementation gives; and with the same bits
 * whatever shares their steps. README.md beside this file describes the folders.
 * usage: golden_embeddings [BACKEND [PATTERN]]; without, the CPU. A pattern of names of folders has
 * * for any part. */
#include <dirent.h>
#include <jansson.h>
#include <linnet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "test.h"
#include "test_backend.h"

enum { MAX_MODELS = 64, MAX_VECTORS = 16, MAX_DIM = 64, MAX_IDS = 160 };

static const char *backend = "cpu";
static const char folder[] = TEST_SOURCE_DIR "/tests/golden/embeddings";

/* A vector that is asked for. */
typedef struct wanted {
    int32_t ids[MAX_IDS];
    size_t n_ids, n_first, n;
    linnet_pooling pooling; /* DEFAULT: the classes */
    const float *expected;
    float got[MAX_DIM];
} wanted;

typedef struct golden {
    linnet_model *model;
    json_t *json;
    ln_file_map rows;
    wanted vectors[MAX_VECTORS];
    size_t n_vectors;
    bool is_whole; /* vectors are what the checkpoint's files say */
} golden;

static void check(linnet_status status, const linnet_error *err) {
    if (status != LINNET_OK)
        fail_msg("%s", err->message);
}

static void read_ids(const json_t *list, wanted *w) {
    w->n_ids = json_array_size(list);
    assert_true(w->n_ids <= MAX_IDS);
    for (size_t i = 0; i < w->n_ids; i++)
        w->ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
}

static void open_golden(golden *g, const char *name) {
    linnet_error err = {0};
    char *path = ln_path_join(folder, name), *file = ln_path_join(path, "golden.json");
    *g = (golden){0};
    g->json = json_load_file(file, 0, NULL);
    assert_non_null(g->json);
    free(file);
    file = ln_path_join(path, "golden.bin");
    check(ln_file_map_open(&g->rows, file, &err), &err);
    free(file);
    file = ln_path_join(path, "model.gguf");
    check(linnet_model_open(ln_file_exists(file) ? file : path, &g->model, &err), &err);
    free(file);
    free(path);
    const float *at = (const float *)(const void *)g->rows.data;
    const json_t *prompts = json_object_get(g->json, "prompts");
    const json_t *firsts = json_object_get(g->json, "first");
    size_t dim = (size_t)json_integer_value(json_object_get(g->json, "dim"));
    g->is_whole = json_is_true(json_object_get(g->json, "whole"));
    size_t n_labels = (size_t)json_integer_value(json_object_get(g->json, "labels"));
    int last = LINNET_POOLING_LAST + (n_labels > 0);
    for (size_t i = 0; i < json_array_size(prompts); i++)
        for (int pooling = LINNET_POOLING_CLS; pooling <= (g->is_whole ? 1 : last); pooling++) {
            assert_true(g->n_vectors < MAX_VECTORS);
            wanted *w = &g->vectors[g->n_vectors++];
            bool is_classes = pooling > LINNET_POOLING_LAST;
            w->pooling = is_classes ? LINNET_POOLING_DEFAULT : (linnet_pooling)pooling;
            w->n = is_classes ? n_labels : dim;
            read_ids(json_array_get(prompts, i), w);
            w->n_first = (size_t)json_integer_value(json_array_get(firsts, i));
            w->expected = at;
            at += w->n;
        }
    assert_ptr_equal(at, g->rows.data + g->rows.bytes);
}

static void close_golden(golden *g) {
    linnet_model_close(g->model);
    ln_file_map_close(&g->rows);
    json_decref(g->json);
}

static linnet_request *submit(linnet_engine *engine, const golden *g, const wanted *w) {
    linnet_request_options options;
    linnet_request *request;
    linnet_error err = {0};
    linnet_request_options_init(&options);
    options.kind = LINNET_REQUEST_EMBED;
    options.prompt_ids = w->ids;
    options.n_prompt_ids = w->n_ids;
    options.n_first_ids = w->n_first;
    options.pooling = w->pooling;
    options.head = w->pooling == LINNET_POOLING_DEFAULT ? LINNET_HEAD_CLASSES : LINNET_HEAD_NONE;
    options.normalization = LINNET_NORMALIZATION_OFF;
    if (g->is_whole) {
        options.pooling = LINNET_POOLING_DEFAULT;
        options.head = LINNET_HEAD_DEFAULT;
        options.normalization = LINNET_NORMALIZATION_DEFAULT;
    }
    check(linnet_request_submit(engine, &options, &request, &err), &err);
    return request;
}

static void take(linnet_request *request, const wanted *w, float got[MAX_DIM]) {
    linnet_event event;
    linnet_error err = {0};
    check(linnet_request_next(request, 30000, &event, &err), &err);
    assert_int_equal(event.finish, LINNET_FINISH_STOP);
    assert_int_equal(event.n_embedding, w->n);
    memcpy(got, event.embedding, w->n * sizeof *got);
    linnet_request_close(request);
}

static linnet_engine *create(const golden *g, linnet_precision precision, size_t max_seqs,
                             size_t max_tokens, size_t n_threads) {
    linnet_engine_options options;
    linnet_engine *engine;
    linnet_error err = {0};
    linnet_engine_options_init(&options);
    options.backend = backend;
    options.precision = precision;
    options.max_seqs = max_seqs;
    options.max_batch_tokens = max_tokens;
    options.n_threads = n_threads;
    check(linnet_engine_create(g->model, &options, &engine, &err), &err);
    return engine;
}

/* The largest error of all vectors, one request after another. */
static double error_alone(golden *g, linnet_precision precision) {
    linnet_engine *engine = create(g, precision, 1, 0, 1);
    double error = 0;
    for (size_t i = 0; i < g->n_vectors; i++) {
        wanted *w = &g->vectors[i];
        take(submit(engine, g, w), w, w->got);
        for (size_t j = 0; j < w->n; j++)
            error = fmax(error, fabs((double)w->got[j] - (double)w->expected[j]));
    }
    linnet_engine_destroy(engine);
    return error;
}

static bool is_causal(const linnet_model_info *info) {
    static const char *const causal[] = {"llama", "mistral", "qwen2", "qwen3"};
    for (size_t i = 0; i < sizeof causal / sizeof *causal; i++)
        if (strcmp(info->architecture, causal[i]) == 0)
            return true;
    return false;
}

/* All at once, in steps that hold several or, where a model allows it, parts of them: the bits are
 * those that they had alone. */
static void compare_together(golden *g, linnet_precision precision) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    const size_t chunk = 32; /* tokens of a step, where a text may be cut */
    linnet_request *requests[MAX_VECTORS];
    float got[MAX_DIM];
    linnet_model_get_info(g->model, &info);
    linnet_engine *engine = create(g, precision, 6, is_causal(&info) ? chunk : 0, 2);
    for (size_t i = 0; i < g->n_vectors; i++)
        requests[i] = submit(engine, g, &g->vectors[i]);
    for (size_t i = 0; i < g->n_vectors; i++) {
        take(requests[i], &g->vectors[i], got);
        assert_memory_equal(got, g->vectors[i].got, g->vectors[i].n * sizeof *got);
    }
    linnet_engine_destroy(engine);
}

static void run(void **state) {
    golden g;
    const char *name = *state;
    open_golden(&g, name);
    double fast = error_alone(&g, LINNET_PRECISION_FAST);
    compare_together(&g, LINNET_PRECISION_FAST);
    double exact = error_alone(&g, LINNET_PRECISION_EXACT);
    compare_together(&g, LINNET_PRECISION_EXACT);
    print_message("%s: exact %.1e, fast %.1e\n", name, exact, fast);
    assert_true(exact < 1e-5);
    assert_true(fast < 0.2);
    close_golden(&g);
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[MAX_MODELS];
    static char names[MAX_MODELS][64];
    struct dirent **entries;
    size_t n = 0;
    if (argc > 1)
        backend = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    if (!test_has_backend(backend))
        return TEST_EXIT_SKIPPED;
    int n_entries = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n_entries; i++) {
        if (entries[i]->d_name[0] != '.' && n < MAX_MODELS) {
            snprintf(names[n], sizeof names[n], "%.63s", entries[i]->d_name);
            tests[n] = (struct CMUnitTest){.name = names[n], .test_func = run};
            tests[n].initial_state = names[n];
            n++;
        }
        free(entries[i]);
    }
    free(entries);
    if (n == 0)
        return 1;
    return _cmocka_run_group_tests("embeddings", tests, n, NULL, NULL);
}
