#include "server/models/loader.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "model/model.h"

/* A context that nobody asked for leaves so much of the budget to other models. */
enum { MIN_CTX_TOKENS = 256, SHARE_OF_CONTEXT = 4 };

ln_memory_need ln_memory_need_of(const linnet_memory_plan *plan) {
    return (ln_memory_need){plan->total_bytes - plan->device_bytes + plan->mapped_bytes +
                                plan->libraries_bytes,
                            plan->device_bytes};
}

/* What the plan takes beside the weights, of host and device together. */
static size_t count_context(const linnet_memory_plan *plan) {
    size_t weight_bytes = 0;
    for (size_t i = 0; i < plan->n_arenas && i < LINNET_MAX_ARENAS; i++)
        if (strcmp(plan->arenas[i].name, "weights") == 0)
            weight_bytes = plan->arenas[i].bytes;
    return plan->total_bytes - weight_bytes;
}

static bool is_modest(const ln_load_job *job) {
    const ln_memory_need need = ln_memory_need_of(&job->plan), *budget = &job->budget;
    size_t room = need.device_bytes > 0 && budget->device_bytes > 0 ? budget->device_bytes
                                                                    : budget->host_bytes;
    return room == 0 || count_context(&job->plan) <= room / SHARE_OF_CONTEXT;
}

/* Whether less context may help: the plan is not modest, or this machine cannot hold it at all. */
static bool is_too_long(const ln_load_job *job, linnet_status status) {
    return status == LINNET_OK ? !is_modest(job)
                               : status == LINNET_ERR_NOMEM || status == LINNET_ERR_LIMIT;
}

/* Chooses the context, when the options do not: the longest that the model was made for, halved
 * until it is modest. It does not depend on what else is loaded. */
static linnet_status plan(ln_load_job *job) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(job->model, &info);
    bool is_free = job->options.ctx_tokens == 0 && info.ctx_tokens > 0;
    if (is_free)
        job->options.ctx_tokens = (size_t)info.ctx_tokens;
    job->plan = (linnet_memory_plan){.struct_bytes = sizeof job->plan};
    linnet_status status = linnet_plan_memory(job->model, &job->options, &job->plan, &job->error);
    while (is_free && is_too_long(job, status) && job->options.ctx_tokens / 2 >= MIN_CTX_TOKENS) {
        job->options.ctx_tokens /= 2;
        status = linnet_plan_memory(job->model, &job->options, &job->plan, &job->error);
    }
    if (status == LINNET_OK)
        job->options.ctx_tokens = job->plan.ctx_tokens;
    return status;
}

static linnet_status open_model(ln_load_job *job) {
    linnet_status status = job->spec->open(job->spec->user, &job->model, &job->error);
    if (status == LINNET_OK)
        status = plan(job);
    if (status != LINNET_OK) {
        linnet_model_close(job->model);
        job->model = NULL;
    }
    return status;
}

void ln_load_job_run(ln_load_job *job) {
    job->status = LINNET_OK;
    job->error = (linnet_error){0};
    switch (job->kind) {
    case LN_LOAD_OPEN: job->status = open_model(job); break;
    case LN_LOAD_CREATE:
        job->status = linnet_engine_create(job->model, &job->options, &job->engine, &job->error);
        break;
    case LN_LOAD_SLEEP:
        linnet_engine_destroy(job->engine);
        job->engine = NULL;
        ln_residence_hold(&job->residence, job->model->checkpoint, &job->is_awaited);
        break;
    case LN_LOAD_CLOSE:
        linnet_engine_destroy(job->engine);
        ln_residence_release(&job->residence, true);
        linnet_model_close(job->model);
        job->engine = NULL;
        job->model = NULL;
        break;
    }
}

/* ---- the thread ------------------------------------------------------------------------- */

static void *run_loader(void *argument) {
    ln_loader *loader = argument;
    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        while (!loader->is_stopping && loader->todo == NULL)
            pthread_cond_wait(&loader->job_came, &loader->mutex);
        if (loader->is_stopping)
            break;
        ln_load_job *job = loader->todo;
        loader->todo = NULL;
        pthread_mutex_unlock(&loader->mutex);
        ln_load_job_run(job);
        bool drops = job->plan.mapped_bytes == 0;
        ln_residence left = {0};
        if (job->kind == LN_LOAD_CREATE) { /* which nobody has to wait for */
            left = job->residence;
            job->residence = (ln_residence){0};
        }
        pthread_mutex_lock(&loader->mutex);
        loader->done = job;
        ln_eventfd_add(loader->done_fd, 1);
        pthread_mutex_unlock(&loader->mutex);
        ln_residence_release(&left, drops);
        pthread_mutex_lock(&loader->mutex);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static void on_done_readable(evutil_socket_t fd, short what, void *argument) {
    (void)what;
    ln_loader *loader = argument;
    ln_eventfd_take(fd);
    pthread_mutex_lock(&loader->mutex);
    ln_load_job *job = loader->done;
    loader->done = NULL;
    pthread_mutex_unlock(&loader->mutex);
    if (job == NULL)
        return;
    loader->is_busy = false;
    loader->on_done(loader->user, job);
}

void ln_loader_push(ln_loader *loader, ln_load_job *job) {
    loader->is_busy = true;
    pthread_mutex_lock(&loader->mutex);
    loader->todo = job;
    pthread_cond_signal(&loader->job_came);
    pthread_mutex_unlock(&loader->mutex);
}

ln_status ln_loader_start(ln_loader *loader, struct event_base *base,
                          void (*on_done)(void *user, ln_load_job *job), void *user,
                          ln_error *err) {
    *loader = (ln_loader){.on_done = on_done, .user = user};
    loader->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loader->done_fd < 0)
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of the loader: %s",
                       strerror(errno));
    loader->done_event =
        event_new(base, loader->done_fd, EV_READ | EV_PERSIST, on_done_readable, loader);
    bool is_ready = loader->done_event != NULL && event_add(loader->done_event, NULL) == 0;
    sigset_t all, before;
    sigfillset(&all); /* signals go to the server's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->job_came, NULL);
    loader->has_thread = is_ready && pthread_create(&loader->thread, NULL, run_loader, loader) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (loader->has_thread)
        return LINNET_OK;
    if (loader->done_event != NULL)
        event_free(loader->done_event);
    loader->done_event = NULL;
    close(loader->done_fd);
    return ln_fail(err, LINNET_ERR_LIMIT, "cannot start the loader thread");
}

void ln_loader_stop(ln_loader *loader) {
    if (!loader->has_thread)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->is_stopping = true;
    pthread_cond_signal(&loader->job_came);
    pthread_mutex_unlock(&loader->mutex);
    pthread_join(loader->thread, NULL);
    pthread_cond_destroy(&loader->job_came);
    pthread_mutex_destroy(&loader->mutex);
    event_free(loader->done_event);
    close(loader->done_fd);
    loader->has_thread = false;
}
