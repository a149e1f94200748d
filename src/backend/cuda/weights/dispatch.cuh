/* Runtime layout to template argument, for all kernels. Which kernel runs is chosen in plan/plan.c
 * and gemm/select.cu. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_DISPATCH_CUH
#define LN_BACKEND_CUDA_WEIGHTS_DISPATCH_CUH

#include "backend/cuda/weights/traits.cuh"

template <int N> struct ln_layout_constant { static constexpr int LAYOUT = N; };

/* Returns launch(ln_layout_constant<layout>()), for the layouts that TAKES says true of: kernels
 * are compiled for these alone. Others: cudaErrorInvalidValue. */
template <bool (*TAKES)(int), typename F> static int ln_dispatch_layout(int layout, F launch) {
    switch (layout) {
#define LN_DISPATCH_CASE(NAME, ...)                                                                \
    case LN_LAYOUT_##NAME:                                                                         \
        if constexpr (TAKES(LN_LAYOUT_##NAME))                                                     \
            return launch(ln_layout_constant<LN_LAYOUT_##NAME>());                                 \
        break;
        LN_WEIGHT_LAYOUTS(LN_DISPATCH_CASE)
#undef LN_DISPATCH_CASE
    }
    return cudaErrorInvalidValue;
}

#endif
