#include "cli/bench/bench_serve.h"

#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/output.h"

/* One request of the load. Times are in seconds since the load began. */
typedef struct client {
    linnet_request *request; /* NULL: not submitted yet, or over */
    double arrival;          /* when it is due; closed load: when a place became free */
    double first, last;      /* its tokens */
    size_t n_tokens;
} client;

typedef struct bench_run {
    const ln_bench_load *load;
    linnet_engine *engine;
    size_t n_vocab;
    uint64_t begin_ns;
    client *clients;      /* [n_requests] */
    struct pollfd *polls; /* [n_requests], of the open ones */
    size_t *polled;       /* [n_requests], whose they are */
    int32_t *prompt;      /* [n_prompt] */
    size_t n_submitted, n_open;
    size_t most_open;
} bench_run;

/* Counters of the random numbers. */
enum { DRAW_ARRIVAL, DRAW_SHARED, DRAW_OWN };

static double seconds(const bench_run *run) {
    return (double)(ln_clock_ns() - run->begin_ns) * 1e-9;
}

/* Gaps between arrivals are exponentially distributed. */
static void plan_arrivals(bench_run *run) {
    double at = 0;
    for (size_t i = 0; i < run->load->n_requests && run->load->rate > 0; i++) {
        double uniform = (double)ln_rng_uniform(run->load->seed, 0, i, DRAW_ARRIVAL);
        run->clients[i].arrival = at;
        at += -log(1 - uniform) / run->load->rate;
    }
}

static void make_prompt(const bench_run *run, size_t index) {
    const ln_bench_load *load = run->load;
    for (size_t i = 0; i < load->n_prompt; i++) {
        bool is_shared = i < load->n_shared;
        float uniform = ln_rng_uniform(load->seed, is_shared ? 0 : (uint32_t)index, i,
                                       is_shared ? DRAW_SHARED : DRAW_OWN);
        run->prompt[i] = (int32_t)((double)uniform * (double)run->n_vocab);
    }
}

static linnet_status submit(bench_run *run, linnet_error *err) {
    client *c = &run->clients[run->n_submitted];
    linnet_request_options options;
    linnet_request_options_init(&options);
    make_prompt(run, run->n_submitted);
    options.prompt_ids = run->prompt;
    options.n_prompt_ids = run->load->n_prompt;
    options.max_tokens = run->load->n_output;
    options.ignore_eos = true;
    options.sampling = run->load->sampling;
    options.sampling.seed += run->n_submitted;
    linnet_status status = linnet_request_submit(run->engine, &options, &c->request, err);
    run->n_submitted++;
    run->n_open += status == LINNET_OK;
    run->most_open = run->n_open > run->most_open ? run->n_open : run->most_open;
    return status;
}

/* Whether the next request is due; *wait_ms is how long to wait at most until one is. */
static bool is_due(bench_run *run, int *wait_ms) {
    const ln_bench_load *load = run->load;
    *wait_ms = -1;
    if (run->n_submitted == load->n_requests)
        return false;
    client *next = &run->clients[run->n_submitted];
    double now = seconds(run);
    if (load->rate > 0) {
        *wait_ms = (int)ceil((next->arrival - now) * 1000);
        return next->arrival <= now;
    }
    next->arrival = now;
    return load->concurrency == 0 || run->n_open < load->concurrency;
}

/* Takes the events that wait. */
static linnet_status take_events(bench_run *run, client *c, linnet_error *err) {
    linnet_event event;
    linnet_status status;
    while ((status = linnet_request_next(c->request, 0, &event, err)) == LINNET_OK) {
        double now = seconds(run);
        if (event.token >= 0) {
            c->first = c->n_tokens == 0 ? now : c->first;
            c->last = now;
            c->n_tokens++;
            continue;
        }
        if (event.finish == LINNET_FINISH_ERROR) {
            snprintf(err->message, sizeof err->message, "%s", event.error);
            return err->status = LINNET_ERR_COMPUTE;
        }
        linnet_request_close(c->request);
        c->request = NULL;
        run->n_open--;
        return LINNET_OK;
    }
    return status == LINNET_ERR_TIMEOUT ? LINNET_OK : status;
}

static linnet_status receive(bench_run *run, int wait_ms, linnet_error *err) {
    nfds_t n = 0;
    for (size_t i = 0; i < run->n_submitted; i++) {
        if (run->clients[i].request == NULL)
            continue;
        run->polls[n] = (struct pollfd){linnet_request_get_fd(run->clients[i].request), POLLIN, 0};
        run->polled[n++] = i;
    }
    poll(run->polls, n, wait_ms); /* interrupted: the next turn tries again */
    for (nfds_t i = 0; i < n; i++) {
        if (!(run->polls[i].revents & POLLIN))
            continue;
        linnet_status status = take_events(run, &run->clients[run->polled[i]], err);
        if (status != LINNET_OK)
            return status;
    }
    return LINNET_OK;
}

static linnet_status drive(bench_run *run, linnet_error *err) {
    linnet_status status = LINNET_OK;
    int wait_ms;
    run->begin_ns = ln_clock_ns();
    while (status == LINNET_OK && (run->n_submitted < run->load->n_requests || run->n_open > 0)) {
        if (is_due(run, &wait_ms))
            status = submit(run, err);
        else
            status = receive(run, wait_ms, err);
    }
    return status;
}

