/* Speculation: drafts, and that nothing but the number of steps depends on them. */
#include "engine_test.h"

#include "engine/draft/predicted.h"
#include "engine/draft/prompt_lookup.h"
#include "engine/plan/cost.h"

enum { LONG = 90, MAX_OUTPUTS = 4 };

/* ---- drafts ------------------------------------------------------------------------------- */

static void check_lookup(const int32_t *given, size_t n, size_t n_most, const int32_t *expected,
                         size_t n_expected) {
    int32_t tokens[64];
    memcpy(tokens, given, n * sizeof *tokens);
    assert_int_equal(ln_prompt_lookup(tokens, n, n_most), n_expected);
    for (size_t i = 0; i < n_expected; i++)
        assert_int_equal(tokens[n + i], expected[i]);
}
#define LOOKUP(given, n_most, expected)                                                            \
    check_lookup(given, sizeof given / sizeof *given, n_most, expected,                            \
                 sizeof expected / sizeof *expected)

static void lookup_follows_the_longest_agreement(void **state) {
    (void)state;
    const int32_t once[] = {1, 2, 3, 4, 5, 1, 2};
    LOOKUP(once, 3, ((int32_t[]){3, 4, 5}));
    const int32_t longest[] = {9, 1, 2, 7, 3, 1, 2, 8, 9, 1, 2}; /* "9 1 2" beats the later "1 2" */
    LOOKUP(longest, 2, ((int32_t[]){7, 3}));
    const int32_t latest[] = {1, 2, 7, 1, 2, 8, 1, 2};
    LOOKUP(latest, 1, ((int32_t[]){8}));
    const int32_t loop[] = {4, 5, 6, 5, 6}; /* what it writes is read again */
    LOOKUP(loop, 5, ((int32_t[]){5, 6, 5, 6, 5}));
    int32_t none[8];
    const int32_t alone[] = {1, 2, 3, 2}; /* one token that agrees is not enough */
    check_lookup(alone, 4, 4, none, 0);
    check_lookup(alone, 1, 4, none, 0);
    check_lookup(alone, 0, 4, none, 0);
}

/* ---- bits --------------------------------------------------------------------------------- */

/* What a request gives: ids and logprobs of its outputs, how they ended. */
typedef struct answer {
    size_t n_ids[MAX_OUTPUTS];
    int32_t ids[MAX_OUTPUTS][LONG];
    float logprobs[MAX_OUTPUTS][LONG];
    linnet_finish finish[MAX_OUTPUTS];
} answer;

static void take(linnet_request *request, size_t n_outputs, answer *a) {
    memset(a, 0, sizeof *a);
    for (size_t n_over = 0; n_over < n_outputs;) {
        linnet_event event;
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        size_t i = event.index;
        assert_in_range(i, 0, n_outputs - 1);
        if (event.token >= 0) {
            a->logprobs[i][a->n_ids[i]] = event.logprob;
            a->ids[i][a->n_ids[i]++] = event.token;
        } else {
            a->finish[i] = event.finish;
            n_over++;
        }
    }
    linnet_request_close(request);
}

static void assert_same(const answer *a, const answer *b) {
    assert_memory_equal(a, b, sizeof *a);
}

typedef struct speculation {
    size_t draft_tokens;
    const char *draft_model; /* NULL: prompt lookup, or the head */
    const char *draft;       /* NULL: auto */
    size_t n_drafted, n_accepted, n_steps;
} speculation;

/* Runs requests at once on an engine with these options; what speculation did goes to `spec`. */
static void run_all(const golden *g, linnet_engine_options options, speculation *spec,
                    const linnet_request_options *requests, size_t n, answer *answers) {
    linnet_request *open[16];
    options.draft_tokens = spec->draft_tokens;
    options.draft_model = spec->draft_model;
    const char *draft = spec->draft != NULL ? spec->draft : "auto";
    options.draft = spec->draft_tokens > 0 ? draft : "none";
    linnet_engine *engine = engine_on(g, options);
    for (size_t i = 0; i < n; i++)
        open[i] = submit(engine, &requests[i]);
    for (size_t i = 0; i < n; i++)
        take(open[i], requests[i].n > 0 ? requests[i].n : 1, &answers[i]);
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_kv_used, 0);
    assert_true(stats.n_accepted_tokens <= stats.n_draft_tokens);
    spec->n_drafted = (size_t)stats.n_draft_tokens;
    spec->n_accepted = (size_t)stats.n_accepted_tokens;
    spec->n_steps = (size_t)stats.n_steps;
    linnet_engine_destroy(engine);
}

