/* The epilogue of a linear: bias, activation, gate, scale, residual, soft-cap. */
#ifndef LN_BACKEND_CUDA_GEMM_EPILOGUE_CUH
#define LN_BACKEND_CUDA_GEMM_EPILOGUE_CUH

#include "backend/cuda/activations/function.cuh"
#include "backend/cuda/ptx/float16.cuh"

typedef struct ln_epilogue {
    const float *bias, *gate_bias; /* [n_out] or NULL */
    bool has_gate;
    ln_activation activation;
    const float *residual; /* [n_rows][n_out] or NULL */
    float scale, softcap;
    bool rounds; /* a gate's result, to bf16 */
    size_t n_out, out_stride;
    float *out;
} ln_epilogue;

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

/* What comes behind the activation. */
static __device__ __forceinline__ float ln_epilogue_end(const ln_epilogue &e, float activated,
                                                        float residual) {
    float y = e.scale * activated;
    if (e.residual != NULL)
        y = residual + y;
    if (e.softcap > 0.0f)
        y = e.softcap * tanhf(y / e.softcap);
    if (e.rounds)
        y = ln_round_to_bf16(y);
    return y;
}

/* The result of accumulators u and g, with the bias of their column and the residual. */
static __device__ __forceinline__ float ln_epilogue_value(const ln_epilogue &e, float u, float g,
                                                          float bias, float gate_bias,
                                                          float residual) {
    if (e.bias != NULL)
        u += bias;
    if (e.gate_bias != NULL)
        g += gate_bias;
    return ln_epilogue_end(e, ln_gated(e.activation, e.has_gate, g, u), residual);
}

/* ln_epilogue_value where ln_epilogue_is_plain and there is no gate. */
static __device__ __forceinline__ float ln_epilogue_plain(const ln_epilogue &e, float u, float bias,
                                                          float residual) {
    float y = e.scale * (e.bias != NULL ? u + bias : u);
    return e.residual != NULL ? residual + y : y;
}

/* u and g: the accumulators of a row and a column. */
static __device__ __forceinline__ void ln_finish(const ln_epilogue &e, size_t row, size_t column,
                                                 float u, float g) {
    float bias = e.bias != NULL ? e.bias[column] : 0.0f;
    float gate_bias = e.gate_bias != NULL ? e.gate_bias[column] : 0.0f;
    float residual = e.residual != NULL ? e.residual[row * e.n_out + column] : 0.0f;
    e.out[row * e.out_stride + column] = ln_epilogue_value(e, u, g, bias, gate_bias, residual);
}

/* Whether four columns of a row, from a multiple of four on, lie within 16 bytes each. */
static __host__ __device__ inline bool ln_epilogue_is_aligned(const ln_epilogue &e) {
    size_t at = (size_t)e.out | (size_t)e.residual | (size_t)e.bias | (size_t)e.gate_bias;
    return at % 16 == 0 && (e.n_out | e.out_stride) % 4 == 0;
}

/* Whether the epilogue is no more than bias, scale and residual of aligned rows, or silu, scale and
 * rounding of a gated linear. */
static __host__ __device__ inline bool ln_epilogue_is_plain(const ln_epilogue &e) {
    bool is_bare = e.bias == NULL && e.gate_bias == NULL && e.residual == NULL;
    bool suits = e.has_gate ? e.activation == LN_ACT_SILU && is_bare : e.activation == LN_ACT_NONE;
    return suits && e.softcap <= 0.0f && ln_epilogue_is_aligned(e);
}

/* Four columns of an aligned row. */
static __device__ __forceinline__ void ln_finish_four(const ln_epilogue &e, size_t row,
                                                      size_t column, float4 u, float4 g) {
    float4 b = {}, c = {}, r = {}, y;
    if (e.bias != NULL)
        b = *(const float4 *)(e.bias + column);
    if (e.gate_bias != NULL)
        c = *(const float4 *)(e.gate_bias + column);
    if (e.residual != NULL)
        r = *(const float4 *)(e.residual + row * e.n_out + column);
    y.x = ln_epilogue_value(e, u.x, g.x, b.x, c.x, r.x);
    y.y = ln_epilogue_value(e, u.y, g.y, b.y, c.y, r.y);
    y.z = ln_epilogue_value(e, u.z, g.z, b.z, c.z, r.z);
    y.w = ln_epilogue_value(e, u.w, g.w, b.w, c.w, r.w);
    *(float4 *)(e.out + row * e.out_stride + column) = y;
}

#endif
