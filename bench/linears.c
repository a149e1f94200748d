/* Linears on a backend, at the sizes of a layer of Mistral 7B: TOP/s and GB/s of weights for so
 * many rows of x.
 *
 *   bench_linears [BACKEND [ROWS [TYPE ..]]] [vary] [narrow]
 *
 * Types: bf16, q8_0, q4_0, q4_k, q6_k, fp8_w, E4M3 with one scale per row, and fp8 and int8, where
 * x becomes such numbers, too. A run multiplies with COPIES matrices of each size, so that caches
 * do not hold them; the fastest of N_RUNS runs, by the backend's own profile, with the conversion
 * of x. Output and down add to their residual in place. vary: the bits of a row may depend on the
 * others. narrow: at the sizes of Qwen3 0.6B. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/half.h"
#include "bench.h"

enum { COPIES = 4, N_RUNS = 5, MAX_PARTS = 3, N_SIZES = 4, WIDEST = 14336 };

typedef struct size {
    const char *name;
    size_t n_in, n_parts, n_out[MAX_PARTS];
    bool has_gate, has_residual;
} size;

static const size sizes[][N_SIZES] = {{{"q k v", 4096, 3, {4096, 1024, 1024}, false, false},
                                       {"output", 4096, 1, {4096}, false, true},
                                       {"gate and up", 4096, 1, {14336}, true, false},
                                       {"down", 14336, 1, {4096}, false, true}},
                                      {{"q k v", 1024, 3, {2048, 1024, 1024}, false, false},
                                       {"output", 2048, 1, {1024}, false, true},
                                       {"gate and up", 1024, 1, {3072}, true, false},
                                       {"down", 3072, 1, {1024}, false, true}}};

typedef struct type {
    const char *name;
    ln_dtype dtype;
    bool has_row_scales, meets_8_bits;
} type;

static const type types[] = {
    {"bf16", LN_DTYPE_BF16, false, false},    {"q8_0", LN_DTYPE_Q8_0, false, false},
    {"q4_0", LN_DTYPE_Q4_0, false, false},    {"q4_k", LN_DTYPE_Q4_K, false, false},
    {"q6_k", LN_DTYPE_Q6_K, false, false},    {"int8", LN_DTYPE_I8, true, true},
    {"fp8_w", LN_DTYPE_F8_E4M3, true, false}, {"fp8", LN_DTYPE_F8_E4M3, true, true}};
enum { N_TYPES = sizeof types / sizeof *types };

static void *reserve(ln_backend *backend, size_t bytes) {
    void *memory;
    ln_error err = {0};
    bench_check(backend->vtable->reserve(backend, bytes, "bench", &memory, &err), &err);
    return memory;
}

/* Scales of a block of random numbers, or a plain number. */
static void tame(ln_dtype dtype, uint8_t *block, uint32_t random) {
    uint16_t scale = ln_f16_from_f32(1e-4f);
    size_t at = dtype == LN_DTYPE_Q6_K ? 208 : 0;
    if (dtype == LN_DTYPE_BF16)
        scale = ln_bf16_from_f32(((float)(random & 0xffff) - 32768.0f) * 1e-6f);
    if (dtype == LN_DTYPE_I8 || dtype == LN_DTYPE_F8_E4M3) {
        *block &=
            dtype == LN_DTYPE_I8 ? 0xff : 0xbf; /* E4M3 without its largest numbers, and NaN */
        return;
    }
    memcpy(block + at, &scale, sizeof scale);
    if (dtype == LN_DTYPE_Q4_K)
        memcpy(block + 2, &scale, sizeof scale);
}

static ln_tensor make_tensor(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    size_t row_bytes, block = ln_dtype_block_bytes(dtype);
    if (!ln_dtype_row_bytes(dtype, n_cols, &row_bytes))
        exit(1);
    ln_tensor t = {.name = "w", .dtype = dtype, .n_dims = 2, .dims = {n_rows, n_cols}};
    t.bytes = n_rows * row_bytes;
    t.n_elems = n_rows * n_cols;
    uint8_t *data = bench_need(malloc(t.bytes + 8));
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < t.bytes; i += sizeof state) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(data + i, &state, sizeof state);
    }
    for (size_t i = 0; i < t.bytes; i += block)
        tame(dtype, data + i, (uint32_t)(data[i] | data[i + block - 1] << 8));
    t.data = data;
    return t;
}

