/* docs/features.md: every pair of its table works together, or is refused by the names of both. */
#include "made_adapter.h"
#include "text_test.h"

#include "model/model.h"

enum { MAX_FEATURES = 32, LENGTH = 10, AT_ONCE = 3 };

typedef struct table {
    char names[MAX_FEATURES][32];
    size_t n_names;
    char cells[MAX_FEATURES][MAX_FEATURES][8]; /* of two features, the first of them first */
} table;

/* The next cell of a row of Markdown, without the spaces around it; NULL: there is none. */
static char *next_cell(char **row) {
    char *cell = strsep(row, "|");
    if (cell == NULL || *row == NULL)
        return NULL;
    cell += strspn(cell, " ");
    for (size_t end = strlen(cell); end > 0 && cell[end - 1] == ' '; end--)
        cell[end - 1] = '\0';
    return cell;
}

static void read_table(table *t) {
    char line[2048], *cell;
    size_t n_rows = 0;
    FILE *file = fopen(TEST_SOURCE_DIR "/docs/features.md", "r");
    assert_non_null(file);
    t->n_names = 1; /* the first has no column */
    while (fgets(line, sizeof line, file) != NULL) {
        char *row = line;
        if (line[0] != '|' || strncmp(line, "|---", 4) == 0)
            continue;
        next_cell(&row);
        cell = next_cell(&row);
        if (*cell == '\0') { /* the head */
            while ((cell = next_cell(&row)) != NULL)
                strcpy(t->names[t->n_names++], cell);
            continue;
        }
        strcpy(t->names[n_rows], cell);
        for (size_t column = 1; (cell = next_cell(&row)) != NULL; column++)
            strcpy(t->cells[n_rows][column], cell);
        n_rows++;
    }
    fclose(file);
    assert_int_equal(n_rows + 1, t->n_names);
    assert_in_range(n_rows, 10, MAX_FEATURES - 1);
}

/* What a pair asks for. */
typedef struct setup {
    const char *model;
    linnet_engine_options engine;
    linnet_request_options request;
    bool has_encoder;
} setup;

static const linnet_logit_bias bias = {.id = FIRST_BYTE_ID + 'a', .bias = 2};
static const char *const stops[] = {"never said", "\n\n"};
static const char printable[] = "[ -~]{40}";

static void apply(setup *s, const char *name) {
    linnet_request_options *o = &s->request;
    if (strcmp(name, "n") == 0)
        o->n = 2;
    else if (strcmp(name, "best_of") == 0)
        o->best_of = 3;
    else if (strcmp(name, "beams") == 0)
        o->beam_width = 3;
    else if (strcmp(name, "chunks") == 0)
        s->engine.max_batch_tokens = 9;
    else if (strcmp(name, "prefix cache") == 0)
        s->engine.prefix_cache = true;
    else if (strcmp(name, "preemption") == 0)
        s->engine.kv_tokens = 288;
    else if (strcmp(name, "window") == 0)
        s->model = "mistral";
    else if (strcmp(name, "encoder") == 0)
        s->has_encoder = true;
    else if (strcmp(name, "logprobs") == 0)
        o->logprobs = true;
    else if (strcmp(name, "prompt_logprobs") == 0)
        o->prompt_logprobs = true;
    else if (strcmp(name, "penalties") == 0)
        o->sampling.repeat_penalty = 1.3f;
    else if (strcmp(name, "rules") == 0)
        o->logit_bias = &bias, o->n_logit_bias = 1, o->min_tokens = 2;
    else if (strcmp(name, "stop strings") == 0)
        o->stop = stops, o->n_stop = 2;
    else if (strcmp(name, "grammar") == 0)
        o->grammar_kind = LINNET_GRAMMAR_REGEX, o->grammar = printable,
        o->grammar_bytes = strlen(printable);
    else if (strcmp(name, "deadline") == 0)
        o->timeout_ms = 600000;
    else if (strcmp(name, "speculation") == 0)
        s->engine.draft_tokens = 4;
    else if (strcmp(name, "adapters") == 0)
        s->engine.max_adapters = 1, o->adapter = "a";
    else if (strcmp(name, "priority") == 0)
        s->engine.order = LINNET_ORDER_PRIORITY, o->priority = 1;
    else
        fail_msg("this test does not know the feature %s", name);
}

/* Receives all outputs, of LENGTH tokens each, and adds them to a checksum. */
static uint64_t receive_all(linnet_request *request, const linnet_request_options *o) {
    uint64_t sum = 0;
    size_t n_tokens = 0, n_outputs = o->n > 0 ? o->n : 1;
    linnet_event event;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        if (event.token >= 0) {
            n_tokens++;
            sum += (uint64_t)(event.token + 1) * (event.n_output_tokens * 31 + event.index * 7 + 1);
            assert_true(!o->logprobs || event.logprob < 0);
            if (o->grammar_kind != LINNET_GRAMMAR_NONE)
                assert_in_range(event.token, FIRST_BYTE_ID + ' ', FIRST_BYTE_ID + '~');
        } else {
            assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
        }
        assert_true((event.prompt_logprobs != NULL) == o->prompt_logprobs);
    } while (event.n_open > 0);
    assert_int_equal(n_tokens, n_outputs * LENGTH);
    linnet_request_close(request);
    return sum;
}

