#include "server/modelled_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

struct linnet_request {
    ln_completion_entry entry;
    linnet_request *next; /* of the engine's */
    void *user;
    size_t n_prompt, max_tokens, n_taken;
    bool shows_times, hangs;
    uint64_t *times; /* [max_tokens] of the steps */
    atomic_size_t n_output;
    atomic_int finish;
    atomic_bool is_cancelled;
    atomic_uint references;
    bool is_over;
    char text[32];
};

static void release(linnet_request *request) {
    if (atomic_fetch_sub(&request->references, 1) > 1)
        return;
    ln_completion_entry_free(&request->entry);
    free(request->times);
    free(request);
}

/* ---- steps -------------------------------------------------------------------------------- */

static void note(linnet_engine *engine, linnet_request *request) {
    if (ln_completion_batch_add(&engine->batch, &request->entry))
        atomic_fetch_add(&request->references, 1);
}

static void take_submitted(linnet_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    linnet_request **last = &engine->running;
    while (*last != NULL)
        last = &(*last)->next;
    *last = engine->submitted;
    engine->submitted = NULL;
    pthread_mutex_unlock(&engine->mutex);
}

/* A token for each request, or its end. */
static void step(linnet_engine *engine, uint64_t now_ns, bool fails) {
    for (linnet_request **slot = &engine->running; *slot != NULL;) {
        linnet_request *request = *slot;
        size_t n = atomic_load(&request->n_output);
        bool is_cancelled = atomic_load(&request->is_cancelled);
        note(engine, request);
        if (!is_cancelled && !fails && n < request->max_tokens) {
            request->times[n] = now_ns;
            atomic_store(&request->n_output, n + 1);
            slot = &request->next;
            continue;
        }
        *slot = request->next;
        engine->n_cancelled += is_cancelled;
        engine->n_failed += !is_cancelled && fails;
        engine->n_finished += !is_cancelled && !fails;
        atomic_store(&request->finish, is_cancelled ? LINNET_FINISH_CANCELLED
                                       : fails      ? LINNET_FINISH_ERROR
                                                    : LINNET_FINISH_LENGTH);
        atomic_fetch_sub(&engine->n_open, 1);
        atomic_fetch_add(&engine->n_ended, 1);
        release(request);
    }
    atomic_fetch_add(&engine->n_steps, !fails);
    atomic_store(&engine->n_failed_steps, fails ? atomic_load(&engine->n_failed_steps) + 1 : 0);
    ln_completion_batch_post(&engine->batch, release);
}

void modelled_engine_init(linnet_engine *engine, size_t max_seqs) {
    memset(engine, 0, sizeof *engine);
    engine->max_seqs = max_seqs;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->work_came, NULL);
}

void modelled_engine_step(linnet_engine *engine) {
    take_submitted(engine);
    step(engine, ln_clock_ns(), false);
}

void modelled_engine_fail(linnet_engine *engine) {
    take_submitted(engine);
    step(engine, ln_clock_ns(), true);
}

size_t modelled_engine_count(const linnet_engine *engine) {
    size_t count = 0;
    for (const linnet_request *request = engine->running; request != NULL; request = request->next)
        count++;
    return count;
}

/* ---- steps with the clock ----------------------------------------------------------------- */

/* Sleeps while there is nothing to do; false when the engine stops. */
static bool wait_for_work(linnet_engine *engine, uint64_t *due_ns) {
    pthread_mutex_lock(&engine->mutex);
    while (!engine->is_stopping && engine->submitted == NULL && engine->running == NULL) {
        pthread_cond_wait(&engine->work_came, &engine->mutex);
        *due_ns = ln_clock_ns();
    }
    bool is_stopping = engine->is_stopping;
    pthread_mutex_unlock(&engine->mutex);
    return !is_stopping;
}

static void pass_gate(sem_t *gate) {
    while (sem_wait(gate) != 0)
        continue;
}

static void hang_if_asked(linnet_engine *engine) {
    for (linnet_request *request = engine->running; request != NULL; request = request->next)
        if (request->hangs) {
            pass_gate(&modelled_engine_kind.hang_gate);
            request->hangs = false;
        }
}

