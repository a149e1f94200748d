/* The types of weights that the GPU's kernels dequantise. A model with a weight of another type is
 * refused when it is loaded. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_TYPES_H
#define LN_BACKEND_CUDA_WEIGHTS_TYPES_H

#include <stdbool.h>

#include "format/dtype.h"

/* type, device function that loads a group of eight columns (dequantize.cuh, dequantize_iq.cuh) */
#define LN_CUDA_WEIGHT_TYPES(X)                                                                    \
    X(LN_DTYPE_F32, ln_load_f32)                                                                   \
    X(LN_DTYPE_F64, ln_load_f64)                                                                   \
    X(LN_DTYPE_F16, ln_load_f16)                                                                   \
    X(LN_DTYPE_BF16, ln_load_bf16)                                                                 \
    X(LN_DTYPE_Q4_0, ln_load_q4_0)                                                                 \
    X(LN_DTYPE_Q4_1, ln_load_q4_1)                                                                 \
    X(LN_DTYPE_Q5_0, ln_load_q5_0)                                                                 \
    X(LN_DTYPE_Q5_1, ln_load_q5_1)                                                                 \
    X(LN_DTYPE_Q8_0, ln_load_q8_0)                                                                 \
    X(LN_DTYPE_MXFP4, ln_load_mxfp4)                                                               \
    X(LN_DTYPE_NVFP4, ln_load_nvfp4)                                                               \
    X(LN_DTYPE_Q1_0, ln_load_q1_0)                                                                 \
    X(LN_DTYPE_Q2_0, ln_load_q2_0)                                                                 \
    X(LN_DTYPE_I4_G32, ln_load_i4_g32)                                                             \
    X(LN_DTYPE_I8_G32, ln_load_i8_g32)                                                             \
    X(LN_DTYPE_F8_G32, ln_load_f8_g32)                                                             \
    X(LN_DTYPE_Q2_K, ln_load_q2_k)                                                                 \
    X(LN_DTYPE_Q3_K, ln_load_q3_k)                                                                 \
    X(LN_DTYPE_Q4_K, ln_load_q4_k)                                                                 \
    X(LN_DTYPE_Q5_K, ln_load_q5_k)                                                                 \
    X(LN_DTYPE_Q6_K, ln_load_q6_k)                                                                 \
    X(LN_DTYPE_TQ1_0, ln_load_tq1_0)                                                               \
    X(LN_DTYPE_TQ2_0, ln_load_tq2_0)                                                               \
    X(LN_DTYPE_IQ1_S, ln_load_iq1_s)                                                               \
    X(LN_DTYPE_IQ1_M, ln_load_iq1_m)                                                               \
    X(LN_DTYPE_IQ2_XXS, ln_load_iq2_xxs)                                                           \
    X(LN_DTYPE_IQ2_XS, ln_load_iq2_xs)                                                             \
    X(LN_DTYPE_IQ2_S, ln_load_iq2_s)                                                               \
    X(LN_DTYPE_IQ3_XXS, ln_load_iq3_xxs)                                                           \
    X(LN_DTYPE_IQ3_S, ln_load_iq3_s)                                                               \
    X(LN_DTYPE_IQ4_NL, ln_load_iq4_nl)                                                             \
    X(LN_DTYPE_IQ4_XS, ln_load_iq4_xs)

static inline bool ln_cuda_can_dequantize(ln_dtype dtype) {
    switch (dtype) {
#define LN_CUDA_IS_TYPE(type, load) case type:
        LN_CUDA_WEIGHT_TYPES(LN_CUDA_IS_TYPE)
#undef LN_CUDA_IS_TYPE
        return true;
    default: return false;
    }
}

#endif