/* Requests of every sort: greedy and sampled, penalties, logprobs, several outputs, biases. */
static size_t mixed_requests(const golden *g, linnet_request_options *requests) {
    static const linnet_logit_bias bias = {.id = 7, .bias = 2};
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(g->model, &info);
    size_t n = 0;
    for (size_t i = 0; i < 9; i++) {
        linnet_request_options *o = &requests[n++];
        *o = greedy_options(g, i % GOLDEN_PROMPTS);
        o->max_tokens = LONG - 8 * i;
        if (info.has_encoder) {
            o->encoder_ids = o->prompt_ids;
            o->n_encoder_ids = o->n_prompt_ids;
            o->prompt_ids = NULL;
            o->n_prompt_ids = 0;
        }
        o->logprobs = i % 2 == 0;
        o->sampling.seed = i;
        if (i % 3 > 0) {
            o->sampling.temperature = i % 3 == 1 ? 0.2f : 1;
            o->sampling.top_k = 20;
            o->sampling.top_p = 0.9f;
        }
        if (i == 3) {
            o->sampling.repeat_penalty = 1.1f;
            o->sampling.repeat_last_n = 16;
            o->prompt_logprobs = true;
        }
        if (i == 4)
            o->n = 3;
        if (i == 5) {
            o->logit_bias = &bias;
            o->n_logit_bias = 1;
            o->sampling.mirostat_tau = 2;
        }
    }
    return n;
}

/* `by`: the folder of a model that drafts, "mtp", or NULL. */
static void compare(const char *name, linnet_engine_options options, const char *by,
                    size_t least_accepted) {
    golden g;
    linnet_request_options requests[16];
    static answer plain[16], speculative[16];
    golden_open(&g, name);
    size_t n = mixed_requests(&g, requests);
    if (options.max_seqs == 1) /* several outputs do not fit */
        requests[4].n = 1;
    bool has_head = by != NULL && strcmp(by, "mtp") == 0;
    speculation off = {0}, on = {.draft_tokens = 5};
    *(has_head ? &on.draft : &on.draft_model) = by;
    run_all(&g, options, &off, requests, n, plain);
    run_all(&g, options, &on, requests, n, speculative);
    for (size_t i = 0; i < n; i++)
        assert_same(&plain[i], &speculative[i]);
    assert_int_equal(off.n_drafted, 0);
    assert_true(on.n_accepted >= least_accepted);
    print_message("%s: %zu of %zu drafted tokens accepted, %zu steps for %zu\n", name,
                  on.n_accepted, on.n_drafted, on.n_steps, off.n_steps);
    linnet_model_close(g.model);
}

static void bits_do_not_depend_on_drafts(void **state) {
    (void)state;
    compare("llama", exact_options(256, 16, 128, 2), NULL, 1);
    compare("qwen3", exact_options(256, 4, 32, 1), NULL, 10);
    compare("llama", exact_options(256, 1, 16, 1), NULL, 1);
    compare("gemma3", exact_options(256, 6, 64, 1), NULL, 100); /* windows */
    compare("gemma4_shared", exact_options(256, 6, 64, 1), NULL, 100);
    compare("gemma3n", exact_options(256, 6, 64, 1), NULL, 100);
    compare("gpt_oss", exact_options(256, 6, 64, 1), NULL, 1);
    compare("deepseek_v32", exact_options(256, 6, 64, 1), NULL, 1); /* an indexer */
    compare("qwen3_5_moe", exact_options(256, 6, 64, 1), NULL, 0);  /* recurrent layers */
    compare("qwen3_next", exact_options(256, 6, 80, 1), NULL, 0);
    compare("mamba2", exact_options(256, 6, 64, 1), NULL, 0);
    compare("granitemoehybrid", exact_options(256, 6, 80, 1), NULL, 100);
    compare("falcon_h1", exact_options(256, 6, 64, 1), NULL, 0);
    compare("kimi_linear", exact_options(256, 6, 64, 1), NULL, 0);
    compare("kimi_k3", exact_options(256, 6, 64, 1), NULL, 0);
    compare("minimax", exact_options(256, 6, 64, 1), NULL, 0);
    compare("inkling", exact_options(256, 6, 64, 1), NULL, 0); /* short convolutions */
    compare("inkling2", exact_options(256, 6, 64, 1), NULL, 0);
    compare("inkling2_loop", exact_options(256, 6, 64, 1), NULL, 0);
    compare("bailing_hybrid", exact_options(256, 6, 64, 1), NULL, 0);
    compare("zaya", exact_options(256, 6, 64, 1), NULL, 0);
    compare("zaya_taps", exact_options(256, 4, 9, 1), NULL, 0);
    compare("t5", exact_options(256, 6, 128, 1), NULL, 100); /* an encoder */
}

