/* The kernels of every instruction set that this processor has, against the scalar ones on odd
 * shapes; and the same bits for one row and many, and for any number of threads. */
#include "matrix.h"

#include <math.h>

#include "backend/registry.h"

static const char *const sets[] = {"scalar", "avx2", "avx512",       "avx512-vnni", "avx512-bf16",
                                   "amx",    "neon", "neon-dotprod", "neon-i8mm"};
enum { N_SETS = sizeof sets / sizeof *sets };

/* NULL: this processor, or this build, has no such instructions. */
static ln_backend *make_backend(const char *isa, size_t n_threads, bool exact) {
    ln_backend *backend;
    ln_backend_options options = {.isa = isa, .n_threads = n_threads, .exact = exact};
    options.other_tiles = n_threads == 2; /* which gives the same bits, too */
    ln_step_limits limits = {.max_tokens = 512,
                             .max_seqs = 8,
                             .max_ctx = 2048,
                             .max_width = 1024,
                             .max_head_dim = 128,
                             .max_heads = 128,
                             .max_experts = 8};
    if (ln_backend_create("cpu", &options, &backend, NULL) != LINNET_OK)
        return NULL;
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    return backend;
}

static void run(ln_backend *backend, const ln_op *op) {
    assert_int_equal(backend->vtable->run(backend, op, 1, NULL), LINNET_OK);
}

/* ---- linear ------------------------------------------------------------------------------- */

/* Prepares it; *memory is to be freed. */
static ln_weight prepare(ln_backend *backend, const matrix *m, void **memory) {
    ln_weight weight;
    ln_weight_request request = {
        .n_sources = 1,
        .sources = {{.tensor = &m->tensor, .n_rows = m->n_rows, .run_rows = m->n_rows}},
        .n_cols = m->n_cols,
        .rounds_f32 = true};
    size_t bytes;
    assert_int_equal(backend->vtable->plan_weight(backend, &request, &bytes, NULL), LINNET_OK);
    *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(*memory);
    ln_status status = backend->vtable->prepare_weight(backend, &request,
                                                       bytes > 0 ? *memory : NULL, &weight, NULL);
    assert_int_equal(status, LINNET_OK);
    return weight;
}

static ln_op linear_op(const ln_weight *weight, const ln_weight *gate, size_t n_rows,
                       const float *x, float *out) {
    return (ln_op){.kind = LN_OP_LINEAR,
                   .linear = {.weight = weight,
                              .gate = gate,
                              .activation = gate != NULL ? LN_ACT_SILU : LN_ACT_NONE,
                              .n_rows = n_rows,
                              .x = x,
                              .scale = 1.0f,
                              .out = out}};
}

/* The relative error of y [n_rows][n_out] as a whole. */
static double linear_error(const matrix *w, const float *x, const float *y, size_t n_rows) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < w->n_rows; j++) {
            double want = 0;
            for (size_t k = 0; k < w->n_cols; k++)
                want += (double)x[i * w->n_cols + k] * w->values[j * w->n_cols + k];
            double got = y[i * w->n_rows + j];
            difference += (got - want) * (got - want);
            norm += want * want;
        }
    return sqrt(difference / norm);
}

static void check_linear(const char *isa, bool exact, bool precise, ln_dtype dtype, size_t n_out,
                         size_t n_in) {
    enum { ROWS = 31 };
    static const size_t counts[] = {1, 2, 3, 4, 5, 12, 17, ROWS};
    static const size_t threads[] = {1, 2, 5};
    matrix w = make_matrix(dtype, n_out, n_in);
    float *x = noise_rows(ROWS * n_in), *all = noise_rows(ROWS * n_out);
    float *some = noise_rows(ROWS * n_out);
    bool is_int8 = ln_dtype_block_elems(dtype) > 1 && dtype != LN_DTYPE_F8_G32 && !exact &&
                   strcmp(isa, "scalar") != 0;
    bool is_int16 = dtype == LN_DTYPE_I8_G32 || dtype == LN_DTYPE_I4_G32 || dtype == LN_DTYPE_MXFP4;
    bool is_rounded = false;
    for (size_t t = 0; t < (IS_EMULATED ? 2 : 3); t++) {
        void *memory;
        ln_backend *backend = make_backend(isa, threads[t], exact);
        ln_weight weight = prepare(backend, &w, &memory);
        is_rounded = dtype == LN_DTYPE_F32 && weight.layout != 0;
        ln_op op = linear_op(&weight, NULL, ROWS, x, t == 0 ? all : some);
        op.linear.precise = precise;
        run(backend, &op);
        if (t > 0)
            assert_memory_equal(some, all, ROWS * n_out * sizeof *all);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            size_t first = ROWS - counts[i];
            op = linear_op(&weight, NULL, counts[i], x + first * n_in, some);
            op.linear.precise = precise;
            run(backend, &op);
            assert_memory_equal(some, all + first * n_out, counts[i] * n_out * sizeof *all);
        }
        free(memory);
        backend->vtable->destroy(backend);
    }
    double error = linear_error(&w, x, all, ROWS);
    double most = is_int8 && is_int16      ? 3e-5
                  : is_int8                ? 8e-3
                  : exact                  ? 1e-6
                  : precise && !is_rounded ? 2e-5
                                           : 3e-3;
    if (!(error <= most))
        fail_msg("%s %s %s %zux%zu: error %g", isa, exact ? "exact" : "fast", ln_dtype_name(dtype),
                 n_out, n_in, error);
    free_matrix(&w), free(x), free(all), free(some);
}

