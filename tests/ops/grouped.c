/* Linears with a matrix for each group of rows: experts, and heads. */
#include <stdlib.h>

#include "format/quants.h"
#include "ops/ops.h"

enum { N_EXPERTS = 7, PER_TOKEN = 3, MAX_TOKENS = 130 };

typedef struct expert_case {
    ln_dtype dtypes[2];  /* of every other expert; the same unless scattered */
    ln_dtype byte_dtype; /* unless F32, as of linear_case */
    size_t n_tokens, n_in, n_out;
    bool has_gate, precise;
    size_t rows_per_x; /* PER_TOKEN or 1 */
    bool scattered;    /* weights lie anywhere */
    ln_activation activation;
} expert_case;

typedef struct expert_data {
    matrix up[N_EXPERTS], gate[N_EXPERTS];
    const float *bias[N_EXPERTS];
    float *x;
    int32_t expert_of[MAX_TOKENS * PER_TOKEN];
} expert_data;

static void place_experts(side *s, const expert_case *c, const matrix *m, const float *const *bias,
                          ln_weight *weights) {
    if (!c->scattered) {
        put_weights(s, m, bias, N_EXPERTS, weights);
        return;
    }
    for (size_t i = 0; i < N_EXPERTS; i++)
        weights[i] = put_weight(s, &m[i], bias != NULL ? bias[i] : NULL);
}

/* Tokens first .. n_tokens of the case; malloc'd. */
static float *run_experts(side *s, const expert_case *c, const expert_data *d, size_t first) {
    ln_weight up[N_EXPERTS], gate[N_EXPERTS];
    int32_t order[MAX_TOKENS * PER_TOKEN], starts[N_EXPERTS + 1], n = 0;
    size_t begin = first * PER_TOKEN, n_rows = c->n_tokens * PER_TOKEN - begin;
    for (int32_t e = 0; e < N_EXPERTS; e++) {
        starts[e] = n;
        for (size_t row = 0; row < n_rows; row++)
            if (d->expert_of[begin + row] == e)
                order[n++] = (int32_t)row;
    }
    starts[N_EXPERTS] = n;
    place_experts(s, c, d->up, d->bias, up);
    if (c->has_gate)
        place_experts(s, c, d->gate, NULL, gate);
    float *out = put(s, NULL, n_rows * c->n_out);
    size_t x_begin = begin / c->rows_per_x * c->n_in, n_x = n_rows / c->rows_per_x * c->n_in;
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = up,
                           .gate = c->has_gate ? gate : NULL,
                           .groups = {.n_groups = N_EXPERTS,
                                      .order = put_ids(s, order, n_rows),
                                      .starts = put_ids(s, starts, N_EXPERTS + 1)},
                           .activation = c->activation,
                           .n_rows = n_rows,
                           .rows_per_x = c->rows_per_x,
                           .x = put(s, d->x + x_begin, n_x),
                           .scale = 1.0f,
                           .precise = c->precise,
                           .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, n_rows * c->n_out);
    free_placed(s);
    return result;
}

/* The first expert has most rows, the second one row, the last none. */
static void choose_experts(int32_t *expert_of, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++)
        expert_of[i] = draw(2) == 0 ? 0 : 2 + (int32_t)draw(N_EXPERTS - 3);
    expert_of[draw(n_rows)] = 1;
}

static void check_experts(const expert_case *c) {
    if (!ops_takes_case())
        return;
    size_t n_rows = c->n_tokens * PER_TOKEN;
    expert_data d = {.x = noise_rows(n_rows / c->rows_per_x * c->n_in)};
    choose_experts(d.expert_of, n_rows);
    /* So that few gates are clamped: where they begin to be, a small error becomes a large one. */
    for (size_t i = 0;
         c->activation == LN_ACT_SWIGLU_CLAMPED && i < n_rows / c->rows_per_x * c->n_in; i++)
        d.x[i] *= 0.1f;
    for (size_t e = 0; e < N_EXPERTS; e++) {
        d.up[e] = make_case_matrix(c->dtypes[e % 2], c->byte_dtype, c->n_out, c->n_in);
        d.gate[e] = make_case_matrix(c->dtypes[0], c->byte_dtype, c->n_out, c->n_in);
        d.bias[e] = noise_rows(c->n_out);
    }
    float *want = run_experts(&oracle, c, &d, 0), *got = run_experts(&subject, c, &d, 0);
    assert_near("experts", got, want, n_rows * c->n_out, LINEAR_ERROR);
    static const size_t counts[] = {1, 2, 7, 20, 65};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] < c->n_tokens; i++) {
        size_t first = c->n_tokens - counts[i], n = counts[i] * PER_TOKEN * c->n_out;
        float *some = run_experts(&subject, c, &d, first);
        assert_memory_equal(some, got + first * PER_TOKEN * c->n_out, n * sizeof *got);
        free(some);
    }
    for (size_t e = 0; e < N_EXPERTS; e++) {
        free_matrix(&d.up[e]), free_matrix(&d.gate[e]);
        free((void *)(uintptr_t)d.bias[e]);
    }
    free(d.x), free(want), free(got);
}

