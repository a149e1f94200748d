/* Every folder of golden/models through the public API, against the reference answers that lie
 * in it: logits of the prompts, and greedy ids. README.md beside this file describes them.
 * usage: golden_models [BACKEND [fast|exact [PATTERN]]]; without, the CPU, exact. A pattern of
 * names of models has * for any part. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "test_backend.h"

enum { N_GREEDY = 32 };
static double max_error = 1e-5; /* 1e-4 on other backends */
static const char *backend = "cpu";
static linnet_precision precision = LINNET_PRECISION_EXACT;
/* With keys and values in 8 bits. */
static const struct {
    linnet_kv_type type;
    double most;           /* error */
    double most_sensitive; /* of those below */
} narrow[] = {{LINNET_KV_Q8_0, 5e-2, 0.25}, {LINNET_KV_FP8, 0.25, 0.55}};
enum { N_NARROW = sizeof narrow / sizeof *narrow };
/* t5_gated has scores that are not scaled, so that its logits move ten times as far as the others'
 * whatever is rounded; gemma3_vision has heads of 8 dimensions; of the others an expert changes, or
 * a position that an indexer chooses. */
static const char *const sensitive[] = {
    "bailing_moe",    "deepseek_v32", "glm_moe_dsa", "deepseek_v3_fp8", "ernie4_5_moe",
    "gemma3_vision",  "kimi_k25",     "llama4",      "mimo_v2_flash",   "minimax_m2",
    "olmoe",          "phimoe",       "t5_gated",    "inkling2_memory", "longcat_flash_memory",
    "dots3_note_even"};
static double min_gap = 1e-3; /* below it, at least, either of two tokens is right */

/* Replaces the engine by one with such a cache; all else is exact. */
static void use_kv_type(reference *golden, linnet_kv_type kv_type) {
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.precision = precision;
    options.n_threads = 2;
    options.kv_type = kv_type;
    options.backend = backend;
    reference_use(golden, &options);
}

/* ---- greedy ids ------------------------------------------------------------------------- */

static size_t generate(const reference *golden, const int32_t *prompt, size_t n_prompt,
                       int32_t *ids) {
    linnet_error err = {0};
    linnet_request_options options;
    linnet_request_options_init(&options);
    if (golden->has_encoder) { /* the decoder begins with its start token by itself */
        options.encoder_ids = prompt;
        options.n_encoder_ids = n_prompt;
    } else {
        options.prompt_ids = prompt;
        options.n_prompt_ids = n_prompt;
    }
    options.max_tokens = N_GREEDY;
    options.ignore_eos = true;
    options.sampling.temperature = 0;
    linnet_request *request = NULL;
    linnet_event event = {0};
    size_t count = 0;
    reference_check(linnet_request_submit(golden->engine, &options, &request, &err), &err);
    while (event.finish == LINNET_FINISH_NONE) {
        reference_check(linnet_request_next(request, -1, &event, &err), &err);
        if (event.token >= 0 && count < N_GREEDY)
            ids[count++] = event.token;
    }
    assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
    assert_int_equal(event.n_output_tokens, count);
    linnet_request_close(request);
    return count;
}

/* The gap from which on two logits keep their order though each may be off by max_error. */
static double clear_gap(const reference *golden) {
    const float *logits = (const float *)(const void *)golden->rows.data;
    size_t n = golden->rows.bytes / sizeof *logits, n_counted = 0;
    double norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (reference_is_suppressed(logits[i]))
            continue;
        norm += (double)logits[i] * (double)logits[i];
        n_counted++;
    }
    double sum_of_errors = 2 * max_error * sqrt(norm / (double)n_counted);
    return sum_of_errors > min_gap ? sum_of_errors : min_gap;
}

/* Steps of a prompt that were compared: all of them, or up to the first narrow gap. */
static size_t compare_greedy(const reference *golden, size_t index, double clear) {
    json_t *gaps = json_array_get(json_object_get(golden->json, "gaps"), index);
    size_t n_prompt, n_expected;
    int32_t ids[N_GREEDY];
    int32_t *prompt = reference_take_ids(golden, "prompts", index, &n_prompt);
    int32_t *expected = reference_take_ids(golden, "greedy", index, &n_expected);
    assert_int_equal(n_expected, N_GREEDY);
    assert_int_equal(json_array_size(gaps), N_GREEDY);
    assert_int_equal(generate(golden, prompt, n_prompt, ids), N_GREEDY);
    size_t step = 0;
    for (; step < N_GREEDY; step++) {
        if (json_number_value(json_array_get(gaps, step)) < clear)
            break;
        if (ids[step] != expected[step])
            fail_msg("prompt %zu, step %zu: id %d instead of %d", index, step, (int)ids[step],
                     (int)expected[step]);
    }
    free(prompt);
    free(expected);
    return step;
}

static void test_model(void **state) {
    const char *name = *state;
    reference golden;
    reference_open(&golden, name);
    use_kv_type(&golden, LINNET_KV_AUTO);
    size_t n_steps = 0;
    double error = reference_logits_error(&golden), clear = clear_gap(&golden);
    for (size_t i = 0; i < json_array_size(json_object_get(golden.json, "prompts")); i++)
        n_steps += compare_greedy(&golden, i, clear);
    double narrow_error[N_NARROW];
    for (size_t i = 0; i < N_NARROW; i++) {
        use_kv_type(&golden, narrow[i].type);
        narrow_error[i] = reference_logits_error(&golden);
    }
    printf("%-18s relative error %.2e, %.2e with a q8_0 cache, %.2e with fp8, %zu greedy ids "
           "equal\n",
           name, error, narrow_error[0], narrow_error[1], n_steps);
    assert_true(error <= max_error);
    assert_true(n_steps > 0 || precision == LINNET_PRECISION_FAST);
    bool is_sensitive = false;
    for (size_t i = 0; i < sizeof sensitive / sizeof *sensitive; i++)
        is_sensitive |= strcmp(name, sensitive[i]) == 0;
    for (size_t i = 0; i < N_NARROW; i++)
        assert_true(narrow_error[i] <= (is_sensitive ? narrow[i].most_sensitive : narrow[i].most));
    reference_close(&golden);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        backend = argv[1];
        max_error = 1e-4;
        if (!test_has_backend(backend))
            return TEST_EXIT_SKIPPED;
    }
    if (argc > 2 && strcmp(argv[2], "fast") == 0) {
        precision = LINNET_PRECISION_FAST;
        max_error = 2e-2;
        min_gap = 0.2;
    }
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    return reference_run_all(test_model);
}
