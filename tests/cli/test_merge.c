/* linnet merge: the merged model gives the logits that the model gives with the adapter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define LLAMA   TEST_SOURCE_DIR "/tests/golden/models/llama"
#define ADAPTER TEST_SOURCE_DIR "/tests/golden/adapter"
#define HALF    TEST_SOURCE_DIR "/tests/golden/adapter:0.5"
#define QUARTER TEST_SOURCE_DIR "/tests/golden/adapter:0.25"
#define FALCON  TEST_SOURCE_DIR "/tests/golden/models/falcon"

static char *folder;

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

static void assert_status(spawn_result result, int status, const char *err) {
    if (result.status != status || strstr(result.err, err) == NULL)
        fail_msg("exit status %d: %s", result.status, result.err);
    spawn_free(&result);
}

/* The logits of some tokens, malloc'd; `adapter`: NULL or what --lora gets. */
static float *logits_of(const char *model, const char *adapter, size_t *n) {
    const char *out = path_in(folder, "logits.bin");
    size_t n_bytes;
    spawn_result result =
        adapter != NULL
            ? LINNET("logits", model, "--ids", "5,9,33,71,2,18", "--precision", "exact",
                     "--backend", "cpu", "--threads", "1", "--out", out, "--lora", adapter)
            : LINNET("logits", model, "--ids", "5,9,33,71,2,18", "--precision", "exact",
                     "--backend", "cpu", "--threads", "1", "--out", out);
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
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(rmdir(folder), 0); /* it is empty: nothing is left behind */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quantised, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