static void linear_multiplies(void **state) {
    (void)state;
    static const ln_dtype types[] = {
        LN_DTYPE_F32,    LN_DTYPE_F16,     LN_DTYPE_BF16,   LN_DTYPE_Q4_0,    LN_DTYPE_Q8_0,
        LN_DTYPE_Q4_K,   LN_DTYPE_Q6_K,    LN_DTYPE_Q5_K,   LN_DTYPE_IQ4_NL,  LN_DTYPE_Q5_0,
        LN_DTYPE_Q3_K,   LN_DTYPE_Q4_1,    LN_DTYPE_Q5_1,   LN_DTYPE_Q2_K,    LN_DTYPE_IQ4_XS,
        LN_DTYPE_I8_G32, LN_DTYPE_I4_G32,  LN_DTYPE_F8_G32, LN_DTYPE_MXFP4,   LN_DTYPE_TQ1_0,
        LN_DTYPE_TQ2_0,  LN_DTYPE_IQ1_S,   LN_DTYPE_IQ1_M,  LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_XS,
        LN_DTYPE_IQ2_S,  LN_DTYPE_IQ3_XXS, LN_DTYPE_IQ3_S,  LN_DTYPE_Q1_0,    LN_DTYPE_Q2_0,
        LN_DTYPE_NVFP4};
    for (size_t set = 0; set < N_SETS; set++) {
        ln_backend *backend = make_backend(sets[set], 1, false);
        if (backend == NULL)
            continue;
        backend->vtable->destroy(backend);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            size_t n_in = ln_dtype_block_elems(types[i]) * (i < 3 ? 77 : 3);
            check_linear(sets[set], false, false, types[i], 37, n_in);
            check_linear(sets[set], false, true, types[i], 37, n_in);
            check_linear(sets[set], true, true, types[i], 19, n_in);
        }
    }
}

/* Where blocks have their float16 scales, one or two, and their integer scales and minimums; all
 * other bytes are quants. */
typedef struct block_parts {
    ln_dtype dtype;
    size_t n_floats, floats_at, scales_at, n_scales;
} block_parts;

static const block_parts block_kinds[] = {
    {LN_DTYPE_Q4_0, 1, 0, 0, 0},     {LN_DTYPE_Q8_0, 1, 0, 0, 0},
    {LN_DTYPE_Q5_1, 2, 0, 0, 0},     {LN_DTYPE_Q4_K, 2, 0, 4, 12},
    {LN_DTYPE_Q5_K, 2, 0, 4, 12},    {LN_DTYPE_Q2_K, 2, 80, 0, 16},
    {LN_DTYPE_Q3_K, 1, 108, 96, 12}, {LN_DTYPE_Q6_K, 1, 208, 192, 16},
    {LN_DTYPE_IQ4_XS, 1, 0, 2, 6}};

/* All integer scales and minimums are made of one byte, and all quants. Those of 4 and 6 bits are
 * largest with all bits set, signed ones with the first or all others. */
static void fill_matrix(matrix *m, const block_parts *p, uint8_t scales, uint8_t quants) {
    uint8_t *data = (uint8_t *)(uintptr_t)m->tensor.data;
    size_t row_bytes = m->tensor.bytes / m->n_rows, bytes = ln_dtype_block_bytes(p->dtype);
    uint16_t one = ln_f16_from_f32(1.0f);
    memset(data, quants, m->tensor.bytes);
    for (uint8_t *block = data; block < data + m->tensor.bytes; block += bytes) {
        memset(block + p->scales_at, scales, p->n_scales);
        for (size_t i = 0; i < p->n_floats; i++)
            memcpy(block + p->floats_at + 2 * i, &one, sizeof one);
    }
    for (size_t i = 0; i < m->n_rows; i++)
        ln_dequantize_row(p->dtype, data + i * row_bytes, m->values + i * m->n_cols, m->n_cols);
}

