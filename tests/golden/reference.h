/* A folder of golden/models through the public API, with the reference answers that lie in it;
 * README.md beside this file describes them. Failures end the running test. */
#ifndef LN_TESTS_GOLDEN_REFERENCE_H
#define LN_TESTS_GOLDEN_REFERENCE_H

#include <dirent.h>
#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>

#include "base/file.h"

typedef struct reference {
    json_t *json;
    ln_file_map rows; /* float32 [sum of logits_rows][n_vocab] */
    linnet_model *model;
    linnet_engine *engine; /* NULL until reference_use */
    size_t n_vocab;
    bool has_encoder; /* then prompts are what it reads */
    int32_t start_id; /* what its decoder begins with */
} reference;

/* Fails the test with the error's sentence. */
void reference_check(linnet_status status, const linnet_error *err);

void reference_open(reference *golden, const char *name);
void reference_close(reference *golden);
/* Replaces its engine by one with such options. */
void reference_use(reference *golden, const linnet_engine_options *options);

/* The ids of prompts[index] or greedy[index]; malloc'd. */
int32_t *reference_take_ids(const reference *golden, const char *key, size_t index, size_t *count);

/* Whether a logit is of a token that the model never gives; it must be so of both, and is not part
 * of errors. */
bool reference_is_suppressed(float logit);
/* The relative error of the logits of its engine, over all prompts. */
double reference_logits_error(const reference *golden);

/* One test for each folder, which gets its name as the state; the status for main. */
int reference_run_all(void (*test)(void **state));

#endif
