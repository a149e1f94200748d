/* The same bits and tokens whatever the threads, the chunks and the company.
 * usage: unit_engine_same_answer [BACKEND] */
#include "engine_test.h"

enum { ROWS = 96 };

/* What a setting answers: logits of a prompt's rows, greedy ids, sampled ids. */
typedef struct answers {
    float logits[GOLDEN_PROMPTS][ROWS][N_VOCAB];
    int32_t greedy[GOLDEN_PROMPTS][GOLDEN_OUTPUT];
    int32_t sampled[GOLDEN_PROMPTS][GOLDEN_OUTPUT];
} answers;

typedef struct score_target {
    float (*rows)[N_VOCAB];
    size_t n_rows;
} score_target;

static void take_row(void *user, size_t position, const float *row, size_t n_vocab) {
    score_target *target = user;
    if (position != target->n_rows || n_vocab > N_VOCAB || position >= ROWS)
        return; /* the count then tells */
    memcpy(target->rows[target->n_rows++], row, n_vocab * sizeof *row);
}

enum { KINDS = 3, N_REQUESTS = GOLDEN_PROMPTS * KINDS }; /* score, sample, greedy */

static linnet_request *submit_kind(linnet_engine *engine, const golden *g, size_t prompt,
                                   size_t kind, score_target *target) {
    linnet_request_options options = greedy_options(g, prompt);
    if (kind == 0) {
        options.kind = LINNET_REQUEST_SCORE;
        options.on_logits = take_row;
        options.user = target;
    } else if (kind == 1) {
        options.sampling.temperature = 1.5f;
        options.sampling.seed = prompt;
        options.sampling.frequency_penalty = 0.1f;
    }
    return submit(engine, &options);
}

static void receive_kind(linnet_request *request, size_t kind, int32_t answer[GOLDEN_OUTPUT]) {
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    size_t n_ids = receive(request, ids, &finish);
    assert_int_equal(finish, kind == 0 ? LINNET_FINISH_STOP : LINNET_FINISH_LENGTH);
    assert_int_equal(n_ids, kind == 0 ? 0 : GOLDEN_OUTPUT);
    memcpy(answer, ids, n_ids * sizeof *ids);
}

/* Asks for all, one after another or together. */
static void ask(const golden *g, linnet_engine_options engine_options, bool together,
                answers *out) {
    linnet_engine *engine = engine_on(g, engine_options);
    linnet_request *requests[N_REQUESTS];
    score_target targets[GOLDEN_PROMPTS];
    memset(out, 0, sizeof *out);
    for (size_t n = 0; n < N_REQUESTS; n++) {
        size_t prompt = n / KINDS, kind = n % KINDS;
        if (kind == 0)
            targets[prompt] = (score_target){.rows = out->logits[prompt]};
        requests[n] = submit_kind(engine, g, prompt, kind, &targets[prompt]);
        if (!together)
            receive_kind(requests[n], kind, kind == 1 ? out->sampled[prompt] : out->greedy[prompt]);
    }
    for (size_t n = 0; together && n < N_REQUESTS; n++)
        receive_kind(requests[n], n % KINDS,
                     n % KINDS == 1 ? out->sampled[n / KINDS] : out->greedy[n / KINDS]);
    for (size_t prompt = 0; prompt < GOLDEN_PROMPTS; prompt++)
        assert_int_equal(targets[prompt].n_rows, g->n_prompts[prompt]);
    linnet_engine_destroy(engine);
}

/* Threads, and tokens in a step: each with two of the other, the ends of both first. What all are
 * compared with has one thread and 64 tokens. */
static const struct setting {
    size_t threads, batch;
} settings[] = {{5, 1}, {5, 64}, {1, 7}, {2, 1}, {2, 7}, {2, 64}};
enum { FEW_SETTINGS = 2, ALL_SETTINGS = sizeof settings / sizeof *settings };

static void check_by(const char *name, linnet_precision precision, linnet_kv_type kv_type,
                     size_t n_settings) {
    static answers alone, other;
    golden g;
    golden_open(&g, name);
    linnet_engine_options options = exact_options(ROWS + GOLDEN_OUTPUT, 1, 64, 1);
    options.precision = precision;
    options.kv_type = kv_type;
    ask(&g, options, false, &alone);
    if (precision == LINNET_PRECISION_EXACT && kv_type == LINNET_KV_AUTO)
        assert_memory_equal(alone.greedy, g.greedy, sizeof alone.greedy);
    for (size_t i = 0; i < n_settings; i++) {
        options.n_threads = settings[i].threads;
        options.max_batch_tokens = settings[i].batch;
        ask(&g, options, false, &other);
        assert_memory_equal(&other, &alone, sizeof alone);
    }
    options.max_seqs = 8;
    options.n_threads = 2;
    for (size_t batch = 8; batch <= 200; batch *= 5) {
        options.max_batch_tokens = batch;
        ask(&g, options, true, &other);
        assert_memory_equal(&other, &alone, sizeof alone);
    }
    linnet_model_close(g.model);
}

/* With every number of threads: of one model for each kind of layer. */
static void check_model(const char *name, linnet_precision precision, linnet_kv_type kv_type) {
    check_by(name, precision, kv_type, ALL_SETTINGS);
}

static void check_some(const char *name, linnet_precision precision, linnet_kv_type kv_type) {
    check_by(name, precision, kv_type, FEW_SETTINGS);
}

