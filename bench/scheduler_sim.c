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
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "engine/step.h"
#include "kv/prefix.h"

enum { OVERDUE_TURN = 64, N_PREFIXES = 8, PREFIX_TOKENS = 512 };

typedef struct sim_args {
    size_t n_requests, max_seqs, max_batch_tokens, ctx, n_blocks, n_swap_blocks;
    double rate, prompt_tokens, output_tokens, shared;
    double step_ms, token_us, context_ns, block_us; /* the model of a step */
    uint64_t seed;
    bool prefill_first, by_priority, check;
} sim_args;

/* A request: one group of one sequence. */
typedef struct sim_request {
    ln_sequence_group group; /* first: the scheduler's groups are cast back */
    ln_sequence sequence;
    int32_t *tokens; /* [max_tokens], while it is there */
    double arrival, first, last;
    size_t n_prompt, n_output;
    size_t n_ahead;        /* requests that waited when it came */
    uint64_t n_admissions; /* of the scheduler, when it came */
    bool was_admitted;
} sim_request;

typedef struct sim {
    const sim_args *args;
    ln_kv_cache kv;
    ln_scheduler scheduler;
    ln_step step;
    void *memory[3];
    sim_request *requests; /* [n_requests] */
    double now;            /* simulated seconds */
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
    return (double)ln_rng_uniform(args->seed, draw, request, 0);
}

/* A log-normal length with this median: half of the requests are within a factor of 2. */
static size_t draw_length(const sim_args *args, size_t request, uint32_t draw, double median,
                          size_t most) {
    double u = (double)ln_rng_uniform(args->seed, draw, request, 1);
    double v = (double)ln_rng_uniform(args->seed, draw, request, 2);
    double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
    double length = median * exp(normal);
    return length < 1 ? 1 : length > (double)most ? most : (size_t)length;
}

static void make_trace(sim *s) {
    const sim_args *args = s->args;
    double at = 0;
    for (size_t i = 0; i < args->n_requests; i++) {
        sim_request *r = &s->requests[i];
        r->arrival = at;
        at += -log(1 - uniform(args, i, DRAW_GAP)) / args->rate;
        bool is_shared = uniform(args, i, DRAW_SHARED) < args->shared;
        size_t prefix = is_shared && args->ctx > 2 * PREFIX_TOKENS ? PREFIX_TOKENS : 0;
        r->n_prompt = prefix + draw_length(args, i, DRAW_PROMPT, args->prompt_tokens,
                                           (args->ctx - prefix) / 2);
        r->n_output =
            draw_length(args, i, DRAW_OUTPUT, args->output_tokens, args->ctx - r->n_prompt);
    }
}

/* The request comes: its tokens are there from now on. */
static bool arrive(sim *s, size_t index) {
    const sim_args *args = s->args;
    sim_request *r = &s->requests[index];
    bool is_shared = uniform(args, index, DRAW_SHARED) < args->shared;
    size_t prefix = is_shared && args->ctx > 2 * PREFIX_TOKENS ? PREFIX_TOKENS : 0;
    size_t number = (size_t)(uniform(args, index, DRAW_PREFIX) * N_PREFIXES);
    r->tokens = calloc(r->n_prompt + r->n_output, sizeof *r->tokens);
    if (r->tokens == NULL)
        return false;
    for (size_t i = 0; i < r->n_prompt; i++)
        r->tokens[i] = (int32_t)(i < prefix ? number * PREFIX_TOKENS + i : index * 31 + i * 7);
    r->sequence = (ln_sequence){.group = &r->group,
                                .tokens = r->tokens,
                                .n_tokens = r->n_prompt,
                                .max_tokens = r->n_prompt + r->n_output};
    r->group = (ln_sequence_group){
        .sequences = &r->sequence,
        .n_sequences = 1,
        .n_live = 1,
        .n_prompt = r->n_prompt,
        .priority = (int32_t)(uniform(args, index, DRAW_PRIORITY) * 3),
        .root = ln_kv_cache_root(&s->kv, "", 0),
    };
    r->n_ahead = s->scheduler.queues.waiting.n_groups + s->scheduler.queues.swapped.n_groups;
    r->n_admissions = s->scheduler.n_admissions;
    ln_scheduler_add(&s->scheduler, &r->group);
    return true;
}

