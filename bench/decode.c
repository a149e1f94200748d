/* How near decode comes to a plain read of its weights. One process decodes token after token, and
 * between any two tokens the same threads read the same weights where they lie, each time in
 * another way: neighbours that change what memory gives then change both alike.
 *
 *     build/bench/bench_decode MODEL [CONTEXT [TOKENS [THREADS]]]
 *
 * Prints the median GB/s of weights of decode and of each way of reading, and the median of what
 * decode reached of the best way in its turn. CONTEXT tokens precede those that are measured. */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "engine/engine.h"

enum { MAX_RANGES = 4096, MAX_TURNS = 1024, PIECE_BYTES = 1 << 18, LINE = 64 };

typedef struct range {
    const uint8_t *data;
    size_t bytes;
} range;

/* A way of reading: the threads have halves of each matrix, or of all of them together, or take
 * pieces in turn. ahead: bytes that a prefetch is in front, 0 for none. */
typedef struct way {
    const char *name;
    enum { HALVES_OF_EACH, HALVES_OF_ALL, PIECES } share;
    size_t ahead;
} way;

static const way ways[] = {
    {"halves of each matrix", HALVES_OF_EACH, 0},
    {"halves of all", HALVES_OF_ALL, 0},
    {"pieces in turn", PIECES, 0},
    {"pieces, 1 KiB ahead", PIECES, 1 << 10},
    {"pieces, 4 KiB ahead", PIECES, 4 << 10},
    {"pieces, 16 KiB ahead", PIECES, 16 << 10},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static const ln_backend_vtable *real;
static range weights[MAX_RANGES];
static size_t n_weights, n_threads, total_bytes, n_turns, n_wanted;
static double decode_rates[MAX_TURNS], read_rates[N_WAYS][MAX_TURNS];
static const way *current;
static ln_pool *pool;
static uint64_t sinks[1024];

static void add_weight(const ln_weight *weight) {
    size_t rows = (weight->n_rows + 15) / 16 * 16;
    if (weight->layout == 0)
        rows = weight->n_rows;
    if (n_weights == MAX_RANGES)
        return;
    weights[n_weights++] = (range){weight->data, rows * weight->row_bytes};
    total_bytes += rows * weight->row_bytes;
}

/* Of experts, as many as a token chooses, far apart: which ones does not matter. */
static void list_weights(const ln_op *ops, size_t n_ops) {
    n_weights = total_bytes = 0;
    for (size_t i = 0; i < n_ops; i++) {
        const ln_op_linear *p = &ops[i].linear;
        if (ops[i].kind != LN_OP_LINEAR)
            continue;
        size_t n_groups = p->groups.n_groups > 0 ? p->groups.n_groups : 1;
        size_t n_used = p->groups.order != NULL && p->n_rows < n_groups ? p->n_rows : n_groups;
        for (size_t used = 0; used < n_used; used++) {
            size_t at = used * n_groups / n_used;
            add_weight(&p->weight[at]);
            if (p->gate != NULL)
                add_weight(&p->gate[at]);
        }
    }
}

/* The data lie at multiples of 16; prefetches at their end are of lines that nobody needs. */
static uint64_t read_lines(const uint8_t *data, size_t bytes, size_t ahead) {
    typedef uint64_t words __attribute__((vector_size(LINE), aligned(16)));
    words sums[4] = {0};
    size_t i = 0;
    for (; i + sizeof sums <= bytes; i += sizeof sums)
        for (size_t j = 0; j < 4; j++) {
            if (ahead > 0)
                __builtin_prefetch(data + i + j * LINE + ahead, 0, 3);
            sums[j] += *(const words *)(const void *)(data + i + j * LINE);
        }
    for (; i < bytes; i += LINE)
        sums[0][0] += data[i];
    words sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

/* What lies in [begin, end) of the weights, counted from one matrix to the next. */
static uint64_t read_span(size_t begin, size_t end, size_t ahead) {
    uint64_t sum = 0;
    size_t base = 0;
    for (size_t i = 0; i < n_weights && base < end; base += weights[i++].bytes) {
        size_t from = begin > base ? begin - base : 0, to = end - base;
        to = to < weights[i].bytes ? to : weights[i].bytes;
        if (from < to)
            sum += read_lines(weights[i].data + from, to - from, ahead);
    }
    return sum;
}

static void read_share(void *context, size_t worker) {
    (void)context;
    size_t half = total_bytes / n_threads / LINE * LINE;
    uint64_t sum = 0;
    if (current->share == HALVES_OF_ALL)
        sum = read_span(half * worker, worker + 1 < n_threads ? half * (worker + 1) : total_bytes,
                        current->ahead);
    for (size_t i = 0; i < n_weights && current->share == HALVES_OF_EACH; i++) {
        size_t begin = weights[i].bytes * worker / n_threads / LINE * LINE;
        size_t end = weights[i].bytes * (worker + 1) / n_threads / LINE * LINE;
        sum += read_lines(weights[i].data + begin, end - begin, current->ahead);
    }
    if (current->share == PIECES) {
        size_t piece = ln_pool_take(pool), base = 0;
        for (size_t i = 0; i < n_weights; i++) {
            size_t n = (weights[i].bytes + PIECE_BYTES - 1) / PIECE_BYTES;
            for (; piece < base + n; piece = ln_pool_take(pool)) {
                size_t at = (piece - base) * PIECE_BYTES, left = weights[i].bytes - at;
                sum += read_lines(weights[i].data + at, left < PIECE_BYTES ? left : PIECE_BYTES,
                                  current->ahead);
            }
            base += n;
        }
    }
    sinks[worker * 8] += sum;
}

static double rate_since(uint64_t begin_ns) {
    return (double)total_bytes / (double)(ln_clock_ns() - begin_ns);
}

static ln_status run_and_read(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    bool is_decode = n_ops > 0 && ops[0].batch->n_tokens == 1;
    uint64_t begin_ns = ln_clock_ns();
    ln_status status = real->run(backend, ops, n_ops, err);
    if (!is_decode || n_turns == n_wanted)
        return status;
    if (n_weights == 0) { /* the first one is a warm-up */
        list_weights(ops, n_ops);
        return status;
    }
    decode_rates[n_turns] = rate_since(begin_ns);
    for (size_t i = 0; i < N_WAYS; i++) {
        current = &ways[i];
        begin_ns = ln_clock_ns();
        ln_pool_run(pool, read_share, NULL);
        read_rates[i][n_turns] = rate_since(begin_ns);
    }
    n_turns++;
    return status;
}

static double median(const double *values) {
    double sorted[MAX_TURNS];
    memcpy(sorted, values, n_turns * sizeof *values);
    qsort(sorted, n_turns, sizeof *sorted, bench_compare);
    return n_turns > 0 ? sorted[n_turns / 2] : 0;
}

static void print(void) {
    double ratios[MAX_TURNS] = {0};
    size_t best = 0;
    printf("%zu tokens, %.1f MB of weights\n", n_turns, (double)total_bytes * 1e-6);
    printf("  %-24s %6.1f GB/s\n", "decode", median(decode_rates));
    for (size_t i = 0; i < N_WAYS; i++) {
        printf("  %-24s %6.1f GB/s\n", ways[i].name, median(read_rates[i]));
        best = median(read_rates[i]) > median(read_rates[best]) ? i : best;
    }
    for (size_t i = 0; i < n_turns; i++)
        ratios[i] = decode_rates[i] / read_rates[best][i];
    printf("  decode / %s: %.3f of the medians, median of the turns %.3f\n", ways[best].name,
           median(decode_rates) / median(read_rates[best]), median(ratios));
}

static _Noreturn void stop(const char *what, const linnet_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(1);
}

static void decode(linnet_engine *engine, size_t n_context, size_t n_tokens) {
    linnet_request_options options;
    linnet_error err;
    linnet_request *request;
    linnet_event event = {0};
    int32_t *prompt = calloc(n_context, sizeof *prompt);
    for (size_t i = 0; prompt != NULL && i < n_context; i++)
        prompt[i] = (int32_t)(i % 1000 + 10);
    linnet_request_options_init(&options);
    options.prompt_ids = prompt;
    options.n_prompt_ids = n_context;
    options.max_tokens = n_tokens;
    options.ignore_eos = true;
    options.sampling.temperature = 0;
    if (linnet_request_submit(engine, &options, &request, &err) != LINNET_OK)
        stop("submit", &err);
    while (event.finish == LINNET_FINISH_NONE)
        if (linnet_request_next(request, -1, &event, &err) != LINNET_OK)
            stop("decode", &err);
    linnet_request_close(request);
    free(prompt);
}

int main(int argc, char **argv) {
    linnet_engine_options options;
    linnet_model *model;
    linnet_engine *engine;
    linnet_error err;
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [CONTEXT [TOKENS [THREADS]]]\n", argv[0]);
        return 2;
    }
    size_t n_context = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    n_wanted = argc > 3 ? strtoull(argv[3], NULL, 10) : 32;
    n_threads = argc > 4 ? strtoull(argv[4], NULL, 10) : 2;
    if (n_context == 0 || n_wanted == 0 || n_wanted > MAX_TURNS || n_threads > 64) {
        fprintf(stderr, "CONTEXT from 1, TOKENS 1 to %d, THREADS up to 64\n", MAX_TURNS);
        return 2;
    }
    linnet_engine_options_init(&options);
    options.backend = "cpu";
    options.max_seqs = 1;
    options.ctx_tokens = n_context + n_wanted + 2;
    options.n_threads = n_threads;
    if (ln_pool_create(n_threads, &pool, &err) != LINNET_OK ||
        linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        linnet_engine_create(model, &options, &engine, &err) != LINNET_OK)
        stop(argv[1], &err);
    real = engine->backend->vtable;
    ln_backend_vtable vtable = *real;
    vtable.run = run_and_read;
    engine->backend->vtable = &vtable; /* the thread has not looked at it yet: it has no work */
    decode(engine, n_context, n_wanted + 2);
    print();
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    ln_pool_destroy(pool);
    return 0;
}
