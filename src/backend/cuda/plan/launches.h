/* What a plan consists of (plan.h). */
#ifndef LN_BACKEND_CUDA_PLAN_LAUNCHES_H
#define LN_BACKEND_CUDA_PLAN_LAUNCHES_H

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/ops.h"
#include "backend/values.h"

/* What kernels of several small operations take. */
enum {
    LN_PAIR_NARROW = 3,            /* columns of the first linear at most */
    LN_PAIR_ROWS = 127,            /* at most */
    LN_GROUP_SMALL_BATCH_ROWS = 32 /* that are sorted, at most */
};

/* What the plan is for. */
typedef struct ln_cuda_target {
    bool has_sm90a;       /* kernels with Hopper's own instructions */
    ln_converted_act act; /* memory for converted activations, and cuBLASLt, if it serves any */
    bool (*blas_takes)(ln_cublaslt *blas, const ln_op *ops, size_t n_ops); /* or NULL */
} ln_cuda_target;

typedef enum ln_cuda_launch_kind {
    LN_CUDA_OP,           /* the operation's own kernel */
    LN_CUDA_FUSED_DECODE, /* norms, linears, attentions, mixtures as one kernel: `tasks` */
    LN_CUDA_LINEAR_NORM,  /* norms and linears as one kernel: `tasks` */
    LN_CUDA_GEMM,         /* up to three linears of weight tiles that read the same x */
    LN_CUDA_LORA_GEMM,    /* the same behind the first half of their adapters, in the GEMM itself */
    LN_CUDA_GROUPED_GEMM, /* a linear of weight tiles with a matrix per group of rows */
    LN_CUDA_NORM,         /* a norm, behind an all-reduce or not, that can convert its result */
    LN_CUDA_ATTENTION,    /* attention that does so, or finishes q, k and v, or both */
    LN_CUDA_LINEAR_PAIR,  /* two linears of the same x without tiles, the first narrow */
    LN_CUDA_ROUTE_GROUP,  /* one token's experts are chosen and sorted */
    LN_CUDA_MIXTURE,      /* they are chosen, and run, and summed, as one kernel */
    LN_CUDA_LAUNCH_KINDS
} ln_cuda_launch_kind;

typedef struct ln_cuda_launch {
    ln_cuda_launch_kind kind;
    uint32_t first, n_ops; /* operations of the step */
    uint32_t first_task, n_tasks;
    bool by_blas;       /* GEMM */
    bool expands;       /* linears have adapters, whose part follows in a kernel of its own */
    bool converts_x;    /* x is converted to `x` first */
    bool converts_to;   /* the result is written as `to` */
    bool leaves_out;    /* the result is written in no other form */
    ln_converted_act x; /* the form that linears read; of LINEAR_NORM the first ones */
    ln_converted_act to;
    size_t work_bytes, n_handoff_floats; /* FUSED_DECODE, MIXTURE */
    const char *apart; /* why the operation behind is not in this launch, or NULL */
} ln_cuda_launch;

/* A part of a fused kernel: n_linears that read the same x, behind a norm or not, and then behind
 * the shrink of their adapters or not, or with none a QKV and its attention; or a mixture. */
typedef struct ln_cuda_task {
    uint32_t first; /* operation */
    uint8_t n_linears;
    bool has_norm, has_shrink;
} ln_cuda_task;

/* Where a fused kernel leaves a value. */
typedef struct ln_cuda_place {
    bool is_handed_off; /* its blocks read it at this float of their hand-off memory */
    bool is_left_out;   /* nobody reads it in its own memory */
    uint32_t handoff;
} ln_cuda_place;

/* Zero it before use. */
typedef struct ln_cuda_plan {
    ln_cuda_launch *launches;
    ln_cuda_task *tasks;
    ln_value_uses *uses;   /* [n_values] */
    ln_cuda_place *places; /* [n_values] */
    size_t n_launches, n_tasks, n_values;
    void *memory;
    size_t max_ops;
} ln_cuda_plan;

/* Whether an operation of a fused kernel finds a value in the hand-off memory: the same launch made
 * it. What another one left there is cleared when a kernel begins. */
static inline bool ln_cuda_reads_handoff(const ln_cuda_plan *plan, const ln_cuda_launch *launch,
                                         ln_value value) {
    return plan->places[value].is_handed_off && plan->uses[value].producer >= launch->first;
}

#endif
