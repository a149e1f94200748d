/* A norm's statistics over a block, and its formula. */
#ifndef LN_BACKEND_CUDA_NORM_CUH
#define LN_BACKEND_CUDA_NORM_CUH

#include "backend/cuda/common.cuh"
#include "backend/cuda/tile_x.cuh"

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

/* Element i of the result. */
static __device__ __forceinline__ float ln_norm_apply(const ln_norm &norm, float x, size_t i,
                                                      float mean, float inverse) {
    if (norm.kind == LN_NORM_NONE)
        return x;
    float y = (x - mean) * inverse;
    if (norm.weight != NULL)
        y *= norm.weight[i] + (norm.kind == LN_NORM_RMS_PLUS_ONE ? 1.0f : 0.0f);
    if (norm.bias != NULL)
        y += norm.bias[i];
    return y;
}

/* out[i] = residual[i] + scale * norm(x[rows[i]]) as in ln_op_norm; rows in device memory. With
 * `to` the result is converted, too, which takes ln_norm_converts. */
int ln_norm_launch(const ln_norm *norm, size_t n_rows, const int32_t *rows, const float *x,
                   const float *residual, float scale, float *out, const ln_tile_x_parts *to,
                   ln_cuda_stream stream);
bool ln_norm_converts(const ln_op_norm *op);

#endif