/* Against sums of the same weights in double precision; x is 1 in even rows and -1 in odd ones. */
static void check_ends(ln_backend *backend, const matrix *w, const char *isa) {
    enum { ROWS = 17 };
    void *memory;
    float *x = noise_rows(ROWS * w->n_cols), *all = noise_rows(ROWS * w->n_rows);
    float *one = noise_rows(w->n_rows);
    ln_weight weight = prepare(backend, w, &memory);
    ln_op op = linear_op(&weight, NULL, ROWS, x, all);
    for (size_t i = 0; i < ROWS * w->n_cols; i++)
        x[i] = i / w->n_cols % 2 == 0 ? 1.0f : -1.0f;
    run(backend, &op);
    for (size_t row = 0; row < ROWS; row++) {
        op = linear_op(&weight, NULL, 1, x + row * w->n_cols, one);
        run(backend, &op);
        assert_memory_equal(one, all + row * w->n_rows, w->n_rows * sizeof *one);
        double want = 0, most = 1;
        for (size_t i = 0; i < w->n_cols; i++) {
            want += (double)w->values[i] * x[row * w->n_cols + i];
            most += fabs((double)w->values[i]);
        }
        for (size_t i = 0; i < w->n_rows; i++)
            if (!(fabs(one[i] - want) <= 1e-6 * most))
                fail_msg("%s %s: %g is not %g", isa, w->tensor.name, (double)one[i], want);
    }
    free(memory), free(x), free(all), free(one);
}

/* Quants, their scales and minimums, and x, all at their ends: sums that a kernel keeps in few bits
 * must fit. */
static void largest_sums_fit(void **state) {
    (void)state;
    enum { OUT = 37, IN = 512, N_KINDS = sizeof block_kinds / sizeof *block_kinds };
    static const uint8_t ends[] = {0xff, 0x7f, 0x80, 0x00};
    for (size_t at = 0; at < N_SETS * N_KINDS; at++) {
        const char *isa = sets[at / N_KINDS];
        const block_parts *p = &block_kinds[at % N_KINDS];
        ln_backend *backend = make_backend(isa, 1 + at % 2, false);
        if (backend == NULL)
            continue;
        matrix w = make_matrix(p->dtype, OUT, IN);
        w.tensor.name = ln_dtype_name(p->dtype);
        for (size_t i = 0; i < 16; i++) {
            if (i >= 4 && p->n_scales == 0)
                break;
            fill_matrix(&w, p, ends[i / 4], ends[i % 4]);
            check_ends(backend, &w, isa);
        }
        free_matrix(&w);
        backend->vtable->destroy(backend);
    }
}

/* What follows the sums of every other linear. */
static ln_op finished(ln_op op, size_t i, const float *residual) {
    if (i % 2 == 1) {
        op.linear.activation = LN_ACT_GELU;
        op.linear.residual = residual;
        op.linear.scale = 0.5f;
    }
    return op;
}

/* More rows than a chunk, and three linears of one x one after another, as of q, k and v. */
static void chunks_give_the_bits_of_single_rows(void **state) {
    (void)state;
    enum { ROWS = 530, OUT = 37, IN = 256 };
    static const ln_dtype types[] = {
        LN_DTYPE_Q4_0,  LN_DTYPE_Q4_0,    LN_DTYPE_Q8_0,  LN_DTYPE_BF16,
        LN_DTYPE_Q4_K,  LN_DTYPE_Q6_K,    LN_DTYPE_Q2_K,  LN_DTYPE_Q5_1,
        LN_DTYPE_TQ2_0, LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_S, LN_DTYPE_Q1_0,
        LN_DTYPE_Q2_0,  LN_DTYPE_F32,     LN_DTYPE_BF16,  LN_DTYPE_F32};
    enum { N = sizeof types / sizeof *types };
    float *x = noise_rows(ROWS * IN), *one = noise_rows(OUT), *all[N];
    float *residual = noise_rows(ROWS * OUT), *bias = noise_rows(OUT);
    for (size_t threads = 1; threads <= 5; threads += 2) {
        ln_op ops[N];
        ln_weight weights[N];
        matrix w[N];
        void *memory[N];
        ln_backend *backend = make_backend("auto", threads, false);
        for (size_t i = 0; i < N; i++) {
            w[i] = make_matrix(types[i], OUT, IN);
            weights[i] = prepare(backend, &w[i], &memory[i]);
            all[i] = noise_rows(ROWS * OUT);
            weights[i].bias = bias;
            ops[i] = finished(linear_op(&weights[i], NULL, ROWS, x, all[i]), i, residual);
        }
        assert_int_equal(backend->vtable->run(backend, ops, N, NULL), LINNET_OK);
        for (size_t i = 0; i < N; i++) {
            for (size_t row = 0; row < ROWS; row += 13) {
                ln_op op = linear_op(&weights[i], NULL, 1, x + row * IN, one);
                op = finished(op, i, residual + row * OUT);
                run(backend, &op);
                assert_memory_equal(one, all[i] + row * OUT, OUT * sizeof *one);
            }
            free_matrix(&w[i]), free(memory[i]), free(all[i]);
        }
        backend->vtable->destroy(backend);
    }
    free(x), free(one), free(residual), free(bias);
}