static ln_weight put(ln_backend *backend, const type *t, size_t n_rows, size_t n_cols) {
    ln_tensor numbers = make_tensor(t->dtype, n_rows, n_cols);
    float *scales = bench_need(malloc(n_rows * sizeof *scales));
    for (size_t i = 0; i < n_rows; i++)
        scales[i] = 1e-4f;
    ln_tensor of_rows = {.name = "s",
                         .dtype = LN_DTYPE_F32,
                         .n_dims = 1,
                         .dims = {n_rows},
                         .n_elems = n_rows,
                         .data = (const uint8_t *)scales};
    ln_weight_source source = {.tensor = &numbers, .n_rows = n_rows, .run_rows = n_rows};
    if (t->has_row_scales)
        source.packed =
            (ln_packed){.kind = t->dtype == LN_DTYPE_I8 ? LN_PACKED_INT8 : LN_PACKED_FP8,
                        .values = &numbers,
                        .scales = &of_rows,
                        .n_rows = n_rows,
                        .n_cols = n_cols,
                        .scale_rows = n_rows,
                        .scale_cols = 1,
                        .group_rows = 1,
                        .group_cols = n_cols,
                        .meets_8_bits = t->meets_8_bits};
    ln_weight_request request = {.n_sources = 1, .sources = {source}, .n_cols = n_cols};
    ln_weight weight;
    ln_error err = {0};
    size_t bytes;
    bench_check(backend->vtable->plan_weight(backend, &request, &bytes, &err), &err);
    void *memory = bytes > 0 ? reserve(backend, bytes) : NULL;
    bench_check(backend->vtable->prepare_weight(backend, &request, memory, &weight, &err), &err);
    if (bytes > 0) {
        free((void *)(uintptr_t)numbers.data); /* else it is used where it lies */
        weight.row_bytes = bytes / n_rows;
    }
    free(scales); /* what the weight maps stays: NOLINT(clang-analyzer-unix.Malloc) */
    return weight;
}

static void time_size(ln_backend *backend, const type *t, const size *s, size_t n_rows,
                      const float *x, float *out) {
    ln_weight weights[COPIES][MAX_PARTS], gates[COPIES];
    ln_op ops[COPIES * MAX_PARTS] = {0};
    ln_error err = {0};
    double products = 0, bytes = 0, best = 0;
    size_t n_ops = 0;
    for (size_t i = 0; i < COPIES; i++)
        for (size_t part = 0; part < s->n_parts; part++) {
            ln_weight *w = &weights[i][part];
            *w = put(backend, t, s->n_out[part], s->n_in);
            if (s->has_gate)
                gates[i] = put(backend, t, s->n_out[part], s->n_in);
            ops[n_ops++] = (ln_op){.kind = LN_OP_LINEAR,
                                   .linear = {.weight = w,
                                              .gate = s->has_gate ? &gates[i] : NULL,
                                              .activation = s->has_gate ? LN_ACT_SILU : LN_ACT_NONE,
                                              .n_rows = n_rows,
                                              .x = x,
                                              .residual = s->has_residual ? out : NULL,
                                              .scale = 1.0f,
                                              .out = out + part * n_rows * 4096}};
            products += (s->has_gate ? 4.0 : 2.0) * (double)(n_rows * s->n_out[part] * s->n_in);
            bytes += (s->has_gate ? 2.0 : 1.0) * (double)(w->row_bytes * s->n_out[part]);
        }
    for (int i = 0; i < N_RUNS; i++) {
        ln_profile profile = {0};
        backend->profile = &profile;
        bench_check(backend->vtable->run(backend, ops, n_ops, &err), &err);
        double seconds = (double)profile.ns[LN_OP_LINEAR] * 1e-9;
        best = i == 0 || seconds < best ? seconds : best;
    }
    backend->profile = NULL;
    printf("%-5s %-12s rows %5zu %9.1f us %8.1f TOP/s %8.1f GB/s\n", t->name, s->name, n_rows,
           best / COPIES * 1e6, products / best * 1e-12, bytes / best * 1e-9);
    fflush(stdout);
}

static const type *find_type(const char *name) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    fprintf(stderr, "there is no type %s\n", name);
    exit(1);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "auto";
    size_t n_rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 2048, n = n_rows * 2 * WIDEST;
    ln_backend *backend;
    ln_error err = {0};
    bool is_narrow = argc > 1 && strcmp(argv[argc - 1], "narrow") == 0;
    argc -= is_narrow;
    bool varies = argc > 1 && strcmp(argv[argc - 1], "vary") == 0; /* lets_rows_vary */
    argc -= varies;
    ln_backend_options options = {
        .isa = "auto", .n_threads = 8, .max_seqs = n_rows, .lets_rows_vary = varies};
    bench_check(ln_backend_create(name, &options, &backend, &err), &err);
    float *host = bench_need(malloc(n * sizeof *host));
    for (size_t i = 0; i < n; i++)
        host[i] = (float)(i * 2654435761u % 65536) / 32768.0f - 1.0f;
    float *x = reserve(backend, n * sizeof *x), *out = reserve(backend, n * sizeof *out);
    backend->vtable->upload(backend, x, host, n * sizeof *x);
    free(host);
    for (int i = 3; i < (argc > 3 ? argc : 3 + N_TYPES); i++) {
        const type *t = argc > 3 ? find_type(argv[i]) : &types[i - 3];
        for (size_t j = 0; j < N_SIZES; j++) {
            ln_step_limits limits = {.max_tokens = n_rows,
                                     .max_seqs = 1,
                                     .max_ctx = 1,
                                     .max_blocks = 1,
                                     .max_width = WIDEST,
                                     .max_head_dim = 128,
                                     .max_heads = 32};
            bench_check(backend->vtable->reserve_scratch(backend, &limits, &err), &err);
            time_size(backend, t, &sizes[is_narrow][j], n_rows, x, out);
        }
    }
    backend->vtable->destroy(backend);
    return 0;
}
