/* y = x W^T with its epilogue. A worker takes a range of output rows; each weight row becomes
 * float32 once and meets every row of x, so one token and many run the same sums. */
#include "backend/cpu/scalar/scalar.h"

#include <math.h>
#include <string.h>

#include "format/quants.h"

float ln_scalar_activate(ln_activation activation, float x) {
    switch (activation) {
    case LN_ACT_NONE: return x;
    case LN_ACT_SILU: return x / (1.0f + expf(-x));
    case LN_ACT_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case LN_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    case LN_ACT_RELU: return x > 0.0f ? x : 0.0f;
    case LN_ACT_RELU_SQUARED: return x > 0.0f ? x * x : 0.0f;
    case LN_ACT_SWIGLU_CLAMPED: return x; /* has a gate: see gated */
    }
    return x;
}

/* Row `row` of a weight as float32: where it lies, or in `scratch`. */
static const float *load_row(const ln_weight *weight, size_t row, float *scratch) {
    const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;
    if (weight->dtype == LN_DTYPE_F32)
        return (const float *)(const void *)data;
    ln_dequantize_row(weight->dtype, data, scratch, weight->n_cols);
    return scratch;
}

static float bias_of(const ln_weight *weight, size_t row) {
    return weight->bias != NULL ? weight->bias[row] : 0.0f;
}

/* act(g) * u, or act(u) without a gate */
static float gated(ln_activation activation, bool has_gate, float g, float u) {
    if (!has_gate)
        return ln_scalar_activate(activation, u);
    if (activation != LN_ACT_SWIGLU_CLAMPED)
        return ln_scalar_activate(activation, g) * u;
    g = fminf(g, 7.0f);
    u = fminf(fmaxf(u, -7.0f), 7.0f);
    return (u + 1.0f) * (g / (1.0f + expf(-1.702f * g)));
}

/* u as the row's adapter makes it; what A gave begins `at` floats into `low`. */
static float add_lora(const ln_adapter_target *target, const float *low, size_t at, size_t column,
                      float u) {
    if (target == NULL)
        return u;
    if (target->rank > 0)
        u += ln_scalar_expand(target, low + at, column);
    if (target->multiply == NULL)
        return u;
    u *= target->multiply[column];
    return target->add != NULL ? u + target->add[column] : u;
}

/* One output column of one row; w and g are the column's weights as float32. */
static void multiply(const ln_op_linear *p, const ln_weight *weight, const ln_weight *gate,
                     const float *w, const float *g, size_t row, size_t column) {
    size_t n_in = weight->n_cols, n_out = weight->n_rows;
    size_t x_row = p->rows_per_x > 1 ? row / p->rows_per_x : row;
    const float *x = p->x + x_row * (p->x_stride > 0 ? p->x_stride : n_in);
    float *out = p->out + row * (p->out_stride > 0 ? p->out_stride : n_out) + column;
    size_t token = ln_linear_token(p, row);
    const ln_adapter_target *adapter = ln_adapter_of(p->adapters, weight, token);
    float u = ln_scalar_dot(x, w, n_in) + bias_of(weight, column);
    float z = g != NULL ? ln_scalar_dot(x, g, n_in) + bias_of(gate, column) : 0.0f;
    u = add_lora(adapter, p->low, row * p->low_stride, column, u);
    if (g != NULL)
        z = add_lora(ln_adapter_of(p->adapters, gate, token), p->gate_low, row * p->low_stride,
                     column, z);
    float y = gated(p->activation, g != NULL, z, u);
    if (adapter != NULL && adapter->multiply_after != NULL)
        y *= adapter->multiply_after[column];
    y *= p->scale;
    if (p->residual != NULL)
        y = p->residual[row * n_out + column] + y;
    if (p->softcap > 0.0f)
        y = p->softcap * tanhf(y / p->softcap);
    *out = y;
}

