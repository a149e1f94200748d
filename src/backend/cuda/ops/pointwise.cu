/* Functions of single elements: gates of rows, and xIELU. */
#include "backend/cuda/ops.h"
#include "backend/cuda/runtime/pdl.cuh"

enum { POINTWISE_THREADS = 256 };

static __device__ __forceinline__ float apply(const ln_op_pointwise &p, float x, float gate) {
    switch (p.function) {
    case LN_POINTWISE_GATE: return x * (1.0f / (1.0f + expf(-gate)));
    case LN_POINTWISE_SCALE: return x * gate;
    case LN_POINTWISE_XIELU: break;
    }
    const ln_xielu &f = p.xielu;
    if (x > 0.0f)
        return f.alpha_p * x * x + f.beta * x;
    return (expm1f(fminf(x, f.eps)) - x) * f.alpha_n + f.beta * x;
}

/* Grid: blocks of 256 elements of [n_rows][dim]. Reads an element, and its gate where it has one;
 * writes one. */
static __global__ void pointwise(const __grid_constant__ ln_op_pointwise p) {
    ln_pdl_launch_and_wait();
    size_t at = (size_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x;
    if (at >= p.n_rows * p.dim)
        return;
    size_t row = at / p.dim, i = at % p.dim;
    size_t x_row = p.rows_per_x > 1 ? row / p.rows_per_x : row;
    float gate = p.gate != NULL ? p.gate[row * p.n_gates + i / (p.dim / p.n_gates)] : 0.0f;
    p.out[at] = apply(p, p.x[x_row * p.dim + i], gate);
}

int ln_cuda_pointwise(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    size_t n = op->pointwise.n_rows * op->pointwise.dim;
    return ln_pdl_launch(pointwise, dim3(ln_ceil_div(n, POINTWISE_THREADS)), POINTWISE_THREADS, 0,
                         stream, op->pointwise);
}
