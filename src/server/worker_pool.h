/* Threads that take work off the event loop: a task is pushed by the server's thread, run by a
 * worker, and finished by the server's thread. Who has the task owns it meanwhile. */
#ifndef LN_SERVER_WORKER_POOL_H
#define LN_SERVER_WORKER_POOL_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct ln_task ln_task;
struct ln_task {
    ln_task *next;                  /* in a queue */
    atomic_bool is_cancelled;       /* it is not run any more, but finished */
    void (*run)(ln_task *task);     /* on a worker */
    void (*finish)(ln_task *task);  /* on the server's thread; takes the task */
    void (*discard)(ln_task *task); /* frees one that the pool's end found in a queue */
};

typedef struct ln_task_queue {
    ln_task *first, *last;
} ln_task_queue;

enum { LN_WORKER_THREADS = 2 };

typedef struct ln_worker_pool {
    pthread_t threads[LN_WORKER_THREADS];
    size_t n_threads;
    pthread_mutex_t mutex;
    pthread_cond_t task_came;
    ln_task_queue todo, done; /* under the mutex */
    bool is_stopping;         /* under the mutex */
    bool is_started;
    int done_fd; /* eventfd: readable when `done` has tasks */
    struct event *done_event;
    size_t n_tasks; /* the server thread's: pushed and not finished */
} ln_worker_pool;

ln_status ln_worker_pool_start(ln_worker_pool *pool, struct event_base *base, ln_error *err);
/* Ends the threads and discards what is left; a zeroed pool is fine. */
void ln_worker_pool_stop(ln_worker_pool *pool);
void ln_worker_pool_push(ln_worker_pool *pool, ln_task *task);

#endif
