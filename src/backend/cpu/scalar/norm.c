/* Norms, with the residual sum behind them, and the gathering of columns. A worker takes a range of
 * rows. */
#include "backend/cpu/scalar/scalar.h"

#include <math.h>
#include <string.h>

static float sum(const float *x, size_t n) {
    float lanes[LN_SCALAR_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lanes[i % LN_SCALAR_LANES] += x[i];
    for (size_t half = LN_SCALAR_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

/* sum of (x[i] - mean)^2 */
static float sum_squares(const float *x, float mean, size_t n) {
    float lanes[LN_SCALAR_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lanes[i % LN_SCALAR_LANES] += (x[i] - mean) * (x[i] - mean);
    for (size_t half = LN_SCALAR_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

void ln_scalar_norm_row(const ln_norm *norm, const float *x, float *out) {
    size_t n = norm->dim;
    if (norm->kind == LN_NORM_NONE) {
        memmove(out, x, n * sizeof *out);
        return;
    }
    float mean = norm->kind == LN_NORM_LAYER ? sum(x, n) / (float)n : 0.0f;
    float inverse = 1.0f / sqrtf(sum_squares(x, mean, n) / (float)n + norm->eps);
    float offset = norm->kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f;
    for (size_t i = 0; i < n; i++) {
        float y = (x[i] - mean) * inverse;
        if (norm->weight != NULL)
            y *= norm->weight[i] + offset;
        if (norm->bias != NULL)
            y += norm->bias[i];
        out[i] = y;
    }
}

void ln_scalar_gather(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_gather *p = &op->gather;
    size_t begin, end;
    ln_cpu_share(worker, p->n_rows, &begin, &end);
    for (size_t row = begin; row < end; row++)
        for (size_t i = 0; i < p->dim; i++)
            p->out[row * p->dim + i] = p->x[row * p->dim + (size_t)p->columns[i]];
}

void ln_scalar_norm(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_norm *p = &op->norm;
    size_t dim = p->norm->dim;
    size_t begin, end;
    ln_cpu_share(worker, p->n_rows, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        size_t row = p->rows != NULL ? (size_t)p->rows[i] : i;
        float *out = p->out + p->out_begin + i * (p->out_stride > 0 ? p->out_stride : dim);
        if (p->residual == NULL) {
            ln_scalar_norm_row(p->norm, p->x + row * dim, out);
            continue;
        }
        float *normed = worker->scratch;
        ln_scalar_norm_row(p->norm, p->x + row * dim, normed);
        for (size_t j = 0; j < dim; j++)
            out[j] = p->residual[i * dim + j] + p->scale * normed[j];
    }
}
