/* Linears of one matrix, over every type that matrices come in. */
#include <stdlib.h>
#include <string.h>

#include "format/quants.h"
#include "ops/ops.h"

static const double most_of_bytes = 0.1; /* where x becomes bytes */

typedef struct linear_case {
    ln_dtype dtype, gate_dtype;
    size_t n_rows, n_in, n_out;
    bool has_gate, has_bias, has_residual, precise;
    bool in_place;       /* the result takes the residual's place */
    ln_dtype byte_dtype; /* unless F32, I8 or F8_E4M3 with one scale per row is the weights' type */
    ln_activation activation;
    float scale, softcap;
} linear_case;

typedef struct linear_data {
    matrix weight, gate;
    float *x, *bias, *residual;
} linear_data;

/* Rows first .. n_rows of the case; malloc'd [n_rows - first][n_out]. */
static float *run_linear(side *s, const linear_case *c, const linear_data *d, size_t first) {
    size_t n = c->n_rows - first;
    ln_weight weight = put_weight(s, &d->weight, c->has_bias ? d->bias : NULL), gate = {0};
    if (c->has_gate)
        gate = put_weight(s, &d->gate, c->has_bias ? d->bias + c->n_out : NULL);
    float *residual = c->has_residual ? put(s, d->residual + first * c->n_out, n * c->n_out) : NULL;
    float *out = c->in_place ? residual : put(s, NULL, n * c->n_out);
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = &weight,
                           .gate = c->has_gate ? &gate : NULL,
                           .activation = c->activation,
                           .n_rows = n,
                           .x = put(s, d->x + first * c->n_in, n * c->n_in),
                           .residual = residual,
                           .scale = c->scale,
                           .softcap = c->softcap,
                           .precise = c->precise,
                           .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, n * c->n_out);
    free_placed(s);
    return result;
}

/* Rounds rows of x to E4M3, so that a backend whose x are such numbers errs by its sums alone. */
static void round_to_f8(float *x, size_t n_rows, size_t n_cols) {
    ln_tensor tensor = {.dtype = LN_DTYPE_F32, .data = (const uint8_t *)x};
    ln_packed packed = ln_packed_on_load(&tensor, n_rows, n_cols, LN_DTYPE_F8_G32);
    size_t bytes;
    assert_true(ln_dtype_row_bytes(LN_DTYPE_F8_G32, n_cols, &bytes));
    uint8_t *row = malloc(bytes);
    assert_non_null(row);
    for (size_t i = 0; i < n_rows; i++) {
        ln_packed_row(&packed, i, row);
        ln_dequantize_row(LN_DTYPE_F8_G32, row, x + i * n_cols, n_cols);
    }
    free(row);
}

enum { TINY_ROWS = 5 }; /* every so many rows of x are tiny, every second of these zero */

/* Makes elements of the residual, and the products of rows of x, subnormal or zero. */
static void make_tiny(const linear_case *c, linear_data *d) {
    for (size_t i = 0; i < c->n_rows * c->n_out; i += 7)
        d->residual[i] *= i % 2 ? 0.0f : 1e-39f;
    for (size_t i = 1; i < c->n_rows; i += TINY_ROWS)
        for (size_t j = 0; j < c->n_in; j++)
            d->x[i * c->n_in + j] *= i % 2 ? 0.0f : 1e-36f;
}

/* Products of zero leave the residual as it is, subnormal elements too. */
static void assert_kept(const linear_case *c, const linear_data *d, const float *got) {
    for (size_t i = 1; i < c->n_rows && !c->has_bias; i += 2 * TINY_ROWS)
        for (size_t j = i * c->n_out; j < (i + 1) * c->n_out; j++)
            assert_true(got[j] == d->residual[j]);
}