static void entries_take_drafts_back(void **state) {
    (void)state;
    compare("deepseek_v4", exact_options(256, 6, 64, 1), NULL, 0);
    compare("deepseek_v4", exact_options(256, 4, 9, 1), NULL, 0);
    compare("glm5_next", exact_options(256, 6, 64, 1), NULL, 0);
    compare("qwen4_exp", exact_options(256, 6, 64, 1), NULL, 0);
    compare("qwen4_exp", exact_options(256, 4, 9, 1), NULL, 0);
}

static void running_states_take_drafts_back(void **state) {
    (void)state;
    compare("jamba", exact_options(256, 6, 64, 1), NULL, 0);
    compare("falcon_mamba", exact_options(256, 6, 64, 1), NULL, 0);
    compare("recurrent_gemma", exact_options(256, 6, 64, 1), NULL, 0);
    compare("zamba", exact_options(256, 6, 64, 1), NULL, 0);
}

static void few_blocks_do_not_change_them_either(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(256, 8, 64, 1);
    options.kv_tokens = 320;
    compare("qwen3", options, NULL, 10);
    options.swap_bytes = 1 << 20;
    options.preemption = LINNET_PREEMPTION_SWAP;
    compare("qwen3", options, NULL, 10);
    compare("qwen3_5", options, NULL, 0);
    options.preemption = LINNET_PREEMPTION_RECOMPUTE;
    compare("qwen3_5", options, NULL, 0);
}

/* ---- heads -------------------------------------------------------------------------------- */

static const char *const headed[] = {"glm4_moe_mtp", "deepseek_v3_mtp", "qwen3_next_mtp",
                                     "qwen3_5_mtp", "mimo_mtp"};
enum { N_HEADED = sizeof headed / sizeof *headed };

/* Chunks, several outputs, prefixes, all sorts of sampling; few blocks, with copies and without. */
static void heads_do_not_change_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < N_HEADED; i++) {
        compare(headed[i], exact_options(256, 16, 128, 2), "mtp", 0);
        compare(headed[i], exact_options(256, 4, 32, 1), "mtp", 0);
        compare(headed[i], exact_options(256, 1, 16, 1), "mtp", 0);
        linnet_engine_options options = exact_options(256, 8, 64, 1);
        options.kv_tokens = 320;
        options.swap_bytes = 1 << 20;
        options.preemption = LINNET_PREEMPTION_SWAP;
        compare(headed[i], options, "mtp", 0);
        options.preemption = LINNET_PREEMPTION_RECOMPUTE;
        compare(headed[i], options, "mtp", 0);
    }
}

/* A bias has model and head say one thing for ever. */
static void drafts_of_heads_are_accepted(void **state) {
    (void)state;
    for (size_t i = 0; i < N_HEADED; i++) {
        golden g;
        golden_open(&g, headed[i]);
        linnet_request_options request = greedy_options(&g, 1);
        static const linnet_logit_bias bias = {.id = 9, .bias = 100};
        static answer plain, speculative;
        request.max_tokens = LONG;
        request.logit_bias = &bias;
        request.n_logit_bias = 1;
        speculation off = {0}, on = {.draft_tokens = 3, .draft = "mtp"};
        run_all(&g, exact_options(256, 1, 64, 1), &off, &request, 1, &plain);
        run_all(&g, exact_options(256, 1, 64, 1), &on, &request, 1, &speculative);
        assert_same(&plain, &speculative);
        assert_int_equal(off.n_steps, LONG);
        assert_in_range(on.n_steps, LONG / 4, LONG / 4 + 3);
        assert_int_equal(on.n_accepted, on.n_drafted);
        linnet_model_close(g.model);
    }
}

