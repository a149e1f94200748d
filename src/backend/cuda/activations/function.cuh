/* The activation functions of linears and gates. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_FUNCTION_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_FUNCTION_CUH

#include "backend/op.h"

/* x / (1 + exp(-x)), 2 + 1.2 |x| ulp off. The bits are those of __fdividef(x, 1 + __expf(-x)), with
 * half of its instructions: subnormal numbers become zeros on the way. */
static __device__ __forceinline__ float ln_silu(float x) {
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return x * inverse;
}

static __device__ __forceinline__ float ln_activate(ln_activation activation, float x) {
    switch (activation) {
    case LN_ACT_SILU: return ln_silu(x);
    case LN_ACT_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case LN_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    case LN_ACT_RELU: return x > 0.0f ? x : 0.0f;
    case LN_ACT_RELU_SQUARED: return x > 0.0f ? x * x : 0.0f;
    default: return x;
    }
}

#endif
