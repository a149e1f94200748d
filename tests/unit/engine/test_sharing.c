/* The prefix cache and groups of sequences: what is shared, and that nobody can tell. */
#include "golden_llama.h"

#include "engine/engine.h"

enum { PREFIX = 96, MANY = 16 };

/* A prompt of n_ids: the first PREFIX are the same for all, the rest is `own`'s. */
static void make_prompt(int32_t *ids, size_t n_ids, size_t own) {
    for (size_t i = 0; i < n_ids; i++)
        ids[i] = (int32_t)((i * 7 + (i < PREFIX ? 0 : 11 * own + 1)) % N_VOCAB);
}

static linnet_request_options options_for(const int32_t *ids, size_t n_ids, uint64_t seed) {
    linnet_request_options options = greedy_options(&g, 0);
    options.prompt_ids = ids;
    options.n_prompt_ids = n_ids;
    options.max_tokens = 8;
    options.sampling.seed = seed;
    options.sampling.temperature = seed % 2 ? 1.2f : 0;
    return options;
}

/* Receives all; out[MANY][8]. */
static void ask_many(linnet_engine *engine, bool together, int32_t out[MANY][8]) {
    linnet_request *requests[MANY];
    int32_t prompt[PREFIX + MANY], ids[MAX_IDS];
    linnet_finish finish;
    for (size_t i = 0; i < MANY; i++) {
        make_prompt(prompt, PREFIX + 1 + i, i);
        linnet_request_options options = options_for(prompt, PREFIX + 1 + i, i);
        requests[i] = submit(engine, &options);
        if (!together) {
            assert_int_equal(receive(requests[i], ids, &finish), 8);
            memcpy(out[i], ids, sizeof out[i]);
        }
    }
    for (size_t i = 0; together && i < MANY; i++) {
        assert_int_equal(receive(requests[i], ids, &finish), 8);
        memcpy(out[i], ids, sizeof out[i]);
    }
}

/* A common prefix is computed once: by the first, or while it is being computed, for those that
 * come in the same step. What is sampled does not change. */
static void a_shared_prefix_is_computed_once(void **state) {
    (void)state;
    static int32_t apart[MANY][8], shared[MANY][8];
    size_t tails = 0;
    for (size_t i = 0; i < MANY; i++)
        tails += 1 + i + 7; /* of the prompt, and all outputs but the last */
    for (size_t batch = MANY; batch <= 512; batch *= 4)
        for (int together = 0; together < 2; together++) {
            linnet_engine_options options = exact_options(128, MANY, batch, 2);
            options.prefix_cache = false;
            linnet_engine *engine = engine_on(&g, options);
            ask_many(engine, together, apart);
            assert_int_equal(stats_of(engine).n_computed_tokens, MANY * PREFIX + tails);
            assert_int_equal(stats_of(engine).n_prefix_query_tokens, 0);
            linnet_engine_destroy(engine);

            options.prefix_cache = true;
            engine = engine_on(&g, options);
            ask_many(engine, together, shared);
            linnet_engine_stats stats = stats_of(engine);
            assert_int_equal(stats.n_computed_tokens, PREFIX + tails);
            assert_int_equal(stats.n_prefix_hit_tokens, (MANY - 1) * PREFIX);
            assert_int_equal(stats.n_kv_used, 0);
            assert_true(stats.n_kv_cached >= PREFIX / 16);
            assert_true(ln_kv_cache_check(&engine->cache));
            linnet_engine_destroy(engine);
            assert_memory_equal(shared, apart, sizeof apart);
        }
}

/* 16 requests with 1,024 tokens in common cost the work of one, and their tails. */
static void a_long_prefix_is_computed_once(void **state) {
    (void)state;
    enum { LONG = 1024, TAIL = 5 };
    linnet_engine *engine = engine_on(&g, exact_options(LONG + 32, MANY, 256, 2));
    linnet_request *requests[MANY];
    int32_t prompt[LONG + TAIL], ids[MAX_IDS];
    linnet_finish finish;
    gate held; /* reads a token of its own, in a step of its own */
    gate_hold(&held, engine);
    for (size_t i = 0; i < MANY; i++) {
        for (size_t at = 0; at < LONG + TAIL; at++)
            prompt[at] = (int32_t)((at * 7 + (at < LONG ? 0 : i + 1)) % N_VOCAB);
        linnet_request_options options = options_for(prompt, LONG + TAIL, i);
        requests[i] = submit(engine, &options);
    }
    gate_release(&held);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(receive(requests[i], ids, &finish), 8);
    linnet_engine_stats stats = stats_of(engine);
    assert_int_equal(stats.n_computed_tokens, 1 + LONG + MANY * (TAIL + 7));
    assert_int_equal(stats.n_prefix_hit_tokens, (MANY - 1) * LONG);
    assert_in_range(stats.n_steps, 1 + LONG / 256, 1 + LONG / 256 + 12);
    linnet_engine_destroy(engine);
}

