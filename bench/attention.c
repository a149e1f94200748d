/* Attention on a backend: prefill in TFLOP/s (of the causal half), decode in GB/s of keys and
 * values, for head sizes and types of cache.
 *
 *   bench_attention [BACKEND [TOKENS [SEQS [THREADS [SET [KV_HEADS [LAYERS [DIM
 *                    [HEADS]]]]]]]]]
 *
 * Prefill is one prompt of TOKENS; decode is one token of SEQS sequences with TOKENS cached.
 * HEADS (32) query heads share KV_HEADS (8). LAYERS (1) caches are read one after another, so that
 * none stays in the processor's. The fastest of several runs, for a layer, by the backend's own
 * profile; with one thread by the processor time that it took, so that busy neighbours matter less.
 * SET is an instruction set of the CPU. With DIM, heads of this size only, of which 512 and 576 are
 * not measured without it; 576 is latent attention (MLA), of which 512 are the values, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/registry.h"
#include "base/rng.h"
#include "bench.h"

enum { WIDE_DIM = 512, LATENT_DIM = 576, LATENT_V_DIM = 512 };
enum { BLOCK_TOKENS = 16, N_RUNS = 5, MAX_LAYERS = 64 };

typedef struct work {
    size_t n_seqs, n_cached, n_new; /* of each sequence */
    size_t dim;
    ln_kv_dtype dtype;
    size_t n_kv_heads, n_layers, n_heads;
} work;

static bool is_latent(const work *w) {
    return w->dim == LATENT_DIM;
}

static bool by_processor_time;