static void llama_exact(void **state) {
    (void)state;
    check_model("llama", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}
static void llama_fast(void **state) {
    (void)state;
    check_model("llama", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
}
static void windows_and_full_attention(void **state) {
    (void)state;
    check_model("gemma3", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}
/* Layers that differ from one another. */
static void layers_that_differ(void **state) {
    (void)state;
    check_some("gemma3n", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("gemma4_moe", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("gemma4_shared", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
}
static void a_window_in_every_layer(void **state) {
    (void)state;
    check_model("mistral", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}
static void windows_in_an_int8_cache(void **state) {
    (void)state;
    check_some("gemma3", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
}
static void latents_in_an_int8_cache(void **state) {
    (void)state;
    check_some("deepseek_v3", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
}
static void windows_in_an_fp8_cache(void **state) {
    (void)state;
    check_some("gemma3", LINNET_PRECISION_FAST, LINNET_KV_FP8);
}
static void latents_in_an_fp8_cache(void **state) {
    (void)state;
    check_some("deepseek_v3", LINNET_PRECISION_FAST, LINNET_KV_FP8);
}

static void positions_that_an_indexer_chooses(void **state) {
    (void)state;
    check_model("deepseek_v32", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}
static void entries_that_sum_up_runs(void **state) {
    (void)state;
    check_some("deepseek_v4", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("deepseek_v4", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("deepseek_v4", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
    check_some("glm5_next", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("glm5_next", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
}
static void chosen_runs_and_ngrams(void **state) {
    (void)state;
    check_some("qwen4_exp", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("qwen4_exp", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("qwen4_exp", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
    check_some("qwen4_exp_vision", LINNET_PRECISION_EXACT, LINNET_KV_FP8);
}
static void states_of_recurrent_layers(void **state) {
    (void)state;
    check_model("qwen3_5", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}

static void states_without_attention(void **state) {
    (void)state;
    check_some("mamba2", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}

static void running_states(void **state) {
    (void)state;
    check_model("jamba", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("mamba", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("falcon_mamba", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("zamba", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("zamba_period", LINNET_PRECISION_EXACT, LINNET_KV_Q8_0);
}

static void states_beside_attention(void **state) {
    (void)state;
    check_model("falcon_h1", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}

static void biases_of_keys(void **state) {
    (void)state;
    check_some("doge", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("doge_window", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
    check_some("doge_moe", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
}

static void short_convolutions(void **state) {
    (void)state;
    check_model("inkling", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("inkling", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
    check_some("inkling_mm", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("inkling2", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("inkling2_loop", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("inkling2_mm", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
}

/* Convolutions of several taps in a row, of which chunks cut each. */
static void convolved_attention(void **state) {
    (void)state;
    check_some("zaya", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("zaya_taps", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("zaya_pairs", LINNET_PRECISION_FAST, LINNET_KV_Q8_0);
}

static void states_beside_latents(void **state) {
    (void)state;
    check_some("kimi_linear", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("kimi_k3", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("bailing_hybrid", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}

static void states_behind_experts(void **state) {
    (void)state;
    check_some("qwen3_next", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
    check_some("granitemoehybrid", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
    check_some("minimax", LINNET_PRECISION_EXACT, LINNET_KV_AUTO);
}

static void positions_that_layers_share(void **state) {
    (void)state;
    check_some("glm_moe_dsa", LINNET_PRECISION_FAST, LINNET_KV_AUTO);
}

/* Engines of one process share a device's kernels, and whatever of the library were global. */
static void engines_answer_at_once(void **state) {
    (void)state;
    enum { N_ENGINES = 3, ROUNDS = 40 };
    int32_t want[MAX_IDS], ids[MAX_IDS];
    linnet_finish finish;
    golden g;
    golden_open(&g, "llama");
    linnet_engine_options options = exact_options(ROWS + GOLDEN_OUTPUT, 1, 64, 1);
    options.precision = LINNET_PRECISION_FAST;
    linnet_request_options request = greedy_options(&g, 0);
    linnet_engine *engines[N_ENGINES];
    for (size_t i = 0; i < N_ENGINES; i++)
        engines[i] = engine_on(&g, options);
    size_t n = receive(submit(engines[0], &request), want, &finish);
    for (size_t round = 0; round < ROUNDS; round++) {
        linnet_request *requests[N_ENGINES];
        for (size_t i = 0; i < N_ENGINES; i++)
            requests[i] = submit(engines[i], &request);
        for (size_t i = 0; i < N_ENGINES; i++) {
            assert_int_equal(receive(requests[i], ids, &finish), n);
            assert_memory_equal(ids, want, n * sizeof *ids);
        }
    }
    for (size_t i = 0; i < N_ENGINES; i++)
        linnet_engine_destroy(engines[i]);
    linnet_model_close(g.model);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_exact),
        cmocka_unit_test(llama_fast),
        cmocka_unit_test(windows_and_full_attention),
        cmocka_unit_test(layers_that_differ),
        cmocka_unit_test(a_window_in_every_layer),
        cmocka_unit_test(windows_in_an_int8_cache),
        cmocka_unit_test(latents_in_an_int8_cache),
        cmocka_unit_test(windows_in_an_fp8_cache),
        cmocka_unit_test(latents_in_an_fp8_cache),
        cmocka_unit_test(positions_that_an_indexer_chooses),
        cmocka_unit_test(entries_that_sum_up_runs),
        cmocka_unit_test(positions_that_layers_share),
        cmocka_unit_test(chosen_runs_and_ngrams),
        cmocka_unit_test(states_of_recurrent_layers),
        cmocka_unit_test(states_without_attention),
        cmocka_unit_test(running_states),
        cmocka_unit_test(states_beside_attention),
        cmocka_unit_test(convolved_attention),
        cmocka_unit_test(states_beside_latents),
        cmocka_unit_test(biases_of_keys),
        cmocka_unit_test(short_convolutions),
        cmocka_unit_test(states_behind_experts),
        cmocka_unit_test(engines_answer_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
