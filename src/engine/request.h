/* A request: what a caller wants, and what comes of it.
 *
 * Its memory is one allocation, made by submit on the caller's thread: copies of the options, the
 * tokens of prompt and output, the text streams. The caller and the engine hold a reference each.
 *
 * Tokens are the events: the engine thread writes them behind the prompt and then counts them in
 * n_output; the receiver follows. The eventfd is a semaphore that counts the events not taken. */
#ifndef LN_ENGINE_REQUEST_H
#define LN_ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/sequence.h"
#include "engine/text_stream.h"

struct linnet_request {
    atomic_uint references;
    linnet_engine *engine;          /* not touched once `finish` is set */
    linnet_request_options options; /* its pointers are NULL, but for on_logits and user */
    size_t n_prompt, max_output;
    int32_t *tokens;         /* [n_prompt + max_output]; the engine thread writes the output */
    int32_t *encoder_tokens; /* [n_encoder_ids] */
    int event_fd;

    /* the engine thread's */
    ln_sequence sequence;
    bool has_stops;
    ln_text_stream stop_stream; /* with has_stops */

    /* from the engine thread to the receiver */
    atomic_size_t n_output; /* tokens written behind the prompt */
    atomic_int finish;      /* a linnet_finish, set after the last token and `error` */
    linnet_error error;     /* with LINNET_FINISH_ERROR */

    /* from the caller to the engine thread */
    atomic_bool cancelled;
    pthread_mutex_t on_logits_mutex; /* held while on_logits runs */
    bool is_closed;                  /* under it: `user` may be gone */

    /* the receiver's */
    ln_text_stream stream;
    size_t n_taken; /* of n_output */
    bool is_over;   /* the final event was taken */
};

/* The engine thread's side. */

static inline bool ln_request_is_cancelled(linnet_request *request) {
    return atomic_load(&request->cancelled);
}

/* Delivers the next token of the output; true when it completes a stop string. */
bool ln_request_give_token(linnet_request *request, int32_t token);
/* Calls on_logits, unless the request was closed. */
void ln_request_give_logits(linnet_request *request, size_t position, const float *row,
                            size_t n_vocab);
/* Delivers the final event and gives up the engine's reference; `error` with
 * LINNET_FINISH_ERROR. */
void ln_request_give_end(linnet_request *request, linnet_finish finish, const ln_error *error);

#endif
