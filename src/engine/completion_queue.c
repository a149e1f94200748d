#include "engine/completion_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/eventfd.h"

struct linnet_completion_queue {
    atomic_uint references; /* the owner's, and one of each request */
    pthread_mutex_t mutex;
    ln_completion_entry *first, *last; /* under the mutex, as is what follows */
    bool is_signalled;                 /* the descriptor polls readable */
    int fd;                            /* eventfd */
};

ln_status ln_completion_queue_create(ln_completion_queue **out, ln_error *err) {
    *out = NULL;
    ln_completion_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return ln_fail_memory(err, "a completion queue");
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0) {
        free(queue);
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of a completion queue: %s",
                       strerror(errno));
    }
    pthread_mutex_init(&queue->mutex, NULL);
    atomic_init(&queue->references, 1);
    *out = queue;
    return LINNET_OK;
}

void ln_completion_queue_release(ln_completion_queue *queue) {
    if (queue == NULL || atomic_fetch_sub(&queue->references, 1) > 1)
        return;
    close(queue->fd);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

int ln_completion_queue_fd(const ln_completion_queue *queue) {
    return queue->fd;
}

void ln_completion_entry_init(ln_completion_entry *entry, linnet_request *request,
                              ln_completion_queue *queue) {
    entry->request = request;
    entry->queue = queue;
    if (queue != NULL)
        atomic_fetch_add(&queue->references, 1);
}

void ln_completion_entry_free(ln_completion_entry *entry) {
    ln_completion_queue_release(entry->queue);
}

/* ---- the list ----------------------------------------------------------------------------- */

static void append(ln_completion_queue *queue, ln_completion_entry *entry) {
    entry->next = NULL;
    entry->previous = queue->last;
    entry->is_listed = true;
    if (queue->last != NULL)
        queue->last->next = entry;
    else
        queue->first = entry;
    queue->last = entry;
}

static void take_off(ln_completion_queue *queue, ln_completion_entry *entry) {
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        queue->first = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
    else
        queue->last = entry->previous;
    entry->is_listed = false;
}

linnet_request *ln_completion_queue_next(ln_completion_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    ln_completion_entry *entry = queue->first;
    if (entry != NULL) {
        take_off(queue, entry);
    } else if (queue->is_signalled) {
        ln_eventfd_take(queue->fd);
        queue->is_signalled = false;
    }
    pthread_mutex_unlock(&queue->mutex);
    return entry != NULL ? entry->request : NULL;
}

void ln_completion_entry_close(ln_completion_entry *entry) {
    ln_completion_queue *queue = entry->queue;
    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->mutex);
    if (entry->is_listed)
        take_off(queue, entry);
    entry->is_closed = true;
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- the side of who makes events --------------------------------------------------------- */

bool ln_completion_batch_add(ln_completion_batch *batch, ln_completion_entry *entry) {
    if (entry->is_in_batch)
        return false;
    entry->is_in_batch = true;
    entry->next_in_batch = NULL;
    if (batch->last != NULL)
        batch->last->next_in_batch = entry;
    else
        batch->first = entry;
    batch->last = entry;
    return true;
}

/* Where the descriptor does not take it, the next event tries again. */
static void signal_events(ln_completion_queue *queue) {
    queue->is_signalled = ln_eventfd_add(queue->fd, 1);
}

void ln_completion_batch_post(ln_completion_batch *batch,
                              void (*give_back)(linnet_request *request)) {
    ln_completion_entry *begin = batch->first;
    *batch = (ln_completion_batch){0};
    for (ln_completion_entry *entry = begin; entry != NULL;) {
        ln_completion_queue *queue = entry->queue;
        if (queue == NULL) {
            entry = entry->next_in_batch;
            continue;
        }
        pthread_mutex_lock(&queue->mutex);
        for (; entry != NULL && entry->queue == queue; entry = entry->next_in_batch)
            if (!entry->is_listed && !entry->is_closed)
                append(queue, entry);
        if (queue->first != NULL && !queue->is_signalled)
            signal_events(queue);
        pthread_mutex_unlock(&queue->mutex);
    }
    for (ln_completion_entry *entry = begin, *next; entry != NULL; entry = next) {
        next = entry->next_in_batch;
        entry->is_in_batch = false;
        give_back(entry->request);
    }
}
