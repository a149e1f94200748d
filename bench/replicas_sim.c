/* Replicas of one server behind a picker, without a model: each replica is the scheduler and the
 * KV cache's books with a formula for the time of a step. Requests that begin with the same tokens
 * are sent either in turn, to the replica with the least to do, or where their prefix is cached,
 * as far as the caches' own events tell.
 *
 *     build/bench/replicas_sim --help
 *
 * The exit status is 1 when a promise is broken: a request does not end, or the events do not add
 * up to what the caches have. */
#include "bench.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "kv/prefix.h"

enum { MAX_REPLICAS = 32, MAX_SEQS = 256, BATCH_TOKENS = 2048, CTX_TOKENS = 8192 };

typedef enum sim_policy { ROUND_ROBIN, LEAST_LOAD, PREFIX_AWARE, N_POLICIES } sim_policy;
static const char *const policy_names[N_POLICIES] = {"round robin", "least load", "prefix-aware"};

typedef struct sim_args {
    size_t n_requests, n_replicas, n_blocks, n_prefixes, prefix_tokens;
    double rate, suffix_tokens, output_tokens;
    sim_costs costs;
    uint64_t seed;
} sim_args;

typedef struct routed_request {
    sim_request base;
    size_t prefix;
    size_t n_missing; /* prompt tokens that the picker believes must be computed */
} routed_request;

/* Which replicas have a block: the picker's picture, from events alone. */
typedef struct sim_holder {
    uint64_t hash;
    uint32_t replicas; /* a bit for each; the hash counts once one was set */
    bool is_used;
} sim_holder;

typedef struct sim_picture {
    sim_holder *holders; /* [mask + 1], open addressing */
    size_t mask, n_used;
} sim_picture;

/* An event that the picker has not heard of yet: it does when the step ends. */
typedef struct sim_event {
    uint64_t hash;
    bool is_stored;
} sim_event;

typedef struct sim_replica {
    sim_engine engine;
    ln_prefix_observer observer;
    sim_event *events; /* [n_events] */
    size_t n_events, max_events;
    bool is_busy, has_failed; /* failed: no memory for an sim_event */
    double ends;              /* when it is busy: of its step */
    size_t n_live, n_unread;  /* requests, and prompt tokens of those without a first token */
    size_t n_served;
} sim_replica;

typedef struct sim {
    const sim_args *args;
    sim_policy policy;
    routed_request *requests; /* [n_requests] */
    sim_replica *replicas;    /* [n_replicas] */
    sim_picture picture;
    uint64_t secret[2], root;
    size_t n_arrived, n_over, n_events;
    double now;
} sim;

/* ---- the trace ---------------------------------------------------------------------------- */

enum { DRAW_GAP, DRAW_SUFFIX, DRAW_OUTPUT, DRAW_PREFIX };

/* Zipf: prefix k is as frequent as 1 / (k + 1). */
static size_t draw_prefix(const sim_args *args, size_t request) {
    double total = 0, sum = 0, u = sim_uniform(args->seed, request, DRAW_PREFIX, 0);
    for (size_t k = 0; k < args->n_prefixes; k++)
        total += 1 / (double)(k + 1);
    for (size_t k = 0; k < args->n_prefixes; k++)
        if ((sum += 1 / (double)(k + 1)) > u * total)
            return k;
    return args->n_prefixes - 1;
}

static void make_trace(sim *s) {
    const sim_args *args = s->args;
    double at = 0;
    size_t room = CTX_TOKENS - args->prefix_tokens;
    for (size_t i = 0; i < args->n_requests; i++) {
        sim_request *r = &s->requests[i].base;
        r->arrival = at;
        at += sim_draw_gap(args->seed, i, DRAW_GAP, args->rate);
        s->requests[i].prefix = draw_prefix(args, i);
        r->n_prompt = args->prefix_tokens +
                      sim_draw_length(args->seed, i, DRAW_SUFFIX, args->suffix_tokens, room / 2);
        r->n_output = sim_draw_length(args->seed, i, DRAW_OUTPUT, args->output_tokens,
                                      CTX_TOKENS - r->n_prompt);
    }
}

/* ---- events and the picker ---------------------------------------------------------------- */

static void note(sim_replica *r, uint64_t hash, bool is_stored) {
    if (r->n_events == r->max_events) {
        size_t n = r->max_events > 0 ? 2 * r->max_events : 1024;
        sim_event *grown = realloc(r->events, n * sizeof *grown);
        if (grown == NULL) {
            r->has_failed = true;
            return;
        }
        r->events = grown;
        r->max_events = n;
    }
    r->events[r->n_events++] = (sim_event){hash, is_stored};
}

