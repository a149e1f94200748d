/* A norm's statistics over a block, and its formula. */
#ifndef LN_BACKEND_CUDA_OPS_NORM_CUH
#define LN_BACKEND_CUDA_OPS_NORM_CUH

#include "backend/cuda/ptx/common.cuh"
#include "backend/cuda/activations/convert.cuh"

enum { LN_NORM_THREADS = 256 };

/* Mean (0 for RMS norms) and 1 / deviation of x[norm.dim], in every thread. shared
 * [LN_MAX_WARPS] */
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

/* An element of the result, its weight and bias being w and b where there are any. */
static __device__ __forceinline__ float ln_norm_weigh(const ln_norm &norm, float x, float w,
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
    return ln_norm_weigh(norm, x, norm.weight != NULL ? norm.weight[i] : 0.0f,
                         norm.bias != NULL ? norm.bias[i] : 0.0f, mean, inverse);
}

/* ---- rows that a block holds ----------------------------------------------------------------- */

/* A row lies as float4 in LN_HELD_THREADS threads, of which every real one plays SHARE: HELD each,
 * number h of thread v being h * LN_HELD_THREADS + v. So its sums have the same bits in blocks of
 * different sizes. */
enum { LN_HELD_THREADS = 512, LN_MAX_HELD = 4 };

template <int HELD, int SHARE> struct ln_held_row { float4 at[SHARE][HELD]; };

template <int SHARE> static __device__ __forceinline__ unsigned ln_held_index(int share, int h) {
    return (unsigned)(h * LN_HELD_THREADS + share * (LN_HELD_THREADS / SHARE)) + threadIdx.x;
}

static __device__ __forceinline__ float ln_part(const float4 &x, int i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

template <int HELD, int SHARE>
static __device__ __forceinline__ void ln_hold_row(const float *x, size_t dim,
                                                   ln_held_row<HELD, SHARE> &row) {
    unsigned n = (unsigned)dim / 4;
#pragma unroll
    for (int s = 0; s < SHARE; s++)
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            unsigned i = ln_held_index<SHARE>(s, h);
            row.at[s][h] = i < n ? ((const float4 *)x)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
}

/* The threads that play meet; others of the block are elsewhere. */
template <int SHARE> static __device__ __forceinline__ void ln_held_meet(void) {
    asm volatile("bar.sync 0, %0;" ::"n"(LN_HELD_THREADS / SHARE) : "memory");
}

/* As ln_block_sum over the threads that are played. shared [LN_MAX_WARPS] */
template <int SHARE>
static __device__ __forceinline__ float ln_held_sum(const float x[SHARE], float *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
#pragma unroll
    for (int s = 0; s < SHARE; s++) {
        float sum = ln_warp_sum(x[s]);
        if (lane == 0)
            shared[s * (LN_HELD_THREADS / SHARE / LN_WARP) + warp] = sum;
    }
    ln_held_meet<SHARE>();
    float sum = ln_warp_sum(lane < LN_HELD_THREADS / LN_WARP ? shared[lane] : 0.0f);
    ln_held_meet<SHARE>();
    return sum;
}

template <int HELD, int SHARE>
static __device__ __forceinline__ void
ln_held_statistics(const ln_norm &norm, const ln_held_row<HELD, SHARE> &row, float *shared,
                   float *mean, float *inverse) {
    float sum[SHARE] = {}, squares[SHARE] = {};
    *mean = 0.0f;
    *inverse = 1.0f;
#pragma unroll
    for (int s = 0; s < SHARE; s++)
#pragma unroll
        for (int h = 0; h < HELD; h++) {
            const float4 &x = row.at[s][h];
            sum[s] += x.x + x.y + (x.z + x.w);
        }
    if (norm.kind == LN_NORM_LAYER)
        *mean = ln_held_sum<SHARE>(sum, shared) / (float)norm.dim;
#pragma unroll
    for (int s = 0; s < SHARE; s++)
#pragma unroll
        for (int h = 0; h < HELD; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool is_there = ln_held_index<SHARE>(s, h) < (unsigned)norm.dim / 4;
                float y = is_there ? ln_part(row.at[s][h], i) - *mean : 0.0f;
                squares[s] = fmaf(y, y, squares[s]);
            }
    if (norm.kind != LN_NORM_NONE)
        *inverse = 1.0f / sqrtf(ln_held_sum<SHARE>(squares, shared) / (float)norm.dim + norm.eps);
}

/* out[i] = residual[i] + scale * norm(x[rows[i]]) as in ln_op_norm; rows in device memory. With
 * `to` the result is converted, too, which plan/linears.c decides; `out` may be NULL then, when
 * nothing else reads it. */
int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, const ln_act_view *to,
                   ln_cuda_stream stream);

#endif
