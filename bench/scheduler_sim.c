/* The scheduler and the KV cache's books over a trace of requests, without a model: a step takes
 * as long as a formula says. The same code that serves decides; what it costs is measured, what
 * comes of it is simulated.
 *
 *     build/bench/scheduler_sim --help
 *
 * Requests come at random times (Poisson), with prompts and outputs of log-normal lengths; some
 * begin with one of a few shared prefixes. The exit status is 1 when a promise is broken: a request
 * does not end, waits through more admissions than it may, or the books of the cache do not add
 * up. */
#include "bench.h"
#include "sim.h"

#include <stdio.h>
#include <time.h>

enum { OVERDUE_TURN = 64, N_PREFIXES = 8, PREFIX_TOKENS = 512 };

typedef struct sim_args {
    size_t n_requests, max_seqs, max_batch_tokens, ctx, n_blocks, n_swap_blocks;
    double rate, prompt_tokens, output_tokens, shared;
    sim_costs costs;
    uint64_t seed;
    bool prefill_first, by_priority, check;
} sim_args;

typedef struct traced_request {
    sim_request base;
    size_t n_ahead;        /* requests that waited when it came */
    uint64_t n_admissions; /* of the scheduler, when it came */
    bool was_admitted;
} traced_request;

typedef struct sim {
    const sim_args *args;
    sim_engine engine;
    traced_request *requests; /* [n_requests] */
    double now;               /* simulated seconds */
    size_t n_arrived, n_over;
    size_t n_steps, n_full_steps; /* full: max_seqs run */
    double overhead_us, full_us;  /* of all steps, of full ones */
    size_t *gaps;                 /* [GAP_BINS] of times between tokens */
    uint64_t n_computed_tokens;
    double worst_wait; /* admissions that went before, in units of what is promised */
} sim;

/* Bins of times, each 2% wider than the last, from 10 us on. */
enum { GAP_BINS = 1024 };
static size_t gap_bin(double s) {
    double bin = log(s / 1e-5) / log(1.02);
    return bin < 0 ? 0 : bin >= GAP_BINS ? GAP_BINS - 1 : (size_t)bin;
}
static double gap_of(size_t bin) {
    return 1e-5 * pow(1.02, (double)bin + 0.5);
}

/* ---- the trace ---------------------------------------------------------------------------- */

enum { DRAW_GAP, DRAW_PROMPT, DRAW_OUTPUT, DRAW_SHARED, DRAW_PREFIX, DRAW_PRIORITY };

static double uniform(const sim_args *args, size_t request, uint32_t draw) {
    return sim_uniform(args->seed, request, draw, 0);
}

static size_t draw_prefix_tokens(const sim_args *args, size_t request) {
    bool is_shared = uniform(args, request, DRAW_SHARED) < args->shared;
    return is_shared && args->ctx > 2 * PREFIX_TOKENS ? PREFIX_TOKENS : 0;
}

static void make_trace(sim *s) {
    const sim_args *args = s->args;
    double at = 0;
    for (size_t i = 0; i < args->n_requests; i++) {
        sim_request *r = &s->requests[i].base;
        size_t prefix = draw_prefix_tokens(args, i);
        r->arrival = at;
        at += sim_draw_gap(args->seed, i, DRAW_GAP, args->rate);
        r->n_prompt = prefix + sim_draw_length(args->seed, i, DRAW_PROMPT, args->prompt_tokens,
                                               (args->ctx - prefix) / 2);
        r->n_output = sim_draw_length(args->seed, i, DRAW_OUTPUT, args->output_tokens,
                                      args->ctx - r->n_prompt);
    }
}

/* The request comes: its tokens are there from now on. */
static bool arrive(sim *s, size_t index) {
    const sim_args *args = s->args;
    traced_request *r = &s->requests[index];
    ln_scheduler *scheduler = &s->engine.scheduler;
    size_t number = (size_t)(uniform(args, index, DRAW_PREFIX) * N_PREFIXES);
    if (!sim_request_begin(&r->base, index, number * PREFIX_TOKENS, draw_prefix_tokens(args, index),
                           ln_kv_cache_root(&s->engine.kv, "", 0)))
        return false;
    r->base.group.priority = (int32_t)(uniform(args, index, DRAW_PRIORITY) * 3);
    r->n_ahead = scheduler->queues.waiting.n_groups + scheduler->queues.swapped.n_groups;
    r->n_admissions = scheduler->n_admissions;
    ln_scheduler_add(scheduler, &r->base.group);
    return true;
}

