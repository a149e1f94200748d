/* Experts that are read from files when they are chosen. */
#include "engine_test.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/engine.h"

/* On a GPU the CPU's share is that of all layers. */
static linnet_engine_options disk_options(size_t ctx, size_t seqs, size_t batch, size_t threads) {
    linnet_engine_options options = exact_options(ctx, seqs, batch, threads);
    if (strcmp(engine_test_backend, "cpu") != 0)
        options.cpu_experts = INT32_MAX;
    return options;
}

static void plan_of(const golden *g, const linnet_engine_options *options,
                    linnet_memory_plan *plan) {
    linnet_error err = {0};
    *plan = (linnet_memory_plan){.struct_bytes = sizeof *plan};
    if (linnet_plan_memory(g->model, options, plan, &err) != LINNET_OK)
        fail_msg("%s", err.message);
}

/* The least that a cache may have. */
static size_t least_bytes(const golden *g, linnet_engine_options options) {
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_error err = {0};
    options.experts_from_disk = 1;
    assert_int_equal(linnet_plan_memory(g->model, &options, &plan, &err), LINNET_ERR_ARGUMENT);
    const char *takes = strstr(err.message, "takes ");
    assert_non_null(takes);
    return (size_t)strtoull(takes + strlen("takes "), NULL, 10);
}

/* Plain mixtures, biases, limits, scaled inputs, latent attention, recurrent layers, experts in
 * blocks; with one slot for each layer, a few, and all. */
static void caches_of_any_size_give_the_golden_ids(void **state) {
    (void)state;
    static const char *const names[] = {
        "qwen3_moe",     "mixtral",        "qwen2_moe",         "gemma4_moe",  "deepseek_v2",
        "gpt_oss",       "phimoe",         "deepseek_v3",       "qwen3_5_moe", "afmoe",
        "gpt_oss_mxfp4", "llama4",         "granitemoehybrid",  "dbrx",        "olmoe",
        "glm4_moe",      "minimax_m2",     "deepseek_v3_fp8",   "jamba",       "qwen3_moe_mixed",
        "glm4_moe_mtp",  "qwen3_next_mtp", "nemotron_h_latent", "hy_v3",       "hy_v4",
        "deepseek_v4",   "inkling",        "inkling2",          "jetmoe",      "kimi_k3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_open(&g, names[i]);
        linnet_engine_options options = disk_options(192, 3, 40, 2);
        size_t least = least_bytes(&g, options);
        const size_t sizes[] = {least, 3 * least, SIZE_MAX};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
            options.experts_from_disk = sizes[s];
            linnet_engine_stats stats = answer_as_planned(&g, options, ids);
            assert_true(sizes[s] != least || stats.n_expert_reads > 0);
            assert_true(sizes[s] != SIZE_MAX || stats.n_expert_reads == 0);
            expect_golden_ids(&g, ids, names[i], sizes[s]);
        }
        linnet_model_close(g.model);
    }
}

/* As beside a GPU: the experts of some layers, or of all, on a backend of their own. */
static void experts_apart_are_read_from_files(void **state) {
    (void)state;
    static const char *const names[] = {"qwen3_moe", "llama4", "deepseek_v3", "gpt_oss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        golden_open(&g, names[i]);
        linnet_model_info info = {.struct_bytes = sizeof info};
        linnet_model_get_info(g.model, &info);
        for (int32_t n = 1; n <= (int32_t)info.n_layers; n++) {
            int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
            linnet_engine_options options = exact_options(192, 3, 40, 2);
            options.cpu_experts = n;
            options.experts_from_disk = SIZE_MAX;
            linnet_memory_plan plan;
            plan_of(&g, &options, &plan);
            if (plan.disk_experts == 0) /* the first layers have none */
                continue;
            options.experts_from_disk = least_bytes(&g, options);
            linnet_engine_stats stats = answer_as_planned(&g, options, ids);
            assert_true(stats.n_expert_reads > 0);
            expect_golden_ids(&g, ids, names[i], (size_t)n);
        }
        linnet_model_close(g.model);
    }
}

/* A head that drafts has a layer behind the model's, also in arenas that files do not matter to. */
static void check_same_arenas(const golden *g, linnet_engine_options options) {
    static const size_t arenas[] = {LN_ARENA_KV, LN_ARENA_ACTIVATIONS, LN_ARENA_ENGINE,
                                    LN_ARENA_DRAFT};
    linnet_memory_plan with, without;
    plan_of(g, &options, &with);
    options.experts_from_disk = 0;
    plan_of(g, &options, &without);
    for (size_t i = 0; i < sizeof arenas / sizeof *arenas; i++)
        assert_int_equal(with.arenas[arenas[i]].bytes, without.arenas[arenas[i]].bytes);
}

