/* Norms, with the residual sum behind them, and the gathering of columns. A block per row.
 *
 * Bytes moved: n_rows * dim * 4 * (2, or 3 with a residual). Rows of a multiple of four elements up
 * to MAX_HELD * 2048 are held in registers between the sums and the result; others are read
 * again. */
#include "backend/cuda/norm.cuh"

enum { WIDE_THREADS = 512, MAX_HELD = 4 };

typedef struct norm_args {
    ln_norm norm;
    const int32_t *rows;
    const float *x, *residual;
    float scale;
    float *out;
} norm_args;

static __global__ void norm_rows(const __grid_constant__ norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    size_t row = blockIdx.x, from = p.rows != NULL ? (size_t)p.rows[row] : row;
    const float *x = p.x + from * p.norm.dim;
    float mean, inverse;
    ln_norm_statistics(p.norm, x, shared, &mean, &inverse);
    for (size_t i = threadIdx.x; i < p.norm.dim; i += blockDim.x) {
        size_t at = row * p.norm.dim + i;
        float y = ln_norm_apply(p.norm, x[i], i, mean, inverse);
        p.out[at] = p.residual != NULL ? p.residual[at] + p.scale * y : y;
    }
}

static __device__ __forceinline__ float part(const float4 &x, int i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/* HELD float4 of a row in each of WIDE_THREADS threads. */
template <int HELD>
static __global__ void __launch_bounds__(WIDE_THREADS)
    norm_held_rows(const __grid_constant__ norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    size_t row = blockIdx.x, from = p.rows != NULL ? (size_t)p.rows[row] : row;
    unsigned n = (unsigned)p.norm.dim / 4;
    const float4 *x = (const float4 *)(p.x + from * p.norm.dim);
    float4 held[HELD];
    float mean = 0.0f, inverse = 1.0f, sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        unsigned i = h * WIDE_THREADS + threadIdx.x;
        held[h] = i < n ? x[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += held[h].x + held[h].y + (held[h].z + held[h].w);
    }
    if (p.norm.kind == LN_NORM_LAYER)
        mean = ln_block_sum(sum, shared) / (float)p.norm.dim;
#pragma unroll
    for (int h = 0; h < HELD; h++)
        for (int i = 0; i < 4; i++) {
            float y = h * WIDE_THREADS + threadIdx.x < n ? part(held[h], i) - mean : 0.0f;
            squares = fmaf(y, y, squares);
        }
    if (p.norm.kind != LN_NORM_NONE)
        inverse =
            1.0f / sqrtf(ln_block_sum(squares, shared) / (float)p.norm.dim + p.norm.eps);
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        unsigned i = h * WIDE_THREADS + threadIdx.x;
        if (i >= n)
            continue;
        float y[4];
        for (int j = 0; j < 4; j++)
            y[j] = ln_norm_apply(p.norm, part(held[h], j), 4 * (size_t)i + j, mean, inverse);
        if (p.residual != NULL) {
            float4 r = ((const float4 *)(p.residual + row * p.norm.dim))[i];
            for (int j = 0; j < 4; j++)
                y[j] = part(r, j) + p.scale * y[j];
        }
        ((float4 *)(p.out + row * p.norm.dim))[i] = make_float4(y[0], y[1], y[2], y[3]);
    }
}

int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, ln_cuda_stream stream) {
    if (n_rows == 0)
        return 0;
    norm_args args = {*norm, rows, x, residual, scale, out};
    unsigned n = (unsigned)n_rows;
    bool is_aligned = norm->dim % 4 == 0 && norm->dim >= WIDE_THREADS &&
                      ((uintptr_t)x | (uintptr_t)residual | (uintptr_t)out) % 16 == 0;
    switch (is_aligned ? ln_ceil_div(norm->dim, 4 * WIDE_THREADS) : 0) {
    case 1: norm_held_rows<1><<<n, WIDE_THREADS, 0, stream>>>(args); break;
    case 2: norm_held_rows<2><<<n, WIDE_THREADS, 0, stream>>>(args); break;
    case 3:
    case MAX_HELD: norm_held_rows<MAX_HELD><<<n, WIDE_THREADS, 0, stream>>>(args); break;
    default: norm_rows<<<n, LN_NORM_THREADS, 0, stream>>>(args); break;
    }
    return cudaGetLastError();
}

int ln_cuda_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_norm *p = &op->norm;
    const int32_t *rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    return ln_norm_launch(p->norm, p->n_rows, rows, p->x, p->residual, p->scale, p->out, stream);
}

static __global__ void gather_columns(const __grid_constant__ ln_op_gather p) {
    size_t row = (size_t)blockIdx.x * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        p.out[row + i] = p.x[row + (size_t)p.columns[i]];
}

int ln_cuda_gather(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    if (op->gather.n_rows == 0)
        return 0;
    gather_columns<<<(unsigned)op->gather.n_rows, LN_NORM_THREADS, 0, stream>>>(op->gather);
    return cudaGetLastError();
}
