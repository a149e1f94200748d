/* What happens to the blocks that requests can find, on its way from the engine's thread, which
 * never waits and allocates nothing, to the one that publishes it. */
#ifndef LN_SERVER_KV_EVENTS_QUEUE_H
#define LN_SERVER_KV_EVENTS_QUEUE_H

#include <linnet.h>
#include <stdatomic.h>

#include "base/error.h"
#include "kv/prefix_index.h"

typedef enum ln_kv_event_kind {
    LN_KV_EVENT_CLEARED = 0, /* whatever was stored before is to be forgotten */
    LN_KV_EVENT_STORED,
    LN_KV_EVENT_REMOVED
} ln_kv_event_kind;

typedef struct ln_kv_event {
    ln_kv_event_kind kind;
    bool has_parent;
    uint64_t hash, parent;                 /* parent: of a stored block that has one */
    int32_t tokens[LN_KV_BLOCK_TOKENS];    /* of a stored block */
    uint64_t adapter_number;               /* 0: none */
    char adapter[LINNET_MAX_ADAPTER_NAME]; /* its name */
} ln_kv_event;

/* One thread puts, another takes. */
typedef struct ln_kv_event_queue {
    ln_kv_event *events; /* [capacity], a power of two */
    size_t capacity;
    atomic_size_t begin, end; /* so many were taken, and put */
    atomic_ullong n_dropped;  /* because the queue was full */
    bool has_lost;            /* the last one was dropped; the putting thread's */
    int wake_fd;              /* an eventfd that counts when the queue is no longer empty */
} ln_kv_event_queue;

/* Errors: NOMEM, LIMIT. */
ln_status ln_kv_event_queue_init(ln_kv_event_queue *queue, size_t capacity, ln_error *err);
void ln_kv_event_queue_free(ln_kv_event_queue *queue); /* one of zeros is fine */

/* Puts what an engine tells it. Blocks with a salt stay untold: they are nobody else's. After
 * events that were dropped comes one that all blocks are cleared, so that nobody believes in a
 * block whose end was dropped. */
ln_prefix_observer ln_kv_event_queue_observer(ln_kv_event_queue *queue);

/* The oldest events, *count of them in a row, which stay until dropped; 0: there is none. */
const ln_kv_event *ln_kv_event_queue_peek(const ln_kv_event_queue *queue, size_t *count);
void ln_kv_event_queue_drop(ln_kv_event_queue *queue, size_t count);

#endif