/* Two matrices of different types in one gated linear, with everything that follows. */
static void gates_mix_types(void **state) {
    (void)state;
    enum { ROWS = 6, OUT = 21, IN = 256 };
    matrix up = make_matrix(LN_DTYPE_Q6_K, OUT, IN), gate = make_matrix(LN_DTYPE_Q4_K, OUT, IN);
    float *x = noise_rows(ROWS * IN), *residual = noise_rows(ROWS * OUT), *bias = noise_rows(OUT);
    float *want = noise_rows(ROWS * OUT), *got = noise_rows(ROWS * OUT);
    for (size_t set = 0; set < N_SETS; set++) {
        void *memory[2];
        ln_backend *backend = make_backend(sets[set], 2, false);
        if (backend == NULL)
            continue;
        ln_weight weights[2] = {prepare(backend, &up, &memory[0]),
                                prepare(backend, &gate, &memory[1])};
        weights[0].bias = bias;
        for (int activation = LN_ACT_NONE; activation <= LN_ACT_SWIGLU_CLAMPED; activation++) {
            double difference = 0, norm = 0;
            ln_op op = linear_op(&weights[0], &weights[1], ROWS, x, got);
            op.linear.activation = (ln_activation)activation;
            op.linear.residual = residual;
            op.linear.scale = 0.5f;
            op.linear.softcap = 20.0f;
            run(backend, &op);
            if (set == 0) { /* the oracle comes first: keep one activation at a time */
                memcpy(want, got, ROWS * OUT * sizeof *got);
                continue;
            }
            ln_backend *oracle = make_backend("scalar", 1, true);
            void *plain[2];
            ln_weight rows[2] = {prepare(oracle, &up, &plain[0]),
                                 prepare(oracle, &gate, &plain[1])};
            rows[0].bias = bias;
            op.linear.weight = &rows[0];
            op.linear.gate = &rows[1];
            op.linear.out = want;
            run(oracle, &op);
            for (size_t i = 0; i < ROWS * OUT; i++) {
                difference += pow((double)got[i] - (double)want[i], 2);
                norm += pow(want[i], 2);
            }
            if (!(sqrt(difference / norm) < 3e-2))
                fail_msg("%s activation %d: error %g", sets[set], activation,
                         sqrt(difference / norm));
            free(plain[0]), free(plain[1]);
            oracle->vtable->destroy(oracle);
        }
        free(memory[0]), free(memory[1]);
        backend->vtable->destroy(backend);
    }
    free_matrix(&up), free_matrix(&gate);
    free(x), free(residual), free(bias), free(want), free(got);
}

/* silu(gate x) * up x in double precision, from the weights as they are. */
static void gate_in_double(const matrix *up, const matrix *gate, size_t n_rows, const float *x,
                           float *out) {
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = 0; j < up->n_rows; j++) {
            double u = 0, g = 0;
            for (size_t k = 0; k < up->n_cols; k++) {
                u += (double)x[i * up->n_cols + k] * up->values[j * up->n_cols + k];
                g += (double)x[i * up->n_cols + k] * gate->values[j * up->n_cols + k];
            }
            out[i * up->n_rows + j] = (float)(g / (1.0 + exp(-g)) * u);
        }
}

/* As models have them: both of one type, for one row and for more. Errors are held to the mean norm
 * of all rows, as little may be left of a single one. */
static void gates_of_one_type(void **state) {
    (void)state;
    enum { ROWS = 6, OUT = 21, IN = 512 };
    static const ln_dtype types[] = {
        LN_DTYPE_F32,    LN_DTYPE_F16,     LN_DTYPE_BF16,   LN_DTYPE_Q4_0,    LN_DTYPE_Q4_1,
        LN_DTYPE_Q5_0,   LN_DTYPE_Q5_1,    LN_DTYPE_Q8_0,   LN_DTYPE_Q2_K,    LN_DTYPE_Q3_K,
        LN_DTYPE_Q4_K,   LN_DTYPE_Q5_K,    LN_DTYPE_Q6_K,   LN_DTYPE_IQ4_NL,  LN_DTYPE_IQ4_XS,
        LN_DTYPE_I8_G32, LN_DTYPE_I4_G32,  LN_DTYPE_F8_G32, LN_DTYPE_MXFP4,   LN_DTYPE_TQ1_0,
        LN_DTYPE_TQ2_0,  LN_DTYPE_IQ1_S,   LN_DTYPE_IQ1_M,  LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_XS,
        LN_DTYPE_IQ2_S,  LN_DTYPE_IQ3_XXS, LN_DTYPE_IQ3_S,  LN_DTYPE_Q1_0,    LN_DTYPE_Q2_0,
        LN_DTYPE_NVFP4};
    float *x = noise_rows(ROWS * IN), *want = noise_rows(ROWS * OUT), *got = noise_rows(ROWS * OUT);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        matrix up = make_matrix(types[i], OUT, IN), gate = make_matrix(types[i], OUT, IN);
        double row_norm = 0;
        gate_in_double(&up, &gate, ROWS, x, want);
        for (size_t j = 0; j < ROWS * OUT; j++)
            row_norm += pow(want[j], 2) / ROWS;
        for (size_t set = 0; set < N_SETS; set++) {
            void *memory[2];
            ln_backend *backend = make_backend(sets[set], 1, false);
            if (backend == NULL)
                continue;
            ln_weight weights[2] = {prepare(backend, &up, &memory[0]),
                                    prepare(backend, &gate, &memory[1])};
            for (size_t n_rows = 1; n_rows <= ROWS; n_rows += ROWS - 1) {
                ln_op op = linear_op(&weights[0], &weights[1], n_rows, x, got);
                double difference = 0;
                run(backend, &op);
                for (size_t j = 0; j < n_rows * OUT; j++)
                    difference += pow((double)got[j] - (double)want[j], 2);
                double error = sqrt(difference / ((double)n_rows * row_norm));
                if (!(error < 2e-2))
                    fail_msg("%s %s, %zu rows: error %g", sets[set], ln_dtype_name(types[i]),
                             n_rows, error);
            }
            free(memory[0]), free(memory[1]);
            backend->vtable->destroy(backend);
        }
        free_matrix(&up), free_matrix(&gate);
    }
    free(x), free(want), free(got);
}

