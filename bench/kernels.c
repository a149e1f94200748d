/* Times the linear kernels of an instruction set, one thread, by the processor time that they take:
 * busy neighbours then matter less than by the clock on the wall.
 *
 *     cmake --build build --target bench_kernels
 *     build/bench/bench_kernels [avx512-bf16]
 *
 * Prints GB/s of weights for one row of x, of a matrix that lies in the caches and of one that does
 * not, beside what a plain read of as many bytes reaches; and GOP/s for 240 rows beside what dot
 * products on registers reach. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/registry.h"
#include "bench.h"
#include "format/quants.h"

enum { N_OUT = 32000, N_IN = 2048, SMALL_OUT = 2048, CACHED_OUT = 256, MANY = 240, RUNS = 7 };

static double read_bandwidth(const uint8_t *data, size_t bytes) {
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        double begin = bench_seconds(CLOCK_THREAD_CPUTIME_ID);
        __m512i sum = _mm512_setzero_si512();
        for (size_t i = 0; i + 64 <= bytes; i += 64)
            sum = _mm512_add_epi64(sum, _mm512_loadu_si512(data + i));
        volatile long long sink = _mm512_reduce_add_epi64(sum);
        (void)sink;
        double took = bench_seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
        best = took < best ? took : best;
    }
    return (double)bytes / best * 1e-9;
}

/* GOP/s of a dot product on registers that takes so many operations: eighteen chains, more than the
 * latency of the two units needs. */
#define CHAIN(op, to) op " %%zmm0, %%zmm1, %%zmm" #to "\n"
/* clang-format off */
#define CHAINS_OF(op)                                                                              \
    CHAIN(op, 2) CHAIN(op, 3) CHAIN(op, 4) CHAIN(op, 5) CHAIN(op, 6) CHAIN(op, 7)                  \
    CHAIN(op, 8) CHAIN(op, 9) CHAIN(op, 10) CHAIN(op, 11) CHAIN(op, 12) CHAIN(op, 13)              \
    CHAIN(op, 14) CHAIN(op, 15) CHAIN(op, 16) CHAIN(op, 17) CHAIN(op, 18) CHAIN(op, 19)
/* clang-format on */
#define TIME_CHAINS(op, ops)                                                                       \
    for (int run = 0; run < RUNS; run++) {                                                         \
        double begin = bench_seconds(CLOCK_THREAD_CPUTIME_ID);                                     \
        for (int turn = 0; turn < TURNS; turn++)                                                   \
            __asm__ volatile(CHAINS_OF(op)                                                         \
                             :                                                                     \
                             :                                                                     \
                             : "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",     \
                               "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16",      \
                               "xmm17", "xmm18", "xmm19");                                         \
        double rate =                                                                              \
            (ops)*18.0 * TURNS / (bench_seconds(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e-9;          \
        best = rate > best ? rate : best;                                                          \
    }

static double dot_peak(bool is_bf16) {
    enum { TURNS = 1000000 };
    double best = 0.0;
    if (is_bf16)
        TIME_CHAINS("vdpbf16ps", 64.0)
    else
        TIME_CHAINS("vpdpbusd", 128.0)
    return best;
}

static double time_linear(ln_backend *backend, const ln_weight *weight, size_t n_rows, int times,
                          const float *x, float *out) {
    double best = 1e9;
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = weight, .n_rows = n_rows, .x = x, .scale = 1.0f, .out = out}};
    for (int run = 0; run < RUNS; run++) {
        double begin = bench_seconds(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < times; i++)
            backend->vtable->run(backend, &op, 1, NULL);
        double took = (bench_seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / times;
        best = took < best ? took : best;
    }
    return best;
}

static ln_weight prepare(ln_backend *backend, ln_dtype dtype, size_t n_out, size_t *bytes) {
    size_t row_bytes;
    if (!ln_dtype_row_bytes(dtype, N_IN, &row_bytes))
        exit(1);
    uint8_t *data = malloc(n_out * row_bytes);
    memset(data, 0x3c, n_out * row_bytes); /* pages of its own */
    for (size_t i = 0; i < n_out * row_bytes && ln_dtype_block_elems(dtype) > 1; i++)
        data[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24); /* indices of codebooks differ */
    ln_tensor tensor = {.name = "w", .dtype = dtype, .n_dims = 2, .dims = {n_out, N_IN}};
    tensor.data = data;
    ln_weight_request request = {
        .n_sources = 1,
        .sources = {{.tensor = &tensor, .n_rows = n_out, .run_rows = n_out}},
        .n_cols = N_IN};
    ln_weight weight;
    void *memory = NULL;
    backend->vtable->plan_weight(backend, &request, bytes, NULL);
    if (*bytes > 0)
        backend->vtable->reserve(backend, *bytes, "weights", &memory, NULL);
    backend->vtable->prepare_weight(backend, &request, memory, &weight, NULL);
    *bytes = row_bytes * n_out;
    return weight;
}

int main(int argc, char **argv) {
    static const ln_dtype types[] = {
        LN_DTYPE_Q4_0,    LN_DTYPE_Q8_0,   LN_DTYPE_Q4_K,   LN_DTYPE_Q6_K,    LN_DTYPE_Q5_K,
        LN_DTYPE_Q3_K,    LN_DTYPE_Q2_K,   LN_DTYPE_IQ4_XS, LN_DTYPE_Q4_1,    LN_DTYPE_BF16,
        LN_DTYPE_F32,     LN_DTYPE_TQ1_0,  LN_DTYPE_TQ2_0,  LN_DTYPE_IQ1_S,   LN_DTYPE_IQ1_M,
        LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_XS, LN_DTYPE_IQ2_S,  LN_DTYPE_IQ3_XXS, LN_DTYPE_IQ3_S};
    ln_backend *backend;
    ln_error err = {0};
    ln_backend_options options = {.isa = argc > 1 ? argv[1] : "auto", .n_threads = 1};
    ln_step_limits limits = {.max_tokens = 512, .max_width = N_IN, .max_head_dim = 64};
    if (ln_backend_create("cpu", &options, &backend, &err) != LINNET_OK ||
        backend->vtable->reserve_scratch(backend, &limits, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    float *x = calloc(MANY * N_IN, sizeof *x), *out = calloc((size_t)MANY * N_OUT, sizeof *out);
    for (size_t i = 0; i < MANY * N_IN; i++)
        x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    uint8_t *buffer = malloc(256 << 20);
    memset(buffer, 1, 256 << 20);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t large, small, cached;
        ln_weight weight = prepare(backend, types[i], N_OUT, &large);
        double one = time_linear(backend, &weight, 1, 1, x, out);
        double read = read_bandwidth(buffer, large);
        weight = prepare(backend, types[i], SMALL_OUT, &small);
        double many = time_linear(backend, &weight, MANY, 1, x, out);
        bool is_bf16 = types[i] == LN_DTYPE_BF16;
        weight = prepare(backend, types[i], CACHED_OUT, &cached);
        double hot = time_linear(backend, &weight, 1, 50, x, out);
        double ops = 2.0 * MANY * SMALL_OUT * N_IN / many * 1e-9;
        printf("%-7s 1 row: cached %5.1f GB/s, not %5.1f (read %5.1f)   %d rows: %6.1f GOP/s "
               "(%s %6.1f)\n",
               ln_dtype_name(types[i]), (double)cached / hot * 1e-9, (double)large / one * 1e-9,
               read, MANY, ops, is_bf16 ? "vdpbf16ps" : "vpdpbusd", dot_peak(is_bf16));
        fflush(stdout);
    }
    return 0;
}
