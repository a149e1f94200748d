/* Holds an engine within a step, so that what a test submits meanwhile meets in the next one,
 * however slow the thread that submits. */
#ifndef LN_TESTS_GATE_H
#define LN_TESTS_GATE_H

#include "test.h"

#include <linnet.h>
#include <semaphore.h>

typedef struct gate {
    linnet_request *request;
    sem_t reached, released;
} gate;

static inline void gate_on_logits(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)position;
    (void)row;
    (void)n_vocab;
    gate *self = user;
    sem_post(&self->reached);
    while (sem_wait(&self->released) != 0) { /* a signal came */
    }
}

/* Returns when the engine, which is idle, is held. For models without an encoder. */
static inline void gate_hold(gate *self, linnet_engine *engine) {
    static const int32_t prompt[] = {0};
    linnet_request_options options;
    linnet_error err = {0};
    linnet_request_options_init(&options);
    options.kind = LINNET_REQUEST_SCORE;
    options.prompt_ids = prompt;
    options.n_prompt_ids = 1;
    options.on_logits = gate_on_logits;
    options.user = self;
    assert_int_equal(sem_init(&self->reached, 0, 0), 0);
    assert_int_equal(sem_init(&self->released, 0, 0), 0);
    if (linnet_request_submit(engine, &options, &self->request, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    while (sem_wait(&self->reached) != 0) { /* a signal came */
    }
}

static inline void gate_release(gate *self) {
    sem_post(&self->released);
    linnet_request_close(self->request); /* waits for gate_on_logits */
    sem_destroy(&self->reached);
    sem_destroy(&self->released);
}

#endif
