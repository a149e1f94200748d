/* A transport between threads of one process, which are ranks to one another. */
#ifndef LN_TESTS_THREAD_TRANSPORT_H
#define LN_TESTS_THREAD_TRANSPORT_H

#include "test.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "dist/transport.h"

enum { THREAD_MAX_RANKS = 5 };

/* A message from one rank to another; the sender waits until it is taken. */
typedef struct thread_box {
    const void *data; /* NULL: empty */
    size_t bytes;
} thread_box;

typedef struct thread_world {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    thread_box boxes[THREAD_MAX_RANKS][THREAD_MAX_RANKS]; /* [from][to] */
} thread_world;

#define THREAD_WORLD_INIT                                                                          \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

typedef struct thread_transport {
    ln_transport base;
    thread_world *world;
} thread_transport;

static inline ln_transport_status thread_exchange_one(ln_transport *base, const ln_message *m) {
    thread_transport *self = (thread_transport *)base;
    thread_world *w = self->world;
    bool sends = m->to != LN_NO_RANK, takes = m->from != LN_NO_RANK;
    ln_transport_status status = LN_TRANSPORT_OK;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += m->timeout_ns > 0 ? (time_t)(m->timeout_ns / 1000000000u) + 1 : 30;
    pthread_mutex_lock(&w->mutex);
    if (sends) {
        w->boxes[base->rank][m->to] = (thread_box){m->out, m->out_bytes};
        pthread_cond_broadcast(&w->changed);
    }
    while ((takes || (sends && w->boxes[base->rank][m->to].data != NULL)) &&
           status == LN_TRANSPORT_OK) {
        thread_box *from = takes ? &w->boxes[m->from][base->rank] : NULL;
        if (from != NULL && from->data != NULL) {
            assert_int_equal(from->bytes, m->in_bytes);
            memcpy(m->in, from->data, m->in_bytes);
            *from = (thread_box){0};
            takes = false;
            pthread_cond_broadcast(&w->changed);
        } else if (pthread_cond_timedwait(&w->changed, &w->mutex, &end) != 0) {
            status = LN_TRANSPORT_TIMEOUT;
        }
    }
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
    (void)base;
    (void)has_failed;
}

#endif