static void heads_draft_with_experts_in_files(void **state) {
    (void)state;
    static const char *const names[] = {"glm4_moe_mtp", "deepseek_v3_mtp", "qwen3_next_mtp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t ids[GOLDEN_PROMPTS][MAX_IDS];
        linnet_engine_options options = disk_options(256, 4, 32, 2);
        golden g;
        golden_open(&g, names[i]);
        options.draft = "mtp";
        options.experts_from_disk = least_bytes(&g, options);
        check_same_arenas(&g, options);
        assert_true(answer_as_planned(&g, options, ids).n_expert_reads > 0);
        expect_golden_ids(&g, ids, names[i], 0);
        linnet_model_close(g.model);
    }
}

static void keep_row(void *user, size_t position, const float *row, size_t n_vocab) {
    memcpy((float *)user + position * n_vocab, row, n_vocab * sizeof *row);
}

/* Logits after each token of the first prompt. */
static void score(const golden *g, linnet_engine_options options, float *rows) {
    linnet_engine *engine = engine_on(g, options);
    linnet_request_options request = greedy_options(g, 0);
    linnet_finish finish;
    int32_t ids[MAX_IDS];
    request.kind = LINNET_REQUEST_SCORE;
    request.max_tokens = 0;
    request.on_logits = keep_row;
    request.user = rows;
    receive(submit(engine, &request), ids, &finish);
    assert_int_equal(finish, LINNET_FINISH_STOP);
    linnet_engine_destroy(engine);
}

/* Panels of each type that a folder has, or becomes: the same bits as with all in memory. */
static void packed_experts_have_the_same_bits(void **state) {
    (void)state;
    static const struct {
        const char *name, *quantize;
    } cases[] = {{"qwen3_moe", NULL},     {"qwen3_moe", "q8_0"},      {"qwen3_moe", "q4_0"},
                 {"gpt_oss_mxfp4", NULL}, {"deepseek_v3_half", NULL}, {"deepseek_v3_fp8", NULL},
                 {"mixtral", "int4"},     {"gpt_oss", "int8"},        {"deepseek_v2", "bf16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static float in_memory[MAX_IDS * N_VOCAB], from_disk[MAX_IDS * N_VOCAB];
        golden g;
        golden_open(&g, cases[i].name);
        linnet_engine_options options = disk_options(128, 2, 32, 2);
        options.precision = LINNET_PRECISION_FAST;
        options.quantize_on_load = cases[i].quantize;
        score(&g, options, in_memory);
        options.experts_from_disk = least_bytes(&g, options);
        score(&g, options, from_disk);
        assert_memory_equal(in_memory, from_disk, g.n_prompts[0] * N_VOCAB * sizeof(float));
        options.experts_from_disk *= 2;
        score(&g, options, from_disk);
        assert_memory_equal(in_memory, from_disk, g.n_prompts[0] * N_VOCAB * sizeof(float));
        linnet_model_close(g.model);
    }
}

/* One request alone needs the same experts with any cache; what is not there is read. */
static void hits_and_reads_are_counted(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "qwen3_moe");
    linnet_engine_options options = disk_options(128, 1, 32, 1);
    size_t least = least_bytes(&g, options);
    uint64_t n_needed = 0, before = UINT64_MAX;
    for (size_t slots = 1; slots <= 8; slots++) {
        linnet_memory_plan plan;
        linnet_finish finish;
        int32_t ids[MAX_IDS];
        options.experts_from_disk = slots * least;
        plan_of(&g, &options, &plan);
        linnet_engine *engine = engine_on(&g, options);
        linnet_request_options request = greedy_options(&g, 0);
        receive(submit(engine, &request), ids, &finish);
        linnet_engine_stats stats = stats_of(engine);
        linnet_engine_destroy(engine);
        uint64_t n = stats.n_expert_hits + stats.n_expert_reads;
        n_needed = n_needed == 0 ? n : n_needed;
        assert_int_equal(n, n_needed);
        assert_true(stats.n_expert_reads <= before);
        before = stats.n_expert_reads;
        bool has_all = plan.cached_experts == plan.disk_experts;
        assert_int_equal(stats.n_expert_reads == 0, has_all);
        assert_int_equal(plan.disk_token_bytes == 0, has_all);
        uint64_t each = 0; /* all experts are alike */
        if (stats.n_expert_reads > 0)
            each = stats.n_expert_bytes / stats.n_expert_reads;
        assert_int_equal(stats.n_expert_bytes, each * stats.n_expert_reads);
        assert_true(has_all || each > 0);
    }
    assert_int_equal(before, 0);
    linnet_model_close(g.model);
}

