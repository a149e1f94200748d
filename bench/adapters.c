/* What adapters cost a step of decode: sequences with one adapter of several each, beside the same
 * sequences without. And whether each gets the tokens that it gets alone.
 * usage: bench_adapters MODEL ADAPTER [SEQS [ADAPTERS]]; on a GPU. ADAPTER, a folder such as
 * bench/make_adapter.py writes, is loaded ADAPTERS times (64 sequences, 16). */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"

enum { PROMPT = 16, FEW = 8, MANY = 136, RUNS = 3, MAX_SEQS = 256, CHECKED = 24 };

typedef struct bench {
    linnet_engine *engine;
    size_t n_seqs, n_adapters;
} bench;

static void name_of(size_t adapter, char name[32]) {
    snprintf(name, 32, "a%zu", adapter);
}

/* Sequence number i, with its adapter or without, that makes n tokens. */
static linnet_request *submit(const bench *b, size_t i, bool adapts, size_t n) {
    int32_t ids[PROMPT];
    char name[32];
    linnet_request *request;
    linnet_request_options options;
    linnet_error err = {0};
    linnet_request_options_init(&options);
    for (size_t k = 0; k < PROMPT; k++)
        ids[k] = (int32_t)(3 + i * PROMPT + k);
    name_of(i % b->n_adapters, name);
    options.prompt_ids = ids;
    options.n_prompt_ids = PROMPT;
    options.max_tokens = n;
    options.ignore_eos = 1;
    options.sampling.temperature = 0;
    options.adapter = adapts ? name : NULL;
    bench_check(linnet_request_submit(b->engine, &options, &request, &err), &err);
    return request;
}

/* Waits for its tokens, of which the first CHECKED come to ids unless that is NULL. */
static void finish(linnet_request *request, int32_t *ids) {
    linnet_event event;
    linnet_error err = {0};
    size_t n = 0;
    do {
        bench_check(linnet_request_next(request, -1, &event, &err), &err);
        if (ids != NULL && event.finish == 0 && n < CHECKED)
            ids[n++] = event.token;
    } while (event.finish == 0);
    linnet_request_close(request);
}

/* Seconds in which every sequence makes n tokens. */
static double run(const bench *b, bool adapts, size_t n, int32_t (*ids)[CHECKED]) {
    static linnet_request *requests[MAX_SEQS];
    uint64_t begin = ln_clock_ns();
    for (size_t i = 0; i < b->n_seqs; i++)
        requests[i] = submit(b, i, adapts, n);
    for (size_t i = 0; i < b->n_seqs; i++)
        finish(requests[i], ids != NULL ? ids[i] : NULL);
    return (double)(ln_clock_ns() - begin) * 1e-9;
}

/* How many sequences get other tokens alone, or the same without their adapters. */
static void compare(const bench *b) {
    static int32_t together[MAX_SEQS][CHECKED], without[MAX_SEQS][CHECKED], alone[CHECKED];
    size_t n_other = 0, n_unchanged = 0;
    run(b, true, CHECKED, together);
    run(b, false, CHECKED, without);
    for (size_t i = 0; i < b->n_seqs; i++) {
        finish(submit(b, i, true, CHECKED), alone);
        n_other += memcmp(alone, together[i], sizeof alone) != 0;
        n_unchanged += memcmp(alone, without[i], sizeof alone) == 0;
    }
    printf("%zu of %zu sequences get other tokens alone, %zu the same without adapters\n", n_other,
           b->n_seqs, n_unchanged);
}

/* Milliseconds of a step, the least of some runs. */
static double measure_step(const bench *b, bool adapts) {
    double least = 0;
    run(b, adapts, MANY, NULL);
    for (size_t i = 0; i < RUNS; i++) {
        double few = run(b, adapts, FEW, NULL), many = run(b, adapts, MANY, NULL);
        double ms = (many - few) / (MANY - FEW) * 1e3;
        least = i == 0 || ms < least ? ms : least;
    }
    return least;
}

int main(int argc, char **argv) {
    bench b = {.n_seqs = argc > 3 ? strtoul(argv[3], NULL, 10) : 64,
               .n_adapters = argc > 4 ? strtoul(argv[4], NULL, 10) : 16};
    linnet_model *model;
    linnet_engine_options options;
    linnet_error err = {0};
    if (argc < 3 || b.n_seqs < 1 || b.n_seqs > MAX_SEQS || b.n_adapters < 1) {
        fprintf(stderr, "usage: bench_adapters MODEL ADAPTER [SEQS [ADAPTERS]]\n");
        return 1;
    }
    linnet_engine_options_init(&options);
    options.backend = "cuda";
    options.max_seqs = b.n_seqs;
    options.ctx_tokens = 256;
    options.max_adapters = b.n_adapters;
    options.prefix_cache = 0;
    bench_check(linnet_model_open(argv[1], &model, &err), &err);
    bench_check(linnet_engine_create(model, &options, &b.engine, &err), &err);
    for (size_t i = 0; i < b.n_adapters; i++) {
        char name[32];
        name_of(i, name);
        bench_check(linnet_engine_load_adapter(b.engine, name, argv[2], 1.0f, &err), &err);
    }
    compare(&b);
    double with = measure_step(&b, true), without = measure_step(&b, false);
    printf("a step of %zu sequences: %.3f ms without, %.3f ms with %zu adapters: %+.1f %%\n",
           b.n_seqs, without, with, b.n_adapters, 100.0 * (with / without - 1.0));
    linnet_engine_destroy(b.engine);
    linnet_model_close(model);
    return 0;
}
