/* Experts on the CPU, all else on the backend under test. */
#include "played_memory.h"

#include "engine/plan/expert_offload.h"

/* Plain mixtures, shared experts and gates, a dense feed-forward beside, latent attention, limited
 * experts with biases, scaled inputs, ranked groups, recurrent layers; every number of layers. */
static void experts_anywhere_give_the_same_ids(void **state) {
    (void)state;
    static const char *const names[] = {
        "qwen3_moe", "mixtral",     "qwen2_moe",        "gemma4_moe",  "deepseek_v2", "gpt_oss",
        "phimoe",    "deepseek_v3", "granitemoehybrid", "qwen3_5_moe", "afmoe",       "glm4_moe",
        "olmoe",     "inkling",     "inkling2",         "kimi_k3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_open(&g, names[i]);
        linnet_model_info info = {.struct_bytes = sizeof info};
        linnet_model_get_info(g.model, &info);
        for (int32_t n = 1; n <= (int32_t)info.n_layers + 1; n++) {
            int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
            linnet_engine_options options = exact_options(192, 3, 40, 2);
            options.cpu_experts = n;
            answer_as_planned(&g, options, ids);
            expect_golden_ids(&g, ids, names[i], (size_t)n);
        }
        linnet_model_close(g.model);
    }
}

/* Arenas that do not depend on where experts are. */
static void check_same_arenas(const golden *g, linnet_engine_options options) {
    static const size_t arenas[] = {LN_ARENA_KV, LN_ARENA_ACTIVATIONS, LN_ARENA_ENGINE,
                                    LN_ARENA_DRAFT};
    linnet_memory_plan without = {.struct_bytes = sizeof without}, with = without;
    linnet_error err = {0};
    assert_int_equal(linnet_plan_memory(g->model, &options, &with, &err), LINNET_OK);
    options.cpu_experts = 0;
    assert_int_equal(linnet_plan_memory(g->model, &options, &without, &err), LINNET_OK);
    for (size_t i = 0; i < sizeof arenas / sizeof *arenas; i++)
        assert_int_equal(with.arenas[arenas[i]].bytes, without.arenas[arenas[i]].bytes);
}

/* A head that drafts, whose layer and cache lie behind the model's, on the backend. */
static void heads_draft_beside_experts(void **state) {
    (void)state;
    static const char *const names[] = {"glm4_moe_mtp", "deepseek_v3_mtp", "qwen3_next_mtp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
        linnet_engine_options options = exact_options(256, 4, 32, 2);
        golden g;
        golden_open(&g, names[i]);
        options.cpu_experts = INT32_MAX;
        options.draft = "mtp";
        check_same_arenas(&g, options);
        answer_as_planned(&g, options, ids);
        expect_golden_ids(&g, ids, names[i], 0);
        linnet_model_close(g.model);
    }
}

/* The plan says how many layers have them there, and what for. */
static void the_plan_says_where_experts_are(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "qwen3_moe");
    linnet_engine_options options = exact_options(128, 2, 32, 1);
    linnet_memory_plan without = {.struct_bytes = sizeof without}, with = without;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_error err = {0};
    linnet_model_get_info(g.model, &info);
    assert_int_equal(linnet_plan_memory(g.model, &options, &without, &err), LINNET_OK);
    assert_int_equal(without.cpu_experts, 0);
    options.cpu_experts = INT32_MAX;
    assert_int_equal(linnet_plan_memory(g.model, &options, &with, &err), LINNET_OK);
    assert_int_equal(with.cpu_experts, info.n_layers);
    assert_true(with.arenas[LN_ARENA_CPU_LAYERS].bytes > 0);
    assert_true(with.arenas[LN_ARENA_WEIGHTS].bytes + with.mapped_bytes <=
                without.arenas[LN_ARENA_WEIGHTS].bytes + without.mapped_bytes);
    linnet_model_close(g.model);
}

/* Plans as for a GPU with so much free memory. */
static ln_status plan_for(const golden *g, linnet_engine_options options, size_t bytes,
                          ln_engine_plan *plan, ln_error *err) {
    played_memory gpu;
    make_played_plan(g, &options, bytes, &gpu, plan);
    options.cpu_experts = -1;
    ln_status status =
        ln_engine_plan_offload_experts(g->model, &options, gpu.backend, &played_cpu, plan, err);
    free_played_plan(&gpu, plan);
    return status;
}

