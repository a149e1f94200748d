/* Beam search: the sequences of a group are its beams. They share KV blocks as far as they have
 * a common past, and change places by forking. Hypotheses that ended are kept apart until no
 * running beam can beat the worst of them.
 *
 * The algorithm, its scores and its ends are those of the Hugging Face implementation. */
#ifndef LN_ENGINE_BEAM_H
#define LN_ENGINE_BEAM_H

#include "base/layout.h"
#include "engine/scheduler.h"
#include "sampling/sampler.h"

/* A way to go on. */
typedef struct ln_beam_step {
    size_t parent;
    int32_t token;
    float score; /* sum of logprobs */
} ln_beam_step;

/* What has ended. */
typedef struct ln_hypothesis {
    double score; /* sum of logprobs / length^length_penalty */
    int32_t *tokens;
    size_t n_tokens; /* without a stop id, which counts for the length */
    linnet_finish finish;
} ln_hypothesis;

typedef struct ln_beams {
    size_t width, n_steps; /* n_steps: candidates that are looked at, in all and of each beam */
    linnet_logprob *top;   /* [width][n_steps] */
    ln_beam_step *steps;   /* [n_steps], best first */
    ln_beam_step *next;    /* [width] */
    float *scores;         /* [width] of the running beams */
    size_t *slots;         /* [width] where `next` goes to */
    bool *taken;           /* [width] */
    ln_hypothesis *ended;  /* [width], the first n_ended count, best first */
    size_t n_ended;
} ln_beams;

/* Adds the beams of a request, itself included, to a layout and returns the offset; `memory` below
 * is there, zeroed. */
size_t ln_beams_plan(ln_layout *layout, size_t width, size_t n_stop_ids, size_t n_vocab,
                     size_t max_output);
ln_beams *ln_beams_init(size_t width, size_t n_stop_ids, size_t n_vocab, size_t max_output,
                        void *memory);

/* A step of the group's beams, from logits[width][n_vocab], or from one row at the beginning; true
 * when the search is over: then the best hypotheses are `ended`. */
bool ln_beams_step(ln_beams *beams, ln_sequence_group *group, ln_kv_cache *kv, ln_sampler *sampler,
                   float *logits, bool begins);

#endif
