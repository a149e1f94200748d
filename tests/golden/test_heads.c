/* Heads that predict a token more, in folders and in the GGUF files that they become, against the
 * rows of logits that tools/golden/heads.py has written: each folder of golden/models with a
 * heads.json. A backend between engine and CPU looks at the head's steps: the logits of every
 * draft, whose keys and values come from prompts read in chunks, within 1e-5. EAGLE-3 heads of
 * golden/eagle (tools/golden/eagle.py), assistants of golden/assistants
 * (tools/golden/assistants.py) and drafters of blocks of golden/dflash (tools/golden/dflash.py)
 * draft for the models of the same names.
 * usage: golden_heads [BACKEND]; without, the CPU */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/convert.h"
#include "engine/engine.h"
#include "test.h"
#include "test_backend.h"

static const char *backend_name = "cpu";
static const char *head_folder = "models"; /* below tests/golden */
static const char *own_head;               /* the draft model, or NULL */
enum { N_DRAFTS = 3, MAX_POSITIONS = 64 };

/* What is known of one prompt's drafts, and what came of them. */
typedef struct expectation {
    const ln_backend_vtable *real;
    ln_backend_vtable vtable;
    int32_t head_layer;
    size_t n_vocab, n_positions;
    const float *rows; /* [n_positions][n_rows][n_vocab] */
    bool in_blocks;    /* rows are those of a block with one mask, then of one with two, ... */
    size_t n_rows;     /* of a position */
    int32_t positions[MAX_POSITIONS];
    bool is_first;  /* the head has not run since the model's last step */
    int32_t begin;  /* where it was asked first since then, */
    size_t number;  /* and how often before */
    size_t n_freed; /* blocks that it was to read and that were not there */
    size_t n_compared[N_DRAFTS];
    double difference, norm; /* sums of squares */
} expectation;

static expectation now;

/* The row of draft `number` of those that were asked for at position now.begin, where it is number
 * `row_at` of what is known of that. */
static void compare(const float *row, size_t row_at, size_t number) {
    size_t at = 0;
    while (at < now.n_positions && now.positions[at] != now.begin)
        at++;
    if (at == now.n_positions)
        return;
    assert_true(number < N_DRAFTS && row_at < now.n_rows);
    const float *expected = now.rows + (at * now.n_rows + row_at) * now.n_vocab;
    for (size_t i = 0; i < now.n_vocab; i++) {
        double d = (double)row[i] - (double)expected[i];
        now.difference += d * d;
        now.norm += (double)expected[i] * (double)expected[i];
    }
    now.n_compared[number]++;
}

/* What the last linear of the vocabulary has written. */
static float *logits_of(const ln_op *ops, size_t n_ops) {
    size_t i = n_ops;
    while (ops[--i].kind != LN_OP_LINEAR || ops[i].linear.weight->n_rows != now.n_vocab)
        assert_true(i > 0);
    return ops[i].linear.out;
}

/* How many blocks are not there of those that tokens see, as a window leaves some behind. */
static size_t count_freed(const ln_op *op) {
    const ln_op_attention *p = &op->attention;
    const ln_batch *batch = op->batch;
    const ln_batch_group *group = &batch->groups[p->kv->group];
    size_t n = 0, block_tokens = p->kv->block_tokens;
    for (size_t seq = 0; seq < batch->n_seqs; seq++)
        for (int32_t i = batch->seq_starts[seq]; i < batch->seq_starts[seq + 1]; i++) {
            size_t at = (size_t)batch->positions[i];
            size_t begin = p->window > 0 && at >= p->window ? at + 1 - p->window : 0;
            for (size_t block = begin / block_tokens; block <= at / block_tokens; block++)
                n += group->block_tables[seq * group->max_blocks + block] < 0;
        }
    return n;
}

/* All rows of a block, which stands behind what the model has read. */
static void compare_block(const ln_batch *batch, const float *rows) {
    size_t n = batch->n_logits;
    assert_true(batch->n_seqs == 1 && batch->n_tokens == n + 1);
    now.begin = batch->positions[0];
    for (size_t i = 0; i < n; i++)
        compare(rows + i * now.n_vocab, n * (n - 1) / 2 + i, i);
}

static ln_status look(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].kind == LN_OP_ATTENTION)
            now.n_freed += count_freed(&ops[i]);
    LN_TRY(now.real->run(backend, ops, n_ops, err));
    const ln_batch *batch = ops[0].batch;
    if (ops[0].layer != now.head_layer) { /* a step of the model */
        now.is_first = true;
        return LINNET_OK;
    }
    int32_t position = batch->positions[batch->n_tokens - 1];
    if (now.is_first) {
        now.begin = position;
        now.number = 0;
    }
    now.is_first = false;
    void *row;
    size_t bytes = batch->n_logits * now.n_vocab * sizeof(float);
    if (batch->n_logits == 0)
        return LINNET_OK;
    LN_TRY(now.real->read_back(backend, logits_of(ops, n_ops), bytes, &row, err));
    if (now.in_blocks) {
        compare_block(batch, row);
        return LINNET_OK;
    }
    compare(row, now.number, now.number);
    now.number++;
    return LINNET_OK;
}

