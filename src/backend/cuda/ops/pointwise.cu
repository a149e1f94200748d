/* Functions of single elements: gates and scales of rows, and xIELU. */
#include "backend/cuda/activations/function.cuh"
#include "backend/cuda/ops.h"
#include "backend/cuda/runtime/pdl.cuh"

enum { POINTWISE_THREADS = 256 };

typedef struct pointwise_args {
    ln_op_pointwise p;
    const int32_t *positions; /* [n_rows], read with LN_POINTWISE_QUERY_SCALE alone */
} pointwise_args;

static __device__ __forceinline__ float clamped_swiglu(const ln_op_pointwise &p, float up,
                                                       float gate) {
    float g = fminf(gate, p.limit);
    return (fmaxf(fminf(up, p.limit), -p.limit) + 1.0f) * (g / (1.0f + expf(-p.scale * g)));
}

static __device__ __forceinline__ float cap(float x, float most) {
    return most * tanhf(x / most);
}

static __device__ __forceinline__ float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

static __device__ __forceinline__ float apply(const ln_op_pointwise &p, float x, float gate) {
    switch (p.function) {
    case LN_POINTWISE_GATE: return x * (1.0f / (1.0f + expf(-gate)));
    case LN_POINTWISE_ACTIVATED_GATE: return x * ln_activate(p.activation, gate);
    case LN_POINTWISE_LIMITED_SILU:
        return fminf(gate / (1.0f + expf(-gate)), p.limit) * fmaxf(fminf(x, p.limit), -p.limit);
    case LN_POINTWISE_SOFTPLUS_GATE: return x * softplus(gate);
    case LN_POINTWISE_EXP_SOFTPLUS: return expf(gate * softplus(x));
    case LN_POINTWISE_CLAMPED_SWIGLU: return clamped_swiglu(p, x, gate);
    case LN_POINTWISE_CAPPED_SWIGLU:
        return cap(gate, p.limit) / (1.0f + expf(-gate)) * cap(x, p.scale);
    case LN_POINTWISE_CLAMP: return fmaxf(fminf(x, p.limit), -p.limit);
    case LN_POINTWISE_SCALE:
    case LN_POINTWISE_QUERY_SCALE: return x * gate;
    case LN_POINTWISE_ADD: return p.scale * (x + gate);
    case LN_POINTWISE_XIELU: break;
    }
    const ln_xielu &f = p.xielu;
    if (x > 0.0f)
        return f.alpha_p * x * x + f.beta * x;
    return (expm1f(fminf(x, f.eps)) - x) * f.alpha_n + f.beta * x;
}

/* What multiplies element i of a row, or gates it; the scale of queries counts as a gate. */
static __device__ __forceinline__ float gate_of(const pointwise_args &args, size_t row, size_t i) {
    const ln_op_pointwise &p = args.p;
    if (p.function == LN_POINTWISE_QUERY_SCALE) {
        float periods = floorf(((float)args.positions[row] + p.q_scale.offset) / p.q_scale.period);
        return 1.0f + p.q_scale.beta * logf(1.0f + periods);
    }
    if (p.gate == NULL)
        return 0.0f;
    size_t stride = p.one_gate ? 0 : p.gate_stride > 0 ? p.gate_stride : p.n_gates;
    return p.gate[row * stride + p.gate_begin + i / (p.dim / p.n_gates)];
}

/* Grid: blocks of 256 elements of [n_rows][dim]. Reads an element, and its gate where it has one;
 * writes one. */
static __global__ void pointwise(const __grid_constant__ pointwise_args args) {
    const ln_op_pointwise &p = args.p;
    ln_pdl_launch_and_wait();
    size_t at = (size_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x;
    if (at >= p.n_rows * p.dim)
        return;
    size_t row = at / p.dim, i = at % p.dim;
    size_t x_row = p.rows_per_x > 1 ? row / p.rows_per_x : row;
    p.out[at] = apply(p, p.x[x_row * p.dim + i], gate_of(args, row, i));
}

int ln_cuda_pointwise(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    pointwise_args args = {op->pointwise, step->batch.positions};
    size_t n = op->pointwise.n_rows * op->pointwise.dim;
    return ln_pdl_launch(pointwise, dim3(ln_ceil_div(n, POINTWISE_THREADS)), POINTWISE_THREADS, 0,
                         stream, args);
}
