/* The worker threads, and the queues to and from them. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/state.h"

/* ---- jobs ------------------------------------------------------------------------------- */

ln_job *ln_job_create(ln_server *server, ln_exchange *exchange) {
    ln_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->server = server;
    job->exchange = exchange;
    job->begin_ns = ln_clock_ns();
    job->body = exchange->body;
    ln_strbuf_init(&exchange->body);
    ln_strbuf_init(&job->reply);
    atomic_init(&job->is_gone, false);
    return job;
}

void ln_job_free(ln_job *job) {
    if (job == NULL)
        return;
    for (size_t i = 0; i < job->n_sources; i++)
        linnet_request_close(job->sources[i].request);
    free(job->sources);
    ln_server_release(job->server, job->n_reserved);
    ln_api_request_free(&job->request);
    ln_strbuf_free(&job->body);
    ln_strbuf_free(&job->reply);
    free(job);
}

bool ln_server_reserve(ln_server *server, size_t own, size_t more, const char *culprit,
                       ln_api_error *error) {
    size_t limit = server->max_seqs + server->options.max_waiting;
    size_t before = atomic_fetch_add(&server->n_open, more);
    if (before + more <= limit)
        return true;
    atomic_fetch_sub(&server->n_open, more);
    if (own + more > limit)
        return ln_api_fail(error, 400, culprit,
                           "the request makes more than %zu sequences, all that the server holds",
                           limit);
    return ln_api_fail(error, 429, NULL, "the server is busy: %zu sequences run or wait", before);
}

void ln_server_release(ln_server *server, size_t count) {
    atomic_fetch_sub(&server->n_open, count);
}

static void push(ln_job_queue *queue, ln_job *job) {
    job->next = NULL;
    if (queue->last != NULL)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    queue->count++;
}

static ln_job *pop(ln_job_queue *queue) {
    ln_job *job = queue->first;
    if (job == NULL)
        return NULL;
    queue->first = job->next;
    if (queue->first == NULL)
        queue->last = NULL;
    queue->count--;
    return job;
}

/* ---- threads ---------------------------------------------------------------------------- */

static void *run_worker(void *argument) {
    ln_workers *workers = argument;
    pthread_mutex_lock(&workers->mutex);
    for (;;) {
        while (!workers->is_stopping && workers->todo.first == NULL)
            pthread_cond_wait(&workers->work_came, &workers->mutex);
        if (workers->is_stopping)
            break;
        ln_job *job = pop(&workers->todo);
        pthread_mutex_unlock(&workers->mutex);
        if (!atomic_load(&job->is_gone))
            job->work(job);
        pthread_mutex_lock(&workers->mutex);
        push(&workers->done, job);
        uint64_t one = 1;
        while (write(workers->done_fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

void ln_workers_push(ln_server *server, ln_job *job) {
    ln_workers *workers = &server->workers;
    workers->n_jobs++;
    pthread_mutex_lock(&workers->mutex);
    push(&workers->todo, job);
    pthread_cond_signal(&workers->work_came);
    pthread_mutex_unlock(&workers->mutex);
}

static void on_done_readable(evutil_socket_t fd, short what, void *argument) {
    (void)what;
    ln_server *server = argument;
    ln_workers *workers = &server->workers;
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    pthread_mutex_lock(&workers->mutex);
    ln_job_queue done = workers->done;
    workers->done = (ln_job_queue){0};
    pthread_mutex_unlock(&workers->mutex);
    for (ln_job *job; (job = pop(&done)) != NULL;) {
        workers->n_jobs--;
        workers->on_done(job);
    }
}

ln_status ln_workers_start(ln_server *server, void (*on_done)(ln_job *job), ln_error *err) {
    ln_workers *workers = &server->workers;
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->work_came, NULL);
    workers->on_done = on_done;
    workers->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (workers->done_fd >= 0)
        workers->done_event = event_new(server->base, workers->done_fd, EV_READ | EV_PERSIST,
                                        on_done_readable, server);
    if (workers->done_event == NULL || event_add(workers->done_event, NULL) != 0)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of the workers: %s",
                       strerror(errno));
    sigset_t all, before;
    sigfillset(&all); /* signals go to the server's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (workers->n_threads < LN_SERVER_WORKERS && !failed) {
        failed = pthread_create(&workers->threads[workers->n_threads], NULL, run_worker, workers);
        workers->n_threads += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot start a worker thread: %s", strerror(failed));
    return LINNET_OK;
}

void ln_workers_stop(ln_server *server) {
    ln_workers *workers = &server->workers;
    if (workers->on_done == NULL)
        return; /* never started */
    pthread_mutex_lock(&workers->mutex);
    workers->is_stopping = true;
    pthread_cond_broadcast(&workers->work_came);
    pthread_mutex_unlock(&workers->mutex);
    for (size_t i = 0; i < workers->n_threads; i++)
        pthread_join(workers->threads[i], NULL);
    for (ln_job *job; (job = pop(&workers->todo)) != NULL;)
        ln_job_free(job);
    for (ln_job *job; (job = pop(&workers->done)) != NULL;)
        ln_job_free(job);
    if (workers->done_event != NULL)
        event_free(workers->done_event);
    if (workers->done_fd >= 0)
        close(workers->done_fd);
    pthread_cond_destroy(&workers->work_came);
    pthread_mutex_destroy(&workers->mutex);
}