/* ---- steps -------------------------------------------------------------------------------- */

static double clock_us(void) {
    return 1e6 * bench_seconds(CLOCK_MONOTONIC);
}

/* By priority, a request waits for at most so many admissions for each one that waited before it;
 * first come, first served, for those that waited before it. Preempted ones come again. */
static void note_admission(sim *s, traced_request *r) {
    const ln_scheduler *scheduler = &s->engine.scheduler;
    uint64_t n_before = scheduler->n_admissions - r->n_admissions;
    size_t turn = s->args->by_priority ? OVERDUE_TURN : 1;
    uint64_t again = scheduler->preemption.n_recomputed;
    double promised = (double)(turn * (r->n_ahead + s->args->max_seqs + 1) + again);
    if ((double)n_before / promised > s->worst_wait)
        s->worst_wait = (double)n_before / promised;
    r->was_admitted = true;
}

/* The chunks' tokens are there; who got a row of logits gets a token. */
static void deliver(sim *s) {
    ln_scheduler *scheduler = &s->engine.scheduler;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        traced_request *r = (traced_request *)(void *)chunk->sequence->group;
        if (!r->was_admitted)
            note_admission(s, r);
        if (chunk->n_logits == 0)
            continue;
        if (chunk->sequence->n_tokens > r->base.n_prompt)
            s->gaps[gap_bin(s->now - r->base.last)]++;
        s->n_over += sim_request_advance(&r->base, scheduler, s->now);
    }
}

static void run_step(sim *s) {
    ln_scheduler *scheduler = &s->engine.scheduler;
    double begin_us = clock_us();
    ln_scheduler_schedule(scheduler);
    ln_step_build(&s->engine.step, scheduler);
    double overhead_us = clock_us() - begin_us;
    size_t n_chunks = scheduler->n_chunks;
    s->now += sim_step_seconds(&s->engine, &s->args->costs);
    s->n_computed_tokens += scheduler->n_tokens;
    begin_us = clock_us();
    ln_scheduler_commit(scheduler);
    overhead_us += clock_us() - begin_us;
    deliver(s);
    s->n_steps++;
    s->overhead_us += overhead_us;
    if (n_chunks == s->args->max_seqs) {
        s->n_full_steps++;
        s->full_us += overhead_us;
    }
}

/* Why the simulation is wrong, or NULL. */
static const char *run(sim *s) {
    const sim_args *args = s->args;
    while (s->n_over < args->n_requests) {
        if (ln_scheduler_is_idle(&s->engine.scheduler) &&
            s->requests[s->n_arrived].base.arrival > s->now)
            s->now = s->requests[s->n_arrived].base.arrival;
        while (s->n_arrived < args->n_requests && s->requests[s->n_arrived].base.arrival <= s->now)
            if (!arrive(s, s->n_arrived++))
                return "out of memory";
        run_step(s);
        if (s->engine.scheduler.n_chunks == 0)
            return "a step does nothing, though requests wait";
        if (args->check && !ln_kv_cache_check(&s->engine.kv))
            return "the books of the cache do not add up";
    }
    if (!ln_scheduler_is_idle(&s->engine.scheduler) || !ln_kv_cache_check(&s->engine.kv) ||
        ln_block_pool_available(&s->engine.kv.groups[0].pool) !=
            s->engine.kv.groups[0].pool.n_blocks)
        return "blocks are in use after the last request";
    if (s->worst_wait > 1)
        return "a request waited through more admissions than it may";
    return NULL;
}

/* ---- results ------------------------------------------------------------------------------ */

static void print_percentiles(const char *name, double *values, size_t n) {
    qsort(values, n, sizeof *values, bench_compare);
    printf("%s: p50 %.1f  p90 %.1f  p99 %.1f  most %.1f ms\n", name, sim_percentile(values, n, 50),
           sim_percentile(values, n, 90), sim_percentile(values, n, 99),
           sim_percentile(values, n, 100));
}

static double gap_percentile(const sim *s, double share) {
    size_t total = 0, sum = 0, bin = 0;
    for (size_t i = 0; i < GAP_BINS; i++)
        total += s->gaps[i];
    while (bin + 1 < GAP_BINS && (double)(sum += s->gaps[bin]) < share * (double)total)
        bin++;
    return gap_of(bin) * 1e3;
}

/* Jain's index of the requests' time per token, queue and prompt included: 1 when all are served
 * alike, 1/n when one is served alone. */
