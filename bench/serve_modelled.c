/* `linnet serve` over an engine that only keeps time: every step takes the same while and gives
 * each request a token, whose text is the time of the step in nanoseconds (CLOCK_MONOTONIC). What
 * a client on the same machine sees later than that is what serving costs.
 *
 * usage: bench_serve_modelled MODEL PORT STEP_US MAX_SEQS     (the model is for its tokenizer) */
#include <errno.h>
#include <linnet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/server.h"

struct linnet_request {
    linnet_request *next; /* of the engine's */
    size_t n_prompt, max_tokens, n_taken;
    uint64_t *times; /* [max_tokens] */
    atomic_size_t n_output;
    atomic_int finish;
    atomic_bool is_cancelled;
    atomic_uint references;
    int fd;
    bool is_over;
    char text[32];
};

struct linnet_engine {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work_came;
    linnet_request *submitted, *running;
    uint64_t step_ns, n_steps, n_late;
    size_t max_seqs;
    bool is_stopping;
};

static void count_event(const linnet_request *request) {
    uint64_t one = 1;
    while (write(request->fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void release(linnet_request *request) {
    if (atomic_fetch_sub(&request->references, 1) > 1)
        return;
    close(request->fd);
    free(request->times);
    free(request);
}

/* A token for each request, or its end. */
static void step(linnet_engine *engine, uint64_t now_ns) {
    for (linnet_request **slot = &engine->running; *slot != NULL;) {
        linnet_request *request = *slot;
        size_t n = atomic_load(&request->n_output);
        bool is_cancelled = atomic_load(&request->is_cancelled);
        if (!is_cancelled && n < request->max_tokens) {
            request->times[n] = now_ns;
            atomic_store(&request->n_output, n + 1);
            count_event(request);
            slot = &request->next;
            continue;
        }
        *slot = request->next;
        atomic_store(&request->finish,
                     is_cancelled ? LINNET_FINISH_CANCELLED : LINNET_FINISH_LENGTH);
        count_event(request);
        release(request);
    }
    engine->n_steps++;
}

static void *run(void *argument) {
    linnet_engine *engine = argument;
    uint64_t due_ns = ln_clock_ns();
    for (;;) {
        pthread_mutex_lock(&engine->mutex);
        while (!engine->is_stopping && engine->submitted == NULL && engine->running == NULL) {
            pthread_cond_wait(&engine->work_came, &engine->mutex);
            due_ns = ln_clock_ns();
        }
        while (engine->submitted != NULL) {
            linnet_request *request = engine->submitted;
            engine->submitted = request->next;
            request->next = engine->running;
            engine->running = request;
        }
        bool is_stopping = engine->is_stopping;
        pthread_mutex_unlock(&engine->mutex);
        if (is_stopping)
            return NULL;
        due_ns += engine->step_ns;
        struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                               .tv_nsec = (long)(due_ns % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            continue;
        uint64_t now_ns = ln_clock_ns();
        engine->n_late += now_ns - due_ns > engine->step_ns;
        step(engine, now_ns);
    }
}

/* ---- what the server calls --------------------------------------------------------------- */

void linnet_request_options_init(linnet_request_options *options) {
    *options = (linnet_request_options){.struct_bytes = sizeof *options};
}

linnet_status linnet_request_submit(linnet_engine *engine, const linnet_request_options *options,
                                    linnet_request **out, linnet_error *err) {
    linnet_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    request->n_prompt = options->n_prompt_ids;
    request->max_tokens = options->max_tokens > 0 ? options->max_tokens : 1000;
    request->times = calloc(request->max_tokens, sizeof *request->times);
    request->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    atomic_init(&request->references, 2);
    if (request->times == NULL || request->fd < 0) {
        free(request->times);
        free(request);
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create a request");
    }
    *out = request;
    pthread_mutex_lock(&engine->mutex);
    request->next = engine->submitted;
    engine->submitted = request;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->mutex);
    return LINNET_OK;
}

linnet_status linnet_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                                  linnet_error *err) {
    uint64_t one;
    (void)timeout_ms;
    if (request->is_over || read(request->fd, &one, sizeof one) != sizeof one)
        return ln_fail(err, LINNET_ERR_TIMEOUT, "no event");
    *event = (linnet_event){.token = -1, .text = "", .n_prompt_tokens = request->n_prompt};
    if (request->n_taken < atomic_load(&request->n_output)) {
        event->token = 1;
        event->text_bytes = (size_t)snprintf(request->text, sizeof request->text, "%llu ",
                                             (unsigned long long)request->times[request->n_taken]);
        event->text = request->text;
        request->n_taken++;
        event->n_open = 1;
    } else {
        event->finish = (linnet_finish)atomic_load(&request->finish);
        request->is_over = true;
    }
    event->n_output_tokens = request->n_taken;
    return LINNET_OK;
}

int linnet_request_get_fd(const linnet_request *request) {
    return request->fd;
}

void linnet_request_close(linnet_request *request) {
    if (request == NULL)
        return;
    atomic_store(&request->is_cancelled, true);
    release(request);
}

void linnet_engine_get_memory(const linnet_engine *engine, linnet_memory_plan *plan) {
    plan->ctx_tokens = 1 << 20;
    plan->max_seqs = engine->max_seqs;
}

void linnet_engine_get_stats(linnet_engine *engine, linnet_engine_stats *stats) {
    *stats = (linnet_engine_stats){.struct_bytes = sizeof *stats, .n_steps = engine->n_steps};
}

int main(int argc, char **argv) {
    linnet_error err = {0};
    linnet_model *model;
    ln_server *server;
    ln_server_options options;
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL PORT STEP_US MAX_SEQS\n", argv[0]);
        return 2;
    }
    linnet_engine engine = {.step_ns = strtoull(argv[3], NULL, 10) * 1000,
                            .max_seqs = strtoull(argv[4], NULL, 10),
                            .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .work_came = PTHREAD_COND_INITIALIZER};
    signal(SIGPIPE, SIG_IGN);
    ln_server_options_init(&options);
    options.address.port = (uint16_t)atoi(argv[2]);
    options.served_name = "modelled";
    if (linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        ln_server_open(&options, &server, &err) != LINNET_OK ||
        pthread_create(&engine.thread, NULL, run, &engine) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    linnet_status status = ln_server_run(server, model, &engine, &err);
    ln_server_close(server);
    pthread_mutex_lock(&engine.mutex);
    engine.is_stopping = true;
    pthread_cond_signal(&engine.work_came);
    pthread_mutex_unlock(&engine.mutex);
    pthread_join(engine.thread, NULL);
    printf("%llu steps, %llu of them over a step late\n", (unsigned long long)engine.n_steps,
           (unsigned long long)engine.n_late);
    linnet_model_close(model);
    return status != LINNET_OK;
}