static void check_linear(const linear_case *c) {
    if (!ops_takes_case())
        return;
    linear_data d = {.weight = make_case_matrix(c->dtype, c->byte_dtype, c->n_out, c->n_in),
                     .gate = make_case_matrix(c->gate_dtype, c->byte_dtype, c->n_out, c->n_in),
                     .x = noise_rows(c->n_rows * c->n_in),
                     .bias = noise_rows(2 * c->n_out),
                     .residual = noise_rows(c->n_rows * c->n_out)};
    if (c->in_place)
        make_tiny(c, &d);
    if (c->byte_dtype == LN_DTYPE_F8_E4M3)
        round_to_f8(d.x, c->n_rows, c->n_in);
    float *want = run_linear(&oracle, c, &d, 0), *got = run_linear(&subject, c, &d, 0);
    assert_near(ln_dtype_name(c->dtype), got, want, c->n_rows * c->n_out, LINEAR_ERROR);
    if (c->in_place)
        assert_kept(c, &d, got);
    static const size_t counts[] = {1, 2, 5, 9, 64, 120, 149};
    bool spares = ops_rows_vary || (ops_is_brief && c->n_rows > 150);
    size_t n_counts = spares ? 0 : sizeof counts / sizeof *counts;
    for (size_t i = 0; i < n_counts && counts[i] < c->n_rows; i++) {
        float *some = run_linear(&subject, c, &d, c->n_rows - counts[i]);
        assert_memory_equal(some, got + (c->n_rows - counts[i]) * c->n_out,
                            counts[i] * c->n_out * sizeof *got);
        free(some);
    }
    free_matrix(&d.weight), free_matrix(&d.gate);
    free(d.x), free(d.bias), free(d.residual), free(want), free(got);
}

static void linear_multiplies_every_type(void **state) {
    (void)state;
    for (int dtype = 0; dtype < LN_DTYPE_COUNT; dtype++) {
        if (!ln_can_dequantize((ln_dtype)dtype))
            continue;
        linear_case c = {.dtype = (ln_dtype)dtype,
                         .gate_dtype = dtype % 2 ? (ln_dtype)dtype : LN_DTYPE_F16,
                         .n_rows = 11,
                         .n_out = 29,
                         .n_in = columns_of((ln_dtype)dtype, 77),
                         .scale = 1.0f};
        check_linear(&c);
        c.n_rows = 35;
        c.n_in = columns_of((ln_dtype)dtype, 1000);
        c.n_out = 65;
        c.has_gate = c.has_bias = c.has_residual = true;
        c.activation = LN_ACT_SILU;
        c.scale = 0.5f;
        check_linear(&c);
    }
}

static void linear_ends_with_every_activation(void **state) {
    (void)state;
    for (int activation = LN_ACT_NONE; activation <= LN_ACT_SWIGLU_CLAMPED; activation++)
        for (int has_gate = activation == LN_ACT_SWIGLU_CLAMPED; has_gate < 2; has_gate++) {
            linear_case c = {.dtype = LN_DTYPE_F32,
                             .n_rows = 3,
                             .n_out = 40,
                             .n_in = 333,
                             .activation = (ln_activation)activation,
                             .has_gate = has_gate,
                             .has_bias = true,
                             .has_residual = activation % 2,
                             .scale = 0.7f,
                             .softcap = activation % 2 ? 0.0f : 3.0f};
            check_linear(&c);
        }
}

/* Large enough for every kernel that a backend may have for many rows. */
static void linear_multiplies_large_shapes(void **state) {
    (void)state;
    static const ln_dtype types[] = {LN_DTYPE_F32,   LN_DTYPE_BF16,  LN_DTYPE_Q4_K, LN_DTYPE_Q8_0,
                                     LN_DTYPE_Q4_0,  LN_DTYPE_Q5_K,  LN_DTYPE_Q6_K, LN_DTYPE_F8_G32,
                                     LN_DTYPE_MXFP4, LN_DTYPE_I8_G32};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++)
        check_linear(&(linear_case){.dtype = types[i / 2],
                                    .n_rows = 150,
                                    .n_out = 200,
                                    .n_in = ops_gpu_size(2048),
                                    .has_gate = i % 2,
                                    .gate_dtype = types[i / 2],
                                    .activation = LN_ACT_GELU_TANH,
                                    .scale = 1.0f});
}

