/* A norm's statistics over a block of LN_NORM_THREADS threads, and its formula. */
#ifndef LN_BACKEND_CUDA_NORM_CUH
#define LN_BACKEND_CUDA_NORM_CUH

#include "backend/cuda/common.cuh"

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
    if (norm.kind == LN_NORM_LAYER) {
        float sum = 0.0f;
        for (size_t i = threadIdx.x; i < norm.dim; i += blockDim.x)
            sum += x[i];
        *mean = ln_block_sum(sum, shared) / (float)norm.dim;
    }
    float squares = 0.0f;
    for (size_t i = threadIdx.x; i < norm.dim; i += blockDim.x)
        squares = fmaf(x[i] - *mean, x[i] - *mean, squares);
    *inverse = 1.0f / sqrtf(ln_block_sum(squares, shared) / (float)norm.dim + norm.eps);
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

#endif
