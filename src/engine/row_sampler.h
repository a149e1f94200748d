/* Sampling of a step's rows of logits: each gives a sequence its next token. Rows without a
 * grammar, whose masks are the engine thread's, are independent of one another, so all threads that
 * compute take part: logprobs, rules and penalties, the draw, and the search for stop strings. */
#ifndef LN_ENGINE_ROW_SAMPLER_H
#define LN_ENGINE_ROW_SAMPLER_H

#include "backend/backend.h"
#include "base/pool.h"
#include "engine/request/request.h"
#include "grammar/masker.h"

/* A row of logits that gives its sequence the next token, or ends it. */
typedef struct ln_row {
    ln_sequence *sequence;
    bool on_backend; /* the backend has sampled `sampled`, for its logit */
    int32_t sampled;
    float sampled_logit;
    const ln_draw_report *report; /* of it, where logprobs are asked for; else NULL */
    float *logits;        /* else: [n_vocab], changed by sampling; NULL: it is for other things */
    bool is_sampled;      /* false: not yet, or it failed */
    int32_t token;        /* -1: none */
    linnet_finish finish; /* why it ends the sequence, after the token, or NONE */
} ln_row;

typedef struct ln_row_sampler {
    ln_backend *backend; /* the engine's */
    ln_masker *masker;   /* the engine's */
    size_t n_vocab;
    size_t n_samplers;
    ln_sampler *samplers; /* [n_samplers] one for each thread; the first is the engine thread's */
    ln_row *rows;         /* [max_seqs] of a step */
    size_t n_rows;
    size_t n_sampled;                /* rows that the backend samples */
    size_t first_logits, end_logits; /* of the step's rows of logits those that the host has, */
    float *logits;                   /* [end_logits - first_logits][n_vocab] */
    ln_pool *pool; /* where the backend has none; NULL: it has, or one thread is enough */
} ln_row_sampler;

/* What its memory depends on. */
typedef struct ln_row_sampler_shape {
    size_t max_seqs, n_threads, n_vocab, ctx_tokens;
} ln_row_sampler_shape;

/* Adds it to an empty layout; init takes that many bytes, zeroed. Errors of init: NOMEM. */
void ln_row_sampler_plan(const ln_row_sampler_shape *shape, ln_layout *layout);
ln_status ln_row_sampler_init(ln_row_sampler *rows, const ln_row_sampler_shape *shape,
                              ln_backend *backend, ln_masker *masker, void *memory, ln_error *err);
void ln_row_sampler_free(ln_row_sampler *rows); /* a zeroed one is fine */

/* What samples rows that the engine thread looks at by itself. */
static inline ln_sampler *ln_row_sampler_own(const ln_row_sampler *rows) {
    return &rows->samplers[0];
}

/* Row number `row` of the step's logits, one of those that the host has. */
static inline float *ln_row_sampler_logits(const ln_row_sampler *rows, size_t row) {
    return rows->logits + (row - rows->first_logits) * rows->n_vocab;
}

/* Samples a row. A failure leaves it to be sampled again. Errors: those of ln_sampler_sample and
 * ln_masker_apply. */
ln_status ln_row_sampler_sample(ln_row_sampler *rows, ln_sampler *sampler, ln_row *row,
                                ln_error *err);

/* Samples those of rows->rows[n_rows] that the backend has sampled, or that have logits and no
 * grammar, all threads together. */
void ln_row_sampler_sample_all(ln_row_sampler *rows);

#endif
