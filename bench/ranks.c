/* How fast several ranks are, or one, and whether they give the same ids: all with one load of the
 * model.
 *
 *   mpirun -n N bench_ranks MODEL TP PP PRECISION WORKLOAD...
 *
 * A workload is SEQS,PROMPT,OUT: so many prompts of random ids, all read before the first of them
 * goes on; with ",s" ids are drawn, with ",p" drawn with penalties and logprobs, with ",e"
 * sequences end after different numbers of ids. It prints a hash of all ids and logprobs, the rate
 * of prompts until the last one's first token, and the rate of tokens from there on. The
 * environment may say BENCH_BACKEND (auto), BENCH_CTX (2304), BENCH_SEQS (128), BENCH_BATCH_TOKENS
 * (2048) and BENCH_NCCL. */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/fnv.h"
#include "bench.h"
#include "engine/engine.h"

enum { MAX_SEQS = 1024 };

typedef struct workload {
    const char *text;
    size_t n_seqs, n_prompt, n_out;
    bool draws, penalizes, ends;
} workload;

static size_t read_size(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

static linnet_request *submit(linnet_engine *engine, const workload *w, size_t index) {
    linnet_request_options options;
    linnet_request *request;
    linnet_error err = {0};
    size_t n_vocab = engine->plan.spec.n_vocab;
    uint64_t state = index + 1;
    int32_t *ids = malloc(w->n_prompt * sizeof *ids);
    if (ids == NULL)
        exit(1);
    for (size_t i = 0; i < w->n_prompt; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = (int32_t)((state >> 33) % n_vocab);
    }
    linnet_request_options_init(&options);
    options.prompt_ids = ids;
    options.n_prompt_ids = w->n_prompt;
    options.max_tokens = w->ends ? w->n_out - index % 7 : w->n_out;
    options.ignore_eos = true;
    options.sampling.temperature = w->draws || w->penalizes ? 0.8f : 0;
    options.sampling.top_k = 40;
    options.sampling.seed = index;
    options.sampling.presence_penalty = w->penalizes ? 0.5f : 0;
    options.logprobs = w->penalizes;
    bench_check(linnet_request_submit(engine, &options, &request, &err), &err);
    free(ids);
    return request;
}

static void run(linnet_engine *engine, const workload *w) {
    static linnet_request *requests[MAX_SEQS];
    uint64_t hash = LN_FNV_START, first_ns = 0, last_ns = 0;
    size_t n_tokens = 0;
    for (size_t i = 0; i < w->n_seqs; i++)
        requests[i] = submit(engine, w, i);
    for (size_t i = 0; i < w->n_seqs; i++) {
        linnet_event event;
        linnet_error err = {0};
        bench_check(linnet_request_next(requests[i], -1, &event, &err), &err);
        for (; event.token >= 0; n_tokens++) {
            uint32_t logprob;
            memcpy(&logprob, &event.logprob, sizeof logprob);
            hash = ln_fnv_add(ln_fnv_add(hash, (uint32_t)event.token), logprob);
            bench_check(linnet_request_next(requests[i], -1, &event, &err), &err);
        }
        if (event.finish == LINNET_FINISH_ERROR)
            printf("error: %s\n", event.error);
        first_ns = event.first_token_ns > first_ns ? event.first_token_ns : first_ns;
        last_ns = event.last_token_ns > last_ns ? event.last_token_ns : last_ns;
        linnet_request_close(requests[i]);
    }
    double prompts_s = (double)first_ns * 1e-9, decode_s = (double)(last_ns - first_ns) * 1e-9;
    printf("%-16s ids %016llx  prompts %8.0f tokens/s  decode %8.1f tokens/s\n", w->text,
           (unsigned long long)hash, (double)(w->n_seqs * w->n_prompt) / prompts_s,
           decode_s > 0 ? (double)(n_tokens - w->n_seqs) / decode_s : 0);
    fflush(stdout);
}

static workload read_workload(const char *text) {
    workload w = {.text = text,
                  .draws = strchr(text, 's') != NULL,
                  .penalizes = strchr(text, 'p') != NULL,
                  .ends = strchr(text, 'e') != NULL};
    char *end = NULL;
    w.n_seqs = (size_t)strtoull(text, &end, 10);
    w.n_prompt = *end == ',' ? (size_t)strtoull(end + 1, &end, 10) : 0;
    w.n_out = *end == ',' ? (size_t)strtoull(end + 1, &end, 10) : 0;
    if (w.n_seqs > 0 && w.n_seqs <= MAX_SEQS && w.n_prompt > 0 && w.n_out > (w.ends ? 6 : 0))
        return w;
    fprintf(stderr, "\"%s\" is no workload\n", text);
    exit(2);
}

int main(int argc, char **argv) {
    linnet_engine_options options;
    linnet_engine *engine;
    linnet_model *model;
    linnet_error err = {0};
    bool follows;
    if (argc < 6) {
        fprintf(stderr, "usage: bench_ranks MODEL TP PP PRECISION SEQS,PROMPT,OUT...\n");
        return 2;
    }
    const char *backend = getenv("BENCH_BACKEND");
    linnet_engine_options_init(&options);
    options.backend = backend != NULL ? backend : "auto";
    options.precision =
        strcmp(argv[4], "exact") == 0 ? LINNET_PRECISION_EXACT : LINNET_PRECISION_FAST;
    options.ctx_tokens = read_size("BENCH_CTX", 2304);
    options.max_seqs = read_size("BENCH_SEQS", 128);
    options.max_batch_tokens = read_size("BENCH_BATCH_TOKENS", 2048);
    options.n_ranks = (size_t)strtoull(argv[2], NULL, 10);
    options.n_stages = (size_t)strtoull(argv[3], NULL, 10);
    options.prefix_cache = false;
    options.policy = LINNET_POLICY_PREFILL_FIRST;
    options.collectives =
        getenv("BENCH_NCCL") != NULL ? LINNET_COLLECTIVES_NCCL : options.collectives;
    bench_check(linnet_model_open(argv[1], &model, &err), &err);
    bench_check(linnet_engine_create(model, &options, &engine, &err), &err);
    bench_check(linnet_engine_follow(engine, &follows, &err), &err);
    for (int i = 5; i < argc && !follows; i++) {
        workload w = read_workload(argv[i]);
        run(engine, &w);
    }
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    return 0;
}
