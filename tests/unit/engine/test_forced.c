/* Forced drafts: where a grammar leaves one token, it costs no step of its own, and nothing else
 * depends on that. */
#include "text_test.h"

enum { LENGTH = 120, STOP_ID = 2 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"first_name\":{\"type\":\"string\",\"maxLength\":4},"
    "\"is_registered\":{\"type\":\"boolean\"},\"year_of_birth\":{\"type\":\"integer\",\"minimum\":"
    "1900,\"maximum\":2030}},\"required\":[\"first_name\",\"is_registered\",\"year_of_birth\"],"
    "\"additionalProperties\":false}";

typedef struct answer {
    int32_t ids[LENGTH];
    float logprobs[LENGTH];
    char text[LENGTH * 4 + 1];
    size_t n_ids;
    linnet_finish finish;
} answer;

typedef struct run {
    const char *draft, *draft_model;
    size_t draft_tokens;
    linnet_engine_stats stats;
} run;

static void take(linnet_request *request, answer *a) {
    linnet_event event;
    memset(a, 0, sizeof *a);
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        strncat(a->text, event.text, event.text_bytes);
        if (event.token >= 0) {
            a->logprobs[a->n_ids] = event.logprob;
            a->ids[a->n_ids++] = event.token;
        }
    } while (event.n_open > 0);
    a->finish = event.finish;
    linnet_request_close(request);
}

enum { N_REQUESTS = 6 };

/* Greedy and sampled requests at once, one of them without a grammar. */
static void run_all(const golden *g, run *r, answer *answers) {
    static const int32_t stop_id = STOP_ID;
    linnet_request *open[N_REQUESTS];
    linnet_engine_options options = exact_options(256, 3, 48, 1);
    options.draft = r->draft;
    options.draft_model = r->draft_model;
    options.draft_tokens = r->draft_tokens;
    linnet_engine *engine = engine_on(g, options);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        linnet_request_options o = greedy_options(g, i % GOLDEN_PROMPTS);
        o.max_tokens = LENGTH - i;
        o.logprobs = true;
        o.stop_ids = &stop_id;
        o.n_stop_ids = 1;
        o.sampling.seed = i;
        o.sampling.temperature = i % 2 == 0 ? 0 : 1;
        if (i == 3)
            o.sampling.mirostat_tau = 2;
        if (i == 4)
            o.max_tokens = 16;
        if (i != 4) {
            o.grammar_kind = LINNET_GRAMMAR_JSON_SCHEMA;
            o.grammar = schema;
            o.grammar_bytes = strlen(schema);
            o.json_form = i < 3 ? LINNET_JSON_COMPACT | LINNET_JSON_ORDERED : LINNET_JSON_COMPACT;
        }
        open[i] = submit(engine, &o);
    }
    for (size_t i = 0; i < N_REQUESTS; i++)
        take(open[i], &answers[i]);
    r->stats.struct_bytes = sizeof r->stats;
    linnet_engine_get_stats(engine, &r->stats);
    assert_int_equal(r->stats.n_kv_used, 0);
    linnet_engine_destroy(engine);
}

/* Answers are the same bit for bit; `spares`: and come in fewer steps. */
static void compare(const char *name, run on, bool spares) {
    static answer plain[N_REQUESTS], drafted[N_REQUESTS];
    golden g;
    text_folder folder;
    run off = {.draft = "none"};
    golden_open(&g, name);
    linnet_model_close(g.model);
    text_folder_make(&folder, name);
    g.model = text_folder_open(&folder);
    run_all(&g, &off, plain);
    run_all(&g, &on, drafted);
    assert_memory_equal(plain, drafted, sizeof plain);
    assert_int_equal(off.stats.n_draft_tokens, 0);
    print_message("%s: %zu steps, %zu without drafts; %zu of %zu drafted tokens accepted; %s\n",
                  name, (size_t)on.stats.n_steps, (size_t)off.stats.n_steps,
                  (size_t)on.stats.n_accepted_tokens, (size_t)on.stats.n_draft_tokens,
                  plain[0].text);
    if (spares)
        assert_true(on.stats.n_steps * 3 < off.stats.n_steps * 2);
    linnet_model_close(g.model);
    text_folder_remove(&folder);
}

static void forced_tokens_take_few_steps(void **state) {
    (void)state;
    compare("llama", (run){0}, true);
    compare("gemma3", (run){0}, true); /* windows */
    compare("deepseek_v3", (run){0}, true);
}

/* All that was drafted by default was forced, so all of it is accepted. */
static void forced_tokens_are_accepted(void **state) {
    (void)state;
    golden g;
    text_folder folder;
    static answer answers[N_REQUESTS];
    run on = {0};
    golden_open(&g, "llama");
    linnet_model_close(g.model);
    text_folder_make(&folder, "llama");
    g.model = text_folder_open(&folder);
    run_all(&g, &on, answers);
    assert_true(on.stats.n_draft_tokens > 100);
    assert_int_equal(on.stats.n_accepted_tokens, on.stats.n_draft_tokens);
    linnet_model_close(g.model);
    text_folder_remove(&folder);
}

static void drafters_go_on_beside_them(void **state) {
    (void)state;
    const char *other = TEST_SOURCE_DIR "/tests/golden/models/qwen3";
    compare("llama", (run){.draft = "ngram", .draft_tokens = 5}, true);
    compare("qwen3", (run){.draft_model = other, .draft_tokens = 3}, true);
    compare("qwen3_5_mtp", (run){.draft_tokens = 3}, false);
    compare("mimo_mtp", (run){.draft = "mtp"}, true);
}

/* Recurrent layers take back as many tokens as were planned for. */
static void recurrent_layers_keep_their_states(void **state) {
    (void)state;
    compare("qwen3_5", (run){0}, false);
    compare("mamba2", (run){0}, false);
    compare("mamba2", (run){.draft_tokens = 4}, false);
    compare("jamba", (run){.draft_tokens = 4}, false);
    compare("minimax", (run){.draft_tokens = 4}, false);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forced_tokens_take_few_steps),
        cmocka_unit_test(forced_tokens_are_accepted),
        cmocka_unit_test(drafters_go_on_beside_them),
        cmocka_unit_test(recurrent_layers_keep_their_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
