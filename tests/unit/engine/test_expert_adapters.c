/* Adapters of experts while the engine runs: PEFT's logits, the same bits alone and in a crowd,
 * whatever forms of adapters share a step, and what is refused. */
#include "engine_test.h"
#include "made_adapter.h"

enum { N_ADAPTERS = 6, DIM = 64, HIDDEN = 48, N_EXPERTS = 6, N_USERS = 3 * N_ADAPTERS + 3 };

static const char peft[] = TEST_SOURCE_DIR "/tests/golden/adapter_experts";
static golden g;

static int open_model(void **state) {
    (void)state;
    golden_open(&g, "qwen3_moe");
    return 0;
}

static int close_model(void **state) {
    (void)state;
    linnet_model_close(g.model);
    return 0;
}

static linnet_engine_options with_experts(linnet_engine_options options) {
    options.max_adapters = N_ADAPTERS + 1;
    options.max_adapter_rank = 20;
    options.adapt_experts = true;
    return options;
}

/* By its number a LoRA of both stacks, of single experts' linears (some of them, not the first),
 * or of no expert. */
static void make(made_adapter *a, size_t number) {
    size_t rank = number % 2 == 0 ? 3 : 18;
    made_adapter_begin(a, rank, (uint32_t)number + 1);
    made_adapter_linear(a, "model.layers.0.self_attn.q_proj", DIM, DIM);
    if (number % 3 == 0) {
        json_object_set_new(a->config, "target_parameters",
                            json_pack("[s,s]", "gate_up_proj", "down_proj"));
        made_adapter_put(a, "model.layers.1.mlp.experts.base_layer", "lora_A.weight",
                         N_EXPERTS * rank, DIM);
        made_adapter_put(a, "model.layers.1.mlp.experts.base_layer", "lora_B.weight",
                         (size_t)2 * HIDDEN, N_EXPERTS * rank);
        made_adapter_put(a, "model.layers.1.mlp.experts", "lora_A.weight", N_EXPERTS * rank,
                         HIDDEN);
        made_adapter_put(a, "model.layers.1.mlp.experts", "lora_B.weight", DIM, N_EXPERTS * rank);
    }
    for (size_t e = 1; number % 3 == 1 && e < N_EXPERTS; e += 2) {
        char module[64];
        snprintf(module, sizeof module, "model.layers.0.mlp.experts.%zu.gate_proj", e);
        made_adapter_linear(a, module, HIDDEN, DIM);
        snprintf(module, sizeof module, "model.layers.1.mlp.experts.%zu.down_proj", e);
        made_adapter_linear(a, module, DIM, HIDDEN);
    }
    made_adapter_end(a);
}

static void load(linnet_engine *engine, const char *name, const char *folder) {
    linnet_error err = {0};
    if (linnet_engine_load_adapter(engine, name, folder, 1.0f, &err) != LINNET_OK)
        fail_msg("%s", err.message);
}

/* The row behind the prompt stays. */
static void keep_row(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)position;
    memcpy(user, row, n_vocab * sizeof *row);
}

static linnet_request *score(linnet_engine *engine, size_t prompt, const char *adapter,
                             float *row) {
    return submit_score(engine, &g, prompt, adapter, keep_row, row);
}

static void logits_are_those_of_peft(void **state) {
    (void)state;
    static float want[GOLDEN_PROMPTS][N_VOCAB], row[N_VOCAB];
    const char *const sets[] = {"scalar", "auto"};
    FILE *file = fopen(TEST_SOURCE_DIR "/tests/golden/adapter_experts/golden.bin", "rb");
    assert_non_null(file);
    assert_int_equal(fread(want, sizeof want, 1, file), 1);
    fclose(file);
    for (size_t set = 0; set < 2; set++) {
        linnet_engine_options options = with_experts(exact_options(128, 1, 32, 2));
        options.cpu = sets[set];
        linnet_engine *engine = engine_on(&g, options);
        load(engine, "a", peft);
        for (size_t prompt = 0; prompt < GOLDEN_PROMPTS; prompt++) {
            finish_score(score(engine, prompt, "a", row));
            for (size_t i = 0; i < N_VOCAB; i++)
                if (!(fabsf(row[i] - want[prompt][i]) <= 1e-5f))
                    fail_msg("%s: prompt %zu, token %zu: %g, not %g", sets[set], prompt, i,
                             (double)row[i], (double)want[prompt][i]);
        }
        linnet_engine_destroy(engine);
    }
}

