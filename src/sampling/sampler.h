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

#include "base/draw.h"
#include "base/layout.h"
#include "sampling/candidate.h"
#include "sampling/context.h"

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

/* Samples from logits[n_vocab], which rules and penalties change in context. `sampling` has passed
 * ln_sampling_check. Errors: COMPUTE when a logit is NaN, or all are minus infinity. */
ln_status ln_sampler_sample(ln_sampler *sampler, const linnet_sampling *sampling,
                            const ln_sample_context *context, float *logits, int32_t *token,
                            ln_error *err);

/* Whether a device can sample that: then fills `draw`, but for edits_at and reports, and its edits
 * words[LN_DRAW_WORDS]. `context` needs neither its last token, which is to be the row's own, nor
 * mirostat_excess. */
bool ln_sampler_is_draw(const linnet_sampling *sampling, const ln_sample_context *context,
                        ln_draw *draw, int32_t *words);
/* ln_sampler_sample's errors, for a row whose best token `id` has this logit: the first one that is
 * NaN if any is. */
ln_status ln_sampler_check_best(int32_t id, float logit, ln_error *err);

#endif