static void linear_gives_rows_to_experts(void **state) {
    (void)state;
    for (int dtype = 0; dtype < LN_DTYPE_COUNT; dtype++) {
        if (!ln_can_dequantize((ln_dtype)dtype))
            continue;
        for (int has_gate = 0; has_gate < 2; has_gate++)
            check_experts(&(expert_case){.dtypes = {(ln_dtype)dtype, (ln_dtype)dtype},
                                         .n_tokens = has_gate ? 21 : 15,
                                         .n_in = columns_of((ln_dtype)dtype, has_gate ? 96 : 333),
                                         .n_out = has_gate ? 50 : 68,
                                         .has_gate = has_gate,
                                         .rows_per_x = has_gate ? PER_TOKEN : 1,
                                         .activation = has_gate ? LN_ACT_SILU : LN_ACT_NONE});
    }
}

/* Enough rows of one expert for every kernel that a backend may have for many. */
static void linear_gives_many_rows_to_experts(void **state) {
    (void)state;
    static const ln_dtype types[] = {LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_Q4_0,   LN_DTYPE_Q4_K,
                                     LN_DTYPE_Q5_K, LN_DTYPE_Q6_K, LN_DTYPE_F8_G32, LN_DTYPE_MXFP4};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++)
        check_experts(&(expert_case){.dtypes = {types[i / 2], types[i / 2]},
                                     .n_tokens = MAX_TOKENS,
                                     .n_in = i % 2 ? 512 : 768,
                                     .n_out = i % 2 ? 132 : 208,
                                     .has_gate = i % 2,
                                     .precise = i % 4 == 0,
                                     .rows_per_x = i % 2 ? PER_TOKEN : 1,
                                     .activation = i % 2 ? LN_ACT_SWIGLU_CLAMPED : LN_ACT_NONE});
    for (size_t i = 0; i < 4; i++)
        check_experts(&(expert_case){.byte_dtype = i / 2 ? LN_DTYPE_F8_E4M3 : LN_DTYPE_I8,
                                     .n_tokens = MAX_TOKENS,
                                     .n_in = 288,
                                     .n_out = 77,
                                     .has_gate = i % 2,
                                     .rows_per_x = i % 2 ? PER_TOKEN : 1,
                                     .activation = i % 2 ? LN_ACT_SILU : LN_ACT_NONE});
}

static void linear_gives_rows_to_scattered_experts(void **state) {
    (void)state;
    check_experts(&(expert_case){.dtypes = {LN_DTYPE_Q8_0, LN_DTYPE_Q4_0},
                                 .n_tokens = 15,
                                 .n_in = 96,
                                 .n_out = 50,
                                 .has_gate = true,
                                 .rows_per_x = PER_TOKEN,
                                 .scattered = true,
                                 .activation = LN_ACT_SILU});
}

/* One matrix per head, between strided rows. */
static float *run_heads(side *s, const matrix *m, size_t n_heads, size_t n_rows, size_t x_stride,
                        size_t out_stride, const float *x) {
    ln_weight weights[8];
    put_weights(s, m, NULL, n_heads, weights);
    float *out = put(s, NULL, n_rows * out_stride);
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = weights,
                           .groups = {.n_groups = n_heads},
                           .n_rows = n_rows,
                           .x_stride = x_stride,
                           .out_stride = out_stride,
                           .x = put(s, x, n_rows * x_stride),
                           .scale = 1.0f,
                           .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, n_rows * out_stride);
    free_placed(s);
    return result;
}

static void linear_has_a_matrix_per_head(void **state) {
    (void)state;
    enum { HEADS = 5, TOKENS = 13, HEAD_IN = 24, HEAD_OUT = 36, X_STRIDE = 31, OUT_STRIDE = 41 };
    matrix m[HEADS];
    for (size_t i = 0; i < HEADS; i++)
        m[i] = make_matrix(LN_DTYPE_F16, HEAD_OUT, HEAD_IN);
    float *x = noise_rows(HEADS * TOKENS * X_STRIDE);
    size_t n_rows = (size_t)HEADS * TOKENS;
    float *want = run_heads(&oracle, m, HEADS, n_rows, X_STRIDE, OUT_STRIDE, x);
    float *got = run_heads(&subject, m, HEADS, n_rows, X_STRIDE, OUT_STRIDE, x);
    assert_near("heads", got, want, n_rows * OUT_STRIDE, LINEAR_ERROR);
    float *one = run_heads(&subject, m, HEADS, HEADS, X_STRIDE, OUT_STRIDE, x);
    assert_memory_equal(one, got, HEADS * OUT_STRIDE * sizeof *one);
    for (size_t i = 0; i < HEADS; i++)
        free_matrix(&m[i]);
    free(x), free(want), free(got), free(one);
}

