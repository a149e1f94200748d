/* What the engine's thread does beside the forward pass: the real engine over a backend that only
 * waits. 256 requests generate at once and a thread receives their events as a server does.
 *
 *     build/bench/bench_engine_step MODEL [STEP_US [THREADS]]
 *
 * Steps take 10 ms; the backend has a thread per processor. Prints, for requests of several kinds,
 * the processor time that the engine's thread took for each step, and how long the backend waited
 * for the next one: of that, until the rows of logits were tokens (with two threads or more), and
 * the rest, in which the step is delivered and the next one scheduled, built and recorded.
 * The first lines have no receiver that waits: events are taken when all have come. The
 * others are woken for each request, or with a completion queue once a step. */
#include <linnet.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"

enum { N_REQUESTS = 256, N_OUTPUT = 96 };

typedef struct variant {
    const char *name;
    bool receives_late, samples, has_stops, has_logprobs, has_queue;
} variant;

static uint64_t step_ns;
static const ln_backend_vtable *real;
/* Since the variant began: when the last step ended, the time between steps, and their number. */
static uint64_t end_ns, gap_ns, share_ns, n_gaps;

static ln_status wait_for_step(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    (void)backend, (void)ops, (void)n_ops, (void)err;
    uint64_t begin_ns = ln_clock_ns(), next_ns = begin_ns + step_ns;
    if (end_ns > 0) {
        gap_ns += begin_ns - end_ns;
        n_gaps++;
    }
    struct timespec until = {.tv_sec = (time_t)(next_ns / 1000000000u),
                             .tv_nsec = (long)(next_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
    end_ns = ln_clock_ns();
    return LINNET_OK;
}

static void timed_share(ln_backend *backend, ln_pool_fn fn, void *context) {
    uint64_t begin_ns = ln_clock_ns();
    real->share(backend, fn, context);
    share_ns += ln_clock_ns() - begin_ns;
}

static _Noreturn void stop(const char *what, const linnet_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(1);
}

/* Logits like a model's: normally distributed. */
static void fill(float *logits, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float u = ln_rng_uniform(1, 0, i, 0), v = ln_rng_uniform(1, 0, i, 1);
        logits[i] = 3 * sqrtf(-2 * logf(1 - u)) * cosf(6.2831853f * v);
    }
}

static linnet_request *submit(linnet_engine *engine, const variant *v, size_t number,
                              linnet_completion_queue *queue) {
    static const char *const stops[] = {"\n\nUser:", "<|end_of_answer|>"};
    linnet_request_options options;
    linnet_error err;
    linnet_request *request;
    int32_t prompt = (int32_t)number;
    linnet_request_options_init(&options);
    options.prompt_ids = &prompt;
    options.n_prompt_ids = 1;
    options.max_tokens = N_OUTPUT;
    options.ignore_eos = true;
    options.sampling.seed = number;
    if (!v->samples)
        options.sampling.temperature = 0;
    options.logprobs = v->has_logprobs;
    options.stop = stops;
    options.n_stop = v->has_stops ? 2 : 0;
    options.completion_queue = queue;
    if (linnet_request_submit(engine, &options, &request, &err) != LINNET_OK)
        stop("submit", &err);
    return request;
}

/* Takes the events that wait; true at the end. */
static bool take(linnet_request *request) {
    linnet_event event;
    while (linnet_request_next(request, 0, &event, NULL) == LINNET_OK)
        if (event.finish != LINNET_FINISH_NONE) {
            linnet_request_close(request);
            return true;
        }
    return false;
}

static void receive(linnet_request **requests) {
    int poll_fd = epoll_create1(0);
    size_t n_open = N_REQUESTS;
    for (size_t i = 0; i < N_REQUESTS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, linnet_request_get_fd(requests[i]), &event);
    }
    while (n_open > 0) {
        struct epoll_event events[64];
        int n = epoll_wait(poll_fd, events, 64, -1);
        for (int i = 0; i < n; i++)
            n_open -= take(requests[events[i].data.u64]);
    }
}

