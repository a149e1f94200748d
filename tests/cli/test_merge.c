/* linnet merge: the merged model gives the logits that the model gives with the adapter.
 * usage: cli_merge [BACKEND]; exit status 77 where that is not there. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define LLAMA   TEST_SOURCE_DIR "/tests/golden/models/llama"
#define ADAPTER TEST_SOURCE_DIR "/tests/golden/adapter"
#define DORA    TEST_SOURCE_DIR "/tests/golden/adapter_dora"
#define QWEN    TEST_SOURCE_DIR "/tests/golden/models/qwen2"
#define BIASED  TEST_SOURCE_DIR "/tests/golden/adapter_dora_bias"
#define HALF    TEST_SOURCE_DIR "/tests/golden/adapter:0.5"
#define QUARTER TEST_SOURCE_DIR "/tests/golden/adapter:0.25"
#define MIXTURE TEST_SOURCE_DIR "/tests/golden/models/qwen3_moe"
#define KIMI    TEST_SOURCE_DIR "/tests/golden/models/kimi_linear"
#define HYBRID  TEST_SOURCE_DIR "/tests/golden/adapter_hybrid"
#define JAMBA   TEST_SOURCE_DIR "/tests/golden/models/jamba"
#define MAMBA   TEST_SOURCE_DIR "/tests/golden/adapter_mamba"
#define FUSED   TEST_SOURCE_DIR "/tests/golden/models/mimo_v2_fp8"
#define FALCON  TEST_SOURCE_DIR "/tests/golden/models/falcon"

static char *folder;
static const char *backend = "cpu"; /* that computes logits */

static int setup(void **state) {
    (void)state;
    folder = temp_create();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    temp_remove(folder);
    return 0;
}

/* The logits of some tokens, malloc'd; `adapter`: NULL or what --lora gets. */
static float *logits_of(const char *model, const char *adapter, size_t *n) {
    const char *out = path_in(folder, "logits.bin");
    size_t n_bytes;
    spawn_result result =
        adapter != NULL ? LINNET("logits", model, "--ids", "5,9,33,71,2,18", "--precision", "exact",
                                 "--backend", backend, "--threads", "1", "--out", out,
                                 "--adapt-experts", "--lora", adapter)
                        : LINNET("logits", model, "--ids", "5,9,33,71,2,18", "--precision", "exact",
                                 "--backend", backend, "--threads", "1", "--out", out);
    assert_status(result, 0, "");
    char *bytes = read_file(out, &n_bytes);
    *n = n_bytes / sizeof(float);
    return (float *)(void *)bytes;
}

/* The greatest distance of two models' logits. */
static float distance(const char *model, const char *adapter, const char *other,
                      const char *of_other) {
    size_t n, n_others;
    float most = 0.0f;
    float *a = logits_of(model, adapter, &n), *b = logits_of(other, of_other, &n_others);
    assert_int_equal(n, n_others);
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    free(a);
    free(b);
    return most;
}

static void convert_to(const char *to, const char *type) {
    assert_status(LINNET("convert", LLAMA, to, "--no-tokenizer", "--type", type), 0, "");
}

static void test_file(void **state) {
    (void)state;
    const char *base = path_in(folder, "base.gguf"), *merged = path_in(folder, "merged.gguf");
    convert_to(base, "f32");
    assert_status(LINNET("merge", base, "--lora", HALF, "--out", merged), 0, "tensors changed");
    assert_true(distance(base, NULL, base, HALF) > 1e-2f);
    assert_true(distance(merged, NULL, base, HALF) < 1e-5f);
    /* one after another */
    const char *again = path_in(folder, "again.gguf");
    assert_status(LINNET("merge", base, "--lora", QUARTER, "--lora", QUARTER, "--threads", "2",
                         "--out", again),
                  0, "");
    assert_true(distance(again, NULL, merged, NULL) < 1e-5f);
}

static void test_folder(void **state) {
    (void)state;
    const char *merged = path_in(folder, "merged");
    assert_status(LINNET("merge", LLAMA, "--lora", ADAPTER, "--out", merged), 0, "");
    float moved = distance(LLAMA, NULL, LLAMA, ADAPTER);
    assert_true(distance(merged, NULL, LLAMA, ADAPTER) < 0.05f * moved); /* bf16 rounds */
    size_t n, n_others;
    char *config = read_file(path_in(merged, "config.json"), &n);
    char *others = read_file(LLAMA "/config.json", &n_others);
    assert_int_equal(n, n_others);
    assert_memory_equal(config, others, n);
    free(config);
    free(others);
    assert_status(LINNET("merge", LLAMA, "--lora", ADAPTER, "--out", merged), 2,
                  "merged is there already");
}

