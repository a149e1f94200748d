/* From a row of logits to a token: rules and penalties, temperature, filters and the draw, in the
 * order that linnet_sampling documents.
 *
 * The order of candidates is total: higher logit first, among equals the lower id. Top-k and
 * top-p keep a prefix of that order, found by selection without sorting; every filter takes time
 * linear in the vocabulary. The draw inverts the distribution function over ascending ids. Weights
 * are rounded so that sums of them are exact, exponential and logarithm are our own: a seed gives
 * the same tokens on every machine, a GPU that draws by itself (ln_draw) included. */
#ifndef LN_SAMPLING_SAMPLER_H
#define LN_SAMPLING_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/draw.h"
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
    float *raw;               /* [n_vocab] what the model said, for logprobs */
    float raw_best;           /* the greatest of `raw` */
    double raw_log_total;     /* of its exponentials, less raw_best */
    uint32_t *lengths;        /* [ctx_tokens] of repetitions */
} ln_sampler;

/* Adds the sampler to an empty layout; init takes that many bytes, zeroed. */
void ln_sampler_plan(size_t n_vocab, size_t ctx_tokens, ln_layout *layout);
void ln_sampler_init(ln_sampler *sampler, size_t n_vocab, size_t ctx_tokens, void *memory);

/* LINNET_ERR_ARGUMENT, naming the field, for a value that is not finite or out of range. */
ln_status ln_sampling_check(const linnet_sampling *sampling, ln_error *err);

/* What a request asks of certain tokens; all ids are below n_vocab, all arrays the request's. */
typedef struct ln_token_rules {
    const linnet_logit_bias *biases; /* [n_biases] */
    size_t n_biases;
    const int32_t *bad_ids; /* word i is bad_ids[bad_ends[i - 1] .. bad_ends[i]), never empty */
    const size_t *bad_ends; /* [n_bad_words] */
    size_t n_bad_words;
    const int32_t *stop_ids; /* [n_stop_ids], which end the sequence */
    size_t n_stop_ids;
    size_t min_tokens;           /* prompt and output before which no stop id comes */
    const int32_t *dry_breakers; /* [n_dry_breakers] */
    size_t n_dry_breakers;
} ln_token_rules;

/* Which token is sampled: what came before it, and the counters of its random numbers. */
typedef struct ln_sample_place {
    const int32_t *tokens;       /* [n_tokens] prompt and output so far, ids below n_vocab */
    size_t n_tokens;             /* also the position of the sampled token; at most ctx_tokens */
    uint32_t index;              /* of the sequence in its group */
    const ln_token_rules *rules; /* NULL: none */
    double *mirostat_excess;     /* the sequence's state of mirostat, 0 at first: bits of surprise
                                    beyond tau so far; NULL without mirostat */
} ln_sample_place;

/* Samples from logits[n_vocab], which rules and penalties change in place. `sampling` has passed
 * ln_sampling_check. Errors: COMPUTE when a logit is NaN, or all are minus infinity. */
ln_status ln_sampler_sample(ln_sampler *sampler, const linnet_sampling *sampling,
                            const ln_sample_place *place, float *logits, int32_t *token,
                            ln_error *err);

/* Whether that is what `draw` says with the edits words[LN_DRAW_WORDS], both of which it then
 * fills, but for edits_at and reports. `place` needs neither its last token, which is to be the
 * row's own, nor mirostat_excess. */
bool ln_sampler_is_draw(const linnet_sampling *sampling, const ln_sample_place *place,
                        ln_draw *draw, int32_t *words);
/* ln_sampler_sample's errors, for a row whose best token `id` has this logit: the first one that is
 * NaN if any is. */
ln_status ln_sampler_check_best(int32_t id, float logit, ln_error *err);

#endif