static void note_stored(void *context, const ln_prefix_stored *block) {
    note(context, block->key->hash, true);
}

static void note_removed(void *context, const ln_prefix_key *key) {
    note(context, key->hash, false);
}

/* The entry of a hash; one that is not used when there is none. */
static sim_holder *find_holder(const sim_picture *picture, uint64_t hash) {
    size_t at = hash & picture->mask;
    while (picture->holders[at].is_used && picture->holders[at].hash != hash)
        at = (at + 1) & picture->mask;
    return &picture->holders[at];
}

/* The picker hears what happened in replica number r; false when there is no room. */
static bool hear(sim *s, size_t number) {
    sim_replica *r = &s->replicas[number];
    for (size_t i = 0; i < r->n_events; i++) {
        sim_holder *h = find_holder(&s->picture, r->events[i].hash);
        if (!h->is_used && ++s->picture.n_used > s->picture.mask)
            return false;
        h->hash = r->events[i].hash;
        h->is_used = true;
        uint32_t bit = UINT32_C(1) << number;
        h->replicas = r->events[i].is_stored ? h->replicas | bit : h->replicas & ~bit;
    }
    s->n_events += r->n_events;
    r->n_events = 0;
    return !r->has_failed;
}

/* Of each replica the tokens of the prompt that it has, from the first on without a gap. */
static void find_cached(const sim *s, const sim_request *request, size_t *cached) {
    uint32_t still = UINT32_MAX;
    uint64_t hash = s->root;
    memset(cached, 0, s->args->n_replicas * sizeof *cached);
    for (size_t i = 0; i < (request->n_prompt - 1) / LN_KV_BLOCK_TOKENS && still != 0; i++) {
        hash = ln_prefix_key_of(s->secret, hash, request->tokens + i * LN_KV_BLOCK_TOKENS).hash;
        const sim_holder *h = find_holder(&s->picture, hash);
        still &= h->is_used ? h->replicas : 0;
        for (size_t r = 0; r < s->args->n_replicas; r++)
            cached[r] += still >> r & 1 ? LN_KV_BLOCK_TOKENS : 0;
    }
}

/* What is to be computed before the request's first token, in tokens: what is not cached of its own
 * prompt and of those before it; a request that runs counts as one token of each of so many
 * steps. */
enum { RUNNING_TOKENS = 8 };
static size_t pick(const sim *s, size_t index, size_t *n_missing) {
    const sim_request *request = &s->requests[index].base;
    size_t cached[MAX_REPLICAS] = {0}, best = 0, least = SIZE_MAX;
    if (s->policy == PREFIX_AWARE)
        find_cached(s, request, cached);
    for (size_t k = 0; k < s->args->n_replicas; k++) {
        size_t r = (index + k) % s->args->n_replicas; /* equals take turns */
        size_t cost = request->n_prompt - cached[r] + s->replicas[r].n_unread +
                      RUNNING_TOKENS * s->replicas[r].n_live;
        if (k > 0 && (s->policy == ROUND_ROBIN || cost >= least))
            continue;
        least = cost;
        best = r;
    }
    *n_missing = request->n_prompt - cached[best];
    return best;
}

/* ---- steps -------------------------------------------------------------------------------- */

static bool arrive(sim *s, size_t index) {
    routed_request *r = &s->requests[index];
    size_t n_prefix = s->args->prefix_tokens;
    if (!sim_request_begin(&r->base, index, r->prefix * n_prefix, n_prefix, s->root))
        return false;
    sim_replica *to = &s->replicas[pick(s, index, &r->n_missing)];
    to->n_live++;
    to->n_served++;
    to->n_unread += r->n_missing;
    ln_scheduler_add(&to->engine.scheduler, &r->base.group);
    return true;
}

static void begin_step(sim *s, sim_replica *r) {
    if (ln_scheduler_schedule(&r->engine.scheduler) == 0)
        return;
    ln_step_build(&r->engine.step, &r->engine.scheduler);
    r->ends = s->now + sim_step_seconds(&r->engine, &s->args->costs);
    r->is_busy = true;
}

/* Who got a row of logits gets a token. */
static void deliver(sim *s, sim_replica *r) {
    ln_scheduler *scheduler = &r->engine.scheduler;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        routed_request *request = (routed_request *)(void *)chunk->sequence->group;
        if (chunk->n_logits == 0)
            continue;
        if (chunk->sequence->n_tokens == request->base.n_prompt)
            r->n_unread -= request->n_missing;
        if (!sim_request_advance(&request->base, scheduler, s->now))
            continue;
        r->n_live--;
        s->n_over++;
    }
}

static bool end_step(sim *s, size_t number) {
    sim_replica *r = &s->replicas[number];
    ln_scheduler_commit(&r->engine.scheduler);
    deliver(s, r);
    r->is_busy = false;
    return hear(s, number);
}

