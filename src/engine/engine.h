/* The engine: one thread that runs steps, and what it works on. */
#ifndef LN_ENGINE_ENGINE_H
#define LN_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/constraint.h"
#include "engine/delivery.h"
#include "engine/draft.h"
#include "engine/plan/cpu_layers.h"
#include "engine/plan/plan.h"
#include "engine/rows.h"
#include "engine/stats.h"
#include "engine/step.h"
#include "model/forward.h"
#include "sampling/sampler.h"

/* Memory that was reserved for an arena. */
typedef struct ln_reservation {
    void *memory;
    size_t bytes;
} ln_reservation;

struct linnet_engine {
    const linnet_model *model; /* the caller's */
    ln_engine_plan plan;
    ln_backend *backend;

    ln_weights weights;
    ln_reservation kv, activation_memory; /* the backend's */
    ln_reservation swap, blocks, batch, sampling, masks;
    size_t scratch_bytes;
    ln_activations activations;
    ln_kv_layer *kv_layers;   /* [ln_kv_layer_count] */
    ln_kv_layer *swap_layers; /* [ln_kv_layer_count] */
    ln_op *ops;               /* [2 + ln_forward_max_ops], of each backend */
    float *logits;            /* [n_vocab] a copy, for what several sequences sample from */

    /* the engine thread's */
    ln_kv_cache cache;
    ln_scheduler scheduler;
    ln_step step;
    ln_rows rows;
    ln_constraints constraints;
    ln_draft draft;
    ln_front front;
    bool is_ahead;          /* the step behind the one that is finished next has been started */
    uint64_t step_begin_ns; /* when the step that is finished next began */
    uint64_t step_end_ns;   /* when the last step's logits were there */
    uint64_t deadline_ns;   /* no request is late before; UINT64_MAX: none has a deadline */
    ln_stats stats;         /* any thread reads */

    ln_delivery delivery;

    /* shared with the threads that submit */
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    ln_group_queue submitted; /* under the mutex, like `stopping` */
    bool stopping;
    atomic_bool cancel_came; /* some request was cancelled since the last look */

    pthread_t thread;
    bool has_mutex, has_thread;
};

/* What samples rows that the engine thread looks at by itself. */
static inline ln_sampler *ln_engine_sampler(linnet_engine *engine) {
    return &engine->rows.samplers[0];
}

/* The operation that makes copies[n_copies] of KV blocks in the layers of the range. */
static inline ln_op ln_engine_copy_op(const linnet_engine *engine, ln_kv_range range,
                                      const ln_block_copy *copies, size_t n_copies) {
    return (ln_op){.kind = LN_OP_COPY,
                   .layer = -1,
                   .copy = {.layers = engine->kv_layers + range.first,
                            .swap = engine->swap_layers + range.first,
                            .n_layers = range.end - range.first,
                            .copies = copies,
                            .n_copies = n_copies}};
}

/* The layers of the engine's backend. */
static inline ln_kv_range ln_engine_back_layers(const linnet_engine *engine) {
    return (ln_kv_range){engine->plan.front.n_layers, ln_kv_layer_count(&engine->model->spec)};
}

/* The engine thread: `argument` is the engine; ends once it is stopping. */
void *ln_engine_main(void *argument);

/* Hands a group to the engine thread. Any thread. */
void ln_engine_enqueue(linnet_engine *engine, ln_sequence_group *group);

#endif
