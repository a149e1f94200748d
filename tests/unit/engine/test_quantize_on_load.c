/* Matrices quantised while they load: how far the logits move for each type, and that the plan says
 * what is reserved. */
#include "test.h"
#include "test_backend.h"

#include <linnet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_VOCAB = 256, N_IDS = 6 };
static const char *backend = "cpu";
#define MODELS TEST_SOURCE_DIR "/tests/golden/models/"
static const char folder[] = MODELS "llama_mha_bias";

static void keep_row(void *user, size_t position, const float *row, size_t n_vocab) {
    float *rows = user;
    assert_int_equal(n_vocab, N_VOCAB);
    memcpy(rows + position * n_vocab, row, n_vocab * sizeof *row);
}

static linnet_engine_options options_for(const char *type) {
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.backend = backend;
    options.precision = LINNET_PRECISION_EXACT;
    options.quantize_on_load = type;
    return options;
}

/* Logits [N_IDS][N_VOCAB] with matrices of `type`, malloc'd. */
static float *score(const linnet_model *model, const char *type) {
    static const int32_t ids[N_IDS] = {5, 9, 3, 77, 81, 200};
    linnet_engine_options engine_options = options_for(type);
    linnet_engine *engine;
    linnet_request *request;
    linnet_request_options options;
    linnet_event event = {0};
    float *rows = calloc(N_IDS * N_VOCAB, sizeof *rows);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_memory_plan reserved = {.struct_bytes = sizeof reserved};
    assert_int_equal(linnet_plan_memory(model, &engine_options, &plan, NULL), LINNET_OK);
    assert_int_equal(linnet_engine_create(model, &engine_options, &engine, NULL), LINNET_OK);
    linnet_engine_get_memory(engine, &reserved);
    assert_int_equal(plan.total_bytes, reserved.total_bytes);
    linnet_request_options_init(&options);
    options.kind = LINNET_REQUEST_SCORE;
    options.prompt_ids = ids;
    options.n_prompt_ids = N_IDS;
    options.on_logits = keep_row;
    options.user = rows;
    assert_int_equal(linnet_request_submit(engine, &options, &request, NULL), LINNET_OK);
    while (event.finish == LINNET_FINISH_NONE)
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    assert_int_equal(event.finish, LINNET_FINISH_STOP);
    linnet_request_close(request);
    linnet_engine_destroy(engine);
    return rows;
}

static double distance_of(const float *rows, const float *plain) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < N_IDS * N_VOCAB; i++) {
        difference += pow((double)rows[i] - (double)plain[i], 2);
        norm += pow((double)plain[i], 2);
    }
    return sqrt(difference / norm);
}

static void coarser_types_move_the_logits_further(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double least, most; /* relative distance of the logits */
    } cases[] = {
        {"bf16", 0, 0},     {"f16", 0, 1e-4},      {"q8_0", 1e-4, 0.06}, {"int8", 1e-4, 0.06},
        {"fp8", 1e-3, 0.2}, {"q5_1", 0.005, 0.35}, {"q4_0", 0.01, 0.7},  {"int4", 0.01, 0.7},
    };
    linnet_model *model;
    assert_int_equal(linnet_model_open(folder, &model, NULL), LINNET_OK);
    float *plain = score(model, NULL);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float *rows = score(model, cases[c].type);
        double distance = distance_of(rows, plain);
        if (!(distance >= cases[c].least && distance <= cases[c].most))
            fail_msg("%s: the logits moved by %g", cases[c].type, distance);
        free(rows);
    }
    free(plain);
    linnet_model_close(model);
}

/* Folders whose 4 bits become BF16 are quantised from there. */
static void folders_of_4_bits_are_quantised_again(void **state) {
    (void)state;
    static const char *const folders[] = {MODELS "llama_nf4", MODELS "llama_nvfp4"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        linnet_model *model;
        assert_int_equal(linnet_model_open(folders[i], &model, NULL), LINNET_OK);
        float *plain = score(model, NULL), *rows = score(model, "q8_0"),
              *few = score(model, "int4");
        double distance = distance_of(rows, plain);
        if (!(distance > 1e-4 && distance < 0.06 && distance < distance_of(few, plain)))
            fail_msg("%s: the logits moved by %g", folders[i], distance);
        free(plain);
        free(rows);
        free(few);
        linnet_model_close(model);
    }
}

static void unknown_types_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"q9", "", "i32", "iq1_s", "quite a long name for a type"};
    linnet_model *model;
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    assert_int_equal(linnet_model_open(folder, &model, NULL), LINNET_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        linnet_error err = {0};
        linnet_engine_options options = options_for(names[i]);
        assert_int_equal(linnet_plan_memory(model, &options, &plan, &err), LINNET_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "quantize_on_load"));
    }
    linnet_model_close(model);
}

int main(int argc, char **argv) {
    if (argc > 1)
        backend = argv[1];
    if (!test_has_backend(backend))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarser_types_move_the_logits_further),
        cmocka_unit_test(folders_of_4_bits_are_quantised_again),
        cmocka_unit_test(unknown_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
