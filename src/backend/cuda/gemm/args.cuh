/* What the kernels for linears of tiles take. */
#ifndef LN_BACKEND_CUDA_GEMM_ARGS_CUH
#define LN_BACKEND_CUDA_GEMM_ARGS_CUH

#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/activations/convert.cuh"

enum { LN_TILE_MAX_PARTS = 3 };

/* One of the linears that multiply the same x. */
typedef struct ln_tile_part {
    const uint8_t *weight, *gate; /* gate NULL: none */
    bool precise;
    uint8_t kind; /* of tiles */
    ln_epilogue epilogue;
} ln_tile_part;

ln_tile_part ln_tile_make_part(const ln_op_linear *p);
/* ln_cuda_tile_linears; may_mix: linears of different kinds that become f16 go together, too. */
size_t ln_tile_count_linears(const ln_op *ops, size_t n_ops, bool may_mix);

/* Where blocks leave sums that others merge. */
typedef struct ln_tile_split {
    float *sums;      /* [LN_TILE_SPLIT_FLOATS] */
    unsigned *left;   /* [LN_TILE_SPLIT_WORDS] 0 between kernels */
    uint32_t *slices; /* [LN_TILE_SPLIT_PLACES][LN_TILE_SPLIT_SUMS] 0 between kernels */
} ln_tile_split;

typedef struct ln_tile_args {
    ln_tile_part parts[LN_TILE_MAX_PARTS];
    unsigned n_parts, n_tiles; /* n_tiles: along the columns */
    size_t n_rows, rows_per_x;
    ln_tile_x_parts x;
    ln_tile_split split;
    /* The result of BF16, where there is one part, is written as `to` says, a gate's of F8_ROW as
     * rows of bf16 there; not to `out` then where that has no other readers. */
    bool converts, leaves_out;
    ln_tile_x_parts to;
} ln_tile_args;

/* Blocks of `columns` columns of the results, part after part. */
static inline unsigned ln_tile_blocks(const ln_tile_args &args, unsigned columns) {
    unsigned n = 0;
    for (unsigned i = 0; i < args.n_parts; i++)
        n += ln_ceil_div(args.parts[i].epilogue.n_out, columns);
    return n;
}

/* The part that a block belongs to; *block becomes its number there. */
static __device__ __forceinline__ const ln_tile_part &
ln_tile_find_part(const ln_tile_args &args, unsigned columns, unsigned *block) {
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
static inline bool ln_tile_is_precise(const ln_tile_args &args) {
    bool precise = false;
    for (unsigned i = 0; i < args.n_parts; i++)
        precise |= args.parts[i].precise;
    return precise;
}

/* Sees to x being in the form that these linears take, or cuBLASLt. */
int ln_tile_prepare_x(const ln_op *ops, size_t n_ops, bool by_blas, ln_tile_x *x,
                      cudaStream_t stream);
/* What these linears take, whose x is there. */
ln_tile_args ln_tile_make_args(const ln_op *ops, size_t n_ops, const ln_tile_x *x);

/* For few rows of all kinds but INT8_ROW and F8_ROW, whose x is in one panel; on Hopper. */
int ln_tile_few(int kind, const ln_tile_args &args, cudaStream_t stream);
/* The same of INT8 and INT4, and of those that become f16. */
int ln_tile_few_int(int kind, const ln_tile_args &args, cudaStream_t stream);
int ln_tile_few_narrow(int kind, const ln_tile_args &args, cudaStream_t stream);
/* For up to eight rows of F8_ROW. */
int ln_tile_few_f8(const ln_tile_args &args, cudaStream_t stream);
/* For many rows, whose x is in panels. */
int ln_tile_gemm(int kind, const ln_tile_args &args, cudaStream_t stream);
/* The same of those that become f16, and of F8_ROW. */
int ln_tile_gemm_narrow(int kind, const ln_tile_args &args, cudaStream_t stream);
int ln_tile_gemm_f8(const ln_tile_args &args, cudaStream_t stream);
/* The same of INT8 and INT4. */
int ln_tile_gemm_int(int kind, const ln_tile_args &args, cudaStream_t stream);
/* The same of INT8_ROW. */
int ln_tile_gemm_wide(int kind, const ln_tile_args &args, cudaStream_t stream);

#endif