/* ---- mixtures -------------------------------------------------------------------------------- */

enum { MIX_MOST_EXPERTS = 24 };

typedef struct mixture_case {
    ln_dtype dtype, down_dtype; /* down_dtype 0: the same */
    size_t n_tokens, n_experts, n_used, dim, n_hidden;
    bool precise, has_bias, in_place; /* in_place: the sum replaces the residual */
    ln_activation activation;
} mixture_case;

typedef struct mixture {
    const mixture_case *c;
    matrix up[MIX_MOST_EXPERTS], gate[MIX_MOST_EXPERTS], down[MIX_MOST_EXPERTS];
    float *up_bias[MIX_MOST_EXPERTS], *gate_bias[MIX_MOST_EXPERTS], *down_bias[MIX_MOST_EXPERTS];
    float *x, *logits;
} mixture;

/* Bytes have row scales. */
static matrix make_expert(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    return dtype == LN_DTYPE_I8 ? make_case_matrix(dtype, dtype, n_rows, n_cols)
                                : make_matrix(dtype, n_rows, n_cols);
}

static mixture make_mixture(const mixture_case *c) {
    mixture m = {.c = c,
                 .x = noise_rows(c->n_tokens * c->dim),
                 .logits = noise_rows(c->n_tokens * c->n_experts)};
    ln_dtype down = c->down_dtype != 0 ? c->down_dtype : c->dtype;
    for (size_t e = 0; e < c->n_experts; e++) {
        m.up[e] = make_expert(c->dtype, c->n_hidden, c->dim);
        m.gate[e] = make_expert(c->dtype, c->n_hidden, c->dim);
        m.down[e] = make_expert(down, c->dim, c->n_hidden);
        if (!c->has_bias)
            continue;
        m.up_bias[e] = noise_rows(c->n_hidden);
        m.gate_bias[e] = noise_rows(c->n_hidden);
        m.down_bias[e] = noise_rows(c->dim);
    }
    return m;
}

static void free_mixture(mixture *m) {
    for (size_t e = 0; e < m->c->n_experts; e++) {
        free_matrix(&m->up[e]), free_matrix(&m->gate[e]), free_matrix(&m->down[e]);
        free(m->up_bias[e]), free(m->gate_bias[e]), free(m->down_bias[e]);
    }
    free(m->x), free(m->logits);
}

static void put_experts(side *s, const mixture *m, const matrix *of, float *const *bias,
                        ln_weight *weights) {
    put_weights(s, of, m->c->has_bias ? (const float *const *)bias : NULL, m->c->n_experts,
                weights);
}

