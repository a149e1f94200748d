/* Functions of single elements: gates and scales of rows, and xIELU. A worker takes a range of
 * rows. */
#include <math.h>

#include "backend/cpu/scalar/scalar.h"

static float apply_xielu(const ln_xielu *p, float x) {
    if (x > 0.0f)
        return p->alpha_p * x * x + p->beta * x;
    return (expm1f(fminf(x, p->eps)) - x) * p->alpha_n + p->beta * x;
}

static float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

static float clamped_swiglu(const ln_op_pointwise *p, float up, float gate) {
    float g = fminf(gate, p->limit);
    return (fmaxf(fminf(up, p->limit), -p->limit) + 1.0f) * (g / (1.0f + expf(-p->scale * g)));
}

static float cap(float x, float most) {
    return most * tanhf(x / most);
}

static float apply(const ln_op_pointwise *p, float x, float gate) {
    switch (p->function) {
    case LN_POINTWISE_GATE: return x * (1.0f / (1.0f + expf(-gate)));
    case LN_POINTWISE_ACTIVATED_GATE: return x * ln_scalar_activate(p->activation, gate);
    case LN_POINTWISE_LIMITED_SILU:
        return fminf(gate / (1.0f + expf(-gate)), p->limit) * fmaxf(fminf(x, p->limit), -p->limit);
    case LN_POINTWISE_SOFTPLUS_GATE: return x * softplus(gate);
    case LN_POINTWISE_EXP_SOFTPLUS: return expf(gate * softplus(x));
    case LN_POINTWISE_CLAMPED_SWIGLU: return clamped_swiglu(p, x, gate);
    case LN_POINTWISE_CAPPED_SWIGLU:
        return cap(gate, p->limit) / (1.0f + expf(-gate)) * cap(x, p->scale);
    case LN_POINTWISE_CLAMP: return fmaxf(fminf(x, p->limit), -p->limit);
    case LN_POINTWISE_SCALE:
    case LN_POINTWISE_QUERY_SCALE: return x * gate;
    case LN_POINTWISE_ADD: return p->scale * (x + gate);
    case LN_POINTWISE_XIELU: return apply_xielu(&p->xielu, x);
    }
    return x;
}

/* What multiplies element i of a row, or gates it; the scale of queries counts as a gate. */
static float gate_of(const ln_op *op, size_t row, size_t i) {
    const ln_op_pointwise *p = &op->pointwise;
    if (p->function == LN_POINTWISE_QUERY_SCALE)
        return ln_scalar_query_scale(&p->q_scale, op->batch->positions[row]);
    if (p->gate == NULL)
        return 0.0f;
    size_t stride = p->one_gate ? 0 : p->gate_stride > 0 ? p->gate_stride : p->n_gates;
    return p->gate[row * stride + p->gate_begin + i / (p->dim / p->n_gates)];
}

void ln_scalar_pointwise(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_pointwise *p = &op->pointwise;
    size_t rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    size_t width = p->gate != NULL ? p->dim / p->n_gates : p->dim; /* elements with one gate */
    size_t begin, end;
    ln_cpu_share(worker, p->n_rows, &begin, &end);
    for (size_t row = begin; row < end; row++) {
        const float *x = p->x + row / rows_per_x * p->dim;
        float *out = p->out + row * p->dim;
        for (size_t first = 0; first < p->dim; first += width) {
            float gate = gate_of(op, row, first);
            for (size_t i = first; i < first + width; i++)
                out[i] = apply(p, x[i], gate);
        }
    }
}
