/* What simulations of requests without a model share: draws for a trace, requests of one sequence,
 * the scheduler and the KV cache's books in one, and a formula for the time of a step. */
#ifndef LN_BENCH_SIM_H
#define LN_BENCH_SIM_H

#include <argp.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "engine/step.h"

/* ---- the trace ---------------------------------------------------------------------------- */

/* Uniform in [0, 1): a draw of a request, which may have parts. */
static inline double sim_uniform(uint64_t seed, size_t request, uint32_t draw, uint32_t part) {
    return (double)ln_rng_uniform(seed, draw, request, part);
}

/* A log-normal length with this median: half of the requests are within a factor of 2. */
static inline size_t sim_draw_length(uint64_t seed, size_t request, uint32_t draw, double median,
                                     size_t most) {
    double u = sim_uniform(seed, request, draw, 1), v = sim_uniform(seed, request, draw, 2);
    double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
    double length = median * exp(normal);
    return length < 1 ? 1 : length > (double)most ? most : (size_t)length;
}

/* Seconds from a request to the next at so many a second (Poisson). */
static inline double sim_draw_gap(uint64_t seed, size_t request, uint32_t draw, double rate) {
    return -log(1 - sim_uniform(seed, request, draw, 0)) / rate;
}

/* ---- requests ----------------------------------------------------------------------------- */

/* A request: one group of one sequence. Times are in simulated seconds. */
typedef struct sim_request {
    ln_sequence_group group; /* first: the scheduler's groups are cast back */
    ln_sequence sequence;
    int32_t *tokens; /* [n_prompt + n_output], while it runs */
    double arrival, first, last;
    size_t n_prompt, n_output;
} sim_request;

/* Makes the tokens of request `index`, the first n_prefix of them those of a shared prefix. */
static inline bool sim_request_begin(sim_request *r, size_t index, size_t prefix, size_t n_prefix,
                                     uint64_t root) {
    r->tokens = calloc(r->n_prompt + r->n_output, sizeof *r->tokens);
    if (r->tokens == NULL)
        return false;
    for (size_t i = 0; i < r->n_prompt; i++)
        r->tokens[i] = (int32_t)(i < n_prefix ? prefix + i : index * 31 + i * 7);
    r->sequence = (ln_sequence){.group = &r->group,
                                .tokens = r->tokens,
                                .n_tokens = r->n_prompt,
                                .max_tokens = r->n_prompt + r->n_output};
    r->group = (ln_sequence_group){.sequences = &r->sequence,
                                   .n_sequences = 1,
                                   .n_live = 1,
                                   .n_prompt = r->n_prompt,
                                   .root = root};
    return true;
}

/* Gives it the next token; true when that was its last. */
static inline bool sim_request_advance(sim_request *r, ln_scheduler *scheduler, double now) {
    ln_sequence *sequence = &r->sequence;
    if (sequence->n_tokens == r->n_prompt)
        r->first = now;
    r->last = now;
    r->tokens[sequence->n_tokens] = (int32_t)sequence->n_tokens;
    if (++sequence->n_tokens < sequence->max_tokens)
        return false;
    ln_scheduler_end(scheduler, sequence);
    free(r->tokens);
    r->tokens = NULL;
    return true;
}

/* ---- what decides ------------------------------------------------------------------------- */

typedef struct sim_engine {
    ln_kv_cache kv;
    ln_scheduler scheduler;
    ln_step step;
    void *memory[3];
} sim_engine;

static inline bool sim_engine_init(sim_engine *e, const ln_step_budget *budget,
                                   const ln_kv_shape *shape, const ln_scheduler_options *options) {
    ln_layout layouts[3] = {{0}};
    ln_kv_cache_plan(shape, &layouts[0]);
    ln_scheduler_plan(budget, &layouts[1]);
    ln_step_plan(budget, shape, &layouts[2]);
    for (size_t i = 0; i < 3; i++)
        if ((e->memory[i] = calloc(1, layouts[i].bytes)) == NULL)
            return false;
    ln_kv_cache_init(&e->kv, shape, e->memory[0]);
    ln_scheduler_init(&e->scheduler, budget, options, &e->kv, e->memory[1]);
    ln_step_init(&e->step, budget, shape, e->memory[2]);
    return true;
}

static inline void sim_engine_free(sim_engine *e) {
    for (size_t i = 0; i < 3; i++)
        free(e->memory[i]);
}

/* ---- the model of a step ------------------------------------------------------------------ */

/* To begin with, for each token, for each token that a token sees, for each block that is copied.
 */
typedef struct sim_costs {
    double step_ms, token_us, context_ns, block_us;
} sim_costs;

/* What the modelled backend takes for the scheduled step, in seconds. */
static inline double sim_step_seconds(const sim_engine *e, const sim_costs *costs) {
    const ln_scheduler *scheduler = &e->scheduler;
    double context = 0;
    for (size_t i = 0; i < scheduler->n_chunks; i++)
        context +=
            (double)(scheduler->chunks[i].sequence->n_cached * scheduler->chunks[i].n_tokens);
    return costs->step_ms * 1e-3 + (double)scheduler->n_tokens * costs->token_us * 1e-6 +
           context * costs->context_ns * 1e-9 + (double)e->kv.n_copies * costs->block_us * 1e-6;
}

/* ---- results and options ------------------------------------------------------------------ */

/* Of sorted seconds, in ms. */
static inline double sim_percentile(const double *values, size_t n, size_t percent) {
    return values[(n - 1) * percent / 100] * 1e3;
}

static inline double sim_parse_number(const struct argp_state *state, const char *text,
                                      double least, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most))
        argp_error(state, "'%s' is not a number from %.9g to %.9g", text, least, most);
    return value;
}

static inline size_t sim_parse_count(const struct argp_state *state, const char *text, size_t least,
                                     size_t most) {
    double value = sim_parse_number(state, text, (double)least, (double)most);
    if (value != floor(value))
        argp_error(state, "'%s' is not a whole number", text);
    return (size_t)value;
}

#endif
