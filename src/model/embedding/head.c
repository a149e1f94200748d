#include "model/embedding/head.h"

#include <math.h>
#include <string.h>

#include "format/quants.h"

static const float *place(const ln_tensor *tensor, ln_layout *layout, char *memory) {
    if (tensor == NULL)
        return NULL;
    size_t n = (size_t)tensor->n_elems, offset = ln_layout_add(layout, n, sizeof(float));
    float *values = memory != NULL ? (float *)(void *)(memory + offset) : NULL;
    if (values != NULL)
        ln_dequantize_row(tensor->dtype, tensor->data, values, n);
    return values;
}

/* A row less another one. */
static const float *place_rows(const ln_head_stage *stage, ln_layout *layout, char *memory) {
    size_t n = stage->n_in, offset = ln_layout_add(layout, 2 * n, sizeof(float)), row_bytes = 0;
    float *values = memory != NULL ? (float *)(void *)(memory + offset) : NULL;
    if (values == NULL || !ln_dtype_row_bytes(stage->weight->dtype, n, &row_bytes))
        return values;
    const uint8_t *data = stage->weight->data;
    ln_dequantize_row(stage->weight->dtype, data + (size_t)stage->rows[0] * row_bytes, values, n);
    if (stage->rows[1] < 0)
        return values;
    ln_dequantize_row(stage->weight->dtype, data + (size_t)stage->rows[1] * row_bytes, values + n,
                      n);
    for (size_t i = 0; i < n; i++)
        values[i] -= values[n + i];
    return values;
}

void ln_head_place(const ln_head_stages *stages, ln_layout *layout, char *memory, ln_head *head) {
    *head = (ln_head){.stages = stages};
    for (size_t i = 0; i < stages->n; i++) {
        const ln_head_stage *stage = &stages->stages[i];
        head->at[i].weight = stage->rows != NULL ? place_rows(stage, layout, memory)
                                                 : place(stage->weight, layout, memory);
        head->at[i].bias = place(stage->bias, layout, memory);
        head->at[i].norm = place(stage->norm, layout, memory);
        head->at[i].norm_bias = place(stage->norm_bias, layout, memory);
    }
}

size_t ln_head_max_width(const ln_head_stages *stages, size_t dim) {
    size_t width = dim;
    for (size_t i = 0; i < stages->n; i++)
        width = stages->stages[i].n_out > width ? stages->stages[i].n_out : width;
    return width;
}

static double activate(ln_head_activation activation, double x) {
    switch (activation) {
    case LN_HEAD_TANH: return tanh(x);
    case LN_HEAD_GELU: return 0.5 * x * (1.0 + erf(x * sqrt(0.5)));
    case LN_HEAD_RELU: return x > 0 ? x : 0;
    case LN_HEAD_SILU: return x / (1.0 + exp(-x));
    case LN_HEAD_IDENTITY: break;
    }
    return x;
}

/* LayerNorm in place. */
static void normalize_layer(float *x, size_t n, double eps, const float *weight,
                            const float *bias) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1.0 / sqrt(square / (double)n + eps);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) * scale * (double)weight[i] +
                       (bias != NULL ? (double)bias[i] : 0.0));
}

void ln_head_run(const ln_head *head, float *x, float *scratch) {
    for (size_t i = 0; i < head->stages->n; i++) {
        const ln_head_stage *stage = &head->stages->stages[i];
        for (size_t row = 0; row < stage->n_out; row++) {
            const float *weight = head->at[i].weight + row * stage->n_in;
            double sum = head->at[i].bias != NULL ? (double)head->at[i].bias[row] : 0.0;
            for (size_t column = 0; column < stage->n_in; column++)
                sum += (double)weight[column] * (double)x[column];
            scratch[row] = (float)activate(stage->activation, sum);
        }
        memcpy(x, scratch, stage->n_out * sizeof *x);
        if (head->at[i].norm != NULL)
            normalize_layer(x, stage->n_out, (double)stage->eps, head->at[i].norm,
                            head->at[i].norm_bias);
    }
}

void ln_head_normalize(float *x, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (double)x[i] * (double)x[i];
    double length = sqrt(square);
    for (size_t i = 0; i < n && length > 0; i++)
        x[i] = (float)((double)x[i] / length);
}
