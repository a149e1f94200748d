/* Pooling: hidden states of a text's tokens become one vector, which goes through a head.
 *
 * A sum has the order of the tokens, whatever shares their steps and wherever a text is cut, so a
 * vector has the same bits in any company. */
#ifndef LN_ENGINE_POOLER_H
#define LN_ENGINE_POOLER_H

#include "engine/scheduler.h"
#include "model/embedding/head.h"
#include "model/model.h"

typedef struct ln_pooler {
    const ln_embedding *embedding; /* the model's */
    size_t dim;
    ln_head dense, classes;
    float *scratch; /* as wide as the widest vector */
} ln_pooler;

/* Adds heads and scratch to an empty layout; init takes that many bytes, which outlive it. Errors
 * of init: IO (the file shrank). */
void ln_pooler_plan(const linnet_model *model, ln_layout *layout);
ln_status ln_pooler_init(ln_pooler *pooler, const linnet_model *model, void *memory, ln_error *err);

/* How many hidden states of a chunk the request needs: the last n of it, but with `first`. */
size_t ln_pooler_rows(const ln_chunk *chunk, bool *first);

/* Takes a step's hidden states [n][dim], in the order of its chunks, before they are committed. */
void ln_pooler_take(const ln_pooler *pooler, const ln_scheduler *scheduler, const float *hidden);

/* All of a request's text has been read: its vector is there. Errors: COMPUTE when a number of it
 * is not finite. */
ln_status ln_pooler_finish(const ln_pooler *pooler, linnet_request *request, ln_error *err);

/* Floats that a request's vector needs room for, and that it has in the end. */
size_t ln_pooler_room(const linnet_model *model);
size_t ln_pooler_width(const linnet_model *model, const linnet_request_options *options);
linnet_pooling ln_pooler_kind(const linnet_model *model, const linnet_request_options *options);

#endif
