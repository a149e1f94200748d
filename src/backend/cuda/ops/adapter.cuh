/* Adapters of weights, as kernels read them: ln_adapter_target in device memory. */
#ifndef LN_BACKEND_CUDA_OPS_ADAPTER_CUH
#define LN_BACKEND_CUDA_OPS_ADAPTER_CUH

#include "backend/adapter_tiles.h"
#include "backend/cuda/activations/row_groups.cuh"
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

/* The first of the four columns that lane q of each four meets in a K step of A. */
static __device__ __forceinline__ unsigned ln_adapter_column_of(unsigned step, unsigned q) {
    return step / 2 * (2 * LN_ADAPTER_TILE) + q * 8 + step % 2 * 4;
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

/* Rows that are sorted by group (experts), of which a launch takes those of some groups. */
typedef struct ln_adapter_groups {
    ln_group_order rows;
    const int32_t *slots; /* [n_tokens] adapters */
    size_t rows_per_token;
    unsigned first, here; /* groups: the first that is taken, and how many */
} ln_adapter_groups;

/* One of these rows; group: from the first that is taken on. */
typedef struct ln_adapter_row {
    size_t row;
    unsigned group;
    int32_t slot; /* -1: no adapter */
} ln_adapter_row;

static inline ln_adapter_groups ln_describe_adapter_groups(const ln_row_groups &groups,
                                                           const ln_cuda_adapter_rows *rows,
                                                           size_t rows_per_token, bool is_even) {
    ln_adapter_groups g = {};
    g.rows.n_groups = (unsigned)groups.n_groups;
    g.rows.order = groups.order;
    g.rows.starts = groups.starts;
    g.slots = rows->rows.slots;
    g.rows_per_token = rows_per_token;
    g.here = is_even ? g.rows.n_groups : 1;
    return g;
}

/* The row at `position` of the order; false: there is none, or another launch takes it. All lanes
 * of a warp call together. */
static __device__ __forceinline__ bool ln_adapter_find_row(const ln_adapter_groups &g,
                                                           unsigned position, ln_adapter_row *out) {
    unsigned group = 0; /* so many end before the position */
    for (unsigned i = threadIdx.x % LN_WARP; i < g.rows.n_groups; i += LN_WARP)
        group += (unsigned)g.rows.starts[i + 1] <= position;
    group = __reduce_add_sync(0xffffffffu, group);
    if (group >= g.rows.n_groups || group - g.first >= g.here)
        return false;
    out->group = group - g.first;
    out->row = (size_t)g.rows.order[position];
    out->slot = g.slots[out->row / g.rows_per_token];
    return true;
}

/* An LN_OP_LORA_SHRINK of such rows. */
int ln_cuda_lora_shrink_groups(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
/* Adds adapters to what `raw` and `raw_gate` (NULL: there is no gate), linears without their
 * epilogue, have made of a linear of such rows, and does the epilogue. */
int ln_cuda_lora_expand_groups(const ln_op *op, const ln_op *raw, const ln_op *raw_gate,
                               const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_lora_shrink_lists(const ln_op *op, const ln_adapter_routes *routes,
                              const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_lora_shrink_mma(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#endif
