/* What beam search costs beside as many sampled sequences: a prompt of 128 tokens, then 4 beams or
 * 4 outputs of as many tokens, in turns, on one thread.
 *
 *     build/bench/bench_beams MODEL [TOKENS] [RUNS]          (32 tokens, 5 runs)
 *
 * Prints the median processor time of each, less the prompt's, and the ratio of the pairs. */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { WIDTH = 4, PROMPT = 128, MAX_RUNS = 100 };

static _Noreturn void stop(const linnet_error *err) {
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static double processor_ms(void) {
    return 1e3 * bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* Milliseconds of processor time. */
static double run(linnet_engine *engine, bool beams, size_t n_tokens, uint64_t seed) {
    int32_t prompt[PROMPT];
    linnet_request_options options;
    linnet_request *request;
    linnet_event event;
    linnet_error err;
    for (size_t i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)(3 + (i * 977 + seed * 131) % 1000);
    linnet_request_options_init(&options);
    options.prompt_ids = prompt;
    options.n_prompt_ids = PROMPT;
    options.max_tokens = n_tokens;
    options.ignore_eos = true;
    options.sampling.seed = seed;
    options.n = WIDTH;
    options.beam_width = beams ? WIDTH : 0;
    double begin_ms = processor_ms();
    if (linnet_request_submit(engine, &options, &request, &err) != LINNET_OK)
        stop(&err);
    do
        if (linnet_request_next(request, -1, &event, &err) != LINNET_OK)
            stop(&err);
    while (event.n_open > 0);
    double ms = processor_ms() - begin_ms;
    linnet_request_close(request);
    return ms;
}

int main(int argc, char **argv) {
    size_t n_tokens = argc > 2 ? strtoull(argv[2], NULL, 10) : 32;
    size_t n_runs = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    double sampled[MAX_RUNS], searched[MAX_RUNS], ratios[MAX_RUNS];
    linnet_engine_options options;
    linnet_model *model;
    linnet_engine *engine;
    linnet_error err;
    if (argc < 2 || n_tokens < 2 || n_runs < 1 || n_runs > MAX_RUNS) {
        fprintf(stderr, "usage: %s MODEL [TOKENS] [RUNS]\n", argv[0]);
        return 2;
    }
    linnet_engine_options_init(&options);
    options.ctx_tokens = PROMPT + n_tokens;
    options.max_seqs = WIDTH;
    options.n_threads = 1;
    options.prefix_cache = false;
    if (linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        linnet_engine_create(model, &options, &engine, &err) != LINNET_OK)
        stop(&err);
    run(engine, false, 2, 0); /* warms up */
    for (size_t i = 0; i < n_runs; i++) {
        double prompt_ms = run(engine, false, 1, 3 * i);
        sampled[i] = run(engine, false, n_tokens, 3 * i + 1) - prompt_ms;
        searched[i] = run(engine, true, n_tokens, 3 * i + 2) - prompt_ms;
        ratios[i] = searched[i] / sampled[i];
    }
    double sampled_ms = bench_median(sampled, n_runs), searched_ms = bench_median(searched, n_runs);
    printf("%d sampled: %.1f ms  %d beams: %.1f ms  ratio of the pairs: median %.3f\n", WIDTH,
           sampled_ms, WIDTH, searched_ms, bench_median(ratios, n_runs));
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return 0;
}