static void events_tell_what_was_cached(void **state) {
    (void)state;
    static const char *const salts[] = {NULL, NULL, "tenant", "", "tenant"};
    static const size_t hits[] = {0, PREFIX, 0, PREFIX, PREFIX};
    linnet_engine *engine = engine_on(&g, exact_options(128, 2, 64, 1));
    int32_t prompt[PREFIX + 1];
    make_prompt(prompt, PREFIX + 1, 0);
    for (size_t i = 0; i < 5; i++) {
        linnet_request_options options = options_for(prompt, PREFIX + 1, 0);
        options.cache_salt = salts[i];
        linnet_request *request = submit(engine, &options);
        linnet_event event;
        do {
            assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
            assert_int_equal(event.n_cached_tokens, hits[i]);
        } while (event.finish == LINNET_FINISH_NONE);
        linnet_request_close(request);
    }
    linnet_engine_destroy(engine);
}

/* Windows and full attention, a window alone, positions of other kinds, keys of indexers. */
static void models_answer_alike_after_a_hit(void **state) {
    (void)state;
    static const char *const models[] = {
        "gemma3",        "mistral",     "qwen3",          "glm_moe_dsa",
        "gemma4_shared", "gemma3n",     "mamba2",         "granitemoehybrid",
        "qwen3_5",       "falcon_h1",   "kimi_linear",    "jamba",
        "falcon_mamba",  "minimax",     "bailing_hybrid", "recurrent_gemma",
        "zamba2",        "deepseek_v4", "glm5_next",      "inkling",
        "inkling2",      "zaya",        "qwen4_exp",      "doge_window",
        "inkling2_loop", "zamba",       "kimi_k3"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        golden other;
        golden_open(&other, models[m]);
        linnet_engine *engine = engine_on(&other, exact_options(160, 2, 24, 1));
        for (size_t i = 0; i < GOLDEN_PROMPTS; i++)
            for (size_t turn = 0; turn < 3; turn++) {
                linnet_request_options options = greedy_options(&other, i);
                int32_t ids[MAX_IDS];
                linnet_finish finish;
                assert_int_equal(receive(submit(engine, &options), ids, &finish), GOLDEN_OUTPUT);
                assert_memory_equal(ids, other.greedy[i], sizeof other.greedy[i]);
            }
        assert_true(stats_of(engine).n_prefix_hit_tokens > 0);
        linnet_engine_destroy(engine);
        linnet_model_close(other.model);
    }
}

/* ---- groups ----------------------------------------------------------------------------- */

enum { N = 4, LENGTH = 12 };

typedef struct group_answer {
    int32_t ids[N][LENGTH];
    size_t n_ids[N];
    float scores[N];
} group_answer;

static void receive_group(linnet_request *request, size_t n, group_answer *answer) {
    size_t n_open = n;
    linnet_event event;
    memset(answer, 0, sizeof *answer);
    while (n_open > 0) {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        assert_in_range(event.index, 0, n - 1);
        if (event.finish == LINNET_FINISH_NONE) {
            answer->ids[event.index][answer->n_ids[event.index]++] = event.token;
        } else {
            n_open--;
            answer->scores[event.index] = event.score;
        }
        assert_int_equal(event.n_output_tokens, answer->n_ids[event.index]);
        assert_int_equal(event.n_open, n_open);
    }
    assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_ERR_STATE);
    linnet_request_close(request);
}

static linnet_request_options sampled_group(uint32_t n, uint32_t best_of) {
    linnet_request_options options = greedy_options(&g, 1);
    options.max_tokens = LENGTH;
    options.sampling.temperature = 1.3f;
    options.sampling.seed = 5;
    options.n = n;
    options.best_of = best_of;
    return options;
}

