/* The completion of a step: rows of logits become tokens, logprobs, beams or scores of requests,
 * and sequences that are over end. What receivers will see is noted for the notifier. */
#ifndef LN_ENGINE_COMPLETION_H
#define LN_ENGINE_COMPLETION_H

#include "engine/adapters.h"
#include "engine/notifier.h"
#include "engine/pooler.h"
#include "engine/row_sampler.h"
#include "engine/scheduler.h"
#include "engine/stats.h"

typedef struct ln_completion {
    ln_scheduler *scheduler; /* the engine's, as is what follows */
    ln_row_sampler *rows;
    const ln_pooler *pooler;
    ln_notifier *notifier;
    ln_stats *stats;
    ln_adapters *adapters;
    size_t n_vocab;
    float *logits;        /* [n_vocab] a copy, for what several sequences sample from */
    uint64_t step_end_ns; /* when the last step's logits were there */
} ln_completion;

/* What came of the scheduler's chunks, after its commit; ended sequences leave the scheduler. */
void ln_completion_run(ln_completion *completion);

/* Ends all sequences of a group, whose request may be gone afterwards; `err` with ERROR. */
void ln_completion_end_group(ln_completion *completion, ln_sequence_group *group,
                             linnet_finish finish, const ln_error *err);

#endif
