/* The end of a step: rows of logits become tokens. Rows without a grammar, whose masks are the
 * engine thread's, are independent of one another, so all threads that compute take part: logprobs,
 * rules and penalties, the draw, and the search for stop strings. What comes of them is delivered
 * by the engine thread, in order. */
#ifndef LN_ENGINE_ROWS_H
#define LN_ENGINE_ROWS_H

#include "base/layout.h"
#include "base/pool.h"
#include "engine/plan/plan.h"
#include "engine/sequence.h"
#include "sampling/sampler.h"

/* A row of logits that gives its sequence the next token, or ends it. */
typedef struct ln_row {
    ln_sequence *sequence;
    bool is_sampled; /* the backend has chosen `sampled`, for its logit */
    int32_t sampled;
    float sampled_logit;
    const ln_draw_report *report; /* of it, where logprobs are asked for; else NULL */
    float *logits;        /* else: [n_vocab], changed by the choice; NULL: it is for other things */
    bool is_chosen;       /* false: not yet, or it failed */
    int32_t token;        /* -1: none */
    linnet_finish finish; /* why it ends the sequence, after the token, or NONE */
} ln_row;

typedef struct ln_rows {
    size_t n_samplers;
    ln_sampler *samplers; /* [n_samplers] one for each thread; the first is the engine thread's */
    ln_row *rows;         /* [max_seqs] of a step */
    size_t n_rows;
    size_t n_sampled;                /* rows that the backend chooses */
    size_t first_logits, end_logits; /* of the step's rows of logits those that the host has, */
    float *logits;                   /* [end_logits - first_logits][n_vocab] */
    ln_pool *pool; /* where the backend has none; NULL: it has, or one thread is enough */
} ln_rows;

/* Adds them to an empty layout; init takes that many bytes, zeroed. Errors of init: NOMEM. */
void ln_rows_plan(const ln_engine_plan *plan, size_t n_vocab, ln_layout *layout);
ln_status ln_rows_init(ln_rows *rows, const ln_engine_plan *plan, size_t n_vocab,
                       const ln_backend *backend, void *memory, ln_error *err);
void ln_rows_free(ln_rows *rows); /* zeroed ones are fine */

/* Row number `row` of the step's logits, one of those that the host has. */
static inline float *ln_rows_logits(const ln_rows *rows, size_t row, size_t n_vocab) {
    return rows->logits + (row - rows->first_logits) * n_vocab;
}

/* Chooses the token of a row. A failure leaves it to be chosen again. Errors: those of
 * ln_sampler_sample and ln_masker_apply. */
ln_status ln_row_choose(linnet_engine *engine, ln_sampler *sampler, ln_row *row, ln_error *err);

/* Chooses those of rows->rows[n_rows] that are sampled, or have logits and no grammar, all threads
 * together. */
void ln_rows_choose(linnet_engine *engine);

#endif