static double fairness(const sim *s) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < s->args->n_requests; i++) {
        const sim_request *r = &s->requests[i].base;
        double speed = (double)(r->n_prompt + r->n_output) / (r->last - r->arrival);
        sum += speed;
        squares += speed * speed;
    }
    return sum * sum / (squares * (double)s->args->n_requests);
}

static void report(const sim *s, double *values, double wall_s) {
    const sim_args *args = s->args;
    size_t n = args->n_requests, n_output = 0, n_prompt = 0;
    for (size_t i = 0; i < n; i++) {
        n_output += s->requests[i].base.n_output;
        n_prompt += s->requests[i].base.n_prompt;
        values[i] = s->requests[i].base.first - s->requests[i].base.arrival;
    }
    printf("%zu requests of %.0f + %.0f tokens on average, %zu steps, %.1f s simulated, %.2f s "
           "spent\n",
           n, (double)n_prompt / (double)n, (double)n_output / (double)n, s->n_steps, s->now,
           wall_s);
    printf("throughput: %.1f requests/s, %.0f output tokens/s\n", (double)n / s->now,
           (double)n_output / s->now);
    print_percentiles("first token", values, n);
    printf("between tokens: p50 %.1f  p90 %.1f  p99 %.1f ms\n", gap_percentile(s, 0.5),
           gap_percentile(s, 0.9), gap_percentile(s, 0.99));
    printf("fairness (Jain, of tokens per second): %.3f; longest wait, of what is promised: %.3f\n",
           fairness(s), s->worst_wait);
    printf("computed tokens: %llu; prefix hits: %llu of %llu prompt tokens\n",
           (unsigned long long)s->n_computed_tokens, (unsigned long long)s->engine.kv.n_hit_tokens,
           (unsigned long long)s->engine.kv.n_query_tokens);
    printf("preemptions: %llu by swap, %llu by recompute\n",
           (unsigned long long)s->engine.scheduler.preemption.n_swapped,
           (unsigned long long)s->engine.scheduler.preemption.n_recomputed);
    printf("overhead: %.1f us per step; %.1f us with %zu sequences in it (%zu steps)\n",
           s->overhead_us / (double)s->n_steps,
           s->n_full_steps > 0 ? s->full_us / (double)s->n_full_steps : 0.0, args->max_seqs,
           s->n_full_steps);
}

/* ---- the program -------------------------------------------------------------------------- */

static bool prepare(sim *s) {
    const sim_args *args = s->args;
    ln_step_budget budget = {.max_seqs = args->max_seqs,
                             .max_tokens = args->max_batch_tokens,
                             .max_logits = args->max_seqs};
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {args->n_blocks},
                         .n_swap_blocks = {args->n_swap_blocks},
                         .ctx_tokens = args->ctx,
                         .max_seqs = args->max_seqs,
                         .max_chunk_tokens = args->max_batch_tokens,
                         .shares_prefixes = true,
                         .secret = {args->seed, 1}};
    ln_scheduler_options options = {
        .policy = args->prefill_first ? LINNET_POLICY_PREFILL_FIRST : LINNET_POLICY_CHUNKED,
        .order = args->by_priority ? LINNET_ORDER_PRIORITY : LINNET_ORDER_FCFS};
    s->requests = calloc(args->n_requests, sizeof *s->requests);
    s->gaps = calloc(GAP_BINS, sizeof *s->gaps);
    if (s->requests == NULL || s->gaps == NULL ||
        !sim_engine_init(&s->engine, &budget, &shape, &options))
        return false;
    s->engine.scheduler.preemption.costs = (ln_preemption_costs){
        .ns_per_token = args->costs.token_us * 1e3, .ns_per_block = {args->costs.block_us * 1e3}};
    make_trace(s);
    return true;
}

static int simulate(const sim_args *args) {
    sim s = {.args = args};
    double *values = calloc(args->n_requests, sizeof *values);
    const char *wrong = "out of memory";
    double begin_us = clock_us();
    if (prepare(&s) && values != NULL)
        wrong = run(&s);
    if (wrong == NULL)
        report(&s, values, (clock_us() - begin_us) * 1e-6);
    else
        fprintf(stderr, "scheduler_sim: %s\n", wrong);
    for (size_t i = 0; s.requests != NULL && i < args->n_requests; i++)
        free(s.requests[i].base.tokens);
    sim_engine_free(&s.engine);
    free(s.requests);
    free(s.gaps);
    free(values);
    return wrong != NULL;
}

