/* Micro-batches: the parts of a step that pipeline stages work on at the same time, stage s on one
 * and stage s + 1 on the one before it. They are cut by tokens, also within a sequence, whose keys
 * are cached in order; of recurrent models and those with an encoder, between sequences alone. All
 * ranks cut a step alike. What a sequence computes does not depend on where. */
#ifndef LN_ENGINE_MICRO_BATCH_H
#define LN_ENGINE_MICRO_BATCH_H

#include "engine/step.h"

typedef struct ln_micro_batches {
    const ln_step *step;                   /* what is divided */
    size_t end_token, end_logit, next_seq; /* of the one before */
    bool cuts_sequences;
    int32_t *seq_starts;                /* [max_seqs + 1] */
    int32_t *logit_rows;                /* [max_logits] */
    int32_t *lengths[LN_KV_MAX_GROUPS]; /* [max_seqs] each */
    size_t first_logit;                 /* of the batch, among those of the step */
    ln_batch batch;                     /* points to the arrays above and to the step's */
} ln_micro_batches;

/* Adds the arrays to a layout that holds others, and points to them in its memory. */
void ln_micro_batches_plan(const ln_step_budget *budget, const ln_kv_shape *shape,
                           ln_layout *layout);
void ln_micro_batches_init(ln_micro_batches *parts, const ln_step_budget *budget,
                           const ln_kv_shape *shape, ln_layout *layout, void *memory);

/* What a micro-batch costs beside its tokens. */
typedef struct ln_micro_batch_cost {
    size_t weight_tokens; /* reading all weights, in tokens that are computed */
    size_t tile_tokens;   /* that linears compute together */
} ln_micro_batch_cost;

/* Tokens of a micro-batch with which a step of n_tokens ends first; at least n_tokens: it is best
 * not divided. */
size_t ln_micro_batch_tokens(size_t n_tokens, size_t n_stages, const ln_micro_batch_cost *cost);

/* Begins with a step that was built, to be divided by its part_tokens. */
void ln_micro_batches_begin(ln_micro_batches *parts, const ln_step *step, bool cuts_sequences);
/* Puts the next one in parts->batch; false: there is none. It has no hidden states and no draws.
 * The rows of the step's adapters are sorted anew. */
bool ln_micro_batches_next(ln_micro_batches *parts);
static inline bool ln_micro_batches_is_last(const ln_micro_batches *parts) {
    return parts->end_token == parts->step->batch.n_tokens;
}

#endif
