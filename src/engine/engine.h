/* The engine: its parts, and the one thread that runs steps with them. */
#ifndef LN_ENGINE_ENGINE_H
#define LN_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/adapters.h"
#include "engine/completion.h"
#include "engine/constraint.h"
#include "engine/cpu_layers.h"
#include "engine/draft/speculate.h"
#include "engine/execute.h"
#include "engine/experts/cpu_experts.h"
#include "engine/request/create.h"

/* Memory that was reserved for an arena. */
typedef struct ln_reservation {
    void *memory;
    size_t bytes;
} ln_reservation;

struct linnet_engine {
    const linnet_model *model; /* the caller's */
    ln_engine_plan plan;
    ln_backend *backend;

    ln_collectives ranks; /* one rank, or several; the engine thread's once that runs */
    ln_collectives tensor_ranks, stage_ranks; /* groups of them (dist/mesh.h) */

    ln_weights weights;
    ln_reservation kv, activation_memory, adapter_memory; /* the backend's */
    ln_adapters adapters;                                 /* any thread */
    ln_reservation swap, blocks, batch, sampling, masks, heads;
    size_t scratch_bytes;

    /* the engine thread's */
    ln_kv_cache cache;
    ln_scheduler scheduler;
    ln_cpu_layers cpu_layers;
    ln_cpu_experts cpu_experts;
    ln_executor executor;
    ln_row_sampler rows;
    ln_pooler pooler;
    ln_completion completion;
    ln_draft_model draft;
    ln_draft_head head;
    ln_constraints constraints; /* other threads compile grammars with it */
    bool is_ahead;              /* the step behind the one that is finished next has been started */
    uint64_t step_begin_ns;     /* when the step that is finished next began */
    uint64_t deadline_ns;       /* no request is late before; UINT64_MAX: none has a deadline */
    ln_stats stats;             /* any thread reads */
    ln_notifier notifier;

    /* shared with the threads that submit */
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    ln_group_queue submitted; /* under the mutex, like `stopping` */
    bool has_lost_rank;       /* under the mutex; the engine thread has not seen it yet */
    bool stopping;
    atomic_bool cancel_came; /* some request was cancelled since the last look */

    ln_error follow_error; /* of a rank that follows, under the mutex, as is what follows */
    bool has_followed;

    pthread_t thread;
    bool has_mutex, has_thread;
};

/* The engine thread: `argument` is the engine; ends once it is stopping. */
void *ln_engine_main(void *argument);
/* The same of a rank that follows rank 0; ends when that does. */
void *ln_engine_follow_main(void *argument);
/* A rank is lost: the engine looks, also when it has nothing to do. Any thread. */
void ln_engine_note_lost_rank(void *argument);

/* As linnet_request_submit. Any thread, as is stats. */
ln_status ln_engine_submit(linnet_engine *engine, const linnet_request_options *options,
                           linnet_request **request, ln_error *err);
linnet_engine_stats ln_engine_stats(linnet_engine *engine);
/* The observer, which outlives the engine, is told by the engine's thread of the blocks that new
 * requests can find. Before the first request. */
void ln_engine_observe_prefixes(linnet_engine *engine, const ln_prefix_observer *observer);

/* Waits until rank 0 ends, on another rank. */
ln_status ln_engine_follow(linnet_engine *engine, ln_error *err);

#endif