/* Rows of many columns, which no block's shared memory holds, and precise ones. */
static void linear_multiplies_long_rows(void **state) {
    (void)state;
    for (int precise = 0; precise < 2; precise++)
        check_linear(&(linear_case){.dtype = LN_DTYPE_BF16,
                                    .n_rows = 40,
                                    .n_out = 330,
                                    .n_in = ops_gpu_size(12800),
                                    .has_bias = true,
                                    .has_residual = true,
                                    .precise = precise,
                                    .scale = 1.0f});
    for (int has_gate = 0; has_gate < 2; has_gate++)
        check_linear(&(linear_case){.dtype = LN_DTYPE_Q4_K,
                                    .gate_dtype = LN_DTYPE_Q4_K,
                                    .byte_dtype = has_gate ? LN_DTYPE_I8 : LN_DTYPE_F32,
                                    .n_rows = 40,
                                    .n_out = 72,
                                    .n_in = has_gate ? 4128 : 4352,
                                    .has_gate = has_gate,
                                    .has_residual = !has_gate,
                                    .activation = has_gate ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 1.0f});
    for (int has_gate = 0; has_gate < 2; has_gate++)
        check_linear(&(linear_case){.byte_dtype = LN_DTYPE_F8_E4M3,
                                    .n_rows = 20,
                                    .n_out = 40,
                                    .n_in = ops_gpu_size(has_gate ? 28672 : 14336),
                                    .has_gate = has_gate,
                                    .activation = has_gate ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 1.0f});
}

/* So many columns that what is divided among a GPU's multiprocessors is many pieces for each. */
static void linear_multiplies_many_columns(void **state) {
    (void)state;
    static const ln_dtype types[] = {LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_Q4_0, LN_DTYPE_Q6_K,
                                     LN_DTYPE_F8_G32};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++)
        check_linear(&(linear_case){.dtype = types[i / 2],
                                    .n_rows = i % 2 ? 20 : 40,
                                    .n_out = ops_gpu_size(i % 2 ? 5000 : 9000),
                                    .n_in = columns_of(types[i / 2], 320),
                                    .has_gate = i % 2,
                                    .gate_dtype = types[i / 2],
                                    .activation = i % 2 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 1.0f});
}

/* Of bf16 without a gate also with a bias and no residual, whose results a GPU stores by TMA. */
static void check_with_bias(linear_case c) {
    check_linear(&c);
    c.has_residual = false, c.has_bias = true;
    if (c.dtype == LN_DTYPE_BF16 && !c.has_gate)
        check_linear(&c);
}

/* So many rows and columns that a GPU takes 176, 192 and 208 rows at a time; with a residual, or
 * without. */
static void linear_multiplies_many_tiles(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{700, 4096}, {380, 6144}, {410, 6144}};
    for (size_t i = 0; i < 6 * sizeof sizes / sizeof *sizes; i++) {
        bool has_gate = i % 2, is_f8 = i / 2 % 3 == 2;
        ln_dtype dtype = i / 2 % 3 == 0 ? LN_DTYPE_BF16 : LN_DTYPE_Q4_K;
        linear_case c = {.dtype = dtype,
                         .gate_dtype = dtype,
                         .byte_dtype = is_f8 ? LN_DTYPE_F8_E4M3 : LN_DTYPE_F32,
                         .n_rows = sizes[i / 6][0],
                         .n_out = ops_gpu_size(sizes[i / 6][1] / (has_gate ? 2 : 1)),
                         .n_in = columns_of(dtype, 333),
                         .has_gate = has_gate,
                         .has_residual = !has_gate,
                         .activation = has_gate ? LN_ACT_SILU : LN_ACT_NONE,
                         .scale = 1.0f};
        check_with_bias(c);
    }
}

/* So many rows that a GPU takes their output tiles band after band, the last of which is shorter.
 */
static void linear_multiplies_bands_of_tiles(void **state) {
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        bool has_gate = i % 2;
        ln_dtype dtype = i / 2 == 1 ? LN_DTYPE_Q4_K : LN_DTYPE_BF16;
        ln_dtype byte_dtype = i / 2 == 2   ? LN_DTYPE_F8_E4M3
                              : i / 2 == 3 ? LN_DTYPE_I8
                                           : LN_DTYPE_F32;
        linear_case c = {.dtype = dtype,
                         .gate_dtype = dtype,
                         .byte_dtype = byte_dtype,
                         .n_rows = ops_gpu_size(2400) + 37 * i,
                         .n_out = has_gate ? 150 : 420,
                         .n_in = byte_dtype != LN_DTYPE_F32 ? 96 : columns_of(dtype, 77),
                         .has_gate = has_gate,
                         .has_residual = !has_gate,
                         .activation = has_gate ? LN_ACT_SILU : LN_ACT_NONE,
                         .scale = 1.0f};
        check_with_bias(c);
    }
}