static void test_quantised(void **state) {
    (void)state;
    const char *base = path_in(folder, "base.gguf"), *merged = path_in(folder, "merged.gguf");
    convert_to(base, "q8_0");
    assert_status(LINNET("merge", base, "--lora", ADAPTER, "--out", merged), 1,
                  "is quantised (Q8_0)");
    assert_int_not_equal(access(merged, F_OK), 0);
    assert_status(LINNET("merge", base, "--lora", ADAPTER, "--out", merged, "--requantize"), 0, "");
    assert_true(distance(merged, NULL, base, ADAPTER) < 0.2f * distance(base, NULL, base, ADAPTER));
}

static void test_refusals(void **state) {
    (void)state;
    const char *out = path_in(folder, "out");
    assert_status(LINNET("merge", LLAMA, "--lora", ADAPTER), 2, "--out is missing");
    assert_status(LINNET("merge", LLAMA, "--out", out), 2, "--lora is missing");
    assert_status(LINNET("merge", LLAMA, "--lora", path_in(folder, "none"), "--out", out), 1,
                  "none");
    assert_status(LINNET("merge", FALCON, "--lora", ADAPTER, "--out", out), 1,
                  "module model.layers.");
    assert_status(LINNET("merge", LLAMA, "--lora", ADAPTER, "--out", path_in(folder, "no/where")),
                  1, "cannot write");
    assert_status(LINNET("merge", LLAMA, "--lora", ADAPTER, "--out", LLAMA "/out/"), 2,
                  "lies within the folder that is merged");
    assert_int_not_equal(access(LLAMA "/out", F_OK), 0);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(rmdir(folder), 0); /* it is empty: nothing is left behind */
}

/* Logits behind each of base's prompts are those that PEFT gives with the golden adapter
 * (tools/golden/adapter.py), of a model that has it or with `lora`. */
static void assert_golden(const char *base, const char *model, const char *adapter,
                          const char *lora) {
    const char *out = path_in(folder, "logits.bin");
    char name[512];
    size_t n_bytes, n, i;
    snprintf(name, sizeof name, "%s/golden.bin", adapter);
    char *golden = read_file(name, &n_bytes);
    const float *want = (const float *)(void *)golden;
    snprintf(name, sizeof name, "%s/golden.json", base);
    json_t *root = json_load_file(name, 0, NULL), *prompt;
    size_t n_prompts = json_array_size(json_object_get(root, "prompts"));
    size_t n_vocab = n_bytes / sizeof(float) / n_prompts;
    json_array_foreach(json_object_get(root, "prompts"), i, prompt) {
        char *ids = json_dumps(prompt, JSON_COMPACT);
        ids[strlen(ids) - 1] = '\0';
        assert_status(LINNET("logits", model, "--ids", ids + 1, "--precision", "exact", "--backend",
                             backend, "--threads", "1", "--out", out,
                             lora != NULL ? "--lora" : NULL, lora),
                      0, "");
        float *got = (float *)(void *)read_file(out, &n);
        const float *last = got + (json_array_size(prompt) - 1) * n_vocab;
        for (size_t k = 0; k < n_vocab; k++)
            assert_true(fabsf(last[k] - want[i * n_vocab + k]) < 1e-5f);
        free(got);
        free(ids);
    }
    json_decref(root);
    free(golden);
}

static void test_dora(void **state) {
    (void)state;
    const char *base = path_in(folder, "base.gguf");
    char *merged = strdup(path_in(folder, "merged.gguf"));
    convert_to(base, "f32");
    assert_status(LINNET("merge", base, "--lora", DORA, "--out", merged), 0, "6 tensors changed");
    assert_golden(LLAMA, merged, DORA, NULL);
    free(merged);
    assert_golden(LLAMA, LLAMA, DORA, DORA);
    assert_golden(LLAMA, base, DORA, DORA);
    assert_golden(QWEN, QWEN, BIASED, BIASED);
}

/* Recurrent layers, whose q, k and v are one matrix here and have ranks of their own, under the
 * names that modules have, some others than the checkpoint's. */