/* The experts of n_rows rows of x, and what they give, behind their choice. */
static void record_mixture(side *s, const mixture *m, size_t first, const ln_batch *batch,
                           ln_weight (*weights)[MIX_MOST_EXPERTS], ln_op ops[5]) {
    const mixture_case *c = m->c;
    size_t n_tokens = batch->n_tokens, n_rows = n_tokens * c->n_used;
    int32_t *experts = put_ids(s, NULL, n_rows), *order = put_ids(s, NULL, n_rows);
    int32_t *starts = put_ids(s, NULL, c->n_experts + 1);
    float *hidden = put(s, NULL, n_rows * c->n_hidden), *out = put(s, NULL, n_rows * c->dim);
    float *x = put(s, m->x + first * c->dim, n_tokens * c->dim);
    float *residual = put(s, m->x + first * c->dim, n_tokens * c->dim);
    ln_row_groups groups = {c->n_experts, order, starts};
    static const ln_op_kind kinds[] = {LN_OP_ROUTE, LN_OP_GROUP, LN_OP_LINEAR, LN_OP_LINEAR,
                                       LN_OP_COMBINE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        ops[i] = (ln_op){.kind = kinds[i], .batch = batch};
    ops[0].route =
        (ln_op_route){.logits = put(s, m->logits + first * c->n_experts, n_tokens * c->n_experts),
                      .router = LN_ROUTER_SOFTMAX,
                      .n_experts = c->n_experts,
                      .n_used = c->n_used,
                      .scale = 1.0f,
                      .experts = experts,
                      .weights = put(s, NULL, n_rows)};
    ops[1].group = (ln_op_group){.experts = experts,
                                 .n_rows = n_rows,
                                 .n_experts = c->n_experts,
                                 .order = order,
                                 .starts = starts};
    ops[2].linear = (ln_op_linear){.weight = weights[0],
                                   .gate = weights[1],
                                   .groups = groups,
                                   .activation = c->activation,
                                   .n_rows = n_rows,
                                   .rows_per_x = c->n_used,
                                   .x = x,
                                   .scale = 1.0f,
                                   .out = hidden};
    ops[3].linear = (ln_op_linear){.weight = weights[2],
                                   .groups = groups,
                                   .n_rows = n_rows,
                                   .x = hidden,
                                   .scale = 1.0f,
                                   .precise = c->precise,
                                   .out = out};
    ops[4].combine =
        (ln_op_combine){.x = out,
                        .weights = ops[0].route.weights,
                        .n_used = c->n_used,
                        .dim = c->dim,
                        .shared = x,
                        .shared_gate = put(s, m->logits + first, n_tokens),
                        .residual = residual,
                        .scale = 0.9f,
                        .out = c->in_place ? residual : put(s, NULL, n_tokens * c->dim)};
}

/* Tokens from `first` on, from the choice of experts to the sum of what these give; malloc'd. */
static float *run_mixture(side *s, const mixture *m, size_t first) {
    ln_weight weights[3][MIX_MOST_EXPERTS];
    ln_batch batch = {.n_tokens = m->c->n_tokens - first};
    ln_op ops[5];
    put_experts(s, m, m->up, m->up_bias, weights[0]);
    put_experts(s, m, m->gate, m->gate_bias, weights[1]);
    put_experts(s, m, m->down, m->down_bias, weights[2]);
    record_mixture(s, m, first, &batch, weights, ops);
    run_ops(s, ops, sizeof ops / sizeof *ops);
    float *result = get(s, ops[4].combine.out, batch.n_tokens * m->c->dim);
    free_placed(s);
    return result;
}

/* What kernels hand on within a mixture, of one token and of more. */
static void mixtures_are_those_of_scalar(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 9, 64};
    static const mixture_case cases[] = {
        {LN_DTYPE_BF16, 0, 140, 16, 4, 320, 512, .activation = LN_ACT_SILU},
        {LN_DTYPE_BF16, 0, 140, 16, 4, 320, 512, .activation = LN_ACT_SILU, .precise = true},
        {LN_DTYPE_Q8_0, 0, 140, 16, 4, 320, 512, .activation = LN_ACT_SILU},
        {LN_DTYPE_Q4_0, 0, 140, 16, 4, 320, 512, .activation = LN_ACT_SILU},
        {LN_DTYPE_F16, 0, 140, 16, 4, 320, 512, .activation = LN_ACT_SILU},
        {LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, 70, 20, 8, 512, 768, .activation = LN_ACT_SILU},
        {LN_DTYPE_MXFP4, 0, 70, 9, 3, 320, 608, .activation = LN_ACT_SWIGLU_CLAMPED,
         .has_bias = true},
        {LN_DTYPE_F8_G32, 0, 70, 12, 2, 256, 96, .activation = LN_ACT_GELU},
        {LN_DTYPE_I8, 0, 70, 24, 5, 384, 1056, .activation = LN_ACT_SILU},
        {LN_DTYPE_BF16, 0, 70, 4, 1, 64, 32, .activation = LN_ACT_SILU, .has_bias = true},
        {LN_DTYPE_BF16, 0, 70, 24, 16, 128, 160, .activation = LN_ACT_SILU, .in_place = true},
        {LN_DTYPE_BF16, 0, 3, 10, 8, 2880, 768, .activation = LN_ACT_SILU, .precise = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mixture_case *c = &cases[i];
        if (!ops_takes_case())
            continue;
        mixture m = make_mixture(c);
        size_t n = c->n_tokens * c->dim;
        float *want = run_mixture(&oracle, &m, 0), *got = run_mixture(&subject, &m, 0);
        assert_near("mixture", got, want, n, 2 * LINEAR_ERROR);
        for (size_t k = 0; k < sizeof counts / sizeof *counts && !ops_rows_vary; k++) {
            if (counts[k] > c->n_tokens)
                break;
            size_t first = c->n_tokens - counts[k];
            float *some = run_mixture(&subject, &m, first);
            assert_memory_equal(some, got + first * c->dim, counts[k] * c->dim * sizeof *got);
            free(some);
        }
        free_mixture(&m);
        free(want), free(got);
    }
}

const struct CMUnitTest grouped_tests[] = {
    cmocka_unit_test(linear_gives_rows_to_experts),
    cmocka_unit_test(linear_gives_many_rows_to_experts),
    cmocka_unit_test(linear_gives_rows_to_scattered_experts),
    cmocka_unit_test(linear_has_a_matrix_per_head),
    cmocka_unit_test(mixtures_are_those_of_scalar),
};
const size_t n_grouped_tests = sizeof grouped_tests / sizeof *grouped_tests;