static linnet_finish generate(linnet_engine *engine, const golden *g, int32_t *ids, char *error) {
    linnet_request_options options = greedy_options(g, 0);
    linnet_request *request = submit(engine, &options);
    linnet_event event;
    size_t n_ids = 0;
    do {
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
        if (event.token >= 0)
            ids[n_ids++] = event.token;
    } while (event.finish == LINNET_FINISH_NONE);
    snprintf(error, 256, "%s", event.error != NULL ? event.error : "");
    linnet_request_close(request);
    return event.finish;
}

/* Files that end early, played by another one behind their descriptors, fail steps that need them,
 * and no others. */
static void a_read_that_fails_fails_the_step(void **state) {
    (void)state;
    golden g;
    int fd;
    size_t bytes;
    char error[256];
    int32_t ids[MAX_IDS], ids_before[MAX_IDS];
    linnet_engine_options options = disk_options(128, 1, 32, 2);
    options.prefix_cache = false;
    for (int fast = 0; fast < 2; fast++) {
        golden_open(&g, fast ? "deepseek_v3_half" : "qwen3_moe");
        options.precision = fast ? LINNET_PRECISION_FAST : LINNET_PRECISION_EXACT;
        options.experts_from_disk = 2 * least_bytes(&g, options);
        linnet_engine *engine = engine_on(&g, options);
        assert_int_equal(generate(engine, &g, ids_before, error), LINNET_FINISH_LENGTH);
        ln_checkpoint_file(g.model->checkpoint, 0, &fd, &bytes);
        int kept = dup(fd), empty = open("/dev/null", O_RDONLY);
        assert_true(kept >= 0 && empty >= 0);
        assert_int_equal(dup2(empty, fd), fd);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(generate(engine, &g, ids, error), LINNET_FINISH_ERROR);
            if (strstr(error, "its file cannot be read, or shrank") == NULL)
                fail_msg("%s", error);
        }
        assert_int_equal(dup2(kept, fd), fd);
        close(kept);
        close(empty);
        int32_t again[MAX_IDS];
        assert_int_equal(generate(engine, &g, again, error), LINNET_FINISH_LENGTH);
        for (size_t k = 0; k < GOLDEN_OUTPUT; k++)
            assert_int_equal(again[k], ids_before[k]);
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
    }
}

/* A file that is cut off while experts are read from it. */
static void a_truncated_file_is_one_error(void **state) {
    (void)state;
    golden g;
    char folder[] = "/tmp/linnet-experts-XXXXXX", command[2048], error[256];
    int32_t ids[MAX_IDS];
    linnet_error err = {0};
    golden_open(&g, "qwen3_moe");
    linnet_model_close(g.model);
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cp %s/tests/golden/models/qwen3_moe/*.json %s && "
             "cp %s/tests/golden/models/qwen3_moe/model.safetensors %s",
             TEST_SOURCE_DIR, folder, TEST_SOURCE_DIR, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(linnet_install_fault_handler(NULL), LINNET_OK);
    assert_int_equal(linnet_model_open(folder, &g.model, &err), LINNET_OK);
    linnet_engine_options options = disk_options(128, 1, 32, 2);
    options.experts_from_disk = least_bytes(&g, options);
    linnet_engine *engine = engine_on(&g, options);
    assert_int_equal(generate(engine, &g, ids, error), LINNET_FINISH_LENGTH);
    snprintf(command, sizeof command, "%s/model.safetensors", folder);
    assert_int_equal(truncate(command, 8192), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(generate(engine, &g, ids, error), LINNET_FINISH_ERROR);
        if (strstr(error, "shrank") == NULL)
            fail_msg("%s", error);
    }
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void what_is_not_possible_is_refused(void **state) {
    (void)state;
    linnet_engine_options options = exact_options(64, 1, 0, 1);
    options.experts_from_disk = SIZE_MAX;
    refuse_plan("llama", options, LINNET_ERR_UNSUPPORTED, "experts_from_disk is given, but");
    options.gpu_layers = 1;
    refuse_plan("qwen3_moe", options, LINNET_ERR_UNSUPPORTED, "experts_from_disk needs");
    options.gpu_layers = -1;
    options.n_ranks = 2;
    refuse_plan("qwen3_moe", options, LINNET_ERR_UNSUPPORTED, "ranks");
    options = disk_options(64, 1, 0, 1);
    options.experts_from_disk = 1;
    refuse_plan("qwen3_moe", options, LINNET_ERR_ARGUMENT, "experts_from_disk is 1");
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_any_size_give_the_golden_ids),
        cmocka_unit_test(experts_apart_are_read_from_files),
        cmocka_unit_test(heads_draft_with_experts_in_files),
        cmocka_unit_test(packed_experts_have_the_same_bits),
        cmocka_unit_test(hits_and_reads_are_counted),
        cmocka_unit_test(a_read_that_fails_fails_the_step),
        cmocka_unit_test(a_truncated_file_is_one_error),
        cmocka_unit_test(what_is_not_possible_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
