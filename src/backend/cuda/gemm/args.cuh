/* What the kernels for linears of tiles take. */
#ifndef LN_BACKEND_CUDA_GEMM_ARGS_CUH
#define LN_BACKEND_CUDA_GEMM_ARGS_CUH

#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/activations/convert.cuh"

/* One of the linears that multiply the same x. */
typedef struct ln_gemm_part {
    const uint8_t *weight, *gate; /* gate NULL: none */
    bool precise;
    uint8_t kind; /* of tiles */
    ln_epilogue epilogue;
} ln_gemm_part;

ln_gemm_part ln_gemm_make_part(const ln_op_linear *p);

/* Where blocks leave sums that others merge. */
typedef struct ln_split_k_workspace {
    float *sums;      /* [LN_SPLIT_K_FLOATS] */
    unsigned *left;   /* [LN_SPLIT_K_FLAGS] 0 between kernels */
    uint32_t *slices; /* [LN_SPLIT_K_SLOTS][LN_SPLIT_K_SLOT_FLOATS] 0 between kernels */
} ln_split_k_workspace;

typedef struct ln_gemm_args {
    ln_gemm_part parts[LN_GEMM_MAX_PARTS];
    unsigned n_parts, n_tiles; /* n_tiles: along the columns */
    size_t n_rows, rows_per_x;
    ln_act_view x;
    ln_split_k_workspace split;
    /* The result of BF16, where there is one part, is written as `to` says, a gate's of F8_ROW as
     * rows of bf16 there; not to `out` then where that has no other readers. */
    bool converts, leaves_out;
    ln_act_view to;
} ln_gemm_args;

/* Blocks of `columns` columns of the results, part after part. */
static inline unsigned ln_gemm_output_tiles(const ln_gemm_args &args, unsigned columns) {
    unsigned n = 0;
    for (unsigned i = 0; i < args.n_parts; i++)
        n += ln_ceil_div(args.parts[i].epilogue.n_out, columns);
    return n;
}

/* The part that a block belongs to; *block becomes its number there. */
static __device__ __forceinline__ const ln_gemm_part &
ln_gemm_find_part(const ln_gemm_args &args, unsigned columns, unsigned *block) {
    unsigned part = 0;
    for (; part + 1 < args.n_parts; part++) {
        unsigned n = ((unsigned)args.parts[part].epilogue.n_out + columns - 1) / columns;
        if (*block < n)
            break;
        *block -= n;
    }
    return args.parts[part];
}

/* Whether any part has a gate (then all are one), and whether any is precise. */
static inline bool ln_gemm_is_precise(const ln_gemm_args &args) {
    bool precise = false;
    for (unsigned i = 0; i < args.n_parts; i++)
        precise |= args.parts[i].precise;
    return precise;
}

/* What these linears take, whose x is there. */
ln_gemm_args ln_gemm_make_args(const ln_op *ops, size_t n_ops, const ln_converted_act *x);

/* By mma.sync, of all kinds but F8_ROW, whose x is row after row. */
int ln_gemm_mma_small_m(int kind, const ln_gemm_args &args, cudaStream_t stream);
/* For few rows of all kinds but INT8_ROW and F8_ROW, whose x is in one panel; on Hopper. */
int ln_gemm_sm90_small_m(int kind, const ln_gemm_args &args, cudaStream_t stream);
/* The same of INT8 and INT4, and of those that become f16. */
int ln_gemm_sm90_small_m_int(int kind, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_small_m_f16(int kind, const ln_gemm_args &args, cudaStream_t stream);
/* For up to eight rows of F8_ROW. */
int ln_gemm_sm90_small_m_fp8(const ln_gemm_args &args, cudaStream_t stream);
/* For many rows, whose x is in panels. */
int ln_gemm_sm90(int kind, const ln_gemm_args &args, cudaStream_t stream);
/* The same of those that become f16, and of F8_ROW. */
int ln_gemm_sm90_f16(int kind, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_fp8(const ln_gemm_args &args, cudaStream_t stream);
/* The same of INT8 and INT4. */
int ln_gemm_sm90_int(int kind, const ln_gemm_args &args, cudaStream_t stream);
/* The same of INT8_ROW. */
int ln_gemm_sm90_n256(int kind, const ln_gemm_args &args, cudaStream_t stream);

#endif