static void test_hybrid(void **state) {
    (void)state;
    assert_golden(KIMI, KIMI, HYBRID, HYBRID);
}

/* What a selective layer makes of x by x_proj and dt_proj, without an adapter of in_proj. */
static void test_mamba(void **state) {
    (void)state;
    assert_golden(JAMBA, JAMBA, MAMBA, MAMBA);
}

/* ---- experts ------------------------------------------------------------------------------- */

#define EXPERTS "1.mlp.experts"

enum { DIM = 64, HIDDEN = 48, N_EXPERTS = 6, RANK = 2, N_VALUES = 1 << 16 };

/* A folder of PEFT's, while it is written. */
typedef struct adapter {
    const char *folder;
    json_t *header;
    float values[N_VALUES];
    size_t n_values;
} adapter;

/* Some number that depends on what it is of. */
static float value_of(size_t which, size_t expert, size_t row, size_t k) {
    return (float)((which * 7 + expert * 31 + row * 13 + k * 5) % 23) / 64.0f - 0.15f;
}

static void put(adapter *a, const char *module, const char *end, size_t rows, size_t cols) {
    char name[160];
    snprintf(name, sizeof name, "base_model.model.model.layers.%s.%s.weight", module, end);
    size_t n = rows * cols, at = 4 * (a->n_values - n);
    json_object_set_new(a->header, name,
                        json_pack("{s:s,s:[I,I],s:[I,I]}", "dtype", "F32", "shape",
                                  (json_int_t)rows, (json_int_t)cols, "data_offsets",
                                  (json_int_t)at, (json_int_t)(at + 4 * n)));
}

static void add(adapter *a, float value) {
    assert_true(a->n_values < N_VALUES);
    a->values[a->n_values++] = value;
}

static void write_adapter(const adapter *a, const char *config) {
    char *header = json_dumps(a->header, 0), file[N_VALUES * 4 + 20000];
    uint64_t n = strlen(header);
    memcpy(file, &n, sizeof n);
    memcpy(file + sizeof n, header, n);
    memcpy(file + sizeof n + n, a->values, a->n_values * sizeof(float));
    assert_int_equal(mkdir(a->folder, 0777), 0);
    write_file(path_in(a->folder, "adapter_model.safetensors"), file,
               sizeof n + n + a->n_values * sizeof(float));
    write_file(path_in(a->folder, "adapter_config.json"), config, strlen(config));
    json_decref(a->header);
    free(header);
}

/* Gates (which 0), ups (1) and downs (2), as linears of single experts. */
static void write_singles(const char *to) {
    static adapter a;
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    char module[64];
    a = (adapter){.folder = to, .header = json_object()};
    for (size_t which = 0; which < 3; which++) {
        size_t n_in = which < 2 ? DIM : HIDDEN, n_out = which < 2 ? HIDDEN : DIM;
        for (size_t e = 0; e < N_EXPERTS; e++) {
            snprintf(module, sizeof module, EXPERTS ".%zu.%s", e, names[which]);
            for (size_t i = 0; i < RANK * n_in; i++)
                add(&a, value_of(which < 2 ? 3 : 4, e, i % n_in, i / n_in));
            put(&a, module, "lora_A", RANK, n_in);
            for (size_t i = 0; i < n_out * RANK; i++)
                add(&a, value_of(which, e, i / RANK, i % RANK));
            put(&a, module, "lora_B", n_out, RANK);
        }
    }
    write_adapter(&a, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}");
}

/* The same as PEFT keeps target_parameters: A of all experts one below the other, their columns of
 * B by turns, gates before ups. */