/* Three requests of each adapter and of none, alone and at once. */
static void check_crowd(const char *cpu, linnet_precision precision) {
    static float alone[N_USERS][N_VOCAB], crowd[N_USERS][N_VOCAB], base[N_VOCAB];
    static made_adapter made[N_ADAPTERS];
    static const char names[N_ADAPTERS][2] = {"a", "b", "c", "d", "e", "f"};
    linnet_request *requests[N_USERS];
    linnet_engine_options options = exact_options(128, N_USERS, 70, 2);
    options.cpu = cpu;
    options.precision = precision;
    linnet_engine *plain = engine_on(&g, options);
    linnet_engine *engine = engine_on(&g, with_experts(options));
    for (size_t i = 0; i < N_ADAPTERS; i++) {
        make(&made[i], i);
        load(engine, names[i], made[i].folder);
    }
    finish_score(score(plain, 1, NULL, base));
    for (size_t i = 0; i < N_USERS; i++) {
        size_t number = i % (N_ADAPTERS + 1);
        const char *name = number < N_ADAPTERS ? names[number] : NULL;
        finish_score(score(engine, 1, name, alone[i]));
    }
    for (size_t i = 0; i < N_USERS; i++) {
        size_t number = i % (N_ADAPTERS + 1);
        requests[i] = score(engine, 1, number < N_ADAPTERS ? names[number] : NULL, crowd[i]);
    }
    for (size_t i = 0; i < N_USERS; i++)
        finish_score(requests[i]);
    for (size_t i = 0; i < N_USERS; i++) {
        bool is_base = memcmp(alone[i], base, sizeof base) == 0;
        assert_memory_equal(crowd[i], alone[i], sizeof crowd[i]);
        assert_int_equal(is_base, i % (N_ADAPTERS + 1) == N_ADAPTERS);
    }
    for (size_t i = 0; i < N_ADAPTERS; i++)
        made_adapter_remove(&made[i]);
    linnet_engine_destroy(plain);
    linnet_engine_destroy(engine);
}

static void bits_do_not_depend_on_the_batch(void **state) {
    (void)state;
    check_crowd("scalar", LINNET_PRECISION_EXACT);
    check_crowd("auto", LINNET_PRECISION_EXACT);
    check_crowd("auto", LINNET_PRECISION_FAST);
}

static void others_are_refused(void **state) {
    (void)state;
    linnet_error err = {0};
    linnet_engine_options options = with_experts(exact_options(128, 1, 32, 1));
    options.adapt_experts = false;
    linnet_engine *engine = engine_on(&g, options);
    assert_int_equal(linnet_engine_load_adapter(engine, "a", peft, 1.0f, &err),
                     LINNET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "only with adapt_experts"));
    linnet_engine_destroy(engine);
    options.adapt_experts = true;
    options.experts_from_disk = 1 << 24;
    assert_int_equal(linnet_engine_create(g.model, &options, &engine, &err),
                     LINNET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "adapt_experts needs"));
    options = with_experts(exact_options(128, 1, 32, 1));
    options.max_adapter_rank = 1;
    engine = engine_on(&g, options);
    assert_int_equal(linnet_engine_load_adapter(engine, "a", peft, 1.0f, &err), LINNET_ERR_LIMIT);
    linnet_engine_destroy(engine);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_peft),
        cmocka_unit_test(bits_do_not_depend_on_the_batch),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
