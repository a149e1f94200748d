/* A CPU that starts steps behind one another and chooses tokens, as a GPU does: each step is run
 * when it is started, and its results are kept until it is finished. */
#ifndef LN_TESTS_UNIT_ENGINE_AHEAD_H
#define LN_TESTS_UNIT_ENGINE_AHEAD_H

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

typedef struct ahead_backend ahead_backend;
struct ahead_backend {
    ahead_backend *next;
    const ln_backend *backend;
    ln_backend_vtable vtable;
    const ln_backend_vtable *real;
    char kept[LN_MAX_STARTED][LN_STARTED_BYTES];
    void *results[LN_MAX_STARTED];
    size_t n_started, n_finished, n_results;
    size_t n_ahead;                   /* steps whose tokens came from the step before */
    size_t fails_start, fails_finish; /* the how-manieth from now on; 0: none */
};

static ahead_backend *ahead_backends; /* the newest first */

static inline ahead_backend *ahead_of(const ln_backend *backend) {
    ahead_backend *self = ahead_backends;
    while (self->backend != backend)
        self = self->next;
    return self;
}

static inline bool ahead_fails(size_t *count) {
    return *count > 0 && --*count == 0;
}

static inline ln_status ahead_start(ln_backend *backend, const ln_op *ops, size_t n_ops,
                                    void *memory, size_t bytes, ln_error *err) {
    ahead_backend *self = ahead_of(backend);
    size_t turn = self->n_started % LN_MAX_STARTED;
    void *host;
    LN_BUG_ON(self->n_started - self->n_finished == LN_MAX_STARTED);
    LN_BUG_ON(bytes > LN_STARTED_BYTES && self->n_started > self->n_finished);
    for (size_t i = 0; i < n_ops; i++) /* a device is sent the last one's */
        LN_BUG_ON(ops[i].batch != NULL && ops[i].batch != ops[n_ops - 1].batch);
    if (ahead_fails(&self->fails_start))
        return ln_fail(err, LINNET_ERR_COMPUTE, "a start failed");
    LN_TRY(self->real->run(backend, ops, n_ops, err));
    LN_TRY(self->real->read_back(backend, memory, bytes, &host, err));
    char *kept = self->kept[self->n_results % LN_MAX_STARTED];
    self->results[turn] = bytes <= LN_STARTED_BYTES ? kept : host;
    if (bytes > 0 && bytes <= LN_STARTED_BYTES)
        memcpy(kept, host, bytes);
    self->n_started++;
    self->n_results += bytes > 0;
    self->n_ahead += ops[n_ops - 1].batch->has_device_tokens;
    return LINNET_OK;
}

static inline ln_status ahead_finish(ln_backend *backend, void **host, ln_error *err) {
    ahead_backend *self = ahead_of(backend);
    LN_BUG_ON(self->n_started == self->n_finished);
    *host = self->results[self->n_finished++ % LN_MAX_STARTED];
    if (ahead_fails(&self->fails_finish))
        return ln_fail(err, LINNET_ERR_COMPUTE, "a step failed");
    return LINNET_OK;
}

/* Makes the engine's backend, a CPU on which nothing runs, one; it lasts as long as the program. */
static inline ahead_backend *ahead_play(linnet_engine *engine) {
    ahead_backend *self = calloc(1, sizeof *self);
    LN_BUG_ON(self == NULL);
    self->next = ahead_backends;
    self->backend = engine->backend;
    self->real = engine->backend->vtable;
    self->vtable = *self->real;
    self->vtable.start = ahead_start;
    self->vtable.finish = ahead_finish;
    ahead_backends = self;
    engine->backend->vtable = &self->vtable;
    return self;
}

#endif