/* ---- steps -------------------------------------------------------------------------------- */

static double clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What the modelled backend takes for the step, in seconds. */
static double step_seconds(const sim *s) {
    const ln_scheduler *scheduler = &s->scheduler;
    double context = 0;
    for (size_t i = 0; i < scheduler->n_chunks; i++)
        context +=
            (double)(scheduler->chunks[i].sequence->n_cached * scheduler->chunks[i].n_tokens);
    return s->args->step_ms * 1e-3 + (double)scheduler->n_tokens * s->args->token_us * 1e-6 +
           context * s->args->context_ns * 1e-9 + (double)s->kv.n_copies * s->args->block_us * 1e-6;
}

/* By priority, a request waits for at most so many admissions for each one that waited before it;
 * first come, first served, for those that waited before it. Preempted ones come again. */
static void note_admission(sim *s, sim_request *r) {
    uint64_t n_before = s->scheduler.n_admissions - r->n_admissions;
    size_t turn = s->args->by_priority ? OVERDUE_TURN : 1;
    uint64_t again = s->scheduler.preemption.n_recomputed;
    double promised = (double)(turn * (r->n_ahead + s->args->max_seqs + 1) + again);
    if ((double)n_before / promised > s->worst_wait)
        s->worst_wait = (double)n_before / promised;
    r->was_admitted = true;
}

/* The chunks' tokens are there; who got a row of logits gets a token. */
static void deliver(sim *s) {
    ln_scheduler *scheduler = &s->scheduler;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        ln_sequence *sequence = chunk->sequence;
        sim_request *r = (sim_request *)(void *)sequence->group;
        if (!r->was_admitted)
            note_admission(s, r);
        if (chunk->n_logits == 0)
            continue;
        if (sequence->n_tokens == r->n_prompt)
            r->first = s->now;
        else
            s->gaps[gap_bin(s->now - r->last)]++;
        r->last = s->now;
        r->tokens[sequence->n_tokens] = (int32_t)sequence->n_tokens;
        if (++sequence->n_tokens < sequence->max_tokens)
            continue;
        ln_scheduler_end(scheduler, sequence);
        free(r->tokens);
        r->tokens = NULL;
        s->n_over++;
    }
}

static void run_step(sim *s) {
    ln_scheduler *scheduler = &s->scheduler;
    double begin_us = clock_us();
    ln_scheduler_schedule(scheduler);
    ln_step_build(&s->step, scheduler);
    double overhead_us = clock_us() - begin_us;
    size_t n_chunks = scheduler->n_chunks;
    s->now += step_seconds(s);
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
        if (ln_scheduler_is_idle(&s->scheduler) && s->requests[s->n_arrived].arrival > s->now)
            s->now = s->requests[s->n_arrived].arrival;
        while (s->n_arrived < args->n_requests && s->requests[s->n_arrived].arrival <= s->now)
            if (!arrive(s, s->n_arrived++))
                return "out of memory";
        run_step(s);
        if (s->scheduler.n_chunks == 0)
            return "a step does nothing, though requests wait";
        if (args->check && !ln_kv_cache_check(&s->kv))
            return "the books of the cache do not add up";
    }
    if (!ln_scheduler_is_idle(&s->scheduler) || !ln_kv_cache_check(&s->kv) ||
        ln_block_pool_available(&s->kv.groups[0].pool) != s->kv.groups[0].pool.n_blocks)
        return "blocks are in use after the last request";
    if (s->worst_wait > 1)
        return "a request waited through more admissions than it may";
    return NULL;
}