static void *reserve(ln_backend *backend, size_t bytes) {
    void *memory;
    ln_error err = {0};
    if (backend->vtable->reserve(backend, bytes, "bench", &memory, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return memory;
}

/* Random numbers, half of each sign. */
static void fill(ln_backend *backend, float *x, size_t n) {
    float *host = bench_need(malloc(n * sizeof *host));
    for (size_t i = 0; i < n; i++)
        host[i] = 2 * ln_rng_uniform(1, 2, i, 3) - 1;
    backend->vtable->upload(backend, x, host, n * sizeof *host);
    free(host);
}

/* A cache of small numbers that are no zeros, whatever the type. */
static void fill_cache(ln_backend *backend, char *cache, size_t bytes) {
    enum { PART = 1 << 20 };
    uint16_t *host = bench_need(malloc(PART));
    for (size_t i = 0; i < PART / 2; i++)
        host[i] = (uint16_t)(0x2c00 + i * 2654435761u % 0x1000); /* f16 0.0625 .. 1 */
    for (size_t at = 0; at < bytes; at += PART)
        backend->vtable->upload(backend, cache + at, host, bytes - at < PART ? bytes - at : PART);
    free(host);
}

/* Seconds of an operation in the best of N_RUNS runs. */
static double time_best(ln_backend *backend, const ln_op *ops, size_t n_layers) {
    ln_error err = {0};
    double best = 0;
    for (int i = 0; i < N_RUNS; i++) {
        ln_profile profile = {0};
        backend->profile = &profile;
        double begin = bench_seconds(CLOCK_THREAD_CPUTIME_ID);
        if (backend->vtable->run(backend, ops, n_layers, &err) != LINNET_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
        double seconds = by_processor_time ? bench_seconds(CLOCK_THREAD_CPUTIME_ID) - begin
                                           : (double)profile.ns[LN_OP_ATTENTION] * 1e-9;
        seconds /= (double)n_layers;
        best = i == 0 || seconds < best ? seconds : best;
    }
    backend->profile = NULL;
    return best;
}

static void report(const work *w, size_t length, size_t kv_bytes, double best) {
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "fp8"};
    double pairs = 0; /* of a query and a key that it sees */
    for (size_t i = 0; i < w->n_new; i++)
        pairs += (double)(w->n_cached + i + 1) * (double)w->n_seqs;
    double flops = 2 * (double)(w->n_heads *
                                (w->dim + (is_latent(w) ? LATENT_V_DIM : w->dim))); /* of a pair */
    if (w->n_new > 1)
        printf("prefill  head %3zu %-5s tokens %5zu          %9.1f us %8.3f TFLOP/s\n", w->dim,
               types[w->dtype], w->n_new, best * 1e6, pairs * flops / best * 1e-12);
    else
        printf("decode   head %3zu %-5s tokens %5zu seqs %3zu %9.1f us %8.1f GB/s\n", w->dim,
               types[w->dtype], length, w->n_seqs, best * 1e6,
               (is_latent(w) ? 1 : 2) * (double)kv_bytes / best * 1e-9);
}

static void describe_layers(const work *w, size_t kv_bytes, char *keys, char *values,
                            ln_kv_layer *layers) {
    for (size_t i = 0; i < w->n_layers; i++)
        layers[i] = (ln_kv_layer){.dtype = w->dtype,
                                  .block_tokens = BLOCK_TOKENS,
                                  .n_heads = w->n_kv_heads,
                                  .k_dim = w->dim,
                                  .v_dim = is_latent(w) ? LATENT_V_DIM : w->dim,
                                  .v_stride = w->dim,
                                  .k = keys + i * kv_bytes,
                                  .v = (is_latent(w) ? keys : values) + i * kv_bytes};
}

static void fill_batch(const work *w, size_t n_blocks, int32_t *tables, int32_t *lengths,
                       int32_t *starts, int32_t *positions) {
    for (size_t i = 0; i < w->n_seqs * n_blocks; i++) /* blocks lie apart */
        tables[i] = (int32_t)(i * 7919 % (w->n_seqs * n_blocks));
    for (size_t seq = 0; seq <= w->n_seqs; seq++)
        starts[seq] = (int32_t)(seq * w->n_new);
    for (size_t seq = 0; seq < w->n_seqs; seq++)
        lengths[seq] = (int32_t)(w->n_cached + w->n_new);
    for (size_t i = 0; i < w->n_seqs * w->n_new; i++)
        positions[i] = (int32_t)(w->n_cached + i % w->n_new);
}

static void run(ln_backend *backend, const work *w) {
    size_t length = w->n_cached + w->n_new, n_tokens = w->n_seqs * w->n_new;
    size_t n_blocks = (length + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    size_t kv_bytes =
        w->n_seqs * n_blocks * w->n_kv_heads * ln_kv_head_bytes(w->dtype, BLOCK_TOKENS, w->dim);
    size_t q_floats = n_tokens * w->n_heads * w->dim;
    int32_t *tables = bench_need(malloc(w->n_seqs * n_blocks * sizeof *tables));
    int32_t *lengths = bench_need(malloc(w->n_seqs * sizeof *lengths));
    int32_t *starts = bench_need(malloc((w->n_seqs + 1) * sizeof *starts));
    int32_t *positions = bench_need(malloc(n_tokens * sizeof *positions));
    fill_batch(w, n_blocks, tables, lengths, starts, positions);
    ln_step_limits limits = {.max_tokens = n_tokens,
                             .max_seqs = w->n_seqs,
                             .max_ctx = length,
                             .max_blocks = n_blocks,
                             .max_width = w->n_heads * w->dim,
                             .max_head_dim = w->dim,
                             .max_heads = w->n_heads};
    ln_error err = {0};
    if (backend->vtable->reserve_scratch(backend, &limits, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    ln_kv_layer layers[MAX_LAYERS];
    size_t cache_bytes = w->n_layers * kv_bytes;
    char *keys = reserve(backend, cache_bytes), *values = reserve(backend, cache_bytes);
    describe_layers(w, kv_bytes, keys, values, layers);
    float *q = reserve(backend, q_floats * sizeof *q), *out = reserve(backend, q_floats * 4);
    fill(backend, q, q_floats);
    fill_cache(backend, keys, cache_bytes);
    fill_cache(backend, values, cache_bytes);
    ln_batch batch = {.n_tokens = n_tokens,
                      .n_seqs = w->n_seqs,
                      .n_groups = 1,
                      .positions = positions,
                      .seq_starts = starts,
                      .groups = {{.block_tables = tables,
                                  .max_blocks = n_blocks,
                                  .lengths = lengths,
                                  .slots = positions}}}; /* nothing is written */
    ln_op ops[MAX_LAYERS];
    for (size_t i = 0; i < w->n_layers; i++)
        ops[i] = (ln_op){
            .kind = LN_OP_ATTENTION,
            .batch = &batch,
            .attention = {
                .q = q, .kv = &layers[i], .n_heads = w->n_heads, .scale = 0.1f, .out = out}};
    double best = time_best(backend, ops, w->n_layers);
    report(w, length, kv_bytes, best);
    fflush(stdout);
    backend->vtable->release(backend, keys, cache_bytes);
    backend->vtable->release(backend, values, cache_bytes);
    backend->vtable->release(backend, q, q_floats * 4);
    backend->vtable->release(backend, out, q_floats * 4);
    free(tables);
    free(lengths);
    free(starts);
    free(positions);
}

int main(int argc, char **argv) {
    static const size_t dims[] = {128, 64, 80, 96, 256, WIDE_DIM, LATENT_DIM};
    static const ln_kv_dtype dtypes[] = {LN_KV_F16, LN_KV_Q8_0, LN_KV_FP8};
    const char *name = argc > 1 ? argv[1] : "auto";
    size_t n_tokens = argc > 2 ? strtoul(argv[2], NULL, 10) : 8192;
    size_t n_seqs = argc > 3 ? strtoul(argv[3], NULL, 10) : 64;
    ln_backend *backend;
    ln_error err = {0};
    ln_backend_options options = {.isa = argc > 5 ? argv[5] : "auto",
                                  .n_threads = argc > 4 ? strtoul(argv[4], NULL, 10) : 8};
    size_t n_kv_heads = argc > 6 ? strtoul(argv[6], NULL, 10) : 8;
    size_t n_layers = argc > 7 ? strtoul(argv[7], NULL, 10) : 1;
    size_t only = argc > 8 ? strtoul(argv[8], NULL, 10) : 0;
    size_t n_heads = argc > 9 ? strtoul(argv[9], NULL, 10) : 32;
    by_processor_time = options.n_threads == 1;
    if (ln_backend_create(name, &options, &backend, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (n_kv_heads == 0 || n_heads % n_kv_heads != 0 || n_layers == 0 || n_layers > MAX_LAYERS) {
        fprintf(stderr, "KV_HEADS divides %zu, and LAYERS is 1 to %d\n", n_heads, MAX_LAYERS);
        return 1;
    }
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t j = 0; j < sizeof dtypes / sizeof *dtypes; j++) {
            size_t d = dims[i];
            if (d == LATENT_DIM && ln_kv_has_scales(dtypes[j]))
                continue;
            if (only != 0 ? d != only : d >= WIDE_DIM)
                continue;
            run(backend, &(work){1, 0, n_tokens, d, dtypes[j], n_kv_heads, n_layers, n_heads});
            run(backend,
                &(work){n_seqs, n_tokens - 1, 1, d, dtypes[j], n_kv_heads, n_layers, n_heads});
            run(backend, &(work){1, n_tokens - 1, 1, d, dtypes[j], n_kv_heads, n_layers, n_heads});
        }
    backend->vtable->destroy(backend);
    return 0;
}