static void *run(void *argument) {
    linnet_engine *engine = argument;
    uint64_t due_ns = ln_clock_ns();
    while (wait_for_work(engine, &due_ns)) {
        take_submitted(engine);
        hang_if_asked(engine);
        due_ns += engine->step_ns;
        struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                               .tv_nsec = (long)(due_ns % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            continue;
        uint64_t now_ns = ln_clock_ns();
        engine->n_late += now_ns - due_ns > engine->step_ns;
        step(engine, now_ns, false);
    }
    return NULL;
}

int modelled_engine_start(linnet_engine *engine, uint64_t step_ns) {
    engine->step_ns = step_ns;
    return pthread_create(&engine->thread, NULL, run, engine);
}

void modelled_engine_stop(linnet_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    engine->is_stopping = true;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
    pthread_join(engine->thread, NULL);
}

/* ---- what the server calls ---------------------------------------------------------------- */

void linnet_request_options_init(linnet_request_options *options) {
    *options = (linnet_request_options){.struct_bytes = sizeof *options};
}

linnet_status linnet_request_submit(linnet_engine *engine, const linnet_request_options *options,
                                    linnet_request **out, linnet_error *err) {
    linnet_request *request = calloc(1, sizeof *request);
    size_t max_tokens = options->max_tokens > 0 ? options->max_tokens : 1000;
    uint64_t *times = calloc(max_tokens, sizeof *times);
    *out = NULL;
    if (request == NULL || times == NULL) {
        free(request);
        free(times);
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    }
    request->n_prompt = options->n_prompt_ids;
    request->hangs = options->n_prompt_ids > 0 && options->prompt_ids[0] == MODELLED_HANG;
    request->max_tokens = max_tokens;
    request->times = times;
    request->shows_times = engine->step_ns > 0;
    request->user = options->user;
    ln_completion_entry_init(&request->entry, request, options->completion_queue);
    atomic_init(&request->references, 2);
    *out = request;
    atomic_fetch_add(&engine->n_open, 1);
    pthread_mutex_lock(&engine->mutex);
    request->next = engine->submitted;
    engine->submitted = request;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
    return LINNET_OK;
}

linnet_status linnet_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                                  linnet_error *err) {
    (void)timeout_ms;
    linnet_finish finish = (linnet_finish)atomic_load(&request->finish);
    size_t n = request->n_taken, n_output = atomic_load(&request->n_output);
    if (request->is_over || (n == n_output && finish == LINNET_FINISH_NONE))
        return ln_fail(err, LINNET_ERR_TIMEOUT, "no event");
    *event = (linnet_event){
        .token = -1, .text = "", .n_prompt_tokens = request->n_prompt, .stop_index = -1};
    if (n < n_output) {
        unsigned long long shown = request->shows_times ? request->times[n] : n;
        event->token = 1;
        event->text = request->text;
        event->text_bytes = (size_t)snprintf(request->text, sizeof request->text, "%llu ", shown);
        event->n_open = 1;
        request->n_taken++;
    } else {
        event->finish = finish;
        event->error = finish == LINNET_FINISH_ERROR ? "the step failed" : NULL;
        request->is_over = true;
    }
    event->n_output_tokens = request->n_taken;
    return LINNET_OK;
}

void *linnet_request_get_user(const linnet_request *request) {
    return request->user;
}

void linnet_request_close(linnet_request *request) {
    if (request == NULL)
        return;
    atomic_store(&request->is_cancelled, true);
    ln_completion_entry_close(&request->entry);
    release(request);
}

modelled_kind modelled_engine_kind;

linnet_status linnet_plan_memory(const linnet_model *model, const linnet_engine_options *options,
                                 linnet_memory_plan *plan, linnet_error *err) {
    (void)model, (void)err;
    plan->ctx_tokens = 1 << 20;
    plan->max_seqs = options->max_seqs;
    plan->device_bytes = modelled_engine_kind.has_gpu;
    plan->total_bytes = 1 << 20;
    return modelled_engine_kind.step_ns > 0 ? LINNET_OK : LINNET_ERR_UNSUPPORTED;
}

linnet_status linnet_engine_create(const linnet_model *model, const linnet_engine_options *options,
                                   linnet_engine **out, linnet_error *err) {
    (void)model;
    *out = NULL;
    if (modelled_engine_kind.step_ns == 0)
        return LINNET_ERR_UNSUPPORTED;
    linnet_engine *engine = malloc(sizeof *engine);
    if (engine == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    pass_gate(&modelled_engine_kind.load_gate);
    modelled_engine_init(engine, options->max_seqs);
    engine->has_gpu = modelled_engine_kind.has_gpu;
    if (modelled_engine_start(engine, modelled_engine_kind.step_ns) != 0)
        abort();
    *out = engine;
    return LINNET_OK;
}

void linnet_engine_destroy(linnet_engine *engine) {
    if (engine == NULL)
        return;
    while (atomic_load(&engine->is_stuck))
        pause();
    if (modelled_engine_kind.step_ns == 0)
        return;
    pass_gate(&modelled_engine_kind.load_gate);
    modelled_engine_stop(engine);
    free(engine);
}

void linnet_engine_get_memory(const linnet_engine *engine, linnet_memory_plan *plan) {
    plan->ctx_tokens = 1 << 20;
    plan->max_seqs = engine->max_seqs;
    plan->device_bytes = engine->has_gpu;
}

/* It has no adapters. */
bool linnet_engine_get_adapter(linnet_engine *engine, size_t index, linnet_adapter *adapter) {
    (void)engine;
    (void)index;
    (void)adapter;
    return false;
}

linnet_status linnet_engine_load_adapter(linnet_engine *engine, const char *name, const char *path,
                                         float scale, linnet_error *err) {
    (void)engine;
    (void)name;
    (void)path;
    (void)scale;
    (void)err;
    return LINNET_ERR_UNSUPPORTED;
}

linnet_status linnet_engine_unload_adapter(linnet_engine *engine, const char *name,
                                           linnet_error *err) {
    (void)engine;
    (void)name;
    (void)err;
    return LINNET_ERR_ARGUMENT;
}

void linnet_engine_get_stats(linnet_engine *engine, linnet_engine_stats *stats) {
    *stats = (linnet_engine_stats){.struct_bytes = sizeof *stats,
                                   .is_lost = atomic_load(&engine->is_lost),
                                   .n_running = atomic_load(&engine->n_open),
                                   .n_requests = atomic_load(&engine->n_ended),
                                   .n_steps = atomic_load(&engine->n_steps),
                                   .n_failed_steps = atomic_load(&engine->n_failed_steps)};
}
