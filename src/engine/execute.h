/* Steps on the backend: built, recorded and started, then waited for.
 *
 * Where the backend can start a step behind another one, it also samples tokens: of rows whose
 * sampling is an ln_draw with its edits, and what logprobs take comes with them. When all rows of a
 * step are such, the step that follows is that of the same sequences, with these tokens, whatever
 * they are; it is started before they are known here, and the device never waits for the host. A
 * sequence that turns out to have ended loses its row of that step. */
#ifndef LN_ENGINE_EXECUTE_H
#define LN_ENGINE_EXECUTE_H

#include "engine/adapters.h"
#include "engine/cpu_layers.h"
#include "engine/experts/cpu_experts.h"
#include "engine/micro_batch.h"
#include "engine/pooler.h"
#include "engine/ranks.h"
#include "engine/row_sampler.h"
#include "engine/step.h"

/* Runs that were started and are not finished. */
typedef struct ln_runs {
    size_t n;
    unsigned results; /* bit i: the i-th has results of a step that are to be read */
    bool is_there;    /* one is finished that had results, in `host` */
    void *host;
} ln_runs;

typedef struct ln_executor {
    const ln_checkpoint *checkpoint; /* the model's, as is spec */
    const ln_spec *spec;
    ln_backend *backend; /* the engine's, as is what follows */
    const ln_weights *weights;
    const ln_cpu_layers *cpu_layers;
    ln_cpu_experts *cpu_experts;
    ln_scheduler *scheduler;
    const ln_pooler *pooler;
    ln_row_sampler *rows;
    ln_kv_memory kv;
    ln_kv_range layers; /* of the backend */
    ln_op *ops;         /* [2 + ln_forward_max_ops], of each backend */
    ln_activations activations;
    ln_step step;
    ln_rank_link link;      /* to the other ranks */
    ln_micro_batches parts; /* of the step, where there are stages */
    ln_adapters *adapters;
    ln_micro_batch_cost part_cost; /* of no weight_tokens: no step is divided */
    size_t part_seqs; /* at least so many make a micro-batch with results of its own; 0: none do */
    ln_step before;   /* whose results are pending while the step behind it is built */
    ln_micro_batches results; /* of a step, that were recorded */
    size_t n_pending;         /* results of micro-batches, on ranks of the first stage */
    ln_runs runs;
    bool can_start_ahead; /* a step may start before the one before it is finished */
} ln_executor;

/* Starts the scheduler's step, where none is under way. */
ln_status ln_execute_start(ln_executor *executor, ln_error *err);

/* Starts the step behind the one that is under way; false: that is not known yet, or cannot be. */
bool ln_execute_start_next(ln_executor *executor);

/* Waits for the first step that is under way: rows that the backend samples have their tokens, and
 * ln_row_sampler_logits gives the others. */
ln_status ln_execute_finish(ln_executor *executor, ln_error *err);

/* Another rank than 0: waits for the next step and runs it; false: there is no other, and *err says
 * why unless rank 0 has stopped. */
bool ln_execute_follow(ln_executor *executor, ln_error *err);

/* Waits for a step that nobody asks for any more. */
void ln_execute_drop(ln_executor *executor);

#endif
