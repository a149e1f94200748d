/* Layers split over two backends: the last ones on the one under test, the others on the CPU. */
#include "played_memory.h"

#include "engine/plan/choose.h"
#include "engine/plan/offload.h"
#include "engine/plan/serving.h"
#include "engine/plan/sizes.h"

static void any_split_gives_the_same_ids(void **state) {
    (void)state;
    static const char *const names[] = {
        "llama",       "gemma3",  "qwen3_moe",        "gpt2",   "bloom",   "deepseek_v2", "gpt_oss",
        "phi3_window", "qwen3_5", "granitemoehybrid", "mamba2", "minimax", "kimi_k3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_open(&g, names[i]);
        linnet_model_info info = {.struct_bytes = sizeof info};
        linnet_model_get_info(g.model, &info);
        for (int32_t n = 0; n <= (int32_t)info.n_layers + 1; n++) {
            int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
            linnet_engine_options options = exact_options(192, 3, 40, 2);
            options.gpu_layers = n;
            answer_as_planned(&g, options, ids);
            expect_golden_ids(&g, ids, names[i], (size_t)n);
        }
        linnet_model_close(g.model);
    }
}

/* Layers that attend to keys and values of earlier ones are on the same side as these; embeddings
 * of layers and further streams cross the border. */
static void check_shared(const char *name, int32_t first_shared, int32_t n_layers) {
    golden g;
    char wanted[64];
    golden_open(&g, name);
    snprintf(wanted, sizeof wanted, "gpu_layers can be 0, or %d and more", n_layers - first_shared);
    for (int32_t n = 0; n <= n_layers; n++) {
        linnet_engine_options options = exact_options(192, 3, 40, 2);
        options.gpu_layers = n;
        if (n > 0 && n < n_layers - first_shared) {
            linnet_memory_plan plan = {.struct_bytes = sizeof plan};
            linnet_error err = {0};
            assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err),
                             LINNET_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.message, wanted));
            continue;
        }
        int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
        answer_as_planned(&g, options, ids);
        expect_golden_ids(&g, ids, name, (size_t)n);
    }
    linnet_model_close(g.model);
}

static void layers_that_share_keys_stay_together(void **state) {
    (void)state;
    check_shared("gemma4_shared", 1, 6);
    check_shared("gemma3n", 1, 5);
}

/* Few blocks and a swap space: blocks of both sides move. */
static void blocks_of_both_sides_move(void **state) {
    (void)state;
    static const linnet_preemption ways[] = {LINNET_PREEMPTION_SWAP, LINNET_PREEMPTION_RECOMPUTE};
    golden g;
    golden_open(&g, "llama");
    for (size_t i = 0; i < 2; i++) {
        linnet_engine_options options = exact_options(96, 8, 32, 1);
        options.gpu_layers = 1;
        options.kv_tokens = 192;
        options.swap_bytes = 1 << 20;
        options.preemption = ways[i];
        linnet_engine *engine = engine_on(&g, options);
        linnet_request *requests[8];
        for (size_t r = 0; r < 8; r++) {
            linnet_request_options request = greedy_options(&g, r % GOLDEN_PROMPTS);
            request.n = 1 + r % 2;
            requests[r] = submit(engine, &request);
        }
        for (size_t r = 0; r < 8; r++) {
            linnet_event event = {0};
            size_t n_ids[2] = {0};
            for (size_t n_ends = 0; n_ends < 1 + r % 2; n_ends += event.finish != 0) {
                assert_int_equal(linnet_request_next(requests[r], -1, &event, NULL), LINNET_OK);
                if (event.token < 0)
                    continue;
                assert_int_equal(event.token, g.greedy[r % GOLDEN_PROMPTS][n_ids[event.index]++]);
            }
            linnet_request_close(requests[r]);
        }
        linnet_engine_stats stats = {.struct_bytes = sizeof stats};
        linnet_engine_get_stats(engine, &stats);
        assert_true(stats.n_swap_preemptions + stats.n_recompute_preemptions > 0);
        assert_true(i > 0 || stats.n_swapped_blocks > 0);
        linnet_engine_destroy(engine);
    }
    linnet_model_close(g.model);
}

