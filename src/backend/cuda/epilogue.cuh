/* What becomes of a linear's sums: bias, activation, gate, scale, residual, soft-cap. */
#ifndef LN_BACKEND_CUDA_EPILOGUE_CUH
#define LN_BACKEND_CUDA_EPILOGUE_CUH

#include "backend/cuda/common.cuh"

typedef struct ln_epilogue {
    const float *bias, *gate_bias; /* [n_out] or NULL */
    bool has_gate;
    ln_activation activation;
    const float *residual; /* [n_rows][n_out] or NULL */
    float scale, softcap;
    size_t n_out, out_stride;
    float *out;
} ln_epilogue;

static __device__ __forceinline__ float ln_activate(ln_activation activation, float x) {
    switch (activation) {
    case LN_ACT_SILU: return x / (1.0f + expf(-x));
    case LN_ACT_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case LN_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
    case LN_ACT_RELU: return x > 0.0f ? x : 0.0f;
    case LN_ACT_RELU_SQUARED: return x > 0.0f ? x * x : 0.0f;
    default: return x;
    }
}

/* act(g) * u, or act(u) without a gate */
static __device__ __forceinline__ float ln_gated(ln_activation activation, bool has_gate, float g,
                                                 float u) {
    if (!has_gate)
        return ln_activate(activation, u);
    if (activation != LN_ACT_SWIGLU_CLAMPED)
        return ln_activate(activation, g) * u;
    g = fminf(g, 7.0f);
    u = fminf(fmaxf(u, -7.0f), 7.0f);
    return (u + 1.0f) * (g / (1.0f + expf(-1.702f * g)));
}

/* u and g: the sums of a row and a column. */
static __device__ __forceinline__ void ln_finish(const ln_epilogue &e, size_t row, size_t column,
                                                 float u, float g) {
    if (e.bias != NULL)
        u += e.bias[column];
    if (e.gate_bias != NULL)
        g += e.gate_bias[column];
    float y = e.scale * ln_gated(e.activation, e.has_gate, g, u);
    if (e.residual != NULL)
        y = e.residual[row * e.n_out + column] + y;
    if (e.softcap > 0.0f)
        y = e.softcap * tanhf(y / e.softcap);
    e.out[row * e.out_stride + column] = y;
}

#endif
