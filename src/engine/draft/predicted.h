/* Drafts from a predicted output that clients send: what follows there the last tokens of ours. */
#ifndef LN_ENGINE_DRAFT_PREDICTED_H
#define LN_ENGINE_DRAFT_PREDICTED_H

#include <stddef.h>
#include <stdint.h>

typedef struct ln_prediction {
    const int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
} ln_prediction;

/* Of all places in the prediction the one counts where most tokens agree with the last ones of
 * output[n_output], the nearest to its end of equals. Writes at most n_most tokens behind the
 * output; returns their number. */
size_t ln_draft_predicted(const ln_prediction *prediction, int32_t *output, size_t n_output,
                          size_t n_most);

#endif
