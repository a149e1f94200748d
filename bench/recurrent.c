/* Recurrent layers on the CPU, by default of Qwen3-Next's shape: 16 heads of keys, 32 of values,
 * 128 x 128 each, and a convolution of 8192 channels and 4 taps.
 *
 *   bench_recurrent [THREADS [SET [kda]]]
 *
 * For each usable instruction set, or SET: prefill of 512 tokens, and decode of one token behind 32
 * tokens of a chunk over layers whose states together exceed the processor's caches, beside the
 * time in which one thread reads as many states. With `kda`, each channel of a key has a decay of
 * its own. The fastest of several runs, for a layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/sets.h"
#include "backend/registry.h"
#include "base/rng.h"
#include "bench.h"

enum {
    N_LAYERS = 32,
    N_RUNS = 5,
    K_HEADS = 16,
    N_HEADS = 32,
    DIM = 128,
    CHANNELS = 2 * K_HEADS * DIM + N_HEADS * DIM,
    TAPS = 4,
    PROMPT = 512,
    N_STATES = PROMPT / LN_STATE_CHUNK + 1
};

typedef struct layers {
    ln_state_cache caches[N_LAYERS];
    ln_kv_layer states[N_LAYERS], tails[N_LAYERS];
    float *x, *convolved, *a, *b, *out, *taps, *rate;
} layers;

/* Of a process with one thread that computes, the time of its processor, so that busy neighbours
 * matter less. */
