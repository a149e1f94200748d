/* Linears and embeddings whose rows have adapters: each row as the scalar kernels make it, and with
 * the bits that it has in other company; rows without an adapter as if there were none. */
#include <stdlib.h>
#include <string.h>

#include "ops/adapter_slots.h"

enum { N_ROWS = 61, SLOTS = MAX_ADAPTERS, LOW_STRIDE = 48, MAX_HEADS = 3, PARTS = 2 };

/* Ranks of the adapters; 0: an IA3. The last but one multiplies the results behind the activation,
 * too. */
static const size_t ranks[SLOTS] = {3, 0, 16, 41, 1};

typedef struct adapted_case {
    const char *name;
    ln_dtype dtype;
    size_t n_in, n_out, n_heads; /* n_heads 0: one matrix */
    ln_activation activation;
    bool has_gate, has_bias, has_residual;
    float scale, softcap;
    ln_dtype byte_dtype; /* as linear_case has it */
    bool only_matrices;  /* no adapter has vectors */
} adapted_case;

static size_t rank_of(const adapted_case *c, size_t slot) {
    return c->only_matrices && ranks[slot] == 0 ? LOW_STRIDE : ranks[slot];
}

typedef struct adapted_data {
    matrix matrices[PARTS][MAX_HEADS]; /* the weights, and the gate */
    slot_data slots[PARTS][MAX_HEADS][SLOTS];
    float *x, *bias, *residual;
} adapted_data;

/* Some rows of the data, and their adapters. */
typedef struct row_choice {
    size_t n, rows[N_ROWS];
    int32_t slots[N_ROWS], order[N_ROWS];
    ln_adapter_run runs[N_ROWS];
    ln_adapter_rows adapters;
} row_choice;

static int32_t slot_of(size_t row) {
    return row < 20 ? 2 : (int32_t)(row * 7 % (SLOTS + 1)) - 1;
}

static void add_row(row_choice *c, size_t row) {
    c->slots[c->n] = slot_of(row);
    c->rows[c->n++] = row;
}

