/* From a row of logits to a token: penalties, temperature, top-k, top-p, min-p and the draw.
 *
 * The order of candidates is total: higher logit first, among equals the lower id. Top-k and
 * top-p keep a prefix of that order, found by selection without sorting, in time linear in the
 * vocabulary. The draw inverts the distribution function over ascending ids. Sums run in double
 * precision in a fixed order, and the exponential is our own: a seed gives the same tokens on
 * every machine. */
#ifndef LN_SAMPLING_SAMPLER_H
#define LN_SAMPLING_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"

typedef struct ln_candidate {
    double weight; /* e^((logit - best) / temperature) */
    float logit;   /* after penalties */
    int32_t id;
} ln_candidate;

/* Working memory for one row at a time; the memory belongs to the caller. */
typedef struct ln_sampler {
    size_t n_vocab;
    ln_candidate *candidates; /* [n_vocab] */
    uint32_t *marks;          /* [n_vocab] by id, all 0 between calls */
} ln_sampler;

/* Adds the sampler to an empty layout; init takes that many bytes, zeroed. */
void ln_sampler_plan(size_t n_vocab, ln_layout *layout);
void ln_sampler_init(ln_sampler *sampler, size_t n_vocab, void *memory);

/* LINNET_ERR_ARGUMENT, naming the field, for a value that is not finite or out of range. */
ln_status ln_sampling_check(const linnet_sampling *sampling, ln_error *err);

/* Which token is sampled: what came before it, and the counters of its random numbers. */
typedef struct ln_sample_place {
    const int32_t *tokens; /* [n_tokens] prompt and output so far, ids below n_vocab */
    size_t n_tokens;       /* also the position of the sampled token */
    uint32_t index;        /* of the sequence in its group */
} ln_sample_place;

/* Samples from logits[n_vocab], which the penalties change in place. `sampling` has passed
 * ln_sampling_check. Each penalty looks at the last repeat_last_n tokens: repeat divides positive
 * and multiplies negative logits of tokens that occur there (Keskar et al., "CTRL", 2019);
 * frequency is subtracted once per occurrence, presence once per token that occurs. Errors:
 * COMPUTE when a logit is NaN, or all are minus infinity. */
ln_status ln_sampler_sample(ln_sampler *sampler, const linnet_sampling *sampling,
                            const ln_sample_place *place, float *logits, int32_t *token,
                            ln_error *err);

#endif
