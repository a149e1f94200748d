/* A transport between threads of one process, which are ranks to one another. */
#ifndef LN_TESTS_THREAD_TRANSPORT_H
#define LN_TESTS_THREAD_TRANSPORT_H

#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dist/transport.h"

enum { THREAD_MAX_RANKS = 6 };

/* A message from one rank to another: the sender's own, which waits until it is taken, or a copy.
 */
typedef struct thread_message thread_message;
struct thread_message {
    thread_message *next;
    const void *data;
    size_t bytes;
    bool is_taken, is_copy;
};

typedef struct thread_world {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    thread_message *first[THREAD_MAX_RANKS][THREAD_MAX_RANKS]; /* [from][to] */
    bool has_ended[THREAD_MAX_RANKS]; /* after a failure: nobody waits for it any more */
} thread_world;

#define THREAD_WORLD_INIT                                                                          \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

typedef struct thread_transport {
    ln_transport base;
    thread_world *world;
    bool buffers; /* nobody waits until what it sends is taken, whatever its size */
} thread_transport;

static inline thread_message *thread_copy(const ln_message *m) {
    thread_message *copy = malloc(sizeof *copy + m->out_bytes);
    assert_non_null(copy);
    *copy = (thread_message){.data = copy + 1, .bytes = m->out_bytes, .is_copy = true};
    memcpy(copy + 1, m->out, m->out_bytes);
    return copy;
}

static inline void thread_take(thread_message **first, const ln_message *m) {
    thread_message *message = *first;
    assert_int_equal(message->bytes, m->in_bytes);
    memcpy(m->in, message->data, m->in_bytes);
    *first = message->next;
    message->is_taken = true;
    if (message->is_copy)
        free(message);
}

static inline void thread_take_back(thread_message **first, const thread_message *own) {
    while (*first != NULL && *first != own)
        first = &(*first)->next;
    if (*first != NULL)
        *first = own->next;
}

static inline ln_transport_status thread_exchange_one(ln_transport *base, const ln_message *m) {
    thread_transport *self = (thread_transport *)base;
    thread_world *w = self->world;
    bool sends = m->to != LN_NO_RANK, takes = m->from != LN_NO_RANK;
    ln_transport_status status = LN_TRANSPORT_OK;
    thread_message own = {.data = m->out, .bytes = m->out_bytes};
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += m->timeout_ns > 0 ? (time_t)(m->timeout_ns / 1000000000u) + 1 : 30;
    pthread_mutex_lock(&w->mutex);
    if (sends) {
        thread_message **last = &w->first[base->rank][m->to];
        while (*last != NULL)
            last = &(*last)->next;
        *last = self->buffers ? thread_copy(m) : &own;
        pthread_cond_broadcast(&w->changed);
    }
    bool waits = sends && !self->buffers;
    while ((takes || (waits && !own.is_taken)) && status == LN_TRANSPORT_OK) {
        thread_message **first = takes ? &w->first[m->from][base->rank] : NULL;
        if (first != NULL && *first != NULL) {
            thread_take(first, m);
            takes = false;
            pthread_cond_broadcast(&w->changed);
        } else if (w->has_ended[takes ? m->from : m->to]) {
            status = LN_TRANSPORT_FAILED;
        } else if (pthread_cond_timedwait(&w->changed, &w->mutex, &end) != 0) {
            status = LN_TRANSPORT_TIMEOUT;
        }
    }
    if (waits && !own.is_taken)
        thread_take_back(&w->first[base->rank][m->to], &own);
    pthread_mutex_unlock(&w->mutex);
    return status;
}

static inline ln_transport_status thread_exchange(ln_transport *base, const ln_message *messages,
                                                  size_t n) {
    ln_transport_status status = LN_TRANSPORT_OK;
    for (size_t i = 0; i < n && status == LN_TRANSPORT_OK; i++)
        status = thread_exchange_one(base, &messages[i]);
    return status;
}

static inline void thread_leave(ln_transport *base, bool has_failed) {
    thread_world *w = ((thread_transport *)base)->world;
    pthread_mutex_lock(&w->mutex);
    w->has_ended[base->rank] = has_failed;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

#endif