/* One output column for the rows of one group. */
static void multiply_group(const ln_op_linear *p, size_t group, size_t column,
                           const ln_cpu_worker *worker) {
    const ln_row_groups *groups = &p->groups;
    size_t step = groups->n_groups > 0 ? groups->n_groups : 1;
    bool sorted = groups->order != NULL;
    size_t i = sorted ? (size_t)groups->starts[group] : group;
    size_t end = sorted ? (size_t)groups->starts[group + 1] : p->n_rows;
    if (i >= end)
        return;
    const ln_weight *weight = &p->weight[group];
    const ln_weight *gate = p->gate != NULL ? &p->gate[group] : NULL;
    const float *w = load_row(weight, column, worker->scratch);
    const float *g = gate != NULL ? load_row(gate, column, worker->scratch + weight->n_cols) : NULL;
    for (; i < end; i += sorted ? 1 : step)
        multiply(p, weight, gate, w, g, sorted ? (size_t)groups->order[i] : i, column);
}

void ln_scalar_linear(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_linear *p = &op->linear;
    size_t n_groups = p->groups.n_groups > 0 ? p->groups.n_groups : 1;
    size_t begin, end;
    ln_cpu_share(worker, p->weight->n_rows, &begin, &end);
    for (size_t group = 0; group < n_groups; group++)
        for (size_t column = begin; column < end; column++)
            multiply_group(p, group, column, worker);
}

/* An item is a head of a token. */
static void embed_ngrams(const ln_op *op, const ln_cpu_worker *worker, ln_row_reader read_row) {
    const ln_op_embed *p = &op->embed;
    const ln_ngrams *ngrams = p->ngrams;
    size_t n_heads = ln_ngrams_n_heads(ngrams), n_before = ngrams->n_tokens - 1;
    size_t dim = ngrams->parts[0].n_cols, begin, end;
    ln_cpu_share(worker, op->batch->n_tokens * n_heads, &begin, &end);
    for (size_t item = begin; item < end; item++) {
        size_t token = item / n_heads;
        size_t row = ln_ngrams_row(ngrams, op->batch->tokens[token], p->before + token * n_before,
                                   item % n_heads);
        const ln_weight *part = &ngrams->parts[row / ngrams->part_rows];
        memcpy(p->out + item * dim, read_row(part, row % ngrams->part_rows, worker),
               dim * sizeof *p->out);
    }
}

void ln_scalar_embed_by(const ln_op *op, const ln_cpu_worker *worker, ln_row_reader read_row) {
    const ln_op_embed *p = &op->embed;
    const ln_batch *batch = op->batch;
    if (p->ngrams != NULL) {
        embed_ngrams(op, worker, read_row);
        return;
    }
    size_t dim = p->table->n_cols;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        size_t id = (size_t)batch->tokens[token];
        id -= p->is_part ? p->part_begin : 0;
        bool is_there = id < p->table->n_rows;
        const float *row = read_row(p->table, is_there ? id : 0, worker);
        float *out = p->out + token * dim, scale = is_there || !p->is_part ? p->scale : 0.0f;
        for (size_t i = 0; i < dim; i++)
            out[i] = row[i] * scale;
        if (is_there || !p->is_part)
            ln_scalar_lora_embedding(op, token, is_there ? id : 0, out);
        if (p->types != NULL) {
            size_t type = batch->types != NULL ? (size_t)batch->types[token] : 0;
            row = read_row(p->types, type < p->types->n_rows ? type : 0, worker);
            for (size_t i = 0; i < dim; i++)
                out[i] += row[i];
        }
        if (p->learned == NULL)
            continue;
        size_t position = (size_t)batch->positions[token] + p->learned_offset;
        row = read_row(p->learned, position, worker);
        for (size_t i = 0; i < dim; i++)
            out[i] += row[i];
    }
}

static const float *load_table_row(const ln_weight *table, size_t row,
                                   const ln_cpu_worker *worker) {
    return load_row(table, row, worker->scratch);
}

void ln_scalar_embed(const ln_op *op, const ln_cpu_worker *worker) {
    ln_scalar_embed_by(op, worker, load_table_row);
}