/* ---- results ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_percentiles(const char *name, double *values, size_t n) {
    qsort(values, n, sizeof *values, compare);
    printf("%s: p50 %.1f  p90 %.1f  p99 %.1f  most %.1f ms\n", name, values[(n - 1) / 2] * 1e3,
           values[(n - 1) * 90 / 100] * 1e3, values[(n - 1) * 99 / 100] * 1e3, values[n - 1] * 1e3);
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
        const sim_request *r = &s->requests[i];
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
        n_output += s->requests[i].n_output;
        n_prompt += s->requests[i].n_prompt;
        values[i] = s->requests[i].first - s->requests[i].arrival;
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
           (unsigned long long)s->n_computed_tokens, (unsigned long long)s->kv.n_hit_tokens,
           (unsigned long long)s->kv.n_query_tokens);
    printf("preemptions: %llu by swap, %llu by recompute\n",
           (unsigned long long)s->scheduler.preemption.n_swapped,
           (unsigned long long)s->scheduler.preemption.n_recomputed);
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
    ln_layout layouts[3] = {{0}};
    ln_kv_cache_plan(&shape, &layouts[0]);
    ln_scheduler_plan(&budget, &layouts[1]);
    ln_step_plan(&budget, &shape, &layouts[2]);
    s->requests = calloc(args->n_requests, sizeof *s->requests);
    s->gaps = calloc(GAP_BINS, sizeof *s->gaps);
    for (size_t i = 0; i < 3; i++)
        if ((s->memory[i] = calloc(1, layouts[i].bytes)) == NULL)
            return false;
    if (s->requests == NULL || s->gaps == NULL)
        return false;
    ln_kv_cache_init(&s->kv, &shape, s->memory[0]);
    ln_scheduler_init(&s->scheduler, &budget, &options, &s->kv, s->memory[1]);
    ln_step_init(&s->step, &budget, &shape, s->memory[2]);
    s->scheduler.preemption.costs = (ln_preemption_costs){.ns_per_token = args->token_us * 1e3,
                                                          .ns_per_block = {args->block_us * 1e3}};
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
        free(s.requests[i].tokens);
    for (size_t i = 0; i < 3; i++)
        free(s.memory[i]);
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

static size_t count(const struct argp_state *state, const char *text) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text == '-' || end == text || *end != '\0' || value > 1u << 30)
        argp_error(state, "'%s' is not a number from 0 to 2^30", text);
    return (size_t)value;
}

static double number(const struct argp_state *state, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value < 1e9))
        argp_error(state, "'%s' is not a number from 0 to 1e9", text);
    return value;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    sim_args *args = state->input;
    switch (key) {
    case KEY_REQUESTS: args->n_requests = count(state, arg); break;
    case KEY_RATE: args->rate = number(state, arg); break;
    case KEY_PROMPT: args->prompt_tokens = number(state, arg); break;
    case KEY_OUTPUT: args->output_tokens = number(state, arg); break;
    case KEY_SHARED: args->shared = number(state, arg); break;
    case KEY_SEQS: args->max_seqs = count(state, arg); break;
    case KEY_TOKENS: args->max_batch_tokens = count(state, arg); break;
    case KEY_CTX: args->ctx = count(state, arg); break;
    case KEY_BLOCKS: args->n_blocks = count(state, arg); break;
    case KEY_SWAP: args->n_swap_blocks = count(state, arg); break;
    case KEY_STEP: args->step_ms = number(state, arg); break;
    case KEY_TOKEN: args->token_us = number(state, arg); break;
    case KEY_CONTEXT: args->context_ns = number(state, arg); break;
    case KEY_COPY: args->block_us = number(state, arg); break;
    case KEY_SEED: args->seed = count(state, arg); break;
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
                     .step_ms = 5,
                     .token_us = 20,
                     .context_ns = 5,
                     .block_us = 50,
                     .seed = 1};
    if (argp_parse(&sim_argp, argc, argv, 0, NULL, &args) != 0)
        return 2;
    return simulate(&args);
}