static double seconds_now(bool alone) {
    return bench_seconds(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

static bool is_alone;

static ln_backend *create(const char *isa, size_t n_threads) {
    ln_backend *backend;
    ln_error err = {0};
    ln_backend_options options = {.isa = isa, .n_threads = n_threads, .exact = true};
    ln_step_limits limits = {.max_tokens = PROMPT,
                             .max_seqs = 1,
                             .max_ctx = PROMPT,
                             .max_blocks = N_STATES,
                             .max_width = CHANNELS,
                             .max_head_dim = DIM,
                             .max_heads = N_HEADS,
                             .max_state_dim = DIM};
    if (ln_backend_create("cpu", &options, &backend, &err) != LINNET_OK ||
        backend->vtable->reserve_scratch(backend, &limits, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return backend;
}

/* n numbers from -1 to 1 */
static float *noise(size_t n) {
    float *x = bench_need(malloc(n * sizeof *x));
    for (size_t i = 0; i < n; i++)
        x[i] = 2 * ln_rng_uniform(1, 2, i, 3) - 1;
    return x;
}

static void make_layers(layers *l, bool by_channel) {
    size_t n_decays = by_channel ? N_HEADS * DIM : N_HEADS;
    ln_state_shape shape = {.n_heads = N_HEADS,
                            .n_k_heads = K_HEADS,
                            .k_dim = DIM,
                            .v_dim = DIM,
                            .n_decays = n_decays,
                            .conv_dim = CHANNELS,
                            .n_taps = TAPS,
                            .n_rows = LN_STATE_CHUNK,
                            .n_conv_rows = TAPS};
    for (size_t i = 0; i < N_LAYERS; i++) {
        l->states[i] = (ln_kv_layer){.group = 0, .block_tokens = 1, .n_heads = 1};
        l->states[i].k_dim = ln_state_block_floats(&shape);
        l->states[i].k = noise(2 * l->states[i].k_dim);
        l->tails[i] = (ln_kv_layer){.group = 1, .block_tokens = 1, .n_heads = 1};
        l->tails[i].k_dim = ln_tail_block_floats(&shape);
        l->tails[i].k = calloc(l->tails[i].k_dim, sizeof(float));
        l->caches[i] = (ln_state_cache){shape, &l->states[i], &l->tails[i]};
    }
    l->x = noise((size_t)PROMPT * CHANNELS);
    l->convolved = noise((size_t)PROMPT * CHANNELS);
    l->a = noise(PROMPT * n_decays);
    l->b = noise((size_t)PROMPT * N_HEADS);
    l->out = noise((size_t)PROMPT * N_HEADS * DIM);
    l->taps = noise((size_t)TAPS * CHANNELS);
    l->rate = noise(N_HEADS);
    for (size_t i = 0; i < N_HEADS; i++)
        l->rate[i] = 0.05f;
}

static ln_op make_op(const layers *l, size_t layer, ln_op_kind kind, const ln_batch *batch) {
    ln_op op = {.kind = kind, .batch = batch};
    const ln_state_cache *cache = &l->caches[layer];
    if (kind == LN_OP_CONV)
        op.conv = (ln_op_conv){
            .x = l->x, .weight = l->taps, .silu = true, .cache = cache, .out = l->convolved};
    else
        op.scan = (ln_op_scan){.q = l->convolved,
                               .k = l->convolved + K_HEADS * DIM,
                               .v = l->convolved + 2 * K_HEADS * DIM,
                               .q_stride = CHANNELS,
                               .k_stride = CHANNELS,
                               .v_stride = CHANNELS,
                               .a = l->a,
                               .b = l->b,
                               .decay = cache->shape.n_decays > N_HEADS ? LN_DECAY_CHANNEL
                                                                        : LN_DECAY_HEAD,
                               .rate = l->rate,
                               .dt_max = 1e30f,
                               .q_scale = 0.088f,
                               .unit_qk = true,
                               .cache = cache,
                               .out = l->out};
    return op;
}

/* Seconds of a layer's operation for the tokens begin .. begin + n - 1 of one sequence. */
static double measure(ln_backend *backend, const layers *l, ln_op_kind kind, size_t begin,
                      size_t n) {
    static int32_t positions[PROMPT];
    int32_t table[N_STATES], tail = 0, length = (int32_t)(begin + n), starts[] = {0, (int32_t)n};
    for (size_t i = 0; i < n; i++)
        positions[i] = (int32_t)(begin + i);
    for (size_t j = 0; j < N_STATES; j++) /* the one at the beginning, and the last */
        table[j] = j == begin / LN_STATE_CHUNK ? 0 : j == (begin + n) / LN_STATE_CHUNK ? 1 : -1;
    ln_batch batch = {.n_tokens = n,
                      .n_seqs = 1,
                      .n_groups = 2,
                      .positions = positions,
                      .seq_starts = starts,
                      .groups = {{table, N_STATES, &length, NULL}, {&tail, 1, &length, NULL}}};
    ln_op ops[N_LAYERS];
    for (size_t i = 0; i < N_LAYERS; i++)
        ops[i] = make_op(l, i, kind, &batch);
    size_t n_layers = n > 1 ? 2 : N_LAYERS;
    double best = 1e9;
    for (int i = 0; i < N_RUNS; i++) {
        ln_error err = {0};
        double from = seconds_now(is_alone);
        if (backend->vtable->run(backend, ops, n_layers, &err) != LINNET_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        double seconds = (seconds_now(is_alone) - from) / (double)n_layers;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* Seconds in which one thread reads a layer's state. */
static double measure_reading(const layers *l) {
    double best = 1e9;
    volatile uint64_t sink;
    for (int i = 0; i < N_RUNS; i++) {
        uint64_t sum[8] = {0};
        double from = seconds_now(true);
        for (size_t layer = 0; layer < N_LAYERS; layer++) {
            const char *bytes = l->states[layer].k;
            for (size_t at = 0; at < sizeof(float) * N_HEADS * DIM * DIM; at += sizeof sum) {
                uint64_t words[8];
                memcpy(words, bytes + at, sizeof words);
                for (size_t j = 0; j < 8; j++)
                    sum[j] += words[j];
            }
        }
        for (size_t j = 0; j < 8; j++)
            sink = sum[j];
        double seconds = (seconds_now(true) - from) / N_LAYERS;
        best = seconds < best ? seconds : best;
    }
    (void)sink;
    return best;
}

int main(int argc, char **argv) {
    static layers l;
    size_t n_threads = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    ln_cpu_features processor = ln_cpu_detect();
    is_alone = n_threads == 1;
    make_layers(&l, argc > 3 && strcmp(argv[3], "kda") == 0);
    printf("%-12s %12s %12s %12s %12s\n", "set", "conv 512", "scan 512", "conv 1", "scan 1");
    for (size_t i = 0; ln_cpu_set(i) != NULL; i++) {
        const ln_cpu_kernels *set = ln_cpu_set(i);
        if (!set->is_usable(&processor) || (argc > 2 && strcmp(argv[2], set->isa) != 0))
            continue;
        ln_backend *backend = create(set->isa, n_threads);
        double conv = measure(backend, &l, LN_OP_CONV, 0, PROMPT);
        double scan = measure(backend, &l, LN_OP_SCAN, 0, PROMPT);
        double conv_one = measure(backend, &l, LN_OP_CONV, LN_STATE_CHUNK + 32, 1);
        double scan_one = measure(backend, &l, LN_OP_SCAN, LN_STATE_CHUNK + 32, 1);
        printf("%-12s %9.2f ms %9.2f ms %9.1f us %9.1f us   prefill %.0f tokens/s of a layer\n",
               set->isa, 1e3 * conv, 1e3 * scan, 1e6 * conv_one, 1e6 * scan_one,
               PROMPT / (conv + scan));
        backend->vtable->destroy(backend);
    }
    printf("reading S, one thread: %.1f us\n", 1e6 * measure_reading(&l));
    return 0;
}
