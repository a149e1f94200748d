/* How long a token takes to sample from a vocabulary of 128,256, for each sampler.
 *
 *     build/bench/bench_sampler
 *
 * Prints the median of 101 calls on fresh logits of normal distribution, in microseconds by the
 * thread's processor time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "bench.h"
#include "sampling/sampler.h"

enum { N_VOCAB = 128256, N_TOKENS = 1024, RUNS = 101 };

typedef struct bench_case {
    const char *name;
    linnet_sampling sampling;
} bench_case;

#define OFF    .top_p = 1, .repeat_penalty = 1, .dry_base = 1.75f, .dry_allowed_length = 2
#define NEWEST .repeat_last_n = 64, .dry_last_n = N_TOKENS

static const bench_case cases[] = {
    {"greedy", {OFF}},
    {"temperature only", {OFF, .temperature = 0.8f}},
    {"defaults: top-k 40, top-p 0.95",
     {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1}},
    {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f, .repeat_penalty = 1}},
    {"min-p 0.05", {OFF, .temperature = 0.8f, .min_p = 0.05f}},
    {"typical 0.9", {OFF, .temperature = 0.8f, .typical_p = 0.9f}},
    {"top-n-sigma 1", {OFF, .temperature = 0.8f, .top_n_sigma = 1}},
    {"XTC", {OFF, .temperature = 0.8f, .xtc_probability = 1, .xtc_threshold = 0.01f}},
    {"mirostat", {OFF, .temperature = 0.8f, .mirostat_tau = 5, .mirostat_eta = 0.1f}},
    {"greedy with penalties and DRY",
     {NEWEST, .top_p = 1, .repeat_penalty = 1.1f, .frequency_penalty = 0.1f, .dry_multiplier = 0.8f,
      .dry_base = 1.75f, .dry_allowed_length = 2}},
    {"the whole chain",
     {NEWEST, .temperature = 0.8f, .top_k = 1000, .top_p = 0.95f, .min_p = 0.01f,
      .repeat_penalty = 1.1f, .frequency_penalty = 0.1f, .typical_p = 0.95f, .top_n_sigma = 3,
      .xtc_probability = 0.5f, .xtc_threshold = 0.1f, .dry_multiplier = 0.8f, .dry_base = 1.75f,
      .dry_allowed_length = 2}},
};

/* Normal numbers times 3 (Box and Muller, 1958). */
static void fill(float *logits, uint64_t seed) {
    for (size_t i = 0; i < N_VOCAB; i += 2) {
        double radius = 3 * sqrt(-2 * log(1 - (double)ln_rng_uniform(seed, 0, i, 0)));
        double angle = 6.283185307179586 * (double)ln_rng_uniform(seed, 0, i, 1);
        logits[i] = (float)(radius * cos(angle));
        logits[i + 1] = (float)(radius * sin(angle));
    }
}

static double measure(ln_sampler *sampler, const linnet_sampling *sampling, const float *fresh,
                      float *logits, const int32_t *tokens) {
    double us[RUNS], excess = 0;
    ln_error err = {0};
    for (size_t run = 0; run < RUNS; run++) {
        linnet_sampling own = *sampling;
        own.seed = run;
        memcpy(logits, fresh + run % 4 * N_VOCAB, N_VOCAB * sizeof *logits);
        ln_sample_context context = {
            .tokens = tokens, .n_tokens = N_TOKENS, .mirostat_excess = &excess};
        int32_t token;
        double begin = bench_seconds(CLOCK_THREAD_CPUTIME_ID);
        if (ln_sampler_sample(sampler, &own, &context, logits, &token, &err) != LINNET_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        us[run] = 1e6 * (bench_seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    return bench_median(us, RUNS);
}

int main(void) {
    ln_layout layout = {0};
    ln_sampler_plan(N_VOCAB, N_TOKENS + 1, &layout);
    void *memory = calloc(1, layout.bytes);
    float *fresh = malloc(4 * N_VOCAB * sizeof *fresh), *logits = malloc(N_VOCAB * sizeof *logits);
    int32_t *tokens = malloc(N_TOKENS * sizeof *tokens);
    if (memory == NULL || fresh == NULL || logits == NULL || tokens == NULL)
        return 1;
    ln_sampler sampler;
    ln_sampler_init(&sampler, N_VOCAB, N_TOKENS + 1, memory);
    for (size_t i = 0; i < 4; i++)
        fill(fresh + i * N_VOCAB, i);
    for (size_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)(ln_rng_uniform(9, 0, i, 0) * 200);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        printf("%-32s %8.1f us\n", cases[i].name,
               measure(&sampler, &cases[i].sampling, fresh, logits, tokens));
    free(memory);
    free(fresh);
    free(logits);
    free(tokens);
    return 0;
}
