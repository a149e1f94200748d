/* Logarithms of the probabilities that the model gave, before rules, penalties and temperature. */
#ifndef LN_SAMPLING_LOGPROBS_H
#define LN_SAMPLING_LOGPROBS_H

#include "sampling/sampler.h"

/* Looks at a row of logits[n_vocab], which is kept: ln_logprobs_get answers from it until the next
 * call. top[n_top] gets the likeliest tokens, best first, ties to the lowest id; n_top <= n_vocab.
 * A row without a finite or infinite best gives minus infinity for all. */
void ln_logprobs_take(ln_sampler *sampler, const float *logits, linnet_logprob *top, size_t n_top);

/* Of one token. */
float ln_logprobs_get(const ln_sampler *sampler, int32_t token);

#endif