/* ---- heads of other folders ---------------------------------------------------------------- */

/* EAGLE-3 heads; assistants, which attend to windows and to keys that layers share; and drafters of
 * blocks. */
#define GOLDEN TEST_SOURCE_DIR "/tests/golden/"
static const struct {
    const char *model, *folder, *by;
} own_heads[] = {{"gemma3", GOLDEN "eagle/gemma3", "eagle"},
                 {"qwen3", GOLDEN "eagle/qwen3", "eagle"},
                 {"qwen3_5", GOLDEN "eagle/qwen3_5", "eagle"},
                 {"llama", GOLDEN "eagle/llama/head.gguf", "eagle"},
                 {"gemma4", GOLDEN "assistants/gemma4", "mtp"},
                 {"gemma4_shared", GOLDEN "assistants/gemma4_shared", "mtp"},
                 {"muse_glimmer", GOLDEN "dflash/muse_glimmer", "dflash"},
                 {"qwen3", GOLDEN "dflash/qwen3", "dflash"},
                 {"gemma3", GOLDEN "dflash/gemma3", "dflash"},
                 {"qwen3_5", GOLDEN "dflash/qwen3_5", "dflash"},
                 {"llama", GOLDEN "dflash/llama/head.gguf", "dflash"}};
enum { N_OWN_HEADS = sizeof own_heads / sizeof *own_heads };

static void own_heads_do_not_change_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < N_OWN_HEADS; i++) {
        compare(own_heads[i].model, exact_options(256, 16, 128, 2), own_heads[i].folder, 0);
        compare(own_heads[i].model, exact_options(256, 4, 32, 1), own_heads[i].folder, 0);
        compare(own_heads[i].model, exact_options(256, 1, 16, 1), own_heads[i].folder, 0);
        linnet_engine_options options = exact_options(256, 8, 64, 1);
        options.kv_tokens = 544;
        options.swap_bytes = 1 << 20;
        options.preemption = LINNET_PREEMPTION_SWAP;
        compare(own_heads[i].model, options, own_heads[i].folder, 0);
        options.preemption = LINNET_PREEMPTION_RECOMPUTE;
        compare(own_heads[i].model, options, own_heads[i].folder, 0);
    }
}

/* A bias has model and drafter say one token for ever, so every draft is accepted: a step makes one
 * token and all that were drafted. */
static void expect_few_steps(const char *name, const char *draft_model, size_t n_draft) {
    static const linnet_logit_bias bias = {.id = 9, .bias = 100};
    static answer plain, speculative;
    golden g;
    golden_open(&g, name);
    linnet_request_options request = greedy_options(&g, 1);
    request.max_tokens = LONG;
    request.logit_bias = &bias;
    request.n_logit_bias = 1;
    speculation off = {0}, on = {.draft_tokens = n_draft, .draft_model = draft_model};
    run_all(&g, exact_options(256, 1, 64, 1), &off, &request, 1, &plain);
    run_all(&g, exact_options(256, 1, 64, 1), &on, &request, 1, &speculative);
    assert_same(&plain, &speculative);
    assert_int_equal(off.n_steps, LONG);
    assert_in_range(on.n_steps, LONG / (n_draft + 1), LONG / (n_draft + 1) + n_draft);
    assert_int_equal(on.n_accepted, on.n_drafted);
    linnet_model_close(g.model);
}

/* The bias names one of the few tokens that a head has. */
static void drafts_of_own_heads_are_accepted(void **state) {
    (void)state;
    for (size_t i = 0; i < N_OWN_HEADS; i++)
        expect_few_steps(own_heads[i].model, own_heads[i].folder, 3);
}

