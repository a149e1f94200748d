/* Arguments of the GEMM kernels. */
#ifndef LN_BACKEND_CUDA_GEMM_ARGS_CUH
#define LN_BACKEND_CUDA_GEMM_ARGS_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/gemm/groups.cuh"
#include "backend/cuda/ops/adapter_lists.h"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/split_k.h"

/* One of the linears that multiply the same activations. */
typedef struct ln_gemm_part {
    const uint8_t *weight, *gate; /* gate NULL: none */
    bool precise;
    uint8_t kind; /* ln_weight_layout */
    ln_epilogue epilogue;
} ln_gemm_part;

/* Device memory by which CTAs combine partial sums of split-K (runtime/split_k.h). */
typedef struct ln_split_k_workspace {
    float *partial;      /* [n_floats] partial sums of output tiles */
    unsigned *flags;     /* [n_flags] that partial sums are there; 0 between kernels */
    uint32_t *published; /* [n_slots][LN_SPLIT_K_SLOT_FLOATS] partial sums; 0 between kernels */
} ln_split_k_workspace;

static inline ln_split_k_workspace ln_split_k_view(void *memory, unsigned n_sms) {
    ln_split_k_sizes sizes = ln_split_k_sizes_of(n_sms);
    ln_split_k_workspace w;
    w.flags = (unsigned *)memory;
    w.partial = (float *)memory + sizes.n_flags;
    w.published = (uint32_t *)w.partial + sizes.n_floats;
    return w;
}

/* Adapters as one more K split of the linears whose bits are set; lists NULL: none has any. */
typedef struct ln_gemm_adapters {
    const ln_adapter_lists *lists;
    unsigned parts;
} ln_gemm_adapters;

typedef struct ln_gemm_args {
    ln_gemm_part parts[LN_GEMM_MAX_PARTS];
    unsigned n_parts, n_tiles; /* n_tiles: weight tiles along K */
    size_t n_rows, rows_per_x; /* n_rows: M */
    ln_act_view x;
    ln_split_k_workspace split;
    /* converts: the result of BF16, where there is one part, is written as `to` says, that of a
     * gated F8_ROW as rows of bf16 there. leaves_out: and not to `out`, which has no other readers.
     */
    bool converts, leaves_out;
    ln_act_view to;
    ln_gemm_adapters adapters; /* of sm90_small_m.cuh for BF16 that is not precise */
} ln_gemm_args;

/* Output tiles of `columns` columns, part after part, for one tile of rows. */
static inline unsigned ln_gemm_output_tiles(const ln_gemm_args &args, unsigned columns) {
    unsigned n = 0;
    for (unsigned i = 0; i < args.n_parts; i++)
        n += ln_ceil_div(args.parts[i].epilogue.n_out, columns);
    return n;
}

/* The part that an output tile belongs to; *block becomes its number there. */
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

/* Whether any part is precise. */
static inline bool ln_gemm_is_precise(const ln_gemm_args &args) {
    bool precise = false;
    for (unsigned i = 0; i < args.n_parts; i++)
        precise |= args.parts[i].precise;
    return precise;
}

/* Arguments of a grouped GEMM: parts[0] is that of the first group. */
typedef struct ln_grouped_args {
    ln_gemm_args p;
    ln_gemm_groups groups;
    ln_listed_slot *slots; /* [n_slots] for activation tiles: those without rows last */
    unsigned n_slots;
} ln_grouped_args;

/* The matrices and biases of a group. */
static __device__ __forceinline__ void ln_take_group(const ln_gemm_groups &g, unsigned group,
                                                     ln_gemm_part &part) {
    part.weight = ln_matrix_of_group(g.weight, group);
    part.gate = g.gate.data != NULL ? ln_matrix_of_group(g.gate, group) : NULL;
    part.epilogue.bias = ln_bias_of_group(g.weight, group);
    part.epilogue.gate_bias = ln_bias_of_group(g.gate, group);
}

ln_gemm_part ln_gemm_make_part(const ln_op_linear *p);
/* Arguments of these linears, whose activations are converted. */
ln_gemm_args ln_gemm_make_args(const ln_op *ops, size_t n_ops, const ln_converted_act *x);

#endif