/* A few rows take many panels of one matrix before those of the other, more rows do not: the bits
 * are those of all rows together. */
static void gates_take_many_panels(void **state) {
    (void)state;
    enum { ROWS = 6, OUT = 597, IN = 256 };
    static const ln_dtype types[] = {LN_DTYPE_F32, LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_Q4_K,
                                     LN_DTYPE_F8_G32};
    float *x = noise_rows(ROWS * IN), *all = noise_rows(ROWS * OUT), *few = noise_rows(ROWS * OUT);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        matrix up = make_matrix(types[i], OUT, IN), gate = make_matrix(types[i], OUT, IN);
        for (size_t set = 0; set < N_SETS; set++) {
            void *memory[2];
            ln_backend *backend = make_backend(sets[set], 1 + set % 2, false);
            if (backend == NULL)
                continue;
            ln_weight weights[2] = {prepare(backend, &up, &memory[0]),
                                    prepare(backend, &gate, &memory[1])};
            ln_op op = linear_op(&weights[0], &weights[1], ROWS, x, all);
            run(backend, &op);
            for (size_t n = 1; n <= 4; n++) {
                op = linear_op(&weights[0], &weights[1], n, x + (ROWS - n) * IN, few);
                run(backend, &op);
                assert_memory_equal(few, all + (ROWS - n) * OUT, n * OUT * sizeof *few);
            }
            free(memory[0]), free(memory[1]);
            backend->vtable->destroy(backend);
        }
        free_matrix(&up), free_matrix(&gate);
    }
    free(x), free(all), free(few);
}

/* The rows of an embedding are those of the file, whatever layout the backend gave it. */
static void embed_reads_the_prepared_layout(void **state) {
    (void)state;
    static const ln_dtype types[] = {
        LN_DTYPE_F16,     LN_DTYPE_BF16,   LN_DTYPE_Q4_0,    LN_DTYPE_Q8_0,   LN_DTYPE_Q4_K,
        LN_DTYPE_Q6_K,    LN_DTYPE_Q5_0,   LN_DTYPE_Q5_K,    LN_DTYPE_Q3_K,   LN_DTYPE_IQ4_NL,
        LN_DTYPE_Q4_1,    LN_DTYPE_Q5_1,   LN_DTYPE_Q2_K,    LN_DTYPE_IQ4_XS, LN_DTYPE_I8_G32,
        LN_DTYPE_I4_G32,  LN_DTYPE_F8_G32, LN_DTYPE_MXFP4,   LN_DTYPE_TQ1_0,  LN_DTYPE_TQ2_0,
        LN_DTYPE_IQ1_S,   LN_DTYPE_IQ1_M,  LN_DTYPE_IQ2_XXS, LN_DTYPE_IQ2_XS, LN_DTYPE_IQ2_S,
        LN_DTYPE_IQ3_XXS, LN_DTYPE_IQ3_S,  LN_DTYPE_Q1_0,    LN_DTYPE_Q2_0,   LN_DTYPE_NVFP4};
    enum { VOCAB = 35, DIM = 512 };
    int32_t tokens[] = {0, 15, 16, 34, 31};
    ln_batch batch = {.n_tokens = 5, .tokens = tokens};
    for (size_t set = 0; set < N_SETS; set++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            ln_backend *backend = make_backend(sets[set], 2, false);
            if (backend == NULL)
                continue;
            matrix table = make_matrix(types[i], VOCAB, DIM);
            float *out = noise_rows(5 * DIM);
            void *memory;
            ln_weight weight = prepare(backend, &table, &memory);
            ln_op op = {.kind = LN_OP_EMBED,
                        .batch = &batch,
                        .embed = {.table = &weight, .scale = 1.0f, .out = out}};
            run(backend, &op);
            for (size_t row = 0; row < 5; row++)
                assert_memory_equal(out + row * DIM, table.values + (size_t)tokens[row] * DIM,
                                    DIM * sizeof *out);
            free(out), free(memory);
            free_matrix(&table);
            backend->vtable->destroy(backend);
        }
}