static void own_heads_are_planned_to_the_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < N_OWN_HEADS; i++) {
        golden g;
        golden_open(&g, own_heads[i].model);
        linnet_engine_options options = exact_options(256, 4, 32, 1);
        linnet_memory_plan plan = {.struct_bytes = sizeof plan}, real = plan;
        linnet_error err = {0};
        options.swap_bytes = 1 << 20;
        options.draft = own_heads[i].by;
        options.draft_model = own_heads[i].folder;
        options.draft_tokens = 2;
        assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
        assert_string_equal(plan.draft, own_heads[i].by);
        linnet_engine *engine = engine_on(&g, options);
        linnet_engine_get_memory(engine, &real);
        assert_memory_equal(&plan, &real, sizeof plan);
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
    }
}

static void skip_on_gpu(void) {
    if (strcmp(engine_test_backend, "cuda") == 0)
        skip();
}

static void heads_are_planned_to_the_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < N_HEADED; i++) {
        golden g;
        golden_open(&g, headed[i]);
        linnet_engine_options options = exact_options(256, 4, 32, 1);
        linnet_memory_plan without = {.struct_bytes = sizeof without}, plan = without,
                           real = without;
        linnet_error err = {0};
        options.swap_bytes = 1 << 20;
        options.draft = "none";
        assert_int_equal(linnet_plan_memory(g.model, &options, &without, &err), LINNET_OK);
        assert_int_equal(without.draft_tokens, 0);
        options.draft = "mtp";
        assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
        assert_string_equal(plan.draft, "mtp");
        assert_int_equal(plan.draft_seqs, 4);
        assert_true(plan.draft_tokens > 0 && plan.total_bytes > without.total_bytes + 10000);
        linnet_engine *engine = engine_on(&g, options);
        linnet_engine_get_memory(engine, &real);
        assert_memory_equal(&plan, &real, sizeof plan);
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
    }
}

/* By default a head drafts where it pays: not in large steps, and not for beams, which run. */
static void heads_draft_by_default(void **state) {
    (void)state;
    skip_on_gpu(); /* heads draft there when they are asked to */
    golden g;
    golden_open(&g, "qwen3_5_mtp");
    linnet_engine_options options = exact_options(256, 64, 128, 1);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_error err = {0};
    assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
    assert_string_equal(plan.draft, "mtp");
    assert_in_range(plan.draft_tokens, 1, 3);
    assert_in_range(plan.draft_seqs, 1, 32);
    linnet_engine *engine = engine_on(&g, options);
    linnet_request_options request = greedy_options(&g, 1);
    request.max_tokens = 8;
    request.beam_width = 3;
    linnet_request *open = submit(engine, &request);
    linnet_event event = {0};
    while (event.finish == LINNET_FINISH_NONE)
        assert_int_equal(linnet_request_next(open, -1, &event, &err), LINNET_OK);
    linnet_request_close(open);
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    assert_int_equal(stats.n_draft_tokens, 0);
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
}

/* A model of layers like this one, and a head. */
static ln_spec made_spec(ln_layer_spec *layer, size_t n_layers, size_t dim) {
    static ln_layer_spec layers[64];
    assert_in_range(n_layers, 1, 63);
    for (size_t i = 0; i <= n_layers; i++)
        layers[i] = *layer;
    return (ln_spec){.dim = dim,
                     .n_vocab = 128000,
                     .n_layers = n_layers,
                     .layers = layers,
                     .mtp = &layers[n_layers]};
}

/* Drafts pay for one sequence of a deep model, but not where products bind, nor where the head is
 * half of the model; and never more in larger steps. Experts make further rows dearer. */
