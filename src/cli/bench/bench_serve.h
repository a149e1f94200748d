/* linnet bench --serve-trace: many requests at once through the C API, as a server gives them. */
#ifndef LN_CLI_BENCH_BENCH_SERVE_H
#define LN_CLI_BENCH_BENCH_SERVE_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_bench_load {
    size_t n_requests;
    size_t concurrency; /* closed load: so many are open at any time; 0: all */
    double rate;        /* open load: so many come in a second, at random (Poisson); 0: closed */
    size_t n_prompt, n_output; /* tokens of each request */
    size_t n_shared; /* tokens at the beginning of every prompt that are the same; <= n_prompt */
    uint64_t seed;   /* of prompts and arrivals */
    linnet_sampling sampling;
} ln_bench_load;

/* Runs the load on a fresh engine and prints what came of it to stdout: tokens per second over all,
 * and percentiles over the requests of the time to the first token and of the time per token after
 * it. Returns the exit status. */
int ln_cli_bench_serve(const linnet_model *model, linnet_engine *engine, const ln_bench_load *load,
                       bool json);

#endif