/* An adapter of the first feed-forward's last linear, by the names of llama or T5. */
static void load_adapter(linnet_engine *engine, const linnet_model *model, const char *name) {
    made_adapter a;
    linnet_error err = {0};
    const ln_spec *spec = &model->spec;
    made_adapter_begin(&a, 4, 5);
    made_adapter_linear(&a,
                        spec->n_encoder_layers > 0 ? "decoder.block.0.layer.2.DenseReluDense.wo"
                                                   : "model.layers.0.mlp.down_proj",
                        spec->dim, spec->layers[0].ffn.n_hidden);
    made_adapter_end(&a);
    if (linnet_engine_load_adapter(engine, name, a.folder, 1.0f, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    made_adapter_remove(&a);
}

/* AT_ONCE requests, twice over. */
static uint64_t run_pair(const golden *g, const setup *s) {
    uint64_t sum = 0;
    linnet_engine *engine = engine_on(g, s->engine);
    linnet_request *requests[AT_ONCE];
    if (s->request.adapter != NULL)
        load_adapter(engine, g->model, s->request.adapter);
    for (size_t turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < AT_ONCE; i++)
            requests[i] = submit(engine, &s->request);
        for (size_t i = 0; i < AT_ONCE; i++)
            sum = sum * 3 + receive_all(requests[i], &s->request);
    }
    linnet_engine_destroy(engine);
    return sum;
}

static void check_pair(const golden goldens[3], const char *first, const char *second,
                       const char *cell) {
    setup s = {.model = "usual", .engine = exact_options(128, 9, 128, 1)};
    linnet_request_options *o = &s.request;
    s.engine.prefix_cache = false;
    linnet_request_options_init(o);
    o->max_tokens = LENGTH;
    o->ignore_eos = true;
    o->sampling.temperature = 1.1f;
    o->sampling.seed = 4;
    apply(&s, first);
    apply(&s, second);
    const golden *g = &goldens[s.has_encoder ? 2 : strcmp(s.model, "mistral") == 0];
    *(s.has_encoder ? &o->encoder_ids : &o->prompt_ids) = g->prompts[1];
    *(s.has_encoder ? &o->n_encoder_ids : &o->n_prompt_ids) = g->n_prompts[1];
    if (s.has_encoder && s.engine.max_batch_tokens < g->n_prompts[1])
        s.engine.max_batch_tokens = g->n_prompts[1]; /* it is not chunked */
    if (strcmp(cell, "no") == 0) {
        linnet_engine *engine = engine_on(g, s.engine);
        linnet_request *request;
        linnet_error err = {0};
        assert_true(linnet_request_submit(engine, o, &request, &err) != LINNET_OK);
        if (strstr(err.message, "do not combine") == NULL || strstr(err.message, "beam") == NULL)
            fail_msg("%s and %s: %s", first, second, err.message);
        linnet_engine_destroy(engine);
        return;
    }
    if (strcmp(cell, "yes") != 0)
        fail_msg("the cell of %s and %s says \"%s\"", first, second, cell);
    uint64_t sum = run_pair(g, &s);
    s.engine.kv_tokens = 0; /* what only schedules changes nothing */
    s.engine.max_batch_tokens = 128;
    s.engine.prefix_cache = false;
    s.engine.draft_tokens = 0;
    s.engine.order = LINNET_ORDER_FCFS;
    assert_int_equal(run_pair(g, &s), sum);
}

static bool has_own_model(const char *first, const char *second) {
    static const char *const names[] = {"window", "encoder"};
    bool has = false;
    for (size_t i = 0; i < 2; i++)
        has |= strcmp(first, names[i]) == 0 || strcmp(second, names[i]) == 0;
    return has;
}

/* With a window or an encoder a model that has one, else the usual one. */
static void check_pairs(const char *usual) {
    static table t;
    static golden goldens[3];
    const char *const models[] = {usual, "mistral", "t5"};
    text_folder folders[3];
    bool is_first = strcmp(usual, "llama") == 0;
    for (size_t i = 0; i < 3; i++) {
        golden_open(&goldens[i], models[i]);
        linnet_model_close(goldens[i].model);
        text_folder_make(&folders[i], models[i]);
        goldens[i].model = text_folder_open(&folders[i]);
    }
    read_table(&t);
    for (size_t i = 0; i < t.n_names; i++)
        for (size_t j = i + 1; j < t.n_names; j++)
            if (strcmp(t.cells[i][j], "none") != 0 &&
                (is_first || !has_own_model(t.names[i], t.names[j])))
                check_pair(goldens, t.names[i], t.names[j], t.cells[i][j]);
    for (size_t i = 0; i < 3; i++) {
        linnet_model_close(goldens[i].model);
        text_folder_remove(&folders[i]);
    }
}

static void every_pair_works_or_is_refused(void **state) {
    (void)state;
    check_pairs("llama");
}

static void every_pair_works_with_recurrent_layers(void **state) {
    (void)state;
    check_pairs("qwen3_5");
}

static void every_pair_works_with_a_head(void **state) {
    (void)state;
    check_pairs("qwen3_5_mtp");
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_works_or_is_refused),
        cmocka_unit_test(every_pair_works_with_recurrent_layers),
        cmocka_unit_test(every_pair_works_with_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
