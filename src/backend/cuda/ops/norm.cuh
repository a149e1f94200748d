/* RMS and LayerNorm: statistics by a block, formula, and rows in registers. */
#ifndef LN_BACKEND_CUDA_OPS_NORM_CUH
#define LN_BACKEND_CUDA_OPS_NORM_CUH

#include "backend/cuda/ops.h"
#include "backend/cuda/ptx/reduce.cuh"

typedef struct ln_act_view ln_act_view; /* activations/view.cuh */

enum { LN_NORM_THREADS = 256 };

/* Mean (0 for RMS norms) and 1 / standard deviation of x[norm.dim], in every thread of the block.
 * shared [LN_MAX_WARPS] */
static __device__ __forceinline__ void ln_norm_statistics(const ln_norm &norm, const float *x,
                                                          float *shared, float *mean,
                                                          float *inverse) {
    *mean = 0.0f;
    *inverse = 1.0f;
    if (norm.kind == LN_NORM_NONE)
        return;
    unsigned dim = (unsigned)norm.dim;
    if (norm.kind == LN_NORM_LAYER) {
        float sum = 0.0f;
        for (unsigned i = threadIdx.x; i < dim; i += blockDim.x)
            sum += x[i];
        *mean = ln_block_sum(sum, shared) / (float)dim;
    }
    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < dim; i += blockDim.x)
        squares = fmaf(x[i] - *mean, x[i] - *mean, squares);
    *inverse = 1.0f / sqrtf(ln_block_sum(squares, shared) / (float)dim + norm.eps);
}

/* An element of the result; w and b: its weight and bias where there are any. */
static __device__ __forceinline__ float ln_norm_scale(const ln_norm &norm, float x, float w,
                                                      float b, float mean, float inverse) {
    if (norm.kind == LN_NORM_NONE)
        return x;
    float y = (x - mean) * inverse;
    if (norm.weight != NULL)
        y *= w + (norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f);
    if (norm.bias != NULL)
        y += b;
    return y;
}

/* Element i of the result. */
static __device__ __forceinline__ float ln_norm_apply(const ln_norm &norm, float x, size_t i,
                                                      float mean, float inverse) {
    return ln_norm_scale(norm, x, norm.weight != NULL ? norm.weight[i] : 0.0f,
                         norm.bias != NULL ? norm.bias[i] : 0.0f, mean, inverse);
}

/* ---- rows in registers ----------------------------------------------------------------------- */

/* A row of float4 in the registers of LN_NORM_VTHREADS virtual threads, VPT of them to a real one,
 * FOURS float4 to each: number h of virtual thread v is h * LN_NORM_VTHREADS + v. So sums have the
 * same bits in blocks of different sizes. */
enum { LN_NORM_VTHREADS = 512, LN_NORM_MAX_FOURS = 4 };

template <int FOURS, int VPT> struct ln_norm_row { float4 at[VPT][FOURS]; };

template <int VPT> static __device__ __forceinline__ unsigned ln_norm_row_index(int v, int h) {
    return (unsigned)(h * LN_NORM_VTHREADS + v * (LN_NORM_VTHREADS / VPT)) + threadIdx.x;
}

static __device__ __forceinline__ float ln_part(const float4 &x, int i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

template <int FOURS, int VPT>
static __device__ __forceinline__ void ln_norm_load_row(const float *x, size_t dim,
                                                        ln_norm_row<FOURS, VPT> &row) {
    unsigned n = (unsigned)dim / 4;
#pragma unroll
    for (int s = 0; s < VPT; s++)
#pragma unroll
        for (int h = 0; h < FOURS; h++) {
            unsigned i = ln_norm_row_index<VPT>(s, h);
            row.at[s][h] = i < n ? ((const float4 *)x)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
}

/* Barrier of the threads that share the row; others of the block are elsewhere. */
template <int VPT> static __device__ __forceinline__ void ln_norm_sync(void) {
    asm volatile("bar.sync 0, %0;" ::"n"(LN_NORM_VTHREADS / VPT) : "memory");
}

/* As ln_block_sum, over the virtual threads. shared [LN_MAX_WARPS] */
template <int VPT>
static __device__ __forceinline__ float ln_norm_sum(float (&x)[VPT], float *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
#pragma unroll
    for (int step = LN_WARP / 2; step > 0; step /= 2)
#pragma unroll
        for (int s = 0; s < VPT; s++) /* all at once, as each shuffle takes long */
            x[s] += __shfl_xor_sync(0xffffffffu, x[s], step);
#pragma unroll
    for (int s = 0; s < VPT; s++)
        if (lane == 0)
            shared[s * (LN_NORM_VTHREADS / VPT / LN_WARP) + warp] = x[s];
    ln_norm_sync<VPT>();
    float sum = ln_warp_sum(lane < LN_NORM_VTHREADS / LN_WARP ? shared[lane] : 0.0f);
    ln_norm_sync<VPT>();
    return sum;
}

template <int FOURS, int VPT>
static __device__ __forceinline__ void
ln_norm_row_statistics(const ln_norm &norm, const ln_norm_row<FOURS, VPT> &row, float *shared,
                       float *mean, float *inverse) {
    float sum[VPT] = {}, squares[VPT] = {};
    *mean = 0.0f;
    *inverse = 1.0f;
#pragma unroll
    for (int s = 0; s < VPT; s++)
#pragma unroll
        for (int h = 0; h < FOURS; h++) {
            const float4 &x = row.at[s][h];
            sum[s] += x.x + x.y + (x.z + x.w);
        }
    if (norm.kind == LN_NORM_LAYER)
        *mean = ln_norm_sum<VPT>(sum, shared) / (float)norm.dim;
#pragma unroll
    for (int s = 0; s < VPT; s++)
#pragma unroll
        for (int h = 0; h < FOURS; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool is_there = norm.kind != LN_NORM_LAYER || /* without a mean zeros stay zeros */
                                ln_norm_row_index<VPT>(s, h) < (unsigned)norm.dim / 4;
                float y = is_there ? ln_part(row.at[s][h], i) - *mean : 0.0f;
                squares[s] = fmaf(y, y, squares[s]);
            }
    if (norm.kind != LN_NORM_NONE)
        *inverse = 1.0f / sqrtf(ln_norm_sum<VPT>(squares, shared) / (float)norm.dim + norm.eps);
}

/* out[i] = residual[i] + scale * norm(x[rows[i]]) as in ln_op_norm; rows in device memory. With
 * `to` the result is converted for the next linear, too, which plan/linears.c decides; out is NULL
 * then if nothing else reads it. */
int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, const ln_act_view *to,
                   ln_cuda_stream stream);

#endif