/* The picker believes of each replica just what it has. */
static bool is_picture_true(const sim *s) {
    size_t n_believed = 0, n_there = 0;
    for (size_t i = 0; i <= s->picture.mask; i++)
        n_believed += (size_t)__builtin_popcount(s->picture.holders[i].replicas);
    for (size_t r = 0; r < s->args->n_replicas; r++) {
        const ln_prefix_index *index = &s->replicas[r].engine.kv.groups[0].pool.index;
        for (size_t block = 0; block < s->args->n_blocks; block++) {
            if (!index->has[block])
                continue;
            const sim_holder *h = find_holder(&s->picture, index->keys[block].hash);
            n_there++;
            if ((h->replicas >> r & 1) == 0)
                return false;
        }
    }
    return n_believed == n_there;
}

/* Why the simulation is wrong, or NULL. */
static const char *run(sim *s) {
    const sim_args *args = s->args;
    while (s->n_over < args->n_requests) {
        double next =
            s->n_arrived < args->n_requests ? s->requests[s->n_arrived].base.arrival : INFINITY;
        size_t who = args->n_replicas; /* an arrival */
        for (size_t r = 0; r < args->n_replicas; r++)
            if (s->replicas[r].is_busy && s->replicas[r].ends < next)
                next = s->replicas[who = r].ends;
        if (isinf(next))
            return "nothing happens, though requests wait";
        s->now = next;
        if (who < args->n_replicas ? !end_step(s, who) : !arrive(s, s->n_arrived++))
            return "out of memory";
        for (size_t r = 0; r < args->n_replicas; r++)
            if (!s->replicas[r].is_busy && !ln_scheduler_is_idle(&s->replicas[r].engine.scheduler))
                begin_step(s, &s->replicas[r]);
    }
    for (size_t r = 0; r < args->n_replicas; r++)
        if (!ln_kv_cache_check(&s->replicas[r].engine.kv))
            return "the books of a cache do not add up";
    return is_picture_true(s) ? NULL : "the events do not add up to what the caches have";
}

/* ---- results ------------------------------------------------------------------------------ */

static void report(const sim *s, double *values) {
    size_t n = s->args->n_requests, fewest = SIZE_MAX, most = 0;
    uint64_t n_hit = 0, n_query = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i] = s->requests[i].base.first - s->requests[i].base.arrival;
    qsort(values, n, sizeof *values, bench_compare);
    for (size_t r = 0; r < s->args->n_replicas; r++) {
        const sim_replica *one = &s->replicas[r];
        n_hit += one->engine.kv.n_hit_tokens;
        n_query += one->engine.kv.n_query_tokens;
        fewest = one->n_served < fewest ? one->n_served : fewest;
        most = one->n_served > most ? one->n_served : most;
    }
    printf("%-13s %5.1f%%  %8.1f %8.1f %8.1f %9.1f  %6.1f  %5zu to %zu  %9zu\n",
           policy_names[s->policy], 100 * (double)n_hit / (double)n_query, sum / (double)n * 1e3,
           sim_percentile(values, n, 50), sim_percentile(values, n, 90),
           sim_percentile(values, n, 99), s->now, fewest, most, s->n_events);
}

/* ---- the program -------------------------------------------------------------------------- */

static bool prepare_replica(sim *s, sim_replica *r) {
    static const ln_step_budget budget = {
        .max_seqs = MAX_SEQS, .max_tokens = BATCH_TOKENS, .max_logits = MAX_SEQS};
    static const ln_scheduler_options scheduling = {0};
    ln_kv_shape shape = {.n_groups = 1,
                         .n_blocks = {s->args->n_blocks},
                         .ctx_tokens = CTX_TOKENS,
                         .max_seqs = MAX_SEQS,
                         .max_chunk_tokens = BATCH_TOKENS,
                         .shares_prefixes = true,
                         .secret = {s->secret[0], s->secret[1]}};
    if (!sim_engine_init(&r->engine, &budget, &shape, &scheduling))
        return false;
    r->observer = (ln_prefix_observer){note_stored, note_removed, r};
    ln_kv_cache_observe(&r->engine.kv, 0, &r->observer);
    s->root = ln_kv_cache_root(&r->engine.kv, "", 0);
    return true;
}

static bool prepare(sim *s) {
    s->requests = calloc(s->args->n_requests, sizeof *s->requests);
    s->replicas = calloc(s->args->n_replicas, sizeof *s->replicas);
    s->picture.mask = (1u << 21) - 1;
    s->picture.holders = calloc(s->picture.mask + 1, sizeof *s->picture.holders);
    if (s->requests == NULL || s->replicas == NULL || s->picture.holders == NULL)
        return false;
    for (size_t r = 0; r < s->args->n_replicas; r++)
        if (!prepare_replica(s, &s->replicas[r]))
            return false;
    make_trace(s);
    return true;
}

