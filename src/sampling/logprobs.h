/* Logarithms of the probabilities that the model gave, before rules, penalties and temperature. */
#ifndef LN_SAMPLING_LOGPROBS_H
#define LN_SAMPLING_LOGPROBS_H

#include "sampling/sampler.h"

/* Those of a sequence's tokens, as far as a request asks for them. */
typedef struct ln_logprob_lists {
    float *chosen;       /* [tokens] */
    linnet_logprob *top; /* [tokens][top_logprobs] */
} ln_logprob_lists;

/* Looks at a row of logits[n_vocab], which is kept: ln_logprobs_get answers from it until the next
 * call. top[n_top] gets the likeliest tokens, best first, ties to the lowest id; n_top <= n_vocab.
 * A row without a finite or infinite best gives minus infinity for all. */
void ln_logprobs_take(ln_sampler *sampler, const float *logits, linnet_logprob *top, size_t n_top);

/* The same from what a device reports of a row whose token it chose: only that token's is known
 * then. */
void ln_logprobs_put(ln_sampler *sampler, const ln_draw_report *report, int32_t token,
                     linnet_logprob *top, size_t n_top);

/* Of one token. */
float ln_logprobs_get(const ln_sampler *sampler, int32_t token);
/* Of all: logprobs[n_vocab]. */
void ln_logprobs_get_all(const ln_sampler *sampler, float *logprobs);

/* The n_top greatest of values[n_vocab], none NaN, with their ids; in the same order. */
void ln_logprobs_select(ln_sampler *sampler, const float *values, linnet_logprob *top,
                        size_t n_top);

#endif
