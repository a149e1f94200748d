/* Tests that take the name of a backend are skipped where it, or its device, is not there. */
#ifndef LN_TESTS_TEST_BACKEND_H
#define LN_TESTS_TEST_BACKEND_H

#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEST_EXIT_SKIPPED = 77 };

/* Whether engines on `backend` can be made; prints why not. */
static inline bool test_has_backend(const char *backend) {
    linnet_model *model;
    linnet_error err = {0};
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.backend = backend;
    if (linnet_model_open(TEST_SOURCE_DIR "/tests/golden/models/llama", &model, &err) != LINNET_OK)
        return true; /* the test itself fails then */
    linnet_status status = linnet_plan_memory(model, &options, &plan, &err);
    linnet_model_close(model);
    bool is_missing = status == LINNET_ERR_UNSUPPORTED || status == LINNET_ERR_ARGUMENT;
    if (is_missing)
        printf("skipped: %s\n", err.message);
    return !is_missing;
}

#endif
