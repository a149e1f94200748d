/* A request: what a caller wants, and what comes of it.
 *
 * Its memory is one allocation, made by submit on the caller's thread: copies of the options, the
 * tokens of prompt and output, logprobs, the text streams. The caller and the engine hold a
 * reference each.
 *
 * Tokens are the events: the engine thread writes them behind the prompt, the notifier counts them
 * in the output's n_shown, and the receiver follows. The eventfd is a semaphore that counts the
 * events not taken; a request with a completion queue has none. Where the best of several outputs
 * are asked for, nothing is shown until all have ended. */
#ifndef LN_ENGINE_REQUEST_REQUEST_H
#define LN_ENGINE_REQUEST_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/completion_queue.h"
#include "engine/draft/predicted.h"
#include "engine/request/text_stream.h"
#include "engine/sequence.h"
#include "sampling/logprobs.h"

typedef struct ln_beams ln_beams; /* engine/beam.h */

/* What comes of one sequence. */
typedef struct ln_output {
    int32_t *tokens;           /* [n_prompt + max_output] */
    ln_logprob_lists logprobs; /* as asked for */

    /* the engine thread's; the notifier reads them while it shows the request */
    size_t n_made;              /* tokens written behind the prompt */
    double score;               /* with is_ranked: sum of their logprobs */
    linnet_finish end;          /* why it ended; NONE: it has not */
    ln_text_stream stop_stream; /* with has_stops */

    /* from the notifier to the receiver */
    atomic_size_t n_shown; /* of n_made */
    atomic_int finish;     /* a linnet_finish, set after the last token and the request's `error` */

    /* the receiver's */
    ln_text_stream stream;
    size_t n_taken;                       /* of n_shown */
    bool is_over;                         /* the final event was taken */
    size_t n_predicted, n_predicted_came; /* set before the finish */
} ln_output;

struct linnet_request {
    atomic_uint references;
    atomic_bool *cancel_came;       /* the engine's; not touched once n_open is 0 */
    linnet_request_options options; /* its pointers are NULL, but for on_logits and user */
    size_t n_prompt, max_output;
    int32_t *encoder_tokens; /* [n_encoder_ids] */
    ln_prediction prediction;
    ln_token_rules rules;
    ln_grammar *grammar;              /* a reference; NULL: none */
    uint64_t submit_ns, deadline_ns;  /* of ln_clock_ns; deadline 0: none */
    ln_logprob_lists prompt_logprobs; /* as asked for; the engine thread writes them */
    int event_fd;                     /* -1: there is a queue of completions */
    uint64_t n_uncounted;             /* events that event_fd has not taken; the notifier's */
    ln_completion_entry entry;
    bool is_ranked;  /* the best n of n_sequences are shown */
    ln_beams *beams; /* NULL: no beam search */
    bool has_stops;
    ln_output *outputs; /* [n_sequences] */
    size_t n_outputs;   /* that are shown */
    size_t *ranks;      /* [n_sequences] output i of the public API is outputs[ranks[i]] */

    /* the engine thread's */
    ln_sequence_group group;
    ln_sequence *sequences; /* [n_sequences] */
    size_t n_scored;        /* rows that on_logits got */
    bool has_begun;         /* an event was given */
    size_t n_ended;         /* outputs; the notifier reads it while it shows them */
    bool is_over;           /* the engine is done with it: showing it gives up its reference */

    /* from the engine thread to the receiver */
    bool has_prompt_logprobs; /* set before the first token or the finish */
    linnet_error error;       /* with LINNET_FINISH_ERROR */
    float *embedding; /* [n_embedding] of kind EMBED, and room for what comes before; else NULL */
    size_t n_embedding;
    bool has_embedding;      /* set before the finish */
    size_t n_cached_tokens;  /* set before the first token or the finish */
    uint64_t first_token_ns; /* of ln_clock_ns; 0: none yet; set before the first token */
    uint64_t last_token_ns;  /* set before the last finish */
    atomic_size_t n_open;    /* outputs without finish */

    /* from the caller to the engine thread */
    atomic_bool cancelled;
    pthread_mutex_t on_logits_mutex; /* held while on_logits runs */
    bool is_closed;                  /* under it: `user` may be gone */

    /* the receiver's */
    size_t n_to_come; /* final events */
    size_t next;      /* output that is looked at first */
};

/* The engine thread's side. */

static inline bool ln_request_is_cancelled(linnet_request *request) {
    return atomic_load(&request->cancelled);
}

/* Before sequence `index` samples its next token from logits [n_vocab]: looks at what logprobs
 * need. */
void ln_request_take_logprobs(linnet_request *request, size_t index, ln_sampler *sampler,
                              const float *logits);
/* The same after the backend sampled `token`. */
void ln_request_put_logprobs(linnet_request *request, size_t index, ln_sampler *sampler,
                             const ln_draw_report *report, int32_t token);
/* The logits after the prompt's token at `position`: those of the token that follows in it. */
void ln_request_give_prompt_logprobs(linnet_request *request, ln_sampler *sampler, size_t position,
                                     const float *logits);

/* The next token of sequence `index`, which is then shown; true when it completes a stop string.
 * Touches nothing that other sequences have, but for what the sampler keeps. */
bool ln_request_note_token(linnet_request *request, size_t index, const ln_sampler *sampler,
                           int32_t token);
/* A step that ended at now_ns gave the request a token. */
void ln_request_note_time(linnet_request *request, uint64_t now_ns);
/* The token that was noted is there. This and what follows comes after ln_notifier_note. */
void ln_request_add_token(linnet_request *request, size_t index, uint64_t now_ns);
/* Output `index` has ended; `error` with LINNET_FINISH_ERROR. */
void ln_request_end_output(linnet_request *request, size_t index, linnet_finish finish,
                           const ln_error *error);
/* Ends all that have not ended. */
void ln_request_end_all(linnet_request *request, linnet_finish finish, const ln_error *error);

/* Calls on_logits, unless the request was closed, or position was given before. */
void ln_request_give_logits(linnet_request *request, size_t position, const float *row,
                            size_t n_vocab);
/* Copies those of n tokens, as the request asks for them. */
void ln_output_copy_logprobs(const linnet_request *request, ln_logprob_lists *to,
                             const ln_logprob_lists *from, size_t n);

/* The notifier's side: shows what was added since it was last shown; ... */
void ln_request_show(linnet_request *request);
/* ... and gives up the engine's reference when it is over. */
void ln_request_end_showing(linnet_request *request);

/* The receiver's side: as linnet.h says. */
ln_status ln_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                          ln_error *err);
void ln_request_cancel(linnet_request *request);
void ln_request_close(linnet_request *request);

/* Frees it, with the last reference. */
void ln_request_release(linnet_request *request);

#endif