static void receive_queue(linnet_completion_queue *queue) {
    struct pollfd poll_fd = {.fd = linnet_completion_queue_get_fd(queue), .events = POLLIN};
    for (size_t n_open = N_REQUESTS; n_open > 0;) {
        linnet_request *request;
        poll(&poll_fd, 1, -1);
        while ((request = linnet_completion_queue_next(queue)) != NULL)
            n_open -= take(request);
    }
}

static double thread_us(linnet_engine *engine) {
    clockid_t clock;
    struct timespec now;
    if (pthread_getcpuclockid(engine->thread, &clock) != 0 || clock_gettime(clock, &now) != 0)
        return 0;
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static uint64_t count_steps(linnet_engine *engine) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    return stats.n_steps;
}

static void measure(linnet_engine *engine, const variant *v) {
    static linnet_request *requests[N_REQUESTS];
    double begin_us = thread_us(engine);
    end_ns = gap_ns = share_ns = n_gaps = 0;
    uint64_t begin_steps = count_steps(engine);
    linnet_completion_queue *queue = NULL;
    linnet_error err;
    if (v->has_queue && linnet_completion_queue_create(&queue, &err) != LINNET_OK)
        stop("completion queue", &err);
    for (size_t i = 0; i < N_REQUESTS; i++)
        requests[i] = submit(engine, v, i, queue);
    if (v->receives_late)
        while (count_steps(engine) < begin_steps + N_OUTPUT)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (v->has_queue)
        receive_queue(queue);
    else
        receive(requests);
    linnet_completion_queue_destroy(queue);
    double n_steps = (double)(count_steps(engine) - begin_steps);
    double us = (thread_us(engine) - begin_us) / n_steps;
    double gap_us = (double)gap_ns * 1e-3 / (double)n_gaps;
    double share_us = (double)share_ns * 1e-3 / (double)n_gaps;
    printf("%-36s %8.1f us a step; between steps %8.1f us, tokens %8.1f, the rest %6.1f\n", v->name,
           us, gap_us, share_us, gap_us - share_us);
}

int main(int argc, char **argv) {
    static const variant variants[] = {
        {"greedy, nobody waits", .receives_late = true},
        {"and stop strings", .receives_late = true, .has_stops = true},
        {"greedy", .samples = false},
        {"greedy, stop strings", .has_stops = true},
        {"greedy, a completion queue", .has_queue = true},
        {"greedy, stop strings, a completion queue", .has_stops = true, .has_queue = true},
        {"sampled", .samples = true},
        {"sampled, stop strings, logprobs", .samples = true, .has_stops = true,
         .has_logprobs = true},
    };
    linnet_engine_options options;
    linnet_model *model;
    linnet_engine *engine;
    linnet_error err;
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [STEP_US [THREADS]]\n", argv[0]);
        return 2;
    }
    step_ns = (argc > 2 ? strtoull(argv[2], NULL, 10) : 10000) * 1000;
    linnet_engine_options_init(&options);
    options.backend = "cpu";
    options.ctx_tokens = N_OUTPUT + 1;
    options.max_seqs = N_REQUESTS;
    options.n_threads = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    if (linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        linnet_engine_create(model, &options, &engine, &err) != LINNET_OK)
        stop(argv[1], &err);
    real = engine->backend->vtable;
    ln_backend_vtable vtable = *real;
    vtable.run = wait_for_step;
    vtable.share = timed_share;
    engine->backend->vtable = &vtable; /* the thread has not looked at it yet: it has no work */
    for (size_t i = 0; i < N_REQUESTS; i++)
        fill(engine->executor.activations.logits + i * engine->model->spec.n_vocab,
             engine->model->spec.n_vocab);
    printf("%d requests, %zu tokens in the vocabulary, steps of %.1f ms\n", N_REQUESTS,
           engine->model->spec.n_vocab, (double)step_ns * 1e-6);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        measure(engine, &variants[i]);
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return 0;
}