static void costs_decide_how_much_is_drafted(void **state) {
    (void)state;
    uint8_t dense[LN_DRAFT_SEQS + 1], mixed[LN_DRAFT_SEQS + 1], small[LN_DRAFT_SEQS + 1];
    ln_layer_spec layer = {
        .attention = {.n_heads = 32, .n_kv_heads = 8, .k_dim = 128, .v_dim = 128},
        .ffn = {.n_hidden = 14336, .gated = true}};
    ln_spec spec = made_spec(&layer, 40, 4096);
    size_t most = ln_draft_cost_choose(&spec, dense);
    assert_int_equal(most, dense[1]);
    assert_in_range(dense[1], 2, LN_DRAFT_LENGTH);
    assert_int_equal(dense[LN_DRAFT_SEQS], 0);
    for (size_t n = 2; n <= LN_DRAFT_SEQS; n++)
        assert_true(dense[n] <= dense[n - 1]);
    layer.ffn.moe = (ln_moe_spec){.n_experts = 128, .n_used = 8, .n_hidden = 1408};
    spec = made_spec(&layer, 40, 4096);
    ln_draft_cost_choose(&spec, mixed);
    assert_true(mixed[1] <= dense[1]);
    layer.ffn.moe = (ln_moe_spec){0};
    spec = made_spec(&layer, 1, 4096);
    assert_int_equal(ln_draft_cost_choose(&spec, small), 0);
}

static void refuse_drafter(const char *model, linnet_engine_options options, const char *draft,
                           const char *message) {
    golden g;
    linnet_engine *engine;
    linnet_error err = {0};
    golden_open(&g, model);
    options.draft = draft;
    assert_true(linnet_engine_create(g.model, &options, &engine, &err) < LINNET_OK);
    if (strstr(err.message, message) == NULL)
        fail_msg("'%s' lacks '%s'", err.message, message);
    linnet_model_close(g.model);
}

static void drafters_are_refused_by_name(void **state) {
    (void)state;
    skip_on_gpu(); /* the split there is another one */
    linnet_engine_options options = exact_options(256, 4, 32, 1), split = options;
    refuse_drafter("llama", options, "mtp", "no head for multi-token prediction");
    refuse_drafter("deepseek_v32", options, "mtp", "no head for multi-token prediction");
    refuse_drafter("llama", options, "model", "draft_model is not given");
    refuse_drafter("llama", options, "medusa",
                   "must be auto, none, mtp, eagle, dflash, ngram or model");
    split.gpu_layers = 1;
    refuse_drafter("glm4_moe_mtp", split, "mtp", "draft mtp needs all layers on one side");
    options.draft_tokens = 2;
    refuse_drafter("glm4_moe_mtp", options, "none", "draft_tokens is 2");
    options.draft_model = TEST_SOURCE_DIR "/tests/golden/models/llama";
    refuse_drafter("glm4_moe_mtp", options, "ngram", "a draft_model is given, too");
    refuse_drafter("glm4_moe_mtp", options, "mtp", "is a model of its own");
    refuse_drafter("llama", options, "eagle", "is a model of its own");
    options.draft_model = own_heads[1].folder;
    refuse_drafter("qwen3", options, "model", "is an EAGLE-3 head");
    refuse_drafter("qwen3_5", options, "eagle", "a model of 64 dimensions");
    refuse_drafter("t5", options, "eagle", "cannot draft for a model of this kind");
    options.draft_model = own_heads[4].folder;
    refuse_drafter("gemma4", options, "eagle", "is an assistant");
    refuse_drafter("gemma4_shared", options, "mtp", "assists a model of 64 dimensions");
    refuse_drafter("t5", options, "mtp", "cannot draft for a model of this kind");
    refuse_drafter("qwen3", options, "mtp", "and this one has 64 and 256");
    options.draft_model = GOLDEN "dflash/qwen3";
    refuse_drafter("qwen3", options, "eagle", "is a DFlash drafter");
    refuse_drafter("muse_glimmer", options, "dflash", "drafts for a model of 64 dimensions");
    refuse_drafter("t5", options, "dflash", "cannot draft for a model of this kind");
    refuse_drafter("mistral", options, "dflash", "needs a model that keeps all tokens");
    options.draft_tokens = 8;
    refuse_drafter("qwen3", options, "dflash", "blocks of 8 tokens: at most 7 are possible");
    options.draft_tokens = 2;
    options.draft_model = GOLDEN "dflash/gemma3";
    refuse_drafter("qwen3", options, "dflash", "the head reads layer 4, but the model has 2");
    options.draft_model = GOLDEN "models/llama";
    refuse_drafter("llama", options, "dflash", "is a model of its own");
    options.draft_model = NULL;
    refuse_drafter("llama", options, "eagle", "draft_model is not given");
    refuse_drafter("llama", options, "dflash", "draft_model is not given");
}

