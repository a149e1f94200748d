#include "server/worker_pool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"

static void push(ln_task_queue *queue, ln_task *task) {
    task->next = NULL;
    if (queue->last != NULL)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
}

static ln_task *pop(ln_task_queue *queue) {
    ln_task *task = queue->first;
    if (task == NULL)
        return NULL;
    queue->first = task->next;
    if (queue->first == NULL)
        queue->last = NULL;
    return task;
}

static void *run_worker(void *argument) {
    ln_worker_pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->is_stopping && pool->todo.first == NULL)
            pthread_cond_wait(&pool->task_came, &pool->mutex);
        if (pool->is_stopping)
            break;
        ln_task *task = pop(&pool->todo);
        pthread_mutex_unlock(&pool->mutex);
        if (!atomic_load(&task->is_cancelled))
            task->run(task);
        pthread_mutex_lock(&pool->mutex);
        push(&pool->done, task);
        ln_eventfd_add(pool->done_fd, 1);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void ln_worker_pool_push(ln_worker_pool *pool, ln_task *task) {
    pool->n_tasks++;
    pthread_mutex_lock(&pool->mutex);
    push(&pool->todo, task);
    pthread_cond_signal(&pool->task_came);
    pthread_mutex_unlock(&pool->mutex);
}

static void on_done_readable(evutil_socket_t fd, short what, void *argument) {
    (void)what;
    ln_worker_pool *pool = argument;
    ln_eventfd_take(fd);
    pthread_mutex_lock(&pool->mutex);
    ln_task_queue done = pool->done;
    pool->done = (ln_task_queue){0};
    pthread_mutex_unlock(&pool->mutex);
    for (ln_task *task; (task = pop(&done)) != NULL;) {
        pool->n_tasks--;
        task->finish(task);
    }
}

ln_status ln_worker_pool_start(ln_worker_pool *pool, struct event_base *base, ln_error *err) {
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->task_came, NULL);
    pool->is_started = true;
    pool->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->done_fd >= 0)
        pool->done_event =
            event_new(base, pool->done_fd, EV_READ | EV_PERSIST, on_done_readable, pool);
    if (pool->done_event == NULL || event_add(pool->done_event, NULL) != 0)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of the workers: %s",
                       strerror(errno));
    sigset_t all, before;
    sigfillset(&all); /* signals go to the server's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (pool->n_threads < LN_WORKER_THREADS && !failed) {
        failed = pthread_create(&pool->threads[pool->n_threads], NULL, run_worker, pool);
        pool->n_threads += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot start a worker thread: %s", strerror(failed));
    return LINNET_OK;
}

void ln_worker_pool_stop(ln_worker_pool *pool) {
    if (!pool->is_started)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->task_came);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    for (ln_task *task; (task = pop(&pool->todo)) != NULL;)
        task->discard(task);
    for (ln_task *task; (task = pop(&pool->done)) != NULL;)
        task->discard(task);
    if (pool->done_event != NULL)
        event_free(pool->done_event);
    if (pool->done_fd >= 0)
        close(pool->done_fd);
    pthread_cond_destroy(&pool->task_came);
    pthread_mutex_destroy(&pool->mutex);
}
