/* A drafted token from a row of logits. */
#ifndef LN_ENGINE_DRAFT_SAMPLE_H
#define LN_ENGINE_DRAFT_SAMPLE_H

#include "engine/sequence.h"
#include "sampling/sampler.h"

/* Samples draft `number` of a sequence from logits [n_vocab], which it overwrites, as the model
 * would, and puts it behind the sequence's tokens; false when there is none. */
bool ln_draft_sample(ln_sampler *sampler, const ln_sequence *sequence, size_t number,
                     float *logits);

#endif
