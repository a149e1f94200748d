/* Norms, with the residual sum behind them, and the gathering of columns. A block per row.
 *
 * Bytes moved: n_rows * dim * 4 * (2, or 3 with a residual). Rows of a multiple of four elements up
 * to MAX_HELD * 2048 are held in registers between the sums and the result; others are read
 * again. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/norm.cuh"

enum { WIDE_THREADS = 512, MAX_HELD = 4 };

typedef struct norm_args {
    ln_norm norm;
    const int32_t *rows;
    const float *x, *residual;
    float scale;
    float *out;
    bool converts;
    ln_tile_x_parts to;
} norm_args;

static __global__ void norm_rows(const __grid_constant__ norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    ln_follow_last();
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
    ln_follow_last();
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
        inverse = 1.0f / sqrtf(ln_block_sum(squares, shared) / (float)p.norm.dim + p.norm.eps);
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
        if (p.converts)
            ln_tile_x_put(p.to, row, 4 * (size_t)i, y);
    }
}

static bool is_held(const ln_norm *norm, const float *x, const float *residual, const float *out) {
    return norm->dim % 4 == 0 && norm->dim >= WIDE_THREADS &&
           norm->dim <= MAX_HELD * 4 * WIDE_THREADS &&
           ((uintptr_t)x | (uintptr_t)residual | (uintptr_t)out) % 16 == 0;
}

bool ln_norm_converts(const ln_op_norm *op) {
    return op->n_rows > 0 && op->norm->dim % LN_TILE_BLOCK == 0 &&
           is_held(op->norm, op->x, op->residual, op->out);
}

int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, const ln_tile_x_parts *to,
                   ln_cuda_stream stream) {
    if (n_rows == 0)
        return 0;
    norm_args args = {*norm, rows, x, residual, scale, out, to != NULL, {}};
    if (to != NULL)
        args.to = *to;
    dim3 grid((unsigned)n_rows);
    bool held = is_held(norm, x, residual, out);
    switch (held ? ln_ceil_div(norm->dim, 4 * WIDE_THREADS) : 0) {
    case 1: return ln_launch(norm_held_rows<1>, grid, WIDE_THREADS, 0, stream, args);
    case 2: return ln_launch(norm_held_rows<2>, grid, WIDE_THREADS, 0, stream, args);
    case 3:
    case MAX_HELD: return ln_launch(norm_held_rows<MAX_HELD>, grid, WIDE_THREADS, 0, stream, args);
    default: return ln_launch(norm_rows, grid, LN_NORM_THREADS, 0, stream, args);
    }
}

int ln_cuda_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_norm *p = &op->norm;
    const int32_t *rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    return ln_norm_launch(p->norm, p->n_rows, rows, p->x, p->residual, p->scale, p->out, NULL,
                          stream);
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
