/* Arguments of the fused decode kernel: its tasks and shared memory. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH

#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/fused/decode_handoff.cuh"
#include "backend/cuda/fused/decode_weights.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/ops/qkv.cuh"

/* What linears read. */
typedef struct ln_decode_rows {
    const float *at;
    unsigned stride, n_cols; /* floats from row to row, and of a row */
    bool is_handed_off;      /* by blocks of this kernel */
} ln_decode_rows;

/* Linears that share activations: rows of x, or their norms, which are stored to `normed`, too. */
typedef struct ln_decode_linear {
    ln_gemm_part parts[LN_GEMM_MAX_PARTS];
    unsigned n_parts, k_tiles; /* k_tiles: weight tiles along K */
    unsigned n_output_tiles;   /* of all parts */
    unsigned x_cols;           /* of a row of x in shared memory */
    bool has_gate, precise, normalizes;
    ln_decode_rows x;
    ln_norm norm;
    const int32_t *rows;               /* that norms gather, or NULL */
    float *normed;                     /* or NULL */
    bool residual_is_handed_off;       /* by blocks of this kernel */
    float *handoff[LN_GEMM_MAX_PARTS]; /* where results are handed off, as in `out`, or NULL */
    float *normed_handoff;
} ln_decode_linear;

/* RoPE (and head norms) of q and k, KV write, attention. */
typedef struct ln_decode_attention {
    ln_qkv_args qkv; /* q, k and v are handoff */
    ln_mma_attention_args mma;
    float *handoff; /* where the result is handed off, or NULL */
} ln_decode_attention;

/* A task as shared memory holds it. */
typedef union ln_decode_task {
    ln_decode_linear linear;
    ln_decode_attention attention;
} ln_decode_task;

/* The kernel's argument: tasks without mixtures. */
typedef struct ln_decode_list {
    ln_decode_args p;
    ln_decode_weight_tiles weights[LN_DECODE_MAX_LINEARS]; /* of linears */
    ln_decode_linear linears[LN_DECODE_MAX_LINEARS];
    ln_decode_attention attentions[LN_DECODE_MAX_ATTENTIONS];
} ln_decode_list;

static_assert(sizeof(ln_decode_list) < 32700, "kernels take so many bytes");

#endif