/* Results that are added to the residual where it lies, which a GPU does by TMA for bf16: output
 * tiles of 128 columns by 128, 176, 192 and 208 rows, and of 64 columns. Subnormal numbers must not
 * become zeros. */
static void linear_adds_to_its_residual(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{260, 420},  {700, 4096}, {380, 6144},
                                      {410, 6144}, {250, 4000}, {2437, 150}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++)
        check_linear(&(linear_case){.dtype = i % 2 ? LN_DTYPE_Q4_K : LN_DTYPE_BF16,
                                    .n_rows = sizes[i / 2][0],
                                    .n_out = ops_gpu_size(sizes[i / 2][1]),
                                    .n_in = columns_of(i % 2 ? LN_DTYPE_Q4_K : LN_DTYPE_BF16, 333),
                                    .has_bias = i / 2 % 2,
                                    .has_residual = true,
                                    .in_place = true,
                                    .scale = i / 2 % 3 ? 1.0f : 0.5f});
}

/* So few tiles of results, of so many columns, that blocks of a GPU share each: four of them tiles
 * of 64, 128 or 192 rows (the first, second, third and last sizes), two the fourth's; of int8, two
 * from the third on. Of 64 rows and less those of E4M3 alone are shared. The last slice of the
 * columns is shorter than others. */
static void linear_multiplies_shared_tiles(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{77, 300}, {180, 130}, {180, 2200}, {77, 4300}, {30, 270}};
    static const ln_dtype types[] = {LN_DTYPE_BF16, LN_DTYPE_BF16, LN_DTYPE_Q4_K,
                                     LN_DTYPE_F32,  LN_DTYPE_Q8_0, LN_DTYPE_Q4_0};
    enum { N_TYPES = sizeof types / sizeof *types };
    for (size_t i = 0; i < N_TYPES * sizeof sizes / sizeof *sizes; i++) {
        size_t type = i % N_TYPES;
        check_linear(&(linear_case){.dtype = types[type],
                                    .byte_dtype = type == 3 ? LN_DTYPE_F8_E4M3 : LN_DTYPE_F32,
                                    .n_rows = sizes[i / N_TYPES][0],
                                    .n_out = ops_gpu_size(sizes[i / N_TYPES][1]),
                                    .n_in = types[type] == LN_DTYPE_BF16 ? 3800 : 3840,
                                    .precise = type == 1,
                                    .has_bias = i % 2,
                                    .has_residual = i / 2 % 2,
                                    .activation = i % 5 ? LN_ACT_NONE : LN_ACT_GELU_TANH,
                                    .scale = 0.5f});
    }
}

static void linear_multiplies_bytes_with_a_scale_per_row(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++)
        check_linear(&(linear_case){.byte_dtype = i < 8 ? LN_DTYPE_I8 : LN_DTYPE_F8_E4M3,
                                    .n_rows = i % 8 < 4 ? 35 : 300,
                                    .n_in = i % 8 < 4 ? 32 + 160 * (size_t)(i % 8) : 608,
                                    .n_out = i % 2 ? 77 : 260,
                                    .has_gate = i % 2,
                                    .has_bias = i / 2 % 2,
                                    .has_residual = i / 2 % 2,
                                    .activation = i % 2 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 1.0f});
}

/* So few columns that a GPU's blocks take 64 of them at a time, then more. */
static void linear_multiplies_narrow_tiles(void **state) {
    (void)state;
    static const ln_dtype types[] = {LN_DTYPE_BF16, LN_DTYPE_Q4_K, LN_DTYPE_F32};
    for (size_t i = 0; i < 12; i++) {
        ln_dtype dtype = types[i % 3];
        check_linear(&(linear_case){.dtype = dtype,
                                    .byte_dtype = i % 3 == 2 ? LN_DTYPE_I8 : LN_DTYPE_F32,
                                    .n_rows = 250,
                                    .n_in = i % 3 == 2 ? 992 : 512,
                                    .n_out = ops_gpu_size(i / 3 % 2 ? 9000 : 4000),
                                    .has_bias = i / 6,
                                    .has_residual = i / 6 == 0,
                                    .activation = i / 6 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 0.5f});
    }
}