/* As few layers as make the rest fit: what fits to the byte, with one byte less does not. */
static void as_few_experts_leave_as_must(void **state) {
    (void)state;
    golden g;
    ln_engine_plan plan;
    ln_error err = {0};
    golden_open(&g, "gpt_oss");
    linnet_engine_options options = exact_options(128, 2, 32, 1);
    options.backend = "cpu";
    assert_int_equal(plan_for(&g, options, SIZE_MAX, &plan, &err), LINNET_OK);
    size_t n_layers = plan.n_layers;
    size_t bytes = MARGIN_BYTES + ln_engine_plan_device_bytes(&plan, plan.bytes);
    assert_int_equal(plan.cpu_experts.n_layers, 0);
    for (size_t n = 0; n < n_layers; n++) {
        assert_int_equal(plan_for(&g, options, bytes, &plan, &err), LINNET_OK);
        assert_int_equal(plan.cpu_experts.n_layers, n);
        if (plan_for(&g, options, bytes - 1, &plan, &err) != LINNET_OK)
            fail_msg("%s", err.message);
        assert_int_equal(plan.cpu_experts.n_layers, n + 1);
        size_t fewer = ln_engine_plan_device_bytes(&plan, plan.bytes) + MARGIN_BYTES;
        assert_true(fewer < bytes);
        bytes = fewer;
    }
    assert_int_equal(plan_for(&g, options, bytes - 1, &plan, &err), LINNET_ERR_NOMEM);
    if (strstr(err.message, "even without experts") == NULL)
        fail_msg("%s", err.message);
    linnet_model_close(g.model);
}

/* The host needs what is reserved and not on the device, but for what an open model has: what fits
 * to the byte, with one byte less is an error. */
static void the_host_has_the_memory_or_it_is_an_error(void **state) {
    (void)state;
    golden g;
    ln_backend *backend;
    ln_engine_plan plan;
    ln_error err = {0};
    golden_open(&g, "qwen3_moe");
    linnet_engine_options options = exact_options(128, 2, 32, 1);
    options.backend = "cpu";
    options.cpu_experts = INT32_MAX;
    assert_int_equal(
        ln_engine_plan_make(g.model, &options, NULL, sizeof(linnet_engine), &backend, &plan, &err),
        LINNET_OK);
    ln_backend *host = plan.cpu_experts.backend;
    played_memory played;
    play_memory(&played, host);
    for (int on_device = 0; on_device < 2; on_device++) {
        plan.on_device = on_device > 0;
        linnet_memory_plan full = ln_engine_plan_report(&plan, plan.bytes);
        played_bytes = full.total_bytes - full.device_bytes - plan.bytes[LN_ARENA_TOKENIZER] -
                       plan.bytes[LN_ARENA_HEADERS];
        assert_int_equal(ln_engine_plan_check_experts(&plan, &err), LINNET_OK);
        played_bytes--;
        assert_int_equal(ln_engine_plan_check_experts(&plan, &err), LINNET_ERR_NOMEM);
        if (strstr(err.message, "experts_from_disk leaves them") == NULL)
            fail_msg("%s", err.message);
        plan.cpu_experts.cache_bytes = 1 << 20;
        assert_int_equal(ln_engine_plan_check_experts(&plan, &err), LINNET_ERR_NOMEM);
        if (strstr(err.message, "a smaller experts_from_disk") == NULL)
            fail_msg("%s", err.message);
        plan.cpu_experts.cache_bytes = 0;
    }
    stop_playing(&played);
    ln_engine_plan_free(&plan, backend);
    linnet_model_close(g.model);
}

static void what_is_not_possible_is_refused(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(64, 1, 0, 1);
    options.cpu_experts = 1;
    refuse_plan("llama", options, LINNET_ERR_UNSUPPORTED, "has no experts");
    refuse_plan("inkling2_loop", options, LINNET_ERR_UNSUPPORTED, "run several times");
    options.gpu_layers = 1;
    refuse_plan("qwen3_moe", options, LINNET_ERR_UNSUPPORTED, "gpu_layers is 1");
    options.gpu_layers = -1;
    options.n_ranks = 2;
    refuse_plan("qwen3_moe", options, LINNET_ERR_UNSUPPORTED, "ranks");
    options.n_ranks = 0;
    options.cpu_experts = 1;
    options.max_batch_tokens = INT32_MAX; /* rows of terabytes */
    refuse_plan("qwen3_moe", options, LINNET_ERR_NOMEM, "with the experts of 1 of ");
    options.max_batch_tokens = 0;
    options.cpu_experts = -2;
    refuse_plan("qwen3_moe", options, LINNET_ERR_ARGUMENT, "cpu_experts is -2");
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_anywhere_give_the_same_ids),
        cmocka_unit_test(heads_draft_beside_experts),
        cmocka_unit_test(the_plan_says_where_experts_are),
        cmocka_unit_test(as_few_experts_leave_as_must),
        cmocka_unit_test(the_host_has_the_memory_or_it_is_an_error),
        cmocka_unit_test(what_is_not_possible_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
