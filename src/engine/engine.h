/* The engine: one thread that runs steps, and what it works on. */
#ifndef LN_ENGINE_ENGINE_H
#define LN_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/plan.h"
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
    ln_reservation kv, activation_memory, blocks, batch, sampling; /* kv, activations: backend's */
    size_t scratch_bytes;
    ln_activations activations;
    ln_kv_layer *kv_layers; /* [n_layers] */
    ln_op *ops;             /* [ln_forward_max_ops] */

    /* the engine thread's */
    ln_kv_cache cache;
    ln_scheduler scheduler;
    ln_step step;
    ln_sampler sampler;
    uint64_t deadline_ns; /* no request is late before; UINT64_MAX: none has a deadline */
    ln_stats stats;       /* any thread reads */

    /* shared with the threads that submit */
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    ln_sequence_queue submitted; /* under the mutex, like the next two */
    size_t n_submitted;
    bool stopping;
    atomic_bool cancel_came; /* some request was cancelled since the last look */

    pthread_t thread;
    bool has_mutex, has_thread;
};

/* The engine thread: `argument` is the engine; ends once it is stopping. */
void *ln_engine_main(void *argument);

/* Hands a sequence to the engine thread. Any thread. */
void ln_engine_enqueue(linnet_engine *engine, ln_sequence *sequence);

#endif