/* The same of E4M3: three weight tiles of 128 columns in each K split, then one; the last is not
 * full. */
static void linear_multiplies_narrow_tiles_of_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < 4; i++)
        check_linear(&(linear_case){.byte_dtype = LN_DTYPE_F8_E4M3,
                                    .n_rows = 250,
                                    .n_in = i % 2 ? 992 : 3008,
                                    .n_out = ops_gpu_size(4000),
                                    .has_bias = i / 2,
                                    .has_residual = i / 2 == 0,
                                    .activation = i == 3 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 0.5f});
}

/* So many rows and columns that a GPU takes 256 rows at a time, then so few columns and so much of
 * K that blocks share such tiles. */
static void linear_multiplies_tall_tiles(void **state) {
    (void)state;
    for (size_t i = 0; i < 10; i++) {
        bool is_shared = i >= 8;
        size_t end = i / 2; /* in place, elsewhere, without a residual, an activation */
        check_linear(&(linear_case){.dtype = i % 2 ? LN_DTYPE_Q4_K : LN_DTYPE_BF16,
                                    .n_rows = is_shared ? 230 : ops_gpu_size(1990),
                                    .n_in = is_shared ? 7680
                                            : i % 2   ? 512
                                                      : 328,
                                    .n_out = ops_gpu_size(is_shared ? 2180 : 2040),
                                    .has_bias = end == 2,
                                    .has_residual = end < 2 || is_shared,
                                    .in_place = end == 0,
                                    .activation = end == 3 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 0.5f});
    }
}