/* ---- norm, q/k/v and attention -------------------------------------------------------------- */

static void assert_rows_near(const char *isa, const float *got, const float *want, size_t n,
                             double most) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += pow((double)got[i] - (double)want[i], 2);
        norm += pow(want[i], 2);
    }
    if (!(sqrt(difference) <= most * sqrt(norm)))
        fail_msg("%s: error %g", isa, sqrt(difference / norm));
}

static void norms_are_those_of_scalar(void **state) {
    (void)state;
    enum { ROWS = 5, DIM = 83 };
    float *x = noise_rows(ROWS * DIM), *w = noise_rows(DIM), *b = noise_rows(DIM);
    float *residual = noise_rows(ROWS * DIM);
    float *want = noise_rows(ROWS * DIM), *got = noise_rows(ROWS * DIM);
    for (size_t set = 1; set < N_SETS; set++)
        for (int kind = LN_NORM_RMS; kind <= LN_NORM_NONE; kind++) {
            ln_norm norm = {.kind = (ln_norm_kind)kind, .eps = 1e-5f, .dim = DIM, .weight = w};
            norm.bias = kind == LN_NORM_LAYER ? b : NULL;
            norm.weight = kind == LN_NORM_NONE ? NULL : w;
            ln_op op = {.kind = LN_OP_NORM,
                        .norm = {.norm = &norm,
                                 .n_rows = ROWS,
                                 .x = x,
                                 .residual = kind % 2 == 0 ? residual : NULL,
                                 .scale = 0.7f}};
            ln_backend *oracle = make_backend("scalar", 1, true);
            ln_backend *backend = make_backend(sets[set], 3, true);
            op.norm.out = want;
            run(oracle, &op);
            oracle->vtable->destroy(oracle);
            if (backend == NULL)
                continue;
            op.norm.out = got;
            run(backend, &op);
            assert_rows_near(sets[set], got, want, ROWS * DIM, 1e-6);
            backend->vtable->destroy(backend);
        }
    free(x), free(w), free(b), free(residual), free(want), free(got);
}

/* A step of one layer: q, k and v of two sequences are finished and cached, then attend. */
/* The first sequence, two thirds, has two slices or more. */
enum { N_TOKENS = IS_SLOW ? 400 : 600 };
enum { KV_HEADS = 2, BLOCK = 16, MAX_BLOCKS = 40 };

typedef struct attention_case {
    ln_kv_dtype dtype;
    size_t n_heads, k_dim, v_dim, window;
    float softcap;
    bool alibi, sinks, relative, sees_all, rotates;
    bool latent; /* values are the beginning of the keys */
} attention_case;

typedef struct attention_data {
    float *q, *k, *v, *slopes, *sinks, *table, *inv_freq;
    int32_t positions[N_TOKENS], tables[2 * MAX_BLOCKS];
} attention_data;

/* QKV and attention of the batch, whose first token is number `token`. */
static void record_attention(const attention_case *c, const attention_data *data,
                             const ln_batch *batch, size_t token, const ln_rope *rope,
                             const ln_kv_layer *kv, float *q, float *k, float *out, ln_op *ops) {
    const ln_op both[2] = {{.kind = LN_OP_QKV,
                            .batch = batch,
                            .qkv = {.q = q,
                                    .k = k,
                                    .v = data->v + token * KV_HEADS * c->v_dim,
                                    .n_heads = c->n_heads,
                                    .rope = c->rotates ? rope : NULL,
                                    .kv = kv}},
                           {.kind = LN_OP_ATTENTION,
                            .batch = batch,
                            .attention = {.q = q,
                                          .kv = kv,
                                          .n_heads = c->n_heads,
                                          .scale = 0.3f,
                                          .softcap = c->softcap,
                                          .window = c->window,
                                          .alibi_slopes = c->alibi ? data->slopes : NULL,
                                          .sinks = c->sinks ? data->sinks : NULL,
                                          .sees_all = c->sees_all,
                                          .out = out + token * c->n_heads * c->v_dim}}};
    memcpy(ops, both, sizeof both);
    if (c->relative)
        ops[1].attention.relative = (ln_relative_bias){data->table, 16, 64, c->sees_all};
}

/* Sequence 0 has two thirds of the tokens. out [N_TOKENS][n_heads * v_dim]; the prompts come in
 * chunks of `chunk` tokens. */
