/* A CPU backend that plays one with so much free memory. */
#ifndef LN_TESTS_UNIT_ENGINE_PLAYED_MEMORY_H
#define LN_TESTS_UNIT_ENGINE_PLAYED_MEMORY_H

#include "engine_test.h"

#include "engine/engine.h"
#include "engine/plan/make.h"

enum { MARGIN_BYTES = 256 << 20 }; /* what a plan leaves free on a GPU */

static size_t played_bytes;

static inline size_t played_available_bytes(const ln_backend *backend) {
    (void)backend;
    return played_bytes;
}

typedef struct played_memory {
    ln_backend *backend;
    const ln_backend_vtable *real;
    ln_backend_vtable vtable;
} played_memory;

/* `backend` has played_bytes free until stop_playing. */
static inline void play_memory(played_memory *played, ln_backend *backend) {
    played->backend = backend;
    played->real = backend->vtable;
    played->vtable = *backend->vtable;
    played->vtable.available_bytes = played_available_bytes;
    backend->vtable = &played->vtable;
}

static inline void stop_playing(played_memory *played) {
    played->backend->vtable = played->real;
}

/* A plan on a GPU of so much free memory; free_played_plan ends it. */
static inline void make_played_plan(const golden *g, const linnet_engine_options *options,
                                    size_t free_bytes, played_memory *gpu, ln_engine_plan *plan) {
    ln_backend *backend;
    ln_error err = {0};
    if (ln_engine_plan_make(g->model, options, NULL, sizeof(linnet_engine), &backend, plan, &err) !=
        LINNET_OK)
        fail_msg("%s", err.message);
    play_memory(gpu, backend);
    plan->on_device = true;
    played_bytes = free_bytes;
}

static inline void free_played_plan(played_memory *gpu, ln_engine_plan *plan) {
    stop_playing(gpu);
    ln_engine_plan_free(plan, gpu->backend);
}

static const ln_backend_options played_cpu = {.isa = "scalar", .n_threads = 1, .exact = true};

#endif