/* ---- draft models ------------------------------------------------------------------------- */

#define MODEL(name) TEST_SOURCE_DIR "/tests/golden/models/" name

/* Nothing changes, whoever drafts; and drafts of the model itself are accepted, sampled tokens
 * too. */
static void draft_models_do_not_change_bits(void **state) {
    (void)state;
    compare("llama", exact_options(256, 16, 128, 1), MODEL("llama"), 100);
    compare("llama", exact_options(256, 4, 32, 1), MODEL("qwen3"), 1);
    compare("gpt_oss", exact_options(256, 6, 64, 1), MODEL("llama"), 0);
    compare("gemma3", exact_options(256, 6, 64, 1), MODEL("gemma3"), 100);
    compare("t5", exact_options(256, 6, 128, 1), MODEL("llama"), 0);
    linnet_engine_options options = exact_options(256, 8, 64, 1);
    options.kv_tokens = 320;
    options.swap_bytes = 1 << 20;
    compare("qwen3", options, MODEL("qwen3"), 100);
}

static void drafts_of_the_same_model_are_accepted(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_request_options request = greedy_options(&g, 1);
    static answer answers;
    request.max_tokens = LONG;
    request.sampling.temperature = 1.5f;
    speculation on = {.draft_tokens = 5, .draft_model = MODEL("llama")};
    run_all(&g, exact_options(256, 1, 64, 1), &on, &request, 1, &answers);
    assert_int_equal(on.n_accepted, on.n_drafted);
    assert_in_range(on.n_steps, LONG / 6, LONG / 6 + 3);
    linnet_model_close(g.model);
}

static void draft_models_are_planned_to_the_byte(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine_options options = exact_options(256, 4, 32, 1);
    linnet_memory_plan without = {.struct_bytes = sizeof without}, plan = without, real = without;
    linnet_error err = {0};
    assert_int_equal(linnet_plan_memory(g.model, &options, &without, &err), LINNET_OK);
    options.draft_tokens = 3;
    options.draft_model = MODEL("qwen3");
    assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
    linnet_engine *engine = engine_on(&g, options);
    linnet_engine_get_memory(engine, &real);
    assert_memory_equal(&plan, &real, sizeof plan);
    assert_true(plan.total_bytes > without.total_bytes + 100000);
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
}

static void unfit_draft_models_are_refused_by_name(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "mistral"); /* keeps a window */
    const struct {
        const char *path, *message;
        size_t draft_tokens;
        linnet_status status;
    } cases[] = {
        {MODEL("t5"), "has an encoder", 4, LINNET_ERR_UNSUPPORTED},
        {MODEL("llama"), "further back", 4, LINNET_ERR_UNSUPPORTED},
        {TEST_SOURCE_DIR "/models/demo.gguf", "another vocabulary", 4, LINNET_ERR_UNSUPPORTED},
        {MODEL("nowhere"), "nowhere", 4, LINNET_ERR_IO},
        {NULL, "at most 64", 65, LINNET_ERR_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        linnet_engine_options options = exact_options(256, 4, 32, 1);
        linnet_engine *engine;
        linnet_error err = {0};
        options.draft_tokens = cases[i].draft_tokens;
        options.draft_model = cases[i].path;
        assert_int_equal(linnet_engine_create(g.model, &options, &engine, &err), cases[i].status);
        if (strstr(err.message, cases[i].message) == NULL)
            fail_msg("'%s' lacks '%s'", err.message, cases[i].message);
    }
    linnet_model_close(g.model);
}