/* A step of the model, on a backend that starts them. */
static ln_status look_at_start(ln_backend *backend, const ln_op *ops, size_t n_ops, void *memory,
                               size_t bytes, ln_error *err) {
    now.is_first = true;
    return now.real->start(backend, ops, n_ops, memory, bytes, err);
}

static void read_expectation(const reference *golden, const char *name, size_t prompt,
                             const ln_file_map *rows) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s/heads.json", TEST_SOURCE_DIR, head_folder,
             name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    size_t before = 0;
    const json_t *positions = json_object_get(json, "positions");
    for (size_t i = 0; i < prompt; i++)
        before += json_array_size(json_array_get(positions, i));
    const json_t *own = json_array_get(positions, prompt);
    const linnet_model *eagle = golden->engine->plan.draft.head;
    const ln_spec *spec = eagle != NULL ? &eagle->spec : &golden->model->spec;
    bool in_blocks = strcmp(head_folder, "dflash") == 0;
    now = (expectation){.head_layer = (int32_t)spec->n_layers,
                        .in_blocks = in_blocks,
                        .n_rows = in_blocks ? N_DRAFTS * (N_DRAFTS + 1) / 2 : N_DRAFTS,
                        .n_vocab = spec->n_vocab,
                        .n_positions = json_array_size(own),
                        .begin = -1};
    assert_in_range(now.n_positions, 1, MAX_POSITIONS);
    now.rows = (const float *)(const void *)rows->data + before * now.n_rows * now.n_vocab;
    for (size_t i = 0; i < now.n_positions; i++)
        now.positions[i] = (int32_t)json_integer_value(json_array_get(own, i));
    json_decref(json);
}

/* Reads a prompt and goes on from it, with the head beside it; each draft is compared. */
static void run(reference *golden, const char *name, size_t prompt, const ln_file_map *rows,
                size_t max_batch_tokens) {
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.precision = LINNET_PRECISION_EXACT;
    options.backend = backend_name;
    options.n_threads = 1;
    options.ctx_tokens = 256;
    options.max_batch_tokens = max_batch_tokens;
    bool is_named = strcmp(head_folder, "eagle") == 0 || strcmp(head_folder, "dflash") == 0;
    options.draft = is_named ? head_folder : "mtp";
    options.draft_model = own_head;
    options.draft_tokens = N_DRAFTS;
    reference_use(golden, &options);
    read_expectation(golden, name, prompt, rows);
    ln_backend *backend = golden->engine->backend;
    now.real = backend->vtable;
    now.vtable = *backend->vtable;
    now.vtable.run = look;
    if (now.real->start != NULL)
        now.vtable.start = look_at_start;
    backend->vtable = &now.vtable;
    linnet_request_options request;
    linnet_request *open;
    linnet_error err = {0};
    linnet_request_options_init(&request);
    size_t n_ids;
    int32_t *ids = reference_take_ids(golden, "prompts", prompt, &n_ids);
    request.prompt_ids = ids;
    request.n_prompt_ids = n_ids;
    request.max_tokens = now.n_positions + N_DRAFTS + 2;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    /* keys and values of blocks are the same where a prefix is found again */
    for (size_t round = 0; round < (now.in_blocks ? 2 : 1); round++) {
        linnet_event event = {0};
        reference_check(linnet_request_submit(golden->engine, &request, &open, &err), &err);
        while (event.finish == LINNET_FINISH_NONE)
            reference_check(linnet_request_next(open, -1, &event, &err), &err);
        linnet_request_close(open);
    }
    linnet_engine_destroy(golden->engine); /* its thread has ended: what it saw can be read */
    golden->engine = NULL;
    free(ids);
}

static bool has_head(const char *name, ln_file_map *rows) {
    char path[512];
    linnet_error err = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s/heads.bin", TEST_SOURCE_DIR, head_folder,
             name);
    return ln_file_map_open(rows, path, &err) == LINNET_OK;
}

static size_t n_models, n_files;