enum {
    KEY_REQUESTS = 0x100,
    KEY_RATE,
    KEY_PROMPT,
    KEY_OUTPUT,
    KEY_SHARED,
    KEY_SEQS,
    KEY_TOKENS,
    KEY_CTX,
    KEY_BLOCKS,
    KEY_SWAP,
    KEY_STEP,
    KEY_TOKEN,
    KEY_CONTEXT,
    KEY_COPY,
    KEY_SEED,
    KEY_PREFILL_FIRST,
    KEY_PRIORITY,
    KEY_CHECK
};

static const struct argp_option options[] = {
    {"requests", KEY_REQUESTS, "N", 0, "Requests (100000)", 0},
    {"rate", KEY_RATE, "R", 0, "Requests per second, on average (100)", 0},
    {"prompt", KEY_PROMPT, "N", 0, "Median of the prompts' tokens (128)", 0},
    {"output", KEY_OUTPUT, "N", 0, "Median of the outputs' tokens (64)", 0},
    {"shared", KEY_SHARED, "P", 0, "Share of prompts with 512 tokens before that 1/8 have (0.3)",
     0},
    {"max-seqs", KEY_SEQS, "N", 0, "Sequences in a step (256)", 0},
    {"max-batch-tokens", KEY_TOKENS, "N", 0, "Tokens in a step (2048)", 0},
    {"ctx", KEY_CTX, "N", 0, "Longest sequence (4096)", 0},
    {"blocks", KEY_BLOCKS, "N", 0, "KV blocks (8192)", 0},
    {"swap-blocks", KEY_SWAP, "N", 0, "KV blocks on the host (2048)", 0},
    {"step-ms", KEY_STEP, "T", 0, "Time of a step, to begin with (5)", 0},
    {"token-us", KEY_TOKEN, "T", 0, "and for each token (20)", 0},
    {"context-ns", KEY_CONTEXT, "T", 0, "and for each token that a token sees (5)", 0},
    {"block-us", KEY_COPY, "T", 0, "and for each block that is copied (50)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of the trace (1)", 0},
    {"prefill-first", KEY_PREFILL_FIRST, NULL, 0, "Policy: prompts before decodes", 0},
    {"priority", KEY_PRIORITY, NULL, 0, "Order: by one of three priorities", 0},
    {"check", KEY_CHECK, NULL, 0, "Check the cache's books after every step", 0},
    {0}};

enum { MOST = 1 << 30 }; /* of a count */

static error_t parse(int key, char *arg, struct argp_state *state) {
    sim_args *args = state->input;
    switch (key) {
    case KEY_REQUESTS: args->n_requests = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_RATE: args->rate = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_PROMPT: args->prompt_tokens = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_OUTPUT: args->output_tokens = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_SHARED: args->shared = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_SEQS: args->max_seqs = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_TOKENS: args->max_batch_tokens = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_CTX: args->ctx = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_BLOCKS: args->n_blocks = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_SWAP: args->n_swap_blocks = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_STEP: args->costs.step_ms = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_TOKEN: args->costs.token_us = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_CONTEXT: args->costs.context_ns = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_COPY: args->costs.block_us = sim_parse_number(state, arg, 0, 1e9); break;
    case KEY_SEED: args->seed = sim_parse_count(state, arg, 0, MOST); break;
    case KEY_PREFILL_FIRST: args->prefill_first = true; break;
    case KEY_PRIORITY: args->by_priority = true; break;
    case KEY_CHECK: args->check = true; break;
    case ARGP_KEY_END:
        if (args->n_requests == 0 || args->rate == 0 || args->max_seqs == 0 || args->ctx < 4 ||
            args->max_batch_tokens < args->max_seqs)
            argp_error(state, "there must be requests, a rate, sequences, room in a step for a "
                              "token of each, and a context of 4 or more");
        if (args->n_blocks < ln_kv_table_blocks(args->ctx))
            argp_error(state, "--blocks must hold a sequence of --ctx tokens");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct argp sim_argp = {.options = options,
                                         .parser = parse,
                                         .doc =
                                             "Simulates the scheduler over a trace of requests."};
    sim_args args = {.n_requests = 100000,
                     .rate = 100,
                     .prompt_tokens = 128,
                     .output_tokens = 64,
                     .shared = 0.3,
                     .max_seqs = 256,
                     .max_batch_tokens = 2048,
                     .ctx = 4096,
                     .n_blocks = 8192,
                     .n_swap_blocks = 2048,
                     .costs = {.step_ms = 5, .token_us = 20, .context_ns = 5, .block_us = 50},
                     .seed = 1};
    if (argp_parse(&sim_argp, argc, argv, 0, NULL, &args) != 0)
        return 2;
    return simulate(&args);
}