/* Plans as for a GPU with so much free memory. */
static ln_status plan_for(const golden *g, linnet_engine_options options, size_t bytes,
                          ln_engine_plan *plan, ln_error *err) {
    played_memory gpu;
    options.gpu_layers = INT32_MAX; /* whole, until it is asked what fits */
    make_played_plan(g, &options, bytes, &gpu, plan);
    options.gpu_layers = -1;
    ln_status status =
        ln_engine_plan_offload(g->model, &options, gpu.backend, &played_cpu, plan, err);
    free_played_plan(&gpu, plan);
    return status;
}

static void as_many_layers_run_there_as_fit(void **state) {
    (void)state;
    static const char *const names[] = {"gemma3", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_open(&g, names[i]);
        linnet_engine_options options = exact_options(128, 2, 32, 1);
        ln_engine_plan plan;
        ln_error err = {0};
        options.backend = "cpu";
        size_t bytes = MARGIN_BYTES, n_layers, n_cpu = 0;
        assert_int_equal(plan_for(&g, options, SIZE_MAX, &plan, &err), LINNET_OK);
        n_layers = plan.n_layers;
        assert_int_equal(plan.cpu_layers.n_layers, 0);
        assert_int_equal(plan.bytes[LN_ARENA_CPU_LAYERS], 0);
        /* one byte less than fits makes one layer more move */
        for (bytes += ln_engine_plan_device_bytes(&plan, plan.bytes); n_cpu < n_layers - 1;) {
            assert_int_equal(plan_for(&g, options, bytes, &plan, &err), LINNET_OK);
            assert_int_equal(plan.cpu_layers.n_layers, n_cpu);
            assert_int_equal(plan_for(&g, options, bytes - 1, &plan, &err), LINNET_OK);
            assert_int_equal(plan.cpu_layers.n_layers, ++n_cpu);
            assert_true(plan.bytes[LN_ARENA_CPU_LAYERS] > 0);
            size_t fewer = ln_engine_plan_device_bytes(&plan, plan.bytes) + MARGIN_BYTES;
            assert_true(fewer < bytes);
            bytes = fewer;
        }
        assert_int_equal(plan_for(&g, options, bytes - 1, &plan, &err), LINNET_ERR_NOMEM);
        if (strstr(err.message, "not one of the") == NULL)
            fail_msg("%s", err.message);
        linnet_model_close(g.model);
    }
}

/* Models of vectors have steps of up to 32,768 tokens on a GPU, as far as these fit five eighths of
 * what the weights leave. */
static void texts_are_read_in_long_steps(void **state) {
    (void)state;
    golden g;
    played_memory gpu;
    ln_engine_plan plan;
    golden_open(&g, "llama");
    linnet_engine_options options = exact_options(64, 1000, 0, 1);
    options.backend = "cpu";
    make_played_plan(&g, &options, 0, &gpu, &plan);
    size_t weights = plan.bytes[LN_ARENA_WEIGHTS] + plan.mapped_bytes;
    for (int variant = 0; variant < 5; variant++) {
        bool is_there = variant > 2; /* all that long steps want */
        played_bytes = (size_t)1 << 50;
        plan.step_tokens = 0;
        plan.on_device = variant > 0;
        plan.spec.lacks_output = variant != 1;
        options.max_batch_tokens = variant == 2 ? 1024 : 0;
        for (size_t n = 32768; n >= 512; n /= 2) {
            ln_engine_plan_choose_steps(g.model, &options, gpu.backend, &plan);
            assert_int_equal(plan.step_tokens, is_there && n > 512 ? n : 0);
            size_t others = 0;
            for (size_t i = 0; i < LN_ARENA_COUNT; i++)
                others += i == LN_ARENA_WEIGHTS ? 0 : plan.bytes[i];
            played_bytes = weights + others / 5 * 8 - 1;
        }
    }
    free_played_plan(&gpu, &plan);
    linnet_model_close(g.model);
}

/* The least memory with which a context of so many tokens is chosen, from a plan of that. */
static size_t least_memory(const linnet_engine_options *options, const played_memory *played,
                           ln_engine_plan *plan) {
    size_t weights, others = 0;
    ln_error err = {0};
    ln_engine_plan_budget(options, plan);
    assert_int_equal(ln_engine_plan_arenas(&plan->spec, played->backend, plan, &err), LINNET_OK);
    weights = plan->bytes[LN_ARENA_WEIGHTS] + plan->mapped_bytes;
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        others += i == LN_ARENA_WEIGHTS ? 0 : plan->bytes[i];
    return weights + (others + 3) / 4 * 8;
}

