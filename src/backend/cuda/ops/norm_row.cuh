/* Rows of a norm that a block holds in registers: constants, result, and its conversion for the
 * next linear. For ops/norm_launch.cu, and for all-reduces that go on with a norm. */
#ifndef LN_BACKEND_CUDA_OPS_NORM_ROW_CUH
#define LN_BACKEND_CUDA_OPS_NORM_ROW_CUH

#include "backend/cuda/activations/store.cuh"
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

static __device__ __forceinline__ float4 ln_norm_load_constant(const float *from, unsigned i) {
    return from != NULL ? ((const float4 *)from)[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

template <int FOURS>
static __device__ __forceinline__ void
ln_norm_load_constants(const ln_norm &norm, float4 (&weight)[FOURS], float4 (&bias)[FOURS]) {
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        unsigned i = ln_norm_row_index<1>(0, h);
        bool is_there = i < (unsigned)norm.dim / 4;
        weight[h] = ln_norm_load_constant(is_there ? norm.weight : NULL, i);
        bias[h] = ln_norm_load_constant(is_there ? norm.bias : NULL, i);
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

/* Float4 number i of a row: weight, bias, residual, and the result as float32. */
static __device__ __forceinline__ void ln_norm_finish_four(const ln_norm_args &p, size_t row,
                                                           unsigned i, const float4 &x,
                                                           const float4 &weight, const float4 &bias,
                                                           float mean, float inverse,
                                                           float (&y)[4]) {
#pragma unroll
    for (int j = 0; j < 4; j++)
        y[j] = ln_norm_scale(p.norm, ln_part(x, j), ln_part(weight, j), ln_part(bias, j), mean,
                             inverse);
    if (p.residual != NULL) {
        float4 r = ((const float4 *)(p.residual + row * p.norm.dim))[i];
#pragma unroll
        for (int j = 0; j < 4; j++)
            y[j] = ln_part(r, j) + p.scale * y[j];
    }
    if (p.out != NULL)
        ((float4 *)(p.out + row * p.norm.dim))[i] = make_float4(y[0], y[1], y[2], y[3]);
}

/* A row in registers: its result, and its conversion. */
template <int FOURS, ln_norm_conversion TO>
static __device__ __forceinline__ void
ln_norm_finish_row(const ln_norm_args &p, size_t row, const ln_norm_row<FOURS, 1> &held,
                   const float4 (&weight)[FOURS], const float4 (&bias)[FOURS], float mean,
                   float inverse, unsigned *shared) {
    float y[FOURS][4] = {}, absmax = 0.0f;
#pragma unroll
    for (int h = 0; h < FOURS; h++) {
        unsigned i = ln_norm_row_index<1>(0, h);
        if (i >= (unsigned)p.norm.dim / 4)
            continue;
        ln_norm_finish_four(p, row, i, held.at[0][h], weight[h], bias[h], mean, inverse, y[h]);
        if (TO == LN_NORM_CONVERTED_BY_ROW)
            absmax = fmaxf(absmax, ln_largest_of_four(y[h]));
        else if (TO == LN_NORM_CONVERTED)
            ln_act_store(p.to, row, 4 * (size_t)i, y[h]);
    }
    if (TO == LN_NORM_CONVERTED_BY_ROW)
        ln_act_store_registers<LN_NORM_VTHREADS>(p.to, row, y, ln_block_greatest(absmax, shared));
}

#endif
