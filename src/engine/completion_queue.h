/* Completion queues: where many requests say that they have events, for receivers that wait for all
 * of them at once (linnet_completion_queue in linnet.h).
 *
 * The requests that a step gave events to form a batch, which is posted when the step is over: one
 * lock and at most one write for all, however many they are. A queue links requests that are open,
 * each once; close takes them off. */
#ifndef LN_ENGINE_COMPLETION_QUEUE_H
#define LN_ENGINE_COMPLETION_QUEUE_H

#include <linnet.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct linnet_completion_queue ln_completion_queue;

/* Errors: NOMEM, LIMIT. */
ln_status ln_completion_queue_create(ln_completion_queue **queue, ln_error *err);
/* Gives up a reference: the creator's; NULL is fine. */
void ln_completion_queue_release(ln_completion_queue *queue);
/* Polls readable from when a request has events until next gave NULL; the queue's. */
int ln_completion_queue_fd(const ln_completion_queue *queue);
/* The next open request that got events since it was last given, or NULL. */
linnet_request *ln_completion_queue_next(ln_completion_queue *queue);

/* A request's entry in its queue. */
typedef struct ln_completion_entry ln_completion_entry;
struct ln_completion_entry {
    linnet_request *request;    /* whose this is */
    ln_completion_queue *queue; /* a reference; NULL: none */
    /* under the queue's mutex */
    ln_completion_entry *next, *previous; /* in the queue */
    bool is_listed;
    bool is_closed; /* the request is never listed again */
    /* of who has the batch */
    ln_completion_entry *next_in_batch;
    bool is_in_batch;
};

/* Requests with events that were not posted yet, with a queue or without. */
typedef struct ln_completion_batch {
    ln_completion_entry *first, *last;
} ln_completion_batch;

/* Begins the entry of a request, in zeroed memory; takes a reference to the queue, which free gives
 * back. */
void ln_completion_entry_init(ln_completion_entry *entry, linnet_request *request,
                              ln_completion_queue *queue);
void ln_completion_entry_free(ln_completion_entry *entry);
/* The request will be closed: it is never listed again. */
void ln_completion_entry_close(ln_completion_entry *entry);

/* Notes that a request has events. True when it was not in the batch already: then it must stay
 * until post gives it to `release`. */
bool ln_completion_batch_add(ln_completion_batch *batch, ln_completion_entry *entry);
void ln_completion_batch_post(ln_completion_batch *batch, void (*release)(linnet_request *request));

#endif
