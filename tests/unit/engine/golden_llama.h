/* The reference model that all tests of a program use. */
#ifndef LN_TESTS_UNIT_ENGINE_GOLDEN_LLAMA_H
#define LN_TESTS_UNIT_ENGINE_GOLDEN_LLAMA_H

#include "engine_test.h"

static golden g;

/* For cmocka's groups. */
static int open_model(void **state) {
    (void)state;
    golden_open(&g, "llama");
    return 0;
}
static int close_model(void **state) {
    (void)state;
    linnet_model_close(g.model);
    return 0;
}

#endif
