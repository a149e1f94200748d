/* Adapters of weights, as kernels read them: ln_adapter_target in device memory. */
#ifndef LN_BACKEND_CUDA_OPS_ADAPTER_CUH
#define LN_BACKEND_CUDA_OPS_ADAPTER_CUH

#include "backend/adapter_tiles.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/adapter_lists.h"
#include "backend/op.h"

/* What an adapter (slot -1: none) makes of the weight whose targets these are, by slot, or NULL. */
static __device__ __forceinline__ const ln_adapter_target *
ln_adapter_target_of(const ln_adapter_target *targets, int32_t slot) {
    return targets != NULL && slot >= 0 ? &targets[slot] : NULL;
}

/* Where B has element k = 0 of a column; the next k are LN_ADAPTER_ROWS floats apart each. */
static __device__ __forceinline__ const float *ln_adapter_column(const ln_adapter_target &target,
                                                                 size_t column) {
    return target.b + column / LN_ADAPTER_ROWS * target.rank * LN_ADAPTER_ROWS +
           column % LN_ADAPTER_ROWS;
}

/* A column of B low. */
static __device__ __forceinline__ float ln_adapter_expand(const ln_adapter_target &target,
                                                          const float *low, size_t column) {
    const float *b = ln_adapter_column(target, column);
    float sum = 0.0f;
    for (size_t k = 0; k < target.rank; k++)
        sum = fmaf(low[k], b[k * LN_ADAPTER_ROWS], sum);
    return sum;
}

/* Memory between the halves of adapters' linears (ln_cuda_step.adapter_scratch). */
enum { LN_SHRINK_PARTIALS = 4096, LN_SHRINK_FLOATS = LN_ADAPTER_RUN * LN_ADAPTER_TILE };
typedef struct ln_adapter_scratch {
    ln_adapter_lists lists;
    unsigned counters[LN_SHRINK_PARTIALS]; /* 0 between kernels */
    float partials[LN_SHRINK_PARTIALS][LN_SHRINK_FLOATS];
} ln_adapter_scratch;

/* The targets of a weight for each head (n_heads 1: one weight), at equal distances. */
typedef struct ln_adapter_heads {
    const ln_adapter_target *targets; /* of head 0, by slot; NULL: nothing adapts it */
    size_t stride;                    /* targets from head to head */
} ln_adapter_heads;

/* Whether the targets of weights[n_heads] lie so. */
static inline bool ln_describe_adapters(const ln_weight *weights, size_t n_heads,
                                        ln_adapter_heads *out) {
    *out = {weights->device_adapters, 0};
    if (n_heads < 2 || out->targets == NULL)
        return true;
    out->stride = (size_t)(weights[1].device_adapters - out->targets);
    for (size_t i = 1; i < n_heads; i++)
        if (weights[i].device_adapters != out->targets + i * out->stride)
            return false;
    return true;
}

/* Where A x of the weights of an LN_OP_LORA_SHRINK goes as the x of a GEMM's last K split. */
typedef struct ln_adapter_routes {
    bool any;
    unsigned part[LN_MAX_LORA_WEIGHTS]; /* list that a weight's ranks are added to */
    bool is_gate[LN_MAX_LORA_WEIGHTS];  /* of a gate */
    int before[LN_MAX_LORA_WEIGHTS];    /* the weight whose ranks come before in that list, or -1 */
    bool is_last[LN_MAX_LORA_WEIGHTS];  /* none come behind */
} ln_adapter_routes;

int ln_cuda_lora_shrink_lists(const ln_op *op, const ln_adapter_routes *routes,
                              const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_lora_shrink_mma(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#endif