/* Without a number a draft model drafts four tokens, and a drafter of blocks a block. */
static void drafters_have_numbers_of_their_own(void **state) {
    (void)state;
    const struct {
        const char *model, *draft_model;
        size_t n;
    } cases[] = {{"llama", MODEL("llama"), 4}, {"qwen3", GOLDEN "dflash/qwen3", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        golden_open(&g, cases[i].model);
        linnet_engine_options options = exact_options(256, 4, 32, 1);
        linnet_memory_plan plan = {.struct_bytes = sizeof plan};
        linnet_error err = {0};
        options.draft_model = cases[i].draft_model;
        assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
        assert_int_equal(plan.draft_tokens, cases[i].n);
        linnet_model_close(g.model);
    }
}

static void loops_take_few_steps(void **state) {
    (void)state;
    expect_few_steps("llama", NULL, 7);
}

/* ---- predictions -------------------------------------------------------------------------- */

static void predictions_are_followed_where_they_agree(void **state) {
    (void)state;
    const int32_t tokens[] = {1, 2, 3, 9, 2, 3, 4};
    const ln_prediction prediction = {tokens, sizeof tokens / sizeof *tokens};
    const struct {
        int32_t output[5], expected[3];
        size_t n_output, n;
    } cases[] = {
        {{1}, {2, 3, 9}, 1, 3},       /* as far as the output is */
        {{3}, {0}, 1, 0},             /* one token elsewhere is not enough */
        {{7, 2, 3}, {9, 2, 3}, 3, 3}, /* of equals the nearest */
        {{7, 8, 9, 2, 3}, {4}, 5, 1}, /* the longest agreement, up to the end */
        {{7, 7}, {0}, 2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t output[8] = {0};
        memcpy(output, cases[i].output, cases[i].n_output * sizeof *output);
        assert_int_equal(ln_draft_predicted(&prediction, output, cases[i].n_output, 3), cases[i].n);
        for (size_t k = 0; k < cases[i].n; k++)
            assert_int_equal(output[cases[i].n_output + k], cases[i].expected[k]);
    }
}

static void predictions_do_not_change_bits(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_request_options request = greedy_options(&g, 0);
    static answer plain, predicted;
    int32_t ids[LONG];
    request.max_tokens = LONG;
    request.sampling.temperature = 1.5f;
    speculation off = {0}, right = {.draft_tokens = 7}, wrong = right;
    run_all(&g, exact_options(256, 1, 64, 1), &off, &request, 1, &plain);
    memcpy(ids, plain.ids[0], sizeof ids);
    request.prediction_ids = ids;
    request.n_prediction_ids = LONG;
    run_all(&g, exact_options(256, 1, 64, 1), &right, &request, 1, &predicted);
    assert_same(&plain, &predicted);
    assert_int_equal(right.n_accepted, right.n_drafted);
    assert_true(right.n_steps < LONG / 8);
    ids[LONG / 2] ^= 1;
    run_all(&g, exact_options(256, 1, 64, 1), &wrong, &request, 1, &predicted);
    assert_same(&plain, &predicted);
    assert_true(wrong.n_accepted < wrong.n_drafted);
    assert_in_range(wrong.n_steps, right.n_steps, LONG / 2);
    linnet_model_close(g.model);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_follows_the_longest_agreement),
        cmocka_unit_test(bits_do_not_depend_on_drafts),
        cmocka_unit_test(entries_take_drafts_back),
        cmocka_unit_test(running_states_take_drafts_back),
        cmocka_unit_test(few_blocks_do_not_change_them_either),
        cmocka_unit_test(heads_do_not_change_bits),
        cmocka_unit_test(drafts_of_heads_are_accepted),
        cmocka_unit_test(heads_are_planned_to_the_byte),
        cmocka_unit_test(own_heads_do_not_change_bits),
        cmocka_unit_test(drafts_of_own_heads_are_accepted),
        cmocka_unit_test(own_heads_are_planned_to_the_byte),
        cmocka_unit_test(heads_draft_by_default),
        cmocka_unit_test(costs_decide_how_much_is_drafted),
        cmocka_unit_test(drafters_are_refused_by_name),
        cmocka_unit_test(draft_models_do_not_change_bits),
        cmocka_unit_test(drafts_of_the_same_model_are_accepted),
        cmocka_unit_test(draft_models_are_planned_to_the_byte),
        cmocka_unit_test(unfit_draft_models_are_refused_by_name),
        cmocka_unit_test(drafters_have_numbers_of_their_own),
        cmocka_unit_test(loops_take_few_steps),
        cmocka_unit_test(predictions_are_followed_where_they_agree),
        cmocka_unit_test(predictions_do_not_change_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