/* The engine reserves what the plan of a chosen context says. */
static void check_reserved(const golden *g, linnet_engine_options options,
                           const ln_engine_plan *plan) {
    size_t total = 0;
    options.ctx_tokens = plan->ctx_tokens;
    linnet_memory_plan reserved = {.struct_bytes = sizeof reserved};
    linnet_engine *engine = engine_on(g, options);
    linnet_engine_get_memory(engine, &reserved);
    for (size_t i = 0; i < LN_ARENA_COUNT; i++)
        total += plan->bytes[i];
    assert_int_equal(total, reserved.total_bytes);
    linnet_engine_destroy(engine);
}

/* A chosen context fits to the byte, with the tables by position that are among the weights. */
static void chosen_contexts_fit_to_the_byte(void **state) {
    (void)state;
    static const char *const names[] = {"inkling", "inkling2", "llama"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        played_memory played;
        ln_engine_plan plan;
        ln_error err = {0};
        golden_open(&g, names[i]);
        linnet_engine_options options = exact_options(64, 2, 32, 1);
        options.backend = "cpu";
        make_played_plan(&g, &options, 0, &played, &plan);
        plan.on_device = false;
        plan.spec.ctx_tokens = 1 << 20;
        for (played_bytes = 48 << 20; played_bytes > 12 << 20; played_bytes -= 10 << 20) {
            assert_int_equal(
                ln_engine_plan_choose_ctx(g.model, &options, played.backend, &plan, &err),
                LINNET_OK);
            size_t chosen = plan.ctx_tokens, bytes = least_memory(&options, &played, &plan);
            assert_true(chosen > 512 && chosen < 1 << 20 && bytes <= played_bytes);
            check_reserved(&g, options, &plan);
            for (size_t less = 0; less < 2; less++) {
                played_bytes = bytes - less;
                assert_int_equal(
                    ln_engine_plan_choose_ctx(g.model, &options, played.backend, &plan, &err),
                    LINNET_OK);
                assert_int_equal(plan.ctx_tokens, chosen - less * 256);
            }
        }
        free_played_plan(&played, &plan);
        linnet_model_close(g.model);
    }
}

/* What a server's sizes leave of the memory: they fit seven eighths of it, and a longer KV cache
 * does not. */
static void check_served(const linnet_engine_options *options, const played_memory *gpu,
                         size_t most_ctx, ln_engine_plan *plan) {
    size_t most = plan->n_seqs * most_ctx, kv_tokens = plan->kv_tokens, ctx = plan->ctx_tokens;
    assert_true(plan->n_seqs >= 16 && plan->n_seqs <= 256 && plan->step_tokens <= 4096);
    assert_true(ln_engine_plan_fits_share(gpu->backend, options, played_bytes, 7, plan) &&
                ln_engine_plan_fits(gpu->backend, plan));
    if (kv_tokens == 0) {
        assert_int_equal(ctx, most_ctx);
        return;
    }
    assert_true(kv_tokens % 256 == 0 && kv_tokens < most);
    assert_int_equal(ctx, kv_tokens < most_ctx ? kv_tokens : most_ctx);
    plan->kv_tokens += 256;
    plan->ctx_tokens = plan->kv_tokens < most_ctx ? plan->kv_tokens : most_ctx;
    assert_false(ln_engine_plan_fits_share(gpu->backend, options, played_bytes, 7, plan) &&
                 ln_engine_plan_fits(gpu->backend, plan));
}