static void release(sim *s) {
    for (size_t i = 0; s->requests != NULL && i < s->args->n_requests; i++)
        free(s->requests[i].base.tokens);
    for (size_t r = 0; s->replicas != NULL && r < s->args->n_replicas; r++) {
        sim_engine_free(&s->replicas[r].engine);
        free(s->replicas[r].events);
    }
    free(s->requests);
    free(s->replicas);
    free(s->picture.holders);
}

static int simulate(const sim_args *args, sim_policy policy) {
    sim s = {.args = args, .policy = policy, .secret = {args->seed, 1}};
    double *values = calloc(args->n_requests, sizeof *values);
    const char *wrong = "out of memory";
    if (values != NULL && prepare(&s))
        wrong = run(&s);
    if (wrong == NULL)
        report(&s, values);
    else
        fprintf(stderr, "replicas_sim: %s: %s\n", policy_names[policy], wrong);
    release(&s);
    free(values);
    return wrong != NULL;
}

static const struct argp_option options[] = {
    {"requests", 'n', "N", 0, "Requests (20000)", 0},
    {"replicas", 'k', "N", 0, "Replicas (8)", 0},
    {"rate", 'r', "R", 0, "Requests per second, on average (160)", 0},
    {"blocks", 'b', "N", 0, "KV blocks of 16 tokens in each replica (8192)", 0},
    {"prefixes", 'p', "N", 0, "Prefixes; the k-th as frequent as 1/k (256)", 0},
    {"prefix", 'l', "N", 0, "Tokens of each (1024)", 0},
    {"suffix", 's', "N", 0, "Median of the tokens behind the prefix (128)", 0},
    {"output", 'o', "N", 0, "Median of the outputs' tokens (64)", 0},
    {"step-ms", 't', "T", 0, "Time of a step, to begin with (5)", 0},
    {"token-us", 'u', "T", 0, "and for each token (20)", 0},
    {"context-ns", 'c', "T", 0, "and for each token that a token sees (5)", 0},
    {"seed", 'e', "N", 0, "Seed of the trace (1)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    sim_args *args = state->input;
    switch (key) {
    case 'n': args->n_requests = sim_parse_count(state, arg, 1, 1 << 20); break;
    case 'k': args->n_replicas = sim_parse_count(state, arg, 1, MAX_REPLICAS); break;
    case 'r': args->rate = sim_parse_number(state, arg, 1e-3, 1e9); break;
    case 'b': args->n_blocks = sim_parse_count(state, arg, 1024, 1 << 20); break;
    case 'p': args->n_prefixes = sim_parse_count(state, arg, 1, 1 << 16); break;
    case 'l': args->prefix_tokens = sim_parse_count(state, arg, 0, CTX_TOKENS / 2); break;
    case 's': args->suffix_tokens = sim_parse_number(state, arg, 1, CTX_TOKENS); break;
    case 'o': args->output_tokens = sim_parse_number(state, arg, 1, CTX_TOKENS); break;
    case 't': args->costs.step_ms = sim_parse_number(state, arg, 0, 1e6); break;
    case 'u': args->costs.token_us = sim_parse_number(state, arg, 0, 1e6); break;
    case 'c': args->costs.context_ns = sim_parse_number(state, arg, 0, 1e6); break;
    case 'e': args->seed = sim_parse_count(state, arg, 0, 1 << 30); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct argp sim_argp = {
        .options = options, .parser = parse, .doc = "Simulates replicas behind a picker."};
    sim_args args = {.n_requests = 20000,
                     .n_replicas = 8,
                     .n_blocks = 8192,
                     .n_prefixes = 256,
                     .prefix_tokens = 1024,
                     .rate = 160,
                     .suffix_tokens = 128,
                     .output_tokens = 64,
                     .costs = {.step_ms = 5, .token_us = 20, .context_ns = 5},
                     .seed = 1};
    if (argp_parse(&sim_argp, argc, argv, 0, NULL, &args) != 0)
        return 2;
    printf("%zu requests over %zu replicas, %.0f a second\n", args.n_requests, args.n_replicas,
           args.rate);
    printf("%-13s %6s  %35s  %6s  %11s  %9s\n", "picker", "hits",
           "first token: mean, p50, p90, p99 ms", "s", "requests", "events");
    int status = 0;
    for (sim_policy policy = 0; policy < N_POLICIES; policy++)
        status |= simulate(&args, policy);
    return status;
}