/* Output 0 is what a single request gives; the prompt is read once; the others differ. */
static void outputs_share_their_prompt(void **state) {
    (void)state;
    static group_answer first, other;
    for (size_t variant = 0; variant < 6; variant++) {
        linnet_engine_options engine_options = exact_options(128, N + variant % 2, 0, 1);
        engine_options.max_batch_tokens = variant < 3 ? 128 : 7;
        engine_options.prefix_cache = variant % 3 == 0;
        linnet_engine *engine = engine_on(&g, engine_options);
        linnet_request_options options = sampled_group(N, 0);
        receive_group(submit(engine, &options), N, variant == 0 ? &first : &other);
        if (variant > 0)
            assert_memory_equal(&other, &first, sizeof first);
        linnet_engine_stats stats = stats_of(engine);
        assert_int_equal(stats.n_computed_tokens, g.n_prompts[1] + N * (LENGTH - 1));
        assert_int_equal(stats.n_output_tokens, N * LENGTH);
        assert_int_equal(stats.n_kv_used, 0);
        assert_true(ln_kv_cache_check(&engine->cache));
        options = sampled_group(1, 0);
        int32_t ids[MAX_IDS];
        linnet_finish finish;
        assert_int_equal(receive(submit(engine, &options), ids, &finish), LENGTH);
        assert_memory_equal(ids, first.ids[0], sizeof first.ids[0]);
        linnet_engine_destroy(engine);
    }
    for (size_t i = 1; i < N; i++)
        assert_memory_not_equal(first.ids[i], first.ids[0], sizeof first.ids[0]);
}

/* Outputs of several requests are those of one: top-k alone is drawn on a device, a typical share
 * is not. */
static void outputs_go_on_in_another_request(void **state) {
    (void)state;
    static group_answer all, part;
    linnet_engine *engine = engine_on(&g, exact_options(128, N, 0, 1));
    for (size_t variant = 0; variant < 2; variant++) {
        linnet_request_options options = sampled_group(N, 0);
        options.sampling.top_k = 50;
        options.sampling.typical_p = variant == 0 ? 1 : 0.9f;
        receive_group(submit(engine, &options), N, &all);
        for (uint32_t first = 0; first < N; first += 2) {
            options.n = 2;
            options.first_output = first;
            receive_group(submit(engine, &options), 2, &part);
            assert_memory_equal(part.ids, all.ids[first], 2 * sizeof *all.ids);
        }
    }
    linnet_engine_destroy(engine);
}

/* best_of gives the likeliest of what n would give, best first. */
static void the_best_come_first(void **state) {
    (void)state;
    static group_answer all, best;
    linnet_engine *engine = engine_on(&g, exact_options(128, N, 0, 1));
    linnet_request_options options = sampled_group(N, 0);
    options.logprobs = true;
    linnet_request *request = submit(engine, &options);
    double sums[N] = {0};
    linnet_event event;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        if (event.token >= 0)
            all.ids[event.index][all.n_ids[event.index]++] = event.token;
        sums[event.index] += (double)event.logprob;
    } while (event.n_open > 0);
    linnet_request_close(request);
    options = sampled_group(2, N);
    receive_group(submit(engine, &options), 2, &best);
    size_t order[N] = {0, 1, 2, 3};
    for (size_t i = 0; i < N; i++)
        for (size_t j = i + 1; j < N; j++)
            if (sums[order[j]] > sums[order[i]]) {
                size_t held = order[i];
                order[i] = order[j];
                order[j] = held;
            }
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(best.ids[i], all.ids[order[i]], sizeof best.ids[i]);
        assert_true(best.scores[i] == (float)sums[order[i]]);
    }
    linnet_engine_destroy(engine);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_prefix_is_computed_once),
        cmocka_unit_test(a_long_prefix_is_computed_once),
        cmocka_unit_test(events_tell_what_was_cached),
        cmocka_unit_test(models_answer_alike_after_a_hit),
        cmocka_unit_test(outputs_share_their_prompt),
        cmocka_unit_test(outputs_go_on_in_another_request),
        cmocka_unit_test(the_best_come_first),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