/* What all prompts give, read in chunks of each size. */
static void check_drafts(reference *golden, const char *name, const ln_file_map *rows) {
    static const size_t chunks[] = {0, 5, 24};
    size_t n_last = 0; /* of third drafts, which few texts get that begin with wrong ones */
    for (size_t prompt = 0; prompt < 3; prompt++)
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            run(golden, name, prompt, rows, chunks[i]);
            double error = sqrt(now.difference / now.norm);
            print_message("%s: prompt %zu: %zu, %zu and %zu rows, error %.2g\n", name, prompt,
                          now.n_compared[0], now.n_compared[1], now.n_compared[2], error);
            n_last += now.n_compared[2];
            assert_int_equal(now.n_freed, 0);
            assert_true(now.n_compared[0] >= now.n_positions / 2);
            assert_true(error <= 1e-5);
        }
    assert_true(n_last >= 3);
}

/* The same from a file that was converted, where the architecture has heads in GGUF. */
static void check_converted(reference *golden, const char *name, const ln_file_map *rows) {
    char path[64];
    ln_error err = {0};
    const ln_quantize_options options = {.n_threads = 1};
    snprintf(path, sizeof path, "/tmp/test_heads.%d.gguf", (int)getpid());
    ln_status status = ln_convert(golden->model->checkpoint, path, false, &options, &err);
    if (status == LINNET_ERR_UNSUPPORTED)
        return;
    reference_check(status, &err);
    linnet_model_close(golden->model);
    reference_check(linnet_model_open(path, &golden->model, &err), &err);
    if (golden->model->spec.mtp != NULL) {
        n_files++;
        check_drafts(golden, name, rows);
    }
    remove(path);
}

static void test_model(void **state) {
    const char *name = *state;
    reference golden;
    ln_file_map rows;
    if (!has_head(name, &rows))
        return;
    n_models++;
    reference_open(&golden, name);
    check_drafts(&golden, name, &rows);
    check_converted(&golden, name, &rows);
    reference_close(&golden);
    ln_file_map_close(&rows);
}

/* The same from the head's GGUF file, which is there, or is converted where the architecture can be
 * written. */
static void check_head_file(reference *golden, const char *name, const ln_file_map *rows) {
    char path[512];
    linnet_model *head;
    ln_error err = {0};
    const ln_quantize_options options = {.n_threads = 1};
    snprintf(path, sizeof path, "%s/head.gguf", own_head);
    if (access(path, F_OK) == 0) {
        n_files++;
        own_head = path;
        check_drafts(golden, name, rows);
        own_head = NULL;
        return;
    }
    reference_check(linnet_model_open(own_head, &head, &err), &err);
    snprintf(path, sizeof path, "/tmp/test_heads.%d.gguf", (int)getpid());
    ln_status status = ln_convert(head->checkpoint, path, false, &options, &err);
    linnet_model_close(head);
    if (status == LINNET_ERR_UNSUPPORTED)
        return;
    reference_check(status, &err);
    n_files++;
    own_head = path;
    check_drafts(golden, name, rows);
    own_head = NULL;
    remove(path);
}

/* Heads of another folder than the model's. */
static void check_folder(const char *folder, const char *const *names, size_t n) {
    head_folder = folder;
    n_files = 0;
    for (size_t i = 0; i < n; i++) {
        char path[512];
        reference golden;
        ln_file_map rows;
        snprintf(path, sizeof path, "%s/tests/golden/%s/%s", TEST_SOURCE_DIR, folder, names[i]);
        own_head = path;
        assert_true(has_head(names[i], &rows));
        reference_open(&golden, names[i]);
        check_drafts(&golden, names[i], &rows);
        check_head_file(&golden, names[i], &rows);
        reference_close(&golden);
        ln_file_map_close(&rows);
    }
}

static void test_eagle(void **state) {
    static const char *const names[] = {"gemma3", "qwen3", "qwen3_5", "llama"};
    (void)state;
    check_folder("eagle", names, sizeof names / sizeof *names);
    assert_int_equal(n_files, 1);
}

static void test_assistants(void **state) {
    static const char *const names[] = {"gemma4", "gemma4_shared"};
    (void)state;
    check_folder("assistants", names, sizeof names / sizeof *names);
    assert_int_equal(n_files, sizeof names / sizeof *names);
}

static void test_dflash(void **state) {
    static const char *const names[] = {"muse_glimmer", "qwen3", "gemma3", "qwen3_5", "llama"};
    (void)state;
    check_folder("dflash", names, sizeof names / sizeof *names);
    assert_true(n_files >= 3);
}

int main(int argc, char **argv) {
    if (argc > 1)
        backend_name = argv[1];
    if (!test_has_backend(backend_name))
        return TEST_EXIT_SKIPPED;
    int failed = reference_run_all(test_model);
    assert_true(n_models >= 5 && n_files >= 2);
    const struct CMUnitTest of_folders[] = {cmocka_unit_test(test_eagle),
                                            cmocka_unit_test(test_assistants),
                                            cmocka_unit_test(test_dflash)};
    return failed + cmocka_run_group_tests(of_folders, NULL, NULL);
}
