/* Vectors of texts per second: all texts are submitted at once, and have the same number of tokens.
 * usage: bench_embeddings MODEL [BACKEND [TOKENS [TEXTS [SEQS [BATCH_TOKENS [INVARIANT]]]]]]
 * INVARIANT 0: --batch-invariant off. */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench.h"

enum { RUNS = 5, MAX_TEXTS = 4096, MAX_TOKENS = 8192 };

typedef struct bench {
    linnet_engine *engine;
    size_t n_texts, n_tokens;
    uint32_t n_vocab;
} bench;

/* Ids that differ from text to text, so none begins as another does. */
static void fill(const bench *b, size_t text, int32_t *ids) {
    for (size_t k = 0; k < b->n_tokens; k++)
        ids[k] = (int32_t)((text * 7919 + k * 104729 + 11) % b->n_vocab);
}

/* Seconds in which every text becomes a vector. */
static double run(const bench *b) {
    static linnet_request *requests[MAX_TEXTS];
    static int32_t ids[MAX_TOKENS];
    linnet_error err = {0};
    uint64_t begin = ln_clock_ns();
    for (size_t i = 0; i < b->n_texts; i++) {
        linnet_request_options options;
        linnet_request_options_init(&options);
        fill(b, i, ids);
        options.kind = LINNET_REQUEST_EMBED;
        options.prompt_ids = ids;
        options.n_prompt_ids = b->n_tokens;
        bench_check(linnet_request_submit(b->engine, &options, &requests[i], &err), &err);
    }
    for (size_t i = 0; i < b->n_texts; i++) {
        linnet_event event;
        do
            bench_check(linnet_request_next(requests[i], -1, &event, &err), &err);
        while (event.finish == 0);
        linnet_request_close(requests[i]);
    }
    return (double)(ln_clock_ns() - begin) * 1e-9;
}

static size_t number(int argc, char **argv, int at, size_t otherwise) {
    return argc > at ? strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    bench b = {.n_tokens = number(argc, argv, 3, 128), .n_texts = number(argc, argv, 4, 256)};
    linnet_model *model;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_engine_options options;
    linnet_error err = {0};
    double least = 0;
    if (argc < 2 || b.n_tokens < 1 || b.n_tokens > MAX_TOKENS || b.n_texts < 1 ||
        b.n_texts > MAX_TEXTS) {
        fprintf(stderr, "usage: bench_embeddings MODEL [BACKEND [TOKENS [TEXTS [SEQS "
                        "[BATCH_TOKENS [INVARIANT]]]]]]\n");
        return 1;
    }
    linnet_engine_options_init(&options);
    options.backend = argc > 2 ? argv[2] : "cpu";
    options.max_seqs = number(argc, argv, 5, 64);
    options.ctx_tokens = b.n_tokens;
    options.max_batch_tokens = number(argc, argv, 6, 8192);
    options.batch_invariant = number(argc, argv, 7, 1) != 0;
    options.prefix_cache = 0;
    bench_check(linnet_model_open(argv[1], &model, &err), &err);
    linnet_model_get_info(model, &info);
    b.n_vocab = (uint32_t)info.n_vocab;
    bench_check(linnet_engine_create(model, &options, &b.engine, &err), &err);
    run(&b);
    for (int i = 0; i < RUNS; i++) {
        double seconds = run(&b);
        least = i == 0 || seconds < least ? seconds : least;
    }
    printf("%zu texts of %zu tokens: %.1f texts/s, %.0f tokens/s\n", b.n_texts, b.n_tokens,
           (double)b.n_texts / least, (double)(b.n_texts * b.n_tokens) / least);
    linnet_engine_destroy(b.engine);
    linnet_model_close(model);
    return 0;
}
