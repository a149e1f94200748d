#include "server/kv_events/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/eventfd.h"

ln_status ln_kv_event_queue_init(ln_kv_event_queue *queue, size_t capacity, ln_error *err) {
    LN_BUG_ON((capacity & (capacity - 1)) != 0);
    *queue = (ln_kv_event_queue){.capacity = capacity};
    queue->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->wake_fd < 0)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of KV events: %s",
                       strerror(errno));
    queue->events = calloc(capacity, sizeof *queue->events);
    if (queue->events != NULL)
        return LINNET_OK;
    close(queue->wake_fd);
    return ln_fail_memory(err, "the queue of KV events");
}

void ln_kv_event_queue_free(ln_kv_event_queue *queue) {
    if (queue->events == NULL)
        return;
    close(queue->wake_fd);
    free(queue->events);
    queue->events = NULL;
}

/* ---- the putting thread ------------------------------------------------------------------ */

static size_t count_free(const ln_kv_event_queue *queue) {
    return queue->capacity - (atomic_load_explicit(&queue->end, memory_order_relaxed) -
                              atomic_load_explicit(&queue->begin, memory_order_acquire));
}

/* The place of the next event, which is only seen once it is published. */
static ln_kv_event *next_place(ln_kv_event_queue *queue) {
    size_t end = atomic_load_explicit(&queue->end, memory_order_relaxed);
    return &queue->events[end & (queue->capacity - 1)];
}

/* Whoever takes looks at `end` after it has moved `begin`; here it is the other way round. So
 * either it sees this event, or this thread sees that it has taken all others, and wakes it. */
static void publish(ln_kv_event_queue *queue) {
    size_t end = atomic_load_explicit(&queue->end, memory_order_relaxed);
    atomic_store(&queue->end, end + 1);
    if (atomic_load(&queue->begin) == end)
        ln_eventfd_add(queue->wake_fd, 1);
}

/* Whether an event has a place; it is dropped otherwise. */
static bool make_room(ln_kv_event_queue *queue) {
    size_t n_free = count_free(queue);
    if (n_free > queue->has_lost) {
        if (queue->has_lost) {
            *next_place(queue) = (ln_kv_event){.kind = LN_KV_EVENT_CLEARED};
            publish(queue);
        }
        queue->has_lost = false;
        return true;
    }
    queue->has_lost = true;
    atomic_fetch_add_explicit(&queue->n_dropped, 1, memory_order_relaxed);
    return false;
}

static void put_stored(void *context, const ln_prefix_stored *block) {
    ln_kv_event_queue *queue = context;
    const ln_prefix_origin *origin = block->origin;
    if ((origin != NULL && origin->has_salt) || !make_room(queue))
        return;
    ln_kv_event *event = next_place(queue);
    event->kind = LN_KV_EVENT_STORED;
    event->hash = block->key->hash;
    event->parent = block->key->parent;
    event->has_parent = !block->is_first;
    memcpy(event->tokens, block->key->tokens, sizeof event->tokens);
    event->adapter_number = 0;
    if (origin != NULL && origin->adapter != NULL) {
        event->adapter_number = origin->adapter_number;
        memccpy(event->adapter, origin->adapter, '\0', sizeof event->adapter);
        event->adapter[sizeof event->adapter - 1] = '\0';
    }
    publish(queue);
}

static void put_removed(void *context, const ln_prefix_key *key) {
    ln_kv_event_queue *queue = context;
    if (!make_room(queue))
        return;
    ln_kv_event *event = next_place(queue);
    event->kind = LN_KV_EVENT_REMOVED;
    event->hash = key->hash;
    publish(queue);
}

ln_prefix_observer ln_kv_event_queue_observer(ln_kv_event_queue *queue) {
    return (ln_prefix_observer){put_stored, put_removed, queue};
}

/* ---- the taking thread ------------------------------------------------------------------- */

const ln_kv_event *ln_kv_event_queue_peek(const ln_kv_event_queue *queue, size_t *count) {
    size_t begin = atomic_load_explicit(&queue->begin, memory_order_relaxed);
    size_t n = atomic_load(&queue->end) - begin, at = begin & (queue->capacity - 1);
    *count = n < queue->capacity - at ? n : queue->capacity - at;
    return &queue->events[at];
}

void ln_kv_event_queue_drop(ln_kv_event_queue *queue, size_t count) {
    size_t begin = atomic_load_explicit(&queue->begin, memory_order_relaxed);
    atomic_store(&queue->begin, begin + count);
}