/* Sorts the rows by adapter, in runs. */
static void sort_rows(row_choice *c) {
    c->adapters = sort_by_slot(c->slots, c->n, SLOTS, c->order, c->runs);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* With vectors, too: in place of matrices of rank 0, and behind the activation. */
static slot_data make_slot_with_vectors(size_t rank, size_t n_in, size_t n_out,
                                        bool multiplies_after) {
    slot_data d = make_slot(rank, n_in, n_out, 1.0f);
    if (rank == 0)
        d.multiply = noise_rows(whole_adapter_rows(n_out));
    if (multiplies_after)
        d.after = noise_rows(whole_adapter_rows(n_out));
    return d;
}

static adapted_data make_data(const adapted_case *c) {
    size_t n_heads = c->n_heads > 0 ? c->n_heads : 1;
    adapted_data d = {.x = noise_rows(N_ROWS * n_heads * c->n_in),
                      .bias = noise_rows(2 * c->n_out),
                      .residual = noise_rows(N_ROWS * n_heads * c->n_out)};
    for (size_t part = 0; part < PARTS; part++)
        for (size_t head = 0; head < n_heads; head++) {
            d.matrices[part][head] = make_case_matrix(c->dtype, c->byte_dtype, c->n_out, c->n_in);
            for (size_t slot = 0; slot < SLOTS; slot++)
                d.slots[part][head][slot] =
                    make_slot_with_vectors(rank_of(c, slot), c->n_in, c->n_out,
                                           !c->only_matrices && part == 0 && slot + 2 == SLOTS);
        }
    return d;
}

static void free_data(const adapted_case *c, adapted_data *d) {
    size_t n_heads = c->n_heads > 0 ? c->n_heads : 1;
    for (size_t part = 0; part < PARTS; part++)
        for (size_t head = 0; head < n_heads; head++) {
            free_matrix(&d->matrices[part][head]);
            for (size_t slot = 0; slot < SLOTS; slot++)
                free_slot(&d->slots[part][head][slot]);
        }
    free(d->x), free(d->bias), free(d->residual);
}

static float *put_rows(side *s, const row_choice *rows, const float *x, size_t width) {
    return put_rows_of(s, x, rows->rows, rows->n, width);
}

/* ---- linears --------------------------------------------------------------------------------- */

/* The rows with their adapters, or with none; malloc'd. */
static float *run_adapted(side *s, const adapted_case *c, const adapted_data *d,
                          const row_choice *rows, bool adapts) {
    size_t n_heads = c->n_heads > 0 ? c->n_heads : 1, n = rows->n * n_heads;
    static ln_adapter_target targets[PARTS][MAX_HEADS][SLOTS];
    ln_weight weights[PARTS][MAX_HEADS];
    float *low[PARTS];
    for (size_t part = 0; part < PARTS; part++) {
        const float *biases[MAX_HEADS] = {NULL};
        if (c->has_bias)
            biases[0] = d->bias + part * c->n_out;
        put_weights(s, d->matrices[part], biases, n_heads, weights[part]);
        for (size_t head = 0; head < n_heads; head++)
            put_slots(s, d->slots[part][head], SLOTS, false, &weights[part][head],
                      targets[part][head]);
        low[part] = put(s, NULL, n * LOW_STRIDE);
    }
    ln_batch batch = {.n_tokens = rows->n};
    if (adapts)
        batch.adapters = rows->adapters;
    float *x = put_rows(s, rows, d->x, n_heads * c->n_in);
    float *out = c->has_residual ? put_rows(s, rows, d->residual, n_heads * c->n_out)
                                 : put(s, NULL, n * c->n_out);
    ln_op ops[2] = {{.kind = LN_OP_LORA_SHRINK, .batch = &batch},
                    {.kind = LN_OP_LINEAR, .batch = &batch}};
    ops[0].lora_shrink = (ln_op_lora_shrink){.rows = &batch.adapters,
                                             .n_weights = c->has_gate ? 2 : 1,
                                             .n_heads = c->n_heads,
                                             .weights = {weights[0], weights[1]},
                                             .low = {low[0], low[1]},
                                             .low_stride = LOW_STRIDE,
                                             .n_rows = n,
                                             .x = x};
    ops[1].linear = (ln_op_linear){.weight = weights[0],
                                   .gate = c->has_gate ? weights[1] : NULL,
                                   .groups = {.n_groups = c->n_heads},
                                   .activation = c->activation,
                                   .n_rows = n,
                                   .x = x,
                                   .residual = c->has_residual ? out : NULL,
                                   .scale = c->scale,
                                   .softcap = c->softcap,
                                   .out = out};
    bool any = batch.adapters.n_runs > 0;
    if (any) {
        ops[1].linear.adapters = &batch.adapters;
        ops[1].linear.low = low[0];
        ops[1].linear.gate_low = c->has_gate ? low[1] : NULL;
        ops[1].linear.low_stride = LOW_STRIDE;
        ops[1].linear.multiplies = !c->only_matrices;
    }
    run_ops(s, any ? ops : ops + 1, any ? 2 : 1);
    float *result = get(s, out, n * c->n_out);
    free_placed(s);
    return result;
}

/* Whether rows have the bits that they have among all. */
static void compare_some(const adapted_case *c, const adapted_data *d, row_choice *some,
                         bool adapts, const float *all) {
    size_t width = (c->n_heads > 0 ? c->n_heads : 1) * c->n_out;
    sort_rows(some);
    float *got = run_adapted(&subject, c, d, some, adapts);
    for (size_t i = 0; i < some->n; i++)
        if (memcmp(got + i * width, all + some->rows[i] * width, width * sizeof *got) != 0)
            fail_msg("%s: row %zu has other bits among %zu rows", c->name, some->rows[i], some->n);
    free(got);
}

static void check_adapted(const adapted_case *c) {
    static const size_t alone[] = {0, 19, 25, 33, 60};
    if (!ops_takes_case())
        return;
    adapted_data d = make_data(c);
    row_choice rows = {0};
    for (size_t row = 0; row < N_ROWS; row++)
        add_row(&rows, row);
    sort_rows(&rows);
    size_t n = N_ROWS * (c->n_heads > 0 ? c->n_heads : 1) * c->n_out;
    float *want = run_adapted(&oracle, c, &d, &rows, true);
    float *got = run_adapted(&subject, c, &d, &rows, true);
    assert_near(c->name, got, want, n, LINEAR_ERROR);
    for (size_t i = 0; i < sizeof alone / sizeof *alone && !ops_rows_vary; i++) {
        row_choice one = {0};
        add_row(&one, alone[i]);
        compare_some(c, &d, &one, true, got);
    }
    for (int32_t slot = -1; slot < SLOTS && !ops_rows_vary; slot++) { /* slot -1: the base's */
        row_choice some = {0};
        for (size_t row = 0; row < N_ROWS; row++)
            if (slot_of(row) == slot)
                add_row(&some, row);
        compare_some(c, &d, &some, slot >= 0, got);
    }
    free_data(c, &d);
    free(want), free(got);
}

static void adapted_linears_are_those_of_scalar(void **state) {
    (void)state;
    static const adapted_case cases[] = {
        {"f32", LN_DTYPE_F32, 77, 29, .scale = 1.0f},
        {"bf16", LN_DTYPE_BF16, 128, 96, .scale = 1.0f, .has_bias = true},
        {"f16, residual", LN_DTYPE_F16, 96, 130, .scale = 0.7f, .has_residual = true},
        {"bf16, residual", LN_DTYPE_BF16, 1024, 1088, .scale = 1.0f, .has_residual = true},
        {"bf16, gate", LN_DTYPE_BF16, 256, 640, .activation = LN_ACT_SILU, .has_gate = true,
         .scale = 1.0f},
        {"bf16, gelu gate", LN_DTYPE_BF16, 100, 72, .activation = LN_ACT_GELU_TANH,
         .has_gate = true, .has_bias = true, .scale = 1.0f},
        {"bf16, gelu", LN_DTYPE_BF16, 128, 160, .activation = LN_ACT_GELU, .has_bias = true,
         .scale = 1.0f},
        {"f32, soft-cap", LN_DTYPE_F32, 64, 300, .scale = 0.5f, .softcap = 3.0f},
        {"q4_k, gate", LN_DTYPE_Q4_K, 512, 144, .activation = LN_ACT_SILU, .has_gate = true,
         .scale = 1.0f},
        {"q8_0", LN_DTYPE_Q8_0, 256, 64, .scale = 1.0f},
        {"q4_0, residual", LN_DTYPE_Q4_0, 256, 64, .scale = 1.0f, .has_residual = true},
        {"heads", LN_DTYPE_BF16, 48, 64, .n_heads = 3, .scale = 1.0f},
        {"heads of f32", LN_DTYPE_F32, 40, 36, .n_heads = 3, .scale = 1.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_adapted(&cases[i]);
}

/* ---- experts --------------------------------------------------------------------------------- */

enum { PER_TOKEN = 2, CHOICES = N_ROWS * PER_TOKEN };

static size_t expert_of(size_t token, size_t choice) {
    return (token * 5 + choice * (1 + token % 2)) % MAX_HEADS;
}

/* Sorts the choices of some tokens by expert. */
static ln_row_groups sort_choices(side *s, const row_choice *rows) {
    int32_t order[CHOICES], starts[MAX_HEADS + 1], n = 0;
    for (size_t expert = 0; expert < MAX_HEADS; expert++) {
        starts[expert] = n;
        for (size_t i = 0; i < rows->n * PER_TOKEN; i++)
            if (expert_of(rows->rows[i / PER_TOKEN], i % PER_TOKEN) == expert)
                order[n++] = (int32_t)i;
    }
    starts[MAX_HEADS] = n;
    return (ln_row_groups){MAX_HEADS, put_ids(s, order, rows->n * PER_TOKEN),
                           put_ids(s, starts, MAX_HEADS + 1)};
}

/* What experts make of the rows, of a row of x for each token with a gate, else for each choice. */
static float *run_experts(side *s, const adapted_case *c, const adapted_data *d,
                          const row_choice *rows) {
    static ln_adapter_target targets[PARTS][MAX_HEADS][SLOTS];
    ln_weight weights[PARTS][MAX_HEADS];
    float *low[PARTS];
    size_t n = rows->n * PER_TOKEN, rows_per_x = c->has_gate ? PER_TOKEN : 1;
    for (size_t part = 0; part < PARTS; part++) {
        const float *biases[MAX_HEADS] = {NULL};
        put_weights(s, d->matrices[part], biases, MAX_HEADS, weights[part]);
        for (size_t expert = 0; expert < MAX_HEADS; expert++)
            put_slots(s, d->slots[part][expert], SLOTS, false, &weights[part][expert],
                      targets[part][expert]);
        low[part] = put(s, NULL, n * LOW_STRIDE);
    }
    ln_batch batch = {.n_tokens = rows->n, .adapters = rows->adapters};
    ln_row_groups groups = sort_choices(s, rows);
    float *x = put_rows(s, rows, d->x, PER_TOKEN / rows_per_x * c->n_in);
    float *out = put(s, NULL, n * c->n_out);
    ln_op ops[2] = {{.kind = LN_OP_LORA_SHRINK, .batch = &batch},
                    {.kind = LN_OP_LINEAR, .batch = &batch}};
    ops[0].lora_shrink = (ln_op_lora_shrink){.rows = &batch.adapters,
                                             .n_weights = c->has_gate ? 2 : 1,
                                             .weights = {weights[0], weights[1]},
                                             .low = {low[0], low[1]},
                                             .low_stride = LOW_STRIDE,
                                             .n_rows = n,
                                             .x = x,
                                             .groups = groups,
                                             .rows_per_x = rows_per_x,
                                             .rows_per_token = PER_TOKEN};
    ops[1].linear = (ln_op_linear){.weight = weights[0],
                                   .gate = c->has_gate ? weights[1] : NULL,
                                   .groups = groups,
                                   .activation = c->activation,
                                   .n_rows = n,
                                   .rows_per_x = rows_per_x,
                                   .x = x,
                                   .scale = 1.0f,
                                   .out = out,
                                   .adapters = &batch.adapters,
                                   .low = low[0],
                                   .gate_low = c->has_gate ? low[1] : NULL,
                                   .low_stride = LOW_STRIDE,
                                   .rows_per_token = PER_TOKEN};
    bool any = batch.adapters.n_runs > 0;
    if (!any)
        ops[1].linear.adapters = NULL;
    run_ops(s, any ? ops : ops + 1, any ? 2 : 1);
    float *result = get(s, out, n * c->n_out);
    free_placed(s);
    return result;
}

/* Tokens begin .. end - 1 have the bits that they have among all. */
static void compare_experts(const adapted_case *c, const adapted_data *d, size_t begin, size_t end,
                            const float *all) {
    row_choice some = {0};
    size_t width = PER_TOKEN * c->n_out;
    for (size_t row = begin; row < end; row++)
        add_row(&some, row);
    sort_rows(&some);
    float *got = run_experts(&subject, c, d, &some);
    for (size_t i = 0; i < some.n; i++)
        if (memcmp(got + i * width, all + some.rows[i] * width, width * sizeof *got) != 0)
            fail_msg("%s: token %zu has other bits among %zu", c->name, some.rows[i], some.n);
    free(got);
}

static void adapted_experts_are_those_of_scalar(void **state) {
    (void)state;
    static const adapted_case cases[] = {
        {"f32", LN_DTYPE_F32, 77, 29, .n_heads = MAX_HEADS},
        {"bf16", LN_DTYPE_BF16, 1100, 72, .n_heads = MAX_HEADS},
        {"bf16, gate", LN_DTYPE_BF16, 256, 328, .n_heads = MAX_HEADS, .has_gate = true,
         .activation = LN_ACT_SILU},
        {"f16, gelu gate", LN_DTYPE_F16, 90, 130, .n_heads = MAX_HEADS, .has_gate = true,
         .activation = LN_ACT_GELU_TANH},
        {"q8_0, gate", LN_DTYPE_Q8_0, 256, 64, .n_heads = MAX_HEADS, .has_gate = true,
         .activation = LN_ACT_SILU},
        {"q4_k", LN_DTYPE_Q4_K, 512, 144, .n_heads = MAX_HEADS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        adapted_case c = cases[i];
        c.only_matrices = true;
        if (!ops_takes_case())
            continue;
        adapted_data d = make_data(&c);
        row_choice rows = {0};
        for (size_t row = 0; row < N_ROWS; row++)
            add_row(&rows, row);
        sort_rows(&rows);
        float *want = run_experts(&oracle, &c, &d, &rows);
        float *got = run_experts(&subject, &c, &d, &rows);
        assert_near(c.name, got, want, CHOICES * c.n_out, LINEAR_ERROR);
        static const size_t ranges[][2] = {{0, 1}, {60, 61}, {33, 35}, {10, 21}, {20, 52}};
        for (size_t k = 0; k < sizeof ranges / sizeof *ranges && !ops_rows_vary; k++)
            compare_experts(&c, &d, ranges[k][0], ranges[k][1], got);
        free_data(&c, &d);
        free(want), free(got);
    }
}

/* ---- embeddings ------------------------------------------------------------------------------ */

enum { VOCAB = 23, DIM = 83 };

static float *run_embed(side *s, const matrix *table, const slot_data *data,
                        const row_choice *rows) {
    static ln_adapter_target targets[SLOTS];
    int32_t tokens[N_ROWS];
    for (size_t i = 0; i < rows->n; i++)
        tokens[i] = (int32_t)(rows->rows[i] * 5 % VOCAB);
    ln_weight weight = put_weight(s, table, NULL);
    put_slots(s, data, SLOTS, true, &weight, targets);
    ln_batch batch = {.n_tokens = rows->n, .tokens = tokens, .adapters = rows->adapters};
    float *out = put(s, NULL, rows->n * DIM);
    ln_op op = {.kind = LN_OP_EMBED,
                .batch = &batch,
                .embed = {.table = &weight, .scale = 1.5f, .out = out}};
    run_ops(s, &op, 1);
    float *result = get(s, out, rows->n * DIM);
    free_placed(s);
    return result;
}

/* A has a row for each token of the vocabulary, no more than the whole ranks of make_slot. */
static void adapted_embeddings_are_those_of_scalar(void **state) {
    (void)state;
    if (!ops_takes_case())
        return;
    slot_data data[SLOTS];
    matrix table = make_matrix(LN_DTYPE_BF16, VOCAB, DIM);
    row_choice rows = {0};
    for (size_t slot = 0; slot < SLOTS; slot++) {
        data[slot] = make_slot_with_vectors(ranks[slot], VOCAB, DIM, false);
        free(data[slot].multiply);
        data[slot].multiply = NULL;
    }
    for (size_t row = 0; row < N_ROWS; row++)
        add_row(&rows, row);
    sort_rows(&rows);
    float *want = run_embed(&oracle, &table, data, &rows);
    float *got = run_embed(&subject, &table, data, &rows);
    assert_near("embed with adapters", got, want, (size_t)N_ROWS * DIM, 1e-6);
    for (size_t slot = 0; slot < SLOTS; slot++)
        free_slot(&data[slot]);
    free_matrix(&table);
    free(want), free(got);
}

/* ---- several linears of one x ---------------------------------------------------------------- */

enum { LINEARS = 3 };

/* q, k and v: the first two have adapters, of which LN_OP_LORA_SHRINK makes the first half at once.
 */
static float *run_linears(side *s, const adapted_case *c, const adapted_data *d,
                          const row_choice *rows) {
    static ln_adapter_target targets[PARTS][SLOTS];
    ln_weight weights[LINEARS];
    float *low[PARTS], *out = put(s, NULL, LINEARS * rows->n * c->n_out);
    ln_batch batch = {.n_tokens = rows->n, .adapters = rows->adapters};
    float *x = put_rows(s, rows, d->x, c->n_in);
    ln_op ops[1 + LINEARS] = {{.kind = LN_OP_LORA_SHRINK, .batch = &batch}};
    for (size_t i = 0; i < LINEARS; i++) {
        bool adapts = i < PARTS;
        weights[i] = put_weight(s, &d->matrices[i % PARTS][0], NULL);
        weights[i].adapters = weights[i].device_adapters = NULL;
        if (adapts) {
            put_slots(s, d->slots[i][0], SLOTS, false, &weights[i], targets[i]);
            low[i] = put(s, NULL, rows->n * LOW_STRIDE);
        }
        ops[1 + i] = (ln_op){.kind = LN_OP_LINEAR, .batch = &batch};
        ops[1 + i].linear = (ln_op_linear){.weight = &weights[i],
                                           .n_rows = rows->n,
                                           .x = x,
                                           .scale = 1.0f,
                                           .out = out + i * rows->n * c->n_out,
                                           .adapters = adapts ? &batch.adapters : NULL,
                                           .low = adapts ? low[i] : NULL,
                                           .low_stride = LOW_STRIDE};
    }
    ops[0].lora_shrink = (ln_op_lora_shrink){.rows = &batch.adapters,
                                             .n_weights = PARTS,
                                             .weights = {&weights[0], &weights[1]},
                                             .low = {low[0], low[1]},
                                             .low_stride = LOW_STRIDE,
                                             .n_rows = rows->n,
                                             .x = x};
    run_ops(s, ops, 1 + LINEARS);
    float *result = get(s, out, LINEARS * rows->n * c->n_out);
    free_placed(s);
    return result;
}

/* Each row of `all` has the bits that it has among fewer. */
static void compare_fewer(const adapted_case *c, const adapted_data *d, size_t begin, size_t end,
                          const float *all) {
    row_choice some = {0};
    for (size_t row = begin; row < end; row++)
        if (slot_of(row) >= 0)
            add_row(&some, row);
    sort_rows(&some);
    float *got = run_linears(&subject, c, d, &some);
    for (size_t linear = 0; linear < LINEARS; linear++)
        for (size_t i = 0; i < some.n; i++)
            if (memcmp(got + (linear * some.n + i) * c->n_out,
                       all + (linear * N_ROWS + some.rows[i]) * c->n_out,
                       c->n_out * sizeof *got) != 0)
                fail_msg("%s: row %zu of linear %zu has other bits among %zu rows", c->name,
                         some.rows[i], linear, some.n);
    free(got);
}

static void adapted_linears_of_one_x_are_those_of_scalar(void **state) {
    (void)state;
    static const adapted_case cases[] = {
        {"bf16", LN_DTYPE_BF16, 1088, 320, .only_matrices = true},
        {"bf16, odd", LN_DTYPE_BF16, 2100, 72, .only_matrices = true},
        {"q8_0", LN_DTYPE_Q8_0, 256, 192, .only_matrices = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const adapted_case *c = &cases[i];
        if (!ops_takes_case())
            continue;
        adapted_data d = make_data(c);
        row_choice rows = {0};
        for (size_t row = 0; row < N_ROWS; row++)
            add_row(&rows, row);
        sort_rows(&rows);
        float *want = run_linears(&oracle, c, &d, &rows);
        float *got = run_linears(&subject, c, &d, &rows);
        assert_near(c->name, got, want, LINEARS * N_ROWS * c->n_out, LINEAR_ERROR);
        static const size_t ranges[][2] = {{0, 1}, {33, 35}, {10, 21}, {20, 52}, {0, 5}};
        for (size_t k = 0; k < sizeof ranges / sizeof *ranges && !ops_rows_vary; k++)
            compare_fewer(c, &d, ranges[k][0], ranges[k][1], got);
        free_data(c, &d);
        free(want), free(got);
    }
}

/* Adapters without vectors, which a GEMM takes as one more K split where it can. */
static void adapters_of_matrices_are_those_of_scalar(void **state) {
    (void)state;
    static const adapted_case cases[] = {
        {"bf16, residual", LN_DTYPE_BF16, 1024, 1088, .scale = 1.0f, .has_residual = true,
         .only_matrices = true},
        {"bf16, gate", LN_DTYPE_BF16, 1280, 672, .activation = LN_ACT_SILU, .has_gate = true,
         .scale = 1.0f, .only_matrices = true},
        {"bf16, gelu gate", LN_DTYPE_BF16, 140, 72, .activation = LN_ACT_GELU_TANH,
         .has_gate = true, .scale = 0.5f, .only_matrices = true},
        {"bf16, soft-cap", LN_DTYPE_BF16, 3000, 40, .scale = 0.5f, .softcap = 3.0f,
         .only_matrices = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_adapted(&cases[i]);
}

const struct CMUnitTest adapter_tests[] = {
    cmocka_unit_test(adapted_linears_are_those_of_scalar),
    cmocka_unit_test(adapted_experts_are_those_of_scalar),
    cmocka_unit_test(adapted_embeddings_are_those_of_scalar),
    cmocka_unit_test(adapters_of_matrices_are_those_of_scalar),
    cmocka_unit_test(adapted_linears_of_one_x_are_those_of_scalar),
};
const size_t n_adapter_tests = sizeof adapter_tests / sizeof *adapter_tests;