static void run_attention(const char *isa, size_t n_threads, bool exact, const attention_case *c,
                          const attention_data *data, size_t chunk, float *out) {
    ln_backend *backend = make_backend(isa, n_threads, exact);
    size_t n_slots = 2 * MAX_BLOCKS * BLOCK, split = N_TOKENS * 2 / 3;
    ln_rope rope = {.style = LN_ROPE_HALF, .n_dims = c->k_dim / 4 * 2, .magnitude = 1.0f};
    rope.inv_freq = data->inv_freq;
    ln_kv_layer kv = {.dtype = c->dtype, .block_tokens = BLOCK, .n_heads = KV_HEADS};
    kv.k_dim = c->k_dim;
    kv.v_dim = c->v_dim;
    kv.v_stride = c->latent ? c->k_dim : c->v_dim;
    kv.k = calloc(n_slots * KV_HEADS, c->k_dim * sizeof(float));
    kv.v = c->latent ? kv.k : calloc(n_slots * KV_HEADS, c->v_dim * sizeof(float));
    float *q = malloc(N_TOKENS * c->n_heads * c->k_dim * sizeof *q);
    float *k = malloc(N_TOKENS * KV_HEADS * c->k_dim * sizeof *k);
    for (size_t seq = 0; seq < 2; seq++) {
        size_t first = seq == 0 ? 0 : split, last = seq == 0 ? split : N_TOKENS;
        for (size_t token = first; token < last; token += chunk) {
            size_t n = last - token < chunk ? last - token : chunk;
            int32_t starts[2] = {0, (int32_t)n}, slots[N_TOKENS];
            int32_t length = (int32_t)(token - first + n);
            const int32_t *blocks = data->tables + seq * MAX_BLOCKS;
            for (size_t i = 0; i < n; i++) {
                size_t position = token - first + i;
                slots[i] = blocks[position / BLOCK] * BLOCK + (int32_t)(position % BLOCK);
            }
            ln_batch batch = {.n_tokens = n, .n_seqs = 1, .n_groups = 1, .seq_starts = starts};
            batch.positions = data->positions + token;
            batch.groups[0] = (ln_batch_group){blocks, MAX_BLOCKS, &length, slots};
            memcpy(q, data->q + token * c->n_heads * c->k_dim,
                   n * c->n_heads * c->k_dim * sizeof *q);
            memcpy(k, data->k + token * KV_HEADS * c->k_dim, n * KV_HEADS * c->k_dim * sizeof *k);
            ln_op ops[2];
            record_attention(c, data, &batch, token, &rope, &kv, q, k, out, ops);
            assert_int_equal(backend->vtable->run(backend, ops, 2, NULL), LINNET_OK);
        }
    }
    if (!c->latent)
        free(kv.v);
    free(kv.k), free(q), free(k);
    backend->vtable->destroy(backend);
}

/* The set against `want`, and the same bits for other chunks and numbers of threads. */
static void check_attention_of(const char *isa, bool exact, const attention_case *c,
                               const attention_data *data, const float *want) {
    static const size_t chunks[] = {1, 37, N_TOKENS};
    size_t n = N_TOKENS * c->n_heads * c->v_dim;
    float *whole = noise_rows(n), *parts = noise_rows(n);
    run_attention(isa, 1, exact, c, data, N_TOKENS, whole);
    assert_rows_near(isa, whole, want, n, exact || c->dtype == LN_KV_F32 ? 2e-6 : 4e-3);
    for (size_t i = IS_EMULATED ? 1 : 0; i < (IS_EMULATED ? 2 : 3) && !c->sees_all; i++) {
        run_attention(isa, 2 + (i + 1) % 3, exact, c, data, chunks[i], parts);
        assert_memory_equal(parts, whole, n * sizeof *parts);
    }
    free(whole), free(parts);
}

static attention_data make_data(const attention_case *c) {
    attention_data data = {.q = noise_rows(N_TOKENS * c->n_heads * c->k_dim),
                           .k = noise_rows(N_TOKENS * KV_HEADS * c->k_dim),
                           .v = noise_rows(N_TOKENS * KV_HEADS * c->v_dim),
                           .slopes = noise_rows(c->n_heads),
                           .sinks = noise_rows(c->n_heads),
                           .table = noise_rows(16 * c->n_heads),
                           .inv_freq = noise_rows(c->k_dim)};
    for (size_t i = 0; i < N_TOKENS * KV_HEADS * c->v_dim && c->latent; i++)
        data.v[i] = data.k[i / c->v_dim * c->k_dim + i % c->v_dim];
    for (size_t i = 0; i < c->n_heads; i++)
        data.slopes[i] = 0.05f * fabsf(data.slopes[i]);
    for (size_t i = 0; i < N_TOKENS; i++)
        data.positions[i] = (int32_t)(i < N_TOKENS * 2 / 3 ? i : i - N_TOKENS * 2 / 3);
    for (int32_t i = 0; i < 2 * MAX_BLOCKS; i++)
        data.tables[i] = i * 37 % (2 * MAX_BLOCKS);
    return data;
}