/* ---- results ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct percentiles {
    double p50, p90, p99;
} percentiles;

/* Of values[n] > 0, which are sorted: the least that so many percent do not exceed. */
static percentiles percentiles_of(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare);
    return (percentiles){values[(n - 1) * 50 / 100], values[(n - 1) * 90 / 100],
                         values[(n - 1) * 99 / 100]};
}

typedef struct result {
    double seconds, output_per_s, total_per_s;
    percentiles ttft_ms, tpot_ms; /* tpot: all 0 when requests have one token */
    uint64_t n_steps, n_computed; /* forward passes, and tokens that went through them */
} result;

static result summarise(const bench_run *run, double *values) {
    const ln_bench_load *load = run->load;
    size_t n = load->n_requests, n_output = 0;
    double last = 0;
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(run->engine, &stats);
    result r = {.n_steps = stats.n_steps, .n_computed = stats.n_computed_tokens};
    for (size_t i = 0; i < n; i++) {
        const client *c = &run->clients[i];
        n_output += c->n_tokens;
        last = c->last > last ? c->last : last;
        values[i] = (c->first - c->arrival) * 1000;
    }
    r.seconds = last;
    r.output_per_s = (double)n_output / last;
    r.total_per_s = (double)(n_output + n * load->n_prompt) / last;
    r.ttft_ms = percentiles_of(values, n);
    size_t n_paced = 0;
    for (size_t i = 0; i < n; i++) {
        const client *c = &run->clients[i];
        if (c->n_tokens > 1)
            values[n_paced++] = (c->last - c->first) * 1000 / (double)(c->n_tokens - 1);
    }
    if (n_paced > 0)
        r.tpot_ms = percentiles_of(values, n_paced);
    return r;
}

static json_t *percentiles_json(const percentiles *p) {
    return json_pack("{s:f,s:f,s:f}", "p50", p->p50, "p90", p->p90, "p99", p->p99);
}

static int print_as_json(const bench_run *run, const result *r) {
    const ln_bench_load *load = run->load;
    json_t *object = json_pack(
        "{s:I,s:s,s:f,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:I,s:I,s:o,s:o}", "requests",
        (json_int_t)load->n_requests, "load", load->rate > 0 ? "open" : "closed", "rate",
        load->rate, "most_open", (json_int_t)run->most_open, "prompt_tokens",
        (json_int_t)load->n_prompt, "shared_tokens", (json_int_t)load->n_shared, "output_tokens",
        (json_int_t)load->n_output, "seconds", r->seconds, "output_tokens_per_s", r->output_per_s,
        "total_tokens_per_s", r->total_per_s, "steps", (json_int_t)r->n_steps, "computed_tokens",
        (json_int_t)r->n_computed, "ttft_ms", percentiles_json(&r->ttft_ms), "tpot_ms",
        percentiles_json(&r->tpot_ms));
    if (load->sampling.temperature > 0 && object)
        json_object_set_new(object, "seed", json_integer((json_int_t)load->sampling.seed));
    return ln_cli_print_json(stdout, object, false);
}

static int print(const bench_run *run, const result *r, bool json) {
    const ln_bench_load *load = run->load;
    if (json)
        return print_as_json(run, r);
    printf("%zu requests of %zu + %zu tokens, at most %zu open: %.2f s\n", load->n_requests,
           load->n_prompt, load->n_output, run->most_open, r->seconds);
    printf("throughput: %.2f output tokens/s, %.2f with prompts\n", r->output_per_s,
           r->total_per_s);
    printf("steps: %llu, of %.1f tokens and %.2f ms on average\n", (unsigned long long)r->n_steps,
           (double)r->n_computed / (double)r->n_steps, r->seconds * 1000 / (double)r->n_steps);
    printf("first token, ms: p50 %.1f  p90 %.1f  p99 %.1f\n", r->ttft_ms.p50, r->ttft_ms.p90,
           r->ttft_ms.p99);
    printf("each further token, ms: p50 %.2f  p90 %.2f  p99 %.2f\n", r->tpot_ms.p50, r->tpot_ms.p90,
           r->tpot_ms.p99);
    if (load->sampling.temperature > 0)
        printf("sampling --temp %g --seed %llu\n", (double)load->sampling.temperature,
               (unsigned long long)load->sampling.seed);
    return 0;
}

int ln_cli_bench_serve(const linnet_model *model, linnet_engine *engine, const ln_bench_load *load,
                       bool json) {
    size_t n = load->n_requests;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_error err = {0};
    linnet_model_get_info(model, &info);
    bench_run run = {
        .load = load,
        .engine = engine,
        .n_vocab = (size_t)info.n_vocab,
        .clients = calloc(n, sizeof *run.clients),
        .polls = calloc(n, sizeof *run.polls),
        .polled = calloc(n, sizeof *run.polled),
        .prompt = calloc(load->n_prompt, sizeof *run.prompt),
    };
    double *values = calloc(n, sizeof *values);
    int status;
    if (!run.clients || !run.polls || !run.polled || !run.prompt || !values) {
        status = ln_cli_fail("out of memory");
    } else {
        plan_arrivals(&run);
        if (drive(&run, &err) != LINNET_OK) {
            status = ln_cli_fail_with(&err);
        } else {
            result r = summarise(&run, values);
            status = print(&run, &r, json);
        }
        for (size_t i = 0; i < run.n_submitted; i++)
            linnet_request_close(run.clients[i].request);
    }
    free(values);
    free(run.prompt);
    free(run.polled);
    free(run.polls);
    free(run.clients);
    return status;
}
