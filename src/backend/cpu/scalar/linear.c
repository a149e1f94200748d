/* y = x W^T with its epilogue. A worker takes a range of output rows; each weight row becomes
 * float32 once and meets every row of x, so one token and many run the same sums. */
#include "backend/cpu/scalar/scalar.h"

#include <math.h>

#include "format/quants.h"

static float activate(ln_activation activation, float x) {
    switch (activation) {
    case LN_ACT_NONE: return x;
    case LN_ACT_SILU: return x / (1.0f + expf(-x));
    case LN_ACT_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case LN_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    case LN_ACT_RELU: return x > 0.0f ? x : 0.0f;
    case LN_ACT_RELU_SQUARED: return x > 0.0f ? x * x : 0.0f;
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

void ln_scalar_linear(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_linear *p = &op->linear;
    size_t n_in = p->weight->n_cols, n_out = p->weight->n_rows;
    size_t begin, end;
    ln_cpu_share(worker, n_out, &begin, &end);
    for (size_t column = begin; column < end; column++) {
        const float *w = load_row(p->weight, column, worker->scratch);
        const float *g = p->gate != NULL ? load_row(p->gate, column, worker->scratch + n_in) : NULL;
        for (size_t row = 0; row < p->n_rows; row++) {
            const float *x = p->x + row * n_in;
            float y = ln_scalar_dot(x, w, n_in) + bias_of(p->weight, column);
            if (g != NULL)
                y *= activate(p->activation, ln_scalar_dot(x, g, n_in) + bias_of(p->gate, column));
            else
                y = activate(p->activation, y);
            y *= p->scale;
            if (p->residual != NULL)
                y = p->residual[row * n_out + column] + y;
            if (p->softcap > 0.0f)
                y = p->softcap * tanhf(y / p->softcap);
            p->out[row * n_out + column] = y;
        }
    }
}

void ln_scalar_embed(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_embed *p = &op->embed;
    const ln_batch *batch = op->batch;
    size_t dim = p->table->n_cols;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        const float *row = load_row(p->table, (size_t)batch->tokens[token], worker->scratch);
        float *out = p->out + token * dim;
        for (size_t i = 0; i < dim; i++)
            out[i] = row[i] * p->scale;
        if (p->learned == NULL)
            continue;
        size_t position = (size_t)batch->positions[token] + p->learned_offset;
        row = load_row(p->learned, position, worker->scratch);
        for (size_t i = 0; i < dim; i++)
            out[i] += row[i];
    }
}