static void free_data(attention_data *data) {
    free(data->q), free(data->k), free(data->v), free(data->slopes), free(data->sinks);
    free(data->table), free(data->inv_freq);
}

static bool has_set(const char *isa) {
    ln_backend *backend = make_backend(isa, 1, true);
    if (backend != NULL)
        backend->vtable->destroy(backend);
    return backend != NULL;
}

/* No instruction of its own tells a set's attention from another's for the same vectors: in the
 * emulator a case is for one of the three. */
static void check_attention(const attention_case *c, size_t number) {
    attention_data data = make_data(c);
    float *want = noise_rows(N_TOKENS * c->n_heads * c->v_dim);
    run_attention("scalar", 2, true, c, &data, N_TOKENS, want);
    for (size_t set = 1; set < N_SETS; set++) {
        if (!has_set(sets[set]) || (IS_EMULATED && set % 3 != number % 3))
            continue;
        check_attention_of(sets[set], true, c, &data, want);
        if (!IS_EMULATED)
            check_attention_of(sets[set], false, c, &data, want);
    }
    free_data(&data);
    free(want);
}

static void attention_is_that_of_scalar(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {LN_KV_F16, 8, 64, 64, 0, 0, .rotates = true},
        {LN_KV_F32, 6, 12, 20, 17, 0, .rotates = true},
        {LN_KV_BF16, 2, 40, 33, 290, 2.0f, .sinks = true},
        {LN_KV_F16, 4, 16, 80, 0, 0, .alibi = true},
        {LN_KV_F32, 4, 16, 16, 0, 0, .relative = true, .sees_all = true},
        {LN_KV_F16, 80, 8, 8, 100, 1.5f, .alibi = true, .sinks = true, .relative = true},
        {LN_KV_Q8_0, 8, 64, 64, 0, 0, .rotates = true},
        {LN_KV_Q8_0, 6, 13, 37, 19, 0, .sinks = true},
        {LN_KV_FP8, 8, 64, 64, 0, 0, .rotates = true},
        {LN_KV_FP8, 6, 13, 37, 19, 0, .sinks = true},
        {LN_KV_F16, 14, 128, 128, 0, 0, .rotates = true},
        {LN_KV_F16, 10, 77, 50, 0, 0, .latent = true},
        {LN_KV_BF16, 4, 36, 32, 0, 0, .latent = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i], i);
}

/* Rows that see a key which is no number are none either, whatever the cache's type; others are. */
static void a_key_that_is_no_number_stays_one(void **state) {
    (void)state;
    enum { POSITION = 100 };
    static const attention_case cases[] = {
        {LN_KV_F16, 4, 16, 80, 0, 0, .alibi = true},
        {LN_KV_Q8_0, 8, 64, 64, 0, 0, .rotates = true},
        {LN_KV_FP8, 8, 64, 64, 0, 0, .rotates = true},
        {LN_KV_FP8, 6, 13, 37, 0, 0, .sinks = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const attention_case *c = &cases[i];
        size_t width = c->n_heads * c->v_dim, n = N_TOKENS * width;
        attention_data data = make_data(c);
        float *out = noise_rows(n);
        data.k[POSITION * KV_HEADS * c->k_dim + 3] = NAN;
        for (size_t set = 0; set < 2 * N_SETS; set++) {
            if (!has_set(sets[set / 2]) || (IS_EMULATED && set % 4 != i))
                continue;
            run_attention(sets[set / 2], 2, set % 2 == 0, c, &data, 37, out);
            for (size_t at = 0; at < n; at++) {
                bool is_behind = at / width >= POSITION && at / width < N_TOKENS * 2 / 3;
                assert_int_equal(isnan(out[at]) != 0, is_behind && at % width < width / KV_HEADS);
            }
        }
        free_data(&data);
        free(out);
    }
}

/* Where the processor is known, no set is skipped. */
static void every_set_of_the_emulator_is_tested(void **state) {
    (void)state;
#if defined(TEST_EMULATED) && defined(__aarch64__)
    for (size_t set = 0; set < N_SETS; set++) {
        if (strncmp(sets[set], "neon", 4) != 0)
            continue;
        ln_backend *backend = make_backend(sets[set], 1, false);
        assert_non_null(backend);
        backend->vtable->destroy(backend);
    }
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_the_emulator_is_tested),
        cmocka_unit_test(linear_multiplies),
        cmocka_unit_test(largest_sums_fit),
        cmocka_unit_test(gates_mix_types),
        cmocka_unit_test(gates_of_one_type),
        cmocka_unit_test(gates_take_many_panels),
        cmocka_unit_test(embed_reads_the_prepared_layout),
        cmocka_unit_test(norms_are_those_of_scalar),
        cmocka_unit_test(attention_is_that_of_scalar),
        cmocka_unit_test(a_key_that_is_no_number_stays_one),
        cmocka_unit_test(chunks_give_the_bits_of_single_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