static void write_stacks(const char *to) {
    static adapter a;
    a = (adapter){.folder = to, .header = json_object()};
    for (size_t i = 0; i < N_EXPERTS * RANK * DIM; i++)
        add(&a, value_of(3, i / DIM / RANK, i % DIM, i / DIM % RANK));
    put(&a, EXPERTS ".base_layer", "lora_A", N_EXPERTS * RANK, DIM);
    for (size_t i = 0; i < 2 * HIDDEN * RANK * N_EXPERTS; i++) {
        size_t row = i / N_EXPERTS / RANK;
        add(&a, value_of(row / HIDDEN, i % N_EXPERTS, row % HIDDEN, i / N_EXPERTS % RANK));
    }
    put(&a, EXPERTS ".base_layer", "lora_B", (size_t)2 * HIDDEN, RANK * N_EXPERTS);
    for (size_t i = 0; i < N_EXPERTS * RANK * HIDDEN; i++)
        add(&a, value_of(4, i / HIDDEN / RANK, i % HIDDEN, i / HIDDEN % RANK));
    put(&a, EXPERTS, "lora_A", N_EXPERTS * RANK, HIDDEN);
    for (size_t i = 0; i < DIM * RANK * N_EXPERTS; i++)
        add(&a, value_of(2, i % N_EXPERTS, i / N_EXPERTS / RANK, i / N_EXPERTS % RANK));
    put(&a, EXPERTS, "lora_B", DIM, RANK * N_EXPERTS);
    write_adapter(&a, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, "
                      "\"target_parameters\": [\"gate_up_proj\", \"down_proj\"]}");
}

static void test_experts(void **state) {
    (void)state;
    const char *singles = path_in(folder, "singles"), *stacks = path_in(folder, "stacks");
    char *from_singles = strdup(path_in(folder, "a")), *from_stacks = strdup(path_in(folder, "b"));
    char *of_singles = strdup(singles), *of_stacks = strdup(stacks);
    write_singles(of_singles);
    write_stacks(of_stacks);
    assert_status(LINNET("merge", MIXTURE, "--lora", of_singles, "--out", from_singles), 0, "");
    assert_status(LINNET("merge", MIXTURE, "--lora", of_stacks, "--out", from_stacks), 0, "");
    assert_true(distance(from_singles, NULL, MIXTURE, NULL) > 1e-3f);
    assert_true(distance(from_singles, NULL, from_stacks, NULL) == 0.0f);
    const char *const both[] = {of_singles, of_stacks};
    for (size_t i = 0; i < 2; i++)
        assert_status(LINNET("logits", MIXTURE, "--lora", both[i], "--ids", "5", "--out",
                             path_in(folder, "none.bin")),
                      1, "only with adapt_experts; `linnet merge' does, too");
    assert_true(distance(MIXTURE, of_singles, MIXTURE, of_stacks) == 0.0f);
    float moved = distance(MIXTURE, of_stacks, MIXTURE, NULL);
    assert_true(distance(from_stacks, NULL, MIXTURE, of_stacks) < 0.05f * moved); /* bf16 rounds */
    free(from_singles), free(from_stacks), free(of_singles), free(of_stacks);
}

/* Rows of q, k and v that lie by shares of the heads, which the scales alone tell. */
static void test_shards(void **state) {
    (void)state;
    enum { IN = 32, OUT = 8 * 96 + 4 * (96 + 72) };
    static const char module[] = "0.self_attn.qkv_proj";
    static adapter a;
    char *lora = strdup(path_in(folder, "lora"));
    const char *out = path_in(folder, "out");
    a = (adapter){.folder = lora, .header = json_object()};
    for (size_t i = 0; i < RANK * IN; i++)
        add(&a, value_of(0, 0, i % IN, i / IN));
    put(&a, module, "lora_A", RANK, IN);
    for (size_t i = 0; i < OUT * RANK; i++)
        add(&a, value_of(1, 0, i / RANK, i % RANK));
    put(&a, module, "lora_B", OUT, RANK);
    write_adapter(&a, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}");
    assert_status(LINNET("merge", FUSED, "--lora", lora, "--requantize", "--out", out), 1,
                  "module model.layers.0.self_attn.qkv_proj: the order of its rows is told by the "
                  "checkpoint's scales alone");
    assert_int_not_equal(access(out, F_OK), 0);
    assert_status(
        LINNET("logits", FUSED, "--lora", lora, "--ids", "5", "--backend", backend, "--out", out),
        1, "qkv_proj");
    assert_int_not_equal(access(out, F_OK), 0);
    free(lora);
}

int main(int argc, char **argv) {
    backend = argc > 1 ? argv[1] : backend;
    spawn_result plan = LINNET("plan", LLAMA, "--backend", backend);
    bool is_there = plan.status == 0;
    spawn_free(&plan);
    if (!is_there) {
        print_message("skipped: backend %s is not there\n", backend);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quantised, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dora, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hybrid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mamba, setup, teardown),
        cmocka_unit_test_setup_teardown(test_experts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shards, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
