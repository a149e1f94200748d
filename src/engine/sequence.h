/* A sequence: one stream of tokens with its KV. Its memory, the tokens included, belongs to its
 * request; once submitted, only the engine thread touches it. */
#ifndef LN_ENGINE_SEQUENCE_H
#define LN_ENGINE_SEQUENCE_H

#include <linnet.h>

typedef struct ln_sequence {
    struct ln_sequence *next; /* in a queue */
    linnet_request *request;  /* whose it is */
    const int32_t *tokens;    /* [n_tokens] of [max_tokens]: prompt, then output */
    size_t n_prompt, n_tokens;
    size_t max_tokens;             /* the length that it may reach */
    const int32_t *encoder_tokens; /* [n_encoder], with an encoder */
    size_t n_encoder;
    bool needs_encoder;     /* its encoder has not run yet */
    size_t n_cached;        /* tokens whose K and V are in the cache */
    size_t kv_row;          /* in the cache, while it runs */
    uint32_t index;         /* in its group: a counter of its random numbers */
    bool wants_all_logits;  /* of every token; else of the last one */
    double mirostat_excess; /* the sampler's state */
} ln_sequence;

/* First in, first out. */
typedef struct ln_sequence_queue {
    ln_sequence *first, *last; /* NULL, NULL: empty */
} ln_sequence_queue;

static inline void ln_sequence_queue_push(ln_sequence_queue *queue, ln_sequence *sequence) {
    sequence->next = NULL;
    if (queue->last != NULL)
        queue->last->next = sequence;
    else
        queue->first = sequence;
    queue->last = sequence;
}

static inline ln_sequence *ln_sequence_queue_pop(ln_sequence_queue *queue) {
    ln_sequence *sequence = queue->first;
    if (sequence == NULL)
        return NULL;
    queue->first = sequence->next;
    if (queue->first == NULL)
        queue->last = NULL;
    return sequence;
}

/* Moves all of `from` behind the end of `queue`. */
static inline void ln_sequence_queue_append(ln_sequence_queue *queue, ln_sequence_queue *from) {
    if (from->first == NULL)
        return;
    if (queue->last != NULL)
        queue->last->next = from->first;
    else
        queue->first = from->first;
    queue->last = from->last;
    *from = (ln_sequence_queue){0};
}

#endif
