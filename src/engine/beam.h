/* Beam search: the sequences of a group are its beams. They share KV blocks as far as they have
 * a common past, and change places by forking. Hypotheses that ended are kept apart until no
 * running beam can beat the worst of them.
 *
 * The algorithm, its scores and its ends are those of the Hugging Face implementation: grammar,
 * rules and penalties change the logarithms of probabilities, which are not made to sum up to one
 * again. Where fewer candidates are left than there are beams, the others run on with a score of
 * minus infinity and give nothing. */
#ifndef LN_ENGINE_BEAM_H
#define LN_ENGINE_BEAM_H

#include "base/layout.h"
#include "engine/request/text_stream.h"
#include "engine/scheduler.h"
#include "grammar/masker.h"
#include "sampling/logprobs.h"

typedef struct ln_beams ln_beams;

/* A token that may follow a beam. */
typedef struct ln_beam_candidate {
    size_t parent;
    int32_t token;
    float score;   /* sum of logprobs, as rules and penalties leave them */
    float logprob; /* of the token, as the model says */
} ln_beam_candidate;

/* What has ended. */
typedef struct ln_hypothesis {
    double score; /* sum of logprobs / length^length_penalty */
    int32_t *tokens;
    ln_logprob_lists logprobs; /* of them, as asked for */
    size_t n_tokens;           /* without a stop id, which counts for the length */
    linnet_finish finish;
} ln_hypothesis;

/* What the memory of beams depends on. */
typedef struct ln_beams_shape {
    size_t width, n_stop_ids, n_vocab, max_output;
    bool has_logprobs;
    size_t n_top; /* with has_logprobs: logprobs of the likeliest, too */
    const ln_tokenizer *tokenizer;
    size_t n_stops, longest_stop; /* stop strings; bytes */
} ln_beams_shape;

struct ln_beams {
    size_t width, n_candidates;    /* the latter of all beams, and of each */
    size_t n_top;                  /* of each row, that events show */
    linnet_logprob *top;           /* [width][n_candidates] */
    float *chosen;                 /* [width][n_candidates] what the model says of those */
    linnet_logprob *shown;         /* [width][n_top] */
    ln_beam_candidate *candidates; /* [n_candidates], best first */
    ln_beam_candidate *next;       /* [width] */
    float *scores;                 /* [width] of the running beams */
    size_t *slots;                 /* [width] where `next` goes to */
    bool *taken;                   /* [width] */
    ln_hypothesis *ended;          /* [width], the first n_ended count, best first */
    ln_text_stream probe;          /* with stop strings: tries a token */
    size_t n_ended;
};

/* Adds the beams of a request, itself included, to a layout and returns the offset; `memory` below
 * is there, zeroed. */
size_t ln_beams_plan(ln_layout *layout, const ln_beams_shape *shape);
ln_beams *ln_beams_init(const ln_beams_shape *shape, void *memory);

/* What a step works with; the engine's. */
typedef struct ln_beams_tools {
    ln_kv_cache *kv;
    ln_sampler *sampler;
    ln_masker *masker;
} ln_beams_tools;

/* A step of the group's beams, from logits[width][n_vocab], which it changes, or from one row at
 * the beginning. *is_over: the best hypotheses are `ended`. Errors: COMPUTE (a logit is NaN), those
 * of ln_masker_apply. */
ln_status ln_beams_step(ln_beams *beams, ln_sequence_group *group, const ln_beams_tools *tools,
                        float *logits, bool begins, bool *is_over, ln_error *err);

/* The search is over: its best hypotheses become the request's outputs, which end. */
void ln_beams_end(const ln_beams *beams, linnet_request *request);

#endif
