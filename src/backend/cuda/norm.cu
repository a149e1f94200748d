/* Norms, with the residual sum behind them, and the gathering of columns. A block per row.
 *
 * Bytes moved: n_rows * dim * 4 * (2, or 3 with a residual). Rows of a multiple of four elements up
 * to LN_MAX_HELD * 2048 are held in registers between the sums and the result; others are read
 * again. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/norm.cuh"

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

static __device__ __forceinline__ float4 load_constant(const float *from, unsigned i) {
    return from != NULL ? ((const float4 *)from)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* With 48 registers to a thread a block finds room beside one of tile_few.cuh. */
template <int HELD>
static __global__ void __maxnreg__(HELD > 2 ? 64 : 48)
    norm_held_rows(const __grid_constant__ norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    ln_let_next_start();
    float4 weight[HELD], bias[HELD]; /* under way before the kernel in front has ended */
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        unsigned i = ln_held_index<1>(0, h);
        bool is_there = i < (unsigned)p.norm.dim / 4;
        weight[h] = load_constant(is_there ? p.norm.weight : NULL, i);
        bias[h] = load_constant(is_there ? p.norm.bias : NULL, i);
    }
    ln_wait_for_last();
    size_t row = blockIdx.x, from = p.rows != NULL ? (size_t)p.rows[row] : row;
    float mean, inverse;
    ln_held_row<HELD, 1> held;
    ln_hold_row(p.x + from * p.norm.dim, p.norm.dim, held);
    ln_held_statistics(p.norm, held, shared, &mean, &inverse);
    float y[HELD][4], largest = 0.0f;
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        unsigned i = ln_held_index<1>(0, h);
        if (i >= (unsigned)p.norm.dim / 4)
            continue;
        for (int j = 0; j < 4; j++)
            y[h][j] = ln_norm_weigh(p.norm, ln_part(held.at[0][h], j), ln_part(weight[h], j),
                                    ln_part(bias[h], j), mean, inverse);
        if (p.residual != NULL) {
            float4 r = ((const float4 *)(p.residual + row * p.norm.dim))[i];
            for (int j = 0; j < 4; j++)
                y[h][j] = ln_part(r, j) + p.scale * y[h][j];
        }
        ((float4 *)(p.out + row * p.norm.dim))[i] = make_float4(y[h][0], y[h][1], y[h][2], y[h][3]);
        if (p.converts && p.to.by_row)
            largest = fmaxf(largest, ln_largest_of_four(y[h]));
        else if (p.converts)
            ln_tile_x_put(p.to, row, 4 * (size_t)i, y[h]);
    }
    if (!p.converts || !p.to.by_row)
        return;
    largest = ln_block_max(largest, shared);
#pragma unroll
    for (int h = 0; h < HELD; h++) {
        unsigned i = ln_held_index<1>(0, h);
        if (i < (unsigned)p.norm.dim / 4)
            ln_tile_x_put_by_row(p.to, row, 4 * (size_t)i, y[h], largest);
    }
}

static bool is_held(const ln_norm *norm, const float *x, const float *residual, const float *out) {
    return norm->dim % 4 == 0 && norm->dim >= LN_HELD_THREADS &&
           norm->dim <= LN_MAX_HELD * 4 * LN_HELD_THREADS &&
           ((uintptr_t)x | (uintptr_t)residual | (uintptr_t)out | (uintptr_t)norm->weight |
            (uintptr_t)norm->bias) %
                   16 ==
               0;
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
    switch (held ? ln_ceil_div(norm->dim, 4 * LN_HELD_THREADS) : 0) {
    case 1: return ln_launch(norm_held_rows<1>, grid, LN_HELD_THREADS, 0, stream, args);
    case 2: return ln_launch(norm_held_rows<2>, grid, LN_HELD_THREADS, 0, stream, args);
    case 3:
    case LN_MAX_HELD:
        return ln_launch(norm_held_rows<LN_MAX_HELD>, grid, LN_HELD_THREADS, 0, stream, args);
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
