/* Rows of a norm that a block holds in registers: constants, result, and its conversion for the
 * next linear. For ops/norm_launch.cu, and for all-reduces that go on with a norm. */
#ifndef LN_BACKEND_CUDA_OPS_NORM_ROW_CUH
#define LN_BACKEND_CUDA_OPS_NORM_ROW_CUH

#include "backend/cuda/activations/store_row.cuh"
#include "backend/cuda/ops/norm.cuh"

typedef struct ln_norm_args {
    ln_norm norm;
    size_t n_rows;
    const int32_t *rows;
    const float *x, *residual;
    float scale;
    float *out; /* or NULL where it converts */
    bool converts;
    ln_act_view to;
    size_t out_stride; /* of norm_rows */
} ln_norm_args;

/* What float4 number i of a row is multiplied with: ones, which change nothing, where there is no
 * weight. */
static __device__ __forceinline__ float4 ln_norm_load_factor(const ln_norm &norm, unsigned i) {
    if (norm.weight == NULL || norm.kind == LN_NORM_NONE)
        return make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    float4 w = ((const float4 *)norm.weight)[i];
    float one = norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f;
    return make_float4(w.x + one, w.y + one, w.z + one, w.w + one);
}

/* What is added to it then: -0, which changes nothing, where there is no bias. */
static __device__ __forceinline__ float4 ln_norm_load_bias(const ln_norm &norm, unsigned i) {
    if (norm.bias == NULL || norm.kind == LN_NORM_NONE)
        return make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    return ((const float4 *)norm.bias)[i];
}

/* Those of the float4 of a thread, of which number j of the block's 512 / VPT threads is
 * j * (512 / VPT) + threadIdx.x, as ln_norm_row_index has it. Behind the end of the row zeros, so
 * that the result is zero there. */
template <int VPT, int N>
static __device__ __forceinline__ void
ln_norm_load_constants(const ln_norm &norm, float4 (&factor)[N], float4 (&bias)[N]) {
#pragma unroll
    for (int j = 0; j < N; j++) {
        unsigned i = ln_norm_row_index<VPT>(j % VPT, j / VPT);
        bool is_there = i < (unsigned)norm.dim / 4;
        float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        factor[j] = is_there ? ln_norm_load_factor(norm, i) : zero;
        bias[j] = is_there || norm.bias == NULL ? ln_norm_load_bias(norm, i) : zero;
    }
}

/* Conversion of the result for the next linear. */
typedef enum ln_norm_conversion {
    LN_NORM_NOT_CONVERTED,
    LN_NORM_CONVERTED,
    LN_NORM_CONVERTED_BY_ROW
} ln_norm_conversion;

static ln_norm_conversion ln_norm_find_conversion(const ln_norm_args &p) {
    return !p.converts   ? LN_NORM_NOT_CONVERTED
           : p.to.by_row ? LN_NORM_CONVERTED_BY_ROW
                         : LN_NORM_CONVERTED;
}

/* Four elements: ln_norm_scale, of loaded constants. */
static __device__ __forceinline__ void ln_norm_scale_four(const float4 &x, const float4 &factor,
                                                          const float4 &bias, float mean,
                                                          float inverse, float (&y)[4]) {
#pragma unroll
    for (int j = 0; j < 4; j++)
        y[j] = (ln_part(x, j) - mean) * inverse * ln_part(factor, j) + ln_part(bias, j);
}

/* Adds float4 number i of a row of the residual. */
static __device__ __forceinline__ void ln_norm_add_residual(const ln_norm_args &p, size_t row,
                                                            unsigned i, float (&y)[4]) {
    float4 r = ((const float4 *)(p.residual + row * p.norm.dim))[i];
#pragma unroll
    for (int j = 0; j < 4; j++)
        y[j] = ln_part(r, j) + p.scale * y[j];
}

/* Stores float4 number i of a row of the result as float32. */
static __device__ __forceinline__ void ln_norm_store_four(const ln_norm_args &p, size_t row,
                                                          unsigned i, const float (&y)[4]) {
    ((float4 *)(p.out + row * p.norm.dim))[i] = make_float4(y[0], y[1], y[2], y[3]);
}

/* A row in registers: its result, and its conversion. */
template <ln_norm_conversion TO, int FOURS, int VPT>
static __device__ __forceinline__ void
ln_norm_finish_row(const ln_norm_args &p, size_t row, const ln_norm_row<FOURS, VPT> &held,
                   const float4 (&factor)[FOURS * VPT], const float4 (&bias)[FOURS * VPT],
                   float mean, float inverse, unsigned *shared) {
    enum { N = FOURS * VPT, THREADS = LN_NORM_VTHREADS / VPT };
    unsigned n_fours = (unsigned)p.norm.dim / 4;
    float y[N][4], absmax = 0.0f;
#pragma unroll
    for (int j = 0; j < N; j++)
        ln_norm_scale_four(held.at[j % VPT][j / VPT], factor[j], bias[j], mean, inverse, y[j]);
#pragma unroll
    for (int j = 0; j < N && p.residual != NULL; j++)
        if (j * THREADS + threadIdx.x < n_fours)
            ln_norm_add_residual(p, row, j * THREADS + threadIdx.x, y[j]);
#pragma unroll
    for (int j = 0; j < N && p.out != NULL; j++)
        if (j * THREADS + threadIdx.x < n_fours)
            ln_norm_store_four(p, row, j * THREADS + threadIdx.x, y[j]);
    if (TO == LN_NORM_CONVERTED)
        ln_act_store_block_registers<THREADS>(p.to, row, y);
    if (TO == LN_NORM_CONVERTED_BY_ROW) {
#pragma unroll
        for (int j = 0; j < N; j++)
            absmax = fmaxf(absmax, ln_largest_of_four(y[j]));
        ln_act_store_row_registers<THREADS>(p.to, row, y, ln_block_greatest(absmax, shared));
    }
}

#endif