/* By the memory behind the weights and what a GPU keeps free. */
static void check_servers(const char *name, linnet_engine_options options, size_t most_ctx) {
    golden g;
    played_memory gpu;
    ln_engine_plan plan;
    ln_error err = {0};
    size_t n_chosen = 0, last_seqs = 256;
    golden_open(&g, name);
    linnet_engine_options of_plan = exact_options(64, 1, 0, 1);
    of_plan.backend = "cpu";
    make_played_plan(&g, &of_plan, 0, &gpu, &plan);
    size_t weights = plan.bytes[LN_ARENA_WEIGHTS] + plan.mapped_bytes;
    plan.on_device = true;
    plan.spec.ctx_tokens = most_ctx;
    for (size_t shift = 44; shift >= 25; shift--) {
        played_bytes = weights + MARGIN_BYTES + ((size_t)1 << shift);
        plan.n_seqs = plan.step_tokens = plan.kv_tokens = 0;
        assert_int_equal(ln_engine_plan_choose_serving(g.model, &options, gpu.backend, &plan, &err),
                         LINNET_OK);
        assert_true(plan.n_seqs <= last_seqs);
        last_seqs = plan.n_seqs;
        n_chosen += plan.kv_tokens > 0;
        if (shift == 44)
            assert_true(plan.n_seqs == 256 && plan.step_tokens == 4096 && plan.kv_tokens == 0);
        if (options.ctx_tokens > 0)
            assert_int_equal(plan.ctx_tokens, options.ctx_tokens);
        if (plan.shares_windows)
            check_served(&options, &gpu, most_ctx, &plan);
    }
    assert_true(n_chosen > 3 && last_seqs < 256);
    free_played_plan(&gpu, &plan);
    linnet_model_close(g.model);
}

static void servers_choose_by_memory(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(0, 0, 0, 1);
    options.backend = "cpu";
    options.serves = true;
    options.gpu_layers = -1;
    check_servers("llama", options, 1 << 16);
    check_servers("gemma3", options, 1 << 16);
    options.ctx_tokens = 1 << 13;
    check_servers("llama", options, 1 << 13);
}

/* What was asked for, or suits no server, is not chosen. */
static void servers_keep_what_is_asked_for(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    linnet_engine_options options = exact_options(0, 0, 0, 1);
    options.serves = true;
    options.gpu_layers = -1;
    assert_true(ln_engine_plan_serves(g.model, &options, 1));
    assert_false(ln_engine_plan_serves(g.model, &options, 2));
    assert_int_equal(ln_engine_plan_least_seqs(&options), 16);
    options.max_batch_tokens = 8;
    assert_int_equal(ln_engine_plan_least_seqs(&options), 8);
    options.max_seqs = 3;
    assert_int_equal(ln_engine_plan_least_seqs(&options), 3);
    options.gpu_layers = 1;
    assert_false(ln_engine_plan_serves(g.model, &options, 1));
    options.gpu_layers = 1000;
    assert_true(ln_engine_plan_serves(g.model, &options, 1));
    options.kv_tokens = 4096;
    assert_false(ln_engine_plan_serves(g.model, &options, 1));
    linnet_model_close(g.model);
}

static void what_cannot_be_split_is_refused(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(64, 1, 0, 1);
    options.gpu_layers = 1;
    refuse_plan("t5", options, LINNET_ERR_UNSUPPORTED, "encoder");
    refuse_plan("deepseek_v32", options, LINNET_ERR_UNSUPPORTED, "indexer");
    options.gpu_layers = -2;
    refuse_plan("llama", options, LINNET_ERR_ARGUMENT, "gpu_layers");
}

/* Where there is no GPU, options for one are no failure. */
static void the_cpu_runs_all_without_a_gpu(void **state) {
    (void)state;
    golden g;
    linnet_engine_options options = exact_options(64, 1, 0, 1);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_error err = {0};
    if (test_has_backend("cuda"))
        return;
    golden_open(&g, "llama");
    options.backend = "auto";
    for (options.gpu_layers = 1; options.gpu_layers < 100; options.gpu_layers += 98) {
        assert_int_equal(linnet_plan_memory(g.model, &options, &plan, &err), LINNET_OK);
        assert_int_equal(plan.gpu_layers, 0);
        for (size_t i = 0; i < plan.n_arenas; i++)
            assert_true(strcmp(plan.arenas[i].name, "cpu layers") != 0 ||
                        plan.arenas[i].bytes == 0);
    }
    linnet_model_close(g.model);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_ids),
        cmocka_unit_test(layers_that_share_keys_stay_together),
        cmocka_unit_test(blocks_of_both_sides_move),
        cmocka_unit_test(as_many_layers_run_there_as_fit),
        cmocka_unit_test(texts_are_read_in_long_steps),
        cmocka_unit_test(chosen_contexts_fit_to_the_byte),
        cmocka_unit_test(servers_choose_by_memory),
        cmocka_unit_test(servers_keep_what_is_asked_for),
        cmocka_unit_test(what_cannot_be_split_is_refused),
        cmocka_unit_test(the_cpu_runs_all_without_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