/* So many rows that a GPU's blocks share their activations in pairs, with a gate. */
static void linear_multiplies_tall_gates(void **state) {
    (void)state;
    static const struct {
        ln_dtype dtype, byte_dtype;
    } types[] = {{LN_DTYPE_BF16, LN_DTYPE_F32},
                 {LN_DTYPE_Q4_K, LN_DTYPE_F32},
                 {LN_DTYPE_BF16, LN_DTYPE_F8_E4M3},
                 {LN_DTYPE_BF16, LN_DTYPE_I8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_linear(&(linear_case){.dtype = types[i].dtype,
                                    .gate_dtype = types[i].dtype,
                                    .byte_dtype = types[i].byte_dtype,
                                    .n_rows = ops_gpu_size(1990),
                                    .n_in = 512,
                                    .n_out = 508,
                                    .has_gate = true,
                                    .activation = LN_ACT_SILU,
                                    .scale = 0.5f});
}

/* As prompts meet them, with all that may come behind the sums. */
static void linear_multiplies_long_prompts(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++)
        check_linear(&(linear_case){.dtype = i / 8 ? LN_DTYPE_F16 : LN_DTYPE_BF16,
                                    .gate_dtype = LN_DTYPE_BF16,
                                    .n_rows = i == 15 ? 1000 : 256 + 13 * (size_t)i,
                                    .n_in = i % 4 == 3 ? 608 : 333,
                                    .n_out = i % 2 ? 136 : 192,
                                    .has_gate = i % 2,
                                    .has_bias = i / 2 % 2,
                                    .has_residual = i / 4 % 2,
                                    .precise = i % 8 == 4,
                                    .activation = i % 4 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = i % 3 ? 1.0f : 0.5f});
}

/* Results of 16 MiB and more leave past the caches of a CPU; those of their last rows alone do not.
 */
static void linear_writes_large_results(void **state) {
    (void)state;
    static const ln_dtype types[] = {LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_Q4_K};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_linear(&(linear_case){.dtype = types[i],
                                    .gate_dtype = types[i],
                                    .n_rows = 520,
                                    .n_in = types[i] == LN_DTYPE_Q4_K ? 256 : 64,
                                    .n_out = 8192,
                                    .has_gate = i == 1,
                                    .has_bias = i == 1,
                                    .activation = i == 1 ? LN_ACT_SILU : LN_ACT_NONE,
                                    .scale = 1.0f});
}

/* A gate and what it weighs, then another matrix; in one run, or `apart`. */
static float *run_gated(side *s, const matrix *m, size_t n_rows, const float *x, bool apart) {
    ln_weight up = put_weight(s, &m[0], NULL), gate = put_weight(s, &m[1], NULL);
    ln_weight down = put_weight(s, &m[2], NULL);
    float *inner = put(s, NULL, n_rows * up.n_rows), *stream = put(s, x, n_rows * up.n_cols);
    ln_op ops[] = {{.kind = LN_OP_LINEAR,
                    .linear = {.weight = &up,
                               .gate = &gate,
                               .activation = LN_ACT_SILU,
                               .n_rows = n_rows,
                               .x = stream,
                               .scale = 1.0f,
                               .out = inner}},
                   {.kind = LN_OP_LINEAR,
                    .linear = {.weight = &down,
                               .n_rows = n_rows,
                               .x = inner,
                               .residual = stream,
                               .scale = 0.5f,
                               .out = stream}}};
    run_ops(s, ops, apart ? 1 : 2);
    if (apart)
        run_ops(s, ops + 1, 1);
    float *result = get(s, stream, n_rows * up.n_cols);
    free_placed(s);
    return result;
}

static void linear_multiplies_what_a_gate_gave(void **state) {
    (void)state;
    enum { DIM = 192 };
    /* whole tiles of weights, or not, of 64, 128, 176, 208, 192 and 256 rows of x at a time */
    const size_t tall = ops_gpu_size(1990), wide = ops_gpu_size(3072);
    const size_t sizes[][2] = {
        {20, 264},   {20, 256},   {300, 264},   {300, 256},  {700, ops_gpu_size(2048)},
        {410, wide}, {380, wide}, {tall, 1024}, {tall, 1000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!ops_takes_case())
            continue;
        size_t n_rows = sizes[i][0], inner = sizes[i][1];
        matrix m[] = {make_matrix(LN_DTYPE_BF16, inner, DIM),
                      make_matrix(LN_DTYPE_BF16, inner, DIM),
                      make_matrix(LN_DTYPE_BF16, DIM, inner)};
        float *x = noise_rows(n_rows * DIM);
        float *want = run_gated(&oracle, m, n_rows, x, false);
        float *got = run_gated(&subject, m, n_rows, x, false);
        float *apart = run_gated(&subject, m, n_rows, x, true);
        assert_near("gate", got, want, n_rows * DIM, LINEAR_ERROR);
        assert_memory_equal(apart, got, n_rows * DIM * sizeof *got);
        for (size_t j = 0; j < 3; j++)
            free_matrix(&m[j]);
        free(x), free(want), free(got), free(apart);
    }
}

/* Two layers of a norm, a gate with what it weighs and another matrix, whose results take the place
 * of each other; in one run, or `apart`, where nothing is known of who reads them. reads_norm: the
 * first layer adds to the norm's result. */
static float *run_layers(side *s, const matrix *m, size_t n_rows, const float *x, bool reads_norm,
                         bool apart) {
    enum { N_OPS = 6 };
    ln_weight up = put_weight(s, &m[0], NULL), gate = put_weight(s, &m[1], NULL);
    ln_weight down = put_weight(s, &m[2], NULL);
    ln_norm norm = {.kind = LN_NORM_RMS, .eps = 1e-5f, .dim = up.n_cols};
    float *inner = put(s, NULL, n_rows * up.n_rows), *stream = put(s, x, n_rows * up.n_cols);
    float *normed = put(s, NULL, n_rows * up.n_cols);
    ln_op ops[N_OPS];
    for (size_t i = 0; i < N_OPS; i += 3) {
        ops[i] = (ln_op){.kind = LN_OP_NORM,
                         .norm = {.norm = &norm, .n_rows = n_rows, .x = stream, .out = normed}};
        ops[i + 1] = (ln_op){.kind = LN_OP_LINEAR,
                             .linear = {.weight = &up,
                                        .gate = &gate,
                                        .activation = LN_ACT_SILU,
                                        .n_rows = n_rows,
                                        .x = normed,
                                        .scale = 1.0f,
                                        .out = inner}};
        ops[i + 2] = (ln_op){.kind = LN_OP_LINEAR,
                             .linear = {.weight = &down,
                                        .n_rows = n_rows,
                                        .x = inner,
                                        .residual = reads_norm && i == 0 ? normed : stream,
                                        .scale = 0.5f,
                                        .out = stream}};
    }
    if (!apart)
        run_ops(s, ops, N_OPS);
    for (size_t i = 0; i < N_OPS && apart; i++)
        run_ops(s, &ops[i], 1);
    float *result = get(s, stream, n_rows * up.n_cols);
    free_placed(s);
    return result;
}

static void linear_multiplies_layer_after_layer(void **state) {
    (void)state;
    enum { INNER = 256, N_ROWS = 450 };
    /* a GPU has another kernel for norms of more than 1,024 columns */
    const size_t dim = subject.backend->vtable->on_device ? 1280 : 512;
    static const size_t fewer[] = {100, 64, 40, 21, 9, 7};
    for (size_t i = 0; i < 8; i++) {
        if (!ops_takes_case())
            continue;
        bool reads_norm = i % 2;
        ln_dtype dtype = i / 2 == 1 ? LN_DTYPE_Q4_K : LN_DTYPE_BF16;
        ln_dtype bytes = i / 2 == 2 ? LN_DTYPE_I8 : i / 2 == 3 ? LN_DTYPE_F8_E4M3 : LN_DTYPE_F32;
        matrix m[] = {make_case_matrix(dtype, bytes, INNER, dim),
                      make_case_matrix(dtype, bytes, INNER, dim),
                      make_case_matrix(dtype, bytes, dim, INNER)};
        float *x = noise_rows(N_ROWS * dim);
        float *want = run_layers(&oracle, m, N_ROWS, x, reads_norm, false);
        float *got = run_layers(&subject, m, N_ROWS, x, reads_norm, false);
        float *apart = run_layers(&subject, m, N_ROWS, x, reads_norm, true);
        assert_near("layers", got, want, N_ROWS * dim, i / 2 < 2 ? LINEAR_ERROR : most_of_bytes);
        assert_memory_equal(apart, got, N_ROWS * dim * sizeof *got);
        for (size_t j = 0; j < sizeof fewer / sizeof *fewer && !ops_rows_vary; j++) {
            float *few = run_layers(&subject, m, fewer[j], x, reads_norm, false);
            assert_memory_equal(few, got, fewer[j] * dim * sizeof *got);
            free(few);
        }
        for (size_t j = 0; j < 3; j++)
            free_matrix(&m[j]);
        free(x), free(want), free(got), free(apart);
    }
}

const struct CMUnitTest linear_tests[] = {
    cmocka_unit_test(linear_multiplies_every_type),
    cmocka_unit_test(linear_ends_with_every_activation),
    cmocka_unit_test(linear_multiplies_large_shapes),
    cmocka_unit_test(linear_multiplies_long_rows),
    cmocka_unit_test(linear_multiplies_many_columns),
    cmocka_unit_test(linear_multiplies_many_tiles),
    cmocka_unit_test(linear_multiplies_bands_of_tiles),
    cmocka_unit_test(linear_adds_to_its_residual),
    cmocka_unit_test(linear_multiplies_shared_tiles),
    cmocka_unit_test(linear_multiplies_bytes_with_a_scale_per_row),
    cmocka_unit_test(linear_multiplies_narrow_tiles),
    cmocka_unit_test(linear_multiplies_narrow_tiles_of_bytes),
    cmocka_unit_test(linear_multiplies_tall_tiles),
    cmocka_unit_test(linear_multiplies_tall_gates),
    cmocka_unit_test(linear_multiplies_long_prompts),
    cmocka_unit_test(linear_writes_large_results),
    cmocka_unit_test(linear_multiplies_what_a_gate_gave),
    cmocka_unit_test(linear_multiplies_layer_after_layer),
};
const size_t n_linear_tests = sizeof linear_tests / sizeof *linear_tests;
