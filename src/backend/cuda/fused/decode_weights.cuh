/* What the fused decode kernel's weight pipeline and its products need to know: groups of warps,
 * weight tiles, and what all tasks read. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_WEIGHTS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_WEIGHTS_CUH

#include "backend/cuda/fused/limits.h"
#include "backend/cuda/ptx/reduce.cuh"

enum {
    LN_DECODE_GROUP_THREADS = LN_K_SPLITS * LN_WARP, /* threads of an output tile */
    LN_DECODE_GROUPS = 2,
    LN_DECODE_THREADS = LN_DECODE_GROUPS * LN_DECODE_GROUP_THREADS
};
static_assert(LN_DECODE_WARPS == LN_DECODE_THREADS / LN_WARP, "as the planner has it");

static __device__ __forceinline__ unsigned ln_mixture_group_of_warp(void) {
    return threadIdx.x / LN_DECODE_GROUP_THREADS;
}

/* How many of a token's experts a group of warps has in an output tile of down. */
static __device__ __forceinline__ unsigned ln_mixture_group_choices(unsigned n_used,
                                                                    unsigned group) {
    return (n_used + LN_DECODE_GROUPS - 1 - group) / LN_DECODE_GROUPS;
}

/* Bytes of a weight tile, of the scales behind the K tiles of an output tile, and K tiles of a
 * stage. */
typedef struct ln_decode_tile_copy {
    uint16_t tile_bytes, tail_bytes, tiles_per_copy;
} ln_decode_tile_copy;

static __host__ __device__ constexpr ln_decode_tile_copy ln_decode_tile_copy_of(int kind) {
    return {(uint16_t)ln_weight_tile_bytes(kind), (uint16_t)ln_weight_tile_row_bytes(kind, 0),
            (uint16_t)(ln_decode_stage_bytes(kind) / ln_weight_tile_bytes(kind))};
}

/* By weight kind; empty for kinds that are not dequantised to f16. */
static __constant__ const ln_decode_tile_copy ln_decode_f16_tile_copies[] = {
    {},
    {},
    {},
    {},
    {},
    ln_decode_tile_copy_of(LN_LAYOUT_Q4),
    ln_decode_tile_copy_of(LN_LAYOUT_Q5),
    ln_decode_tile_copy_of(LN_LAYOUT_Q6),
    ln_decode_tile_copy_of(LN_LAYOUT_F8),
    {},
    ln_decode_tile_copy_of(LN_LAYOUT_MXFP4),
    ln_decode_tile_copy_of(LN_LAYOUT_I8)};
static_assert(LN_LAYOUT_Q4 == 5 && LN_LAYOUT_Q5 == 6 && LN_LAYOUT_Q6 == 7 && LN_LAYOUT_F8 == 8 &&
                  LN_LAYOUT_MXFP4 == 10 && LN_LAYOUT_I8 == 11,
              "in this order");

template <int KIND>
static __device__ __forceinline__ ln_decode_tile_copy ln_decode_find_tile_copy(unsigned kind) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        return ln_decode_f16_tile_copies[kind];
    else
        return ln_decode_tile_copy_of(KIND);
}

/* Whose matrices weights are: a linear's, or those of a mixture's experts. */
typedef enum ln_decode_owner {
    LN_DECODE_OF_LINEAR,
    LN_DECODE_OF_EXPERTS_UP, /* and gate */
    LN_DECODE_OF_EXPERTS_DOWN
} ln_decode_owner;

/* Matrices of experts, at equal distances. */
typedef struct ln_decode_expert_matrices {
    const uint8_t *first;
    uint32_t stride_16, gate_stride_16; /* distances, in units of 16 bytes */
} ln_decode_expert_matrices;

/* What the weight pipeline needs to know of a linear, or of experts' linears, which have one part.
 */
typedef struct ln_decode_weight_tiles {
    union {
        const uint8_t *parts[LN_GEMM_MAX_PARTS];
        ln_decode_expert_matrices experts;
    };
    const uint8_t *gate;
    unsigned tile_ends[LN_GEMM_MAX_PARTS]; /* output tiles up to a part's end */
    unsigned k_tiles;
    uint8_t kinds[LN_GEMM_MAX_PARTS];
    uint8_t owner, mixture; /* ln_decode_owner; number of the mixture */
    uint8_t n_used;         /* experts of a token */
} ln_decode_weight_tiles;

/* The experts of one token, in shared memory. */
typedef struct ln_mixture_choice {
    int32_t experts[LN_MIXTURE_MAX_USED];
    float weights[LN_MIXTURE_MAX_USED];
} ln_mixture_choice;

/* What all tasks read. */
typedef struct ln_decode_args {
    unsigned n_rows, n_linears, n_attentions, n_tasks;
    unsigned n_stages;                                  /* of a warp's pipeline */
    unsigned work_offset, plan_offset, barriers_offset; /* bytes of shared memory */
    unsigned *barrier_count;   /* what blocks count at barriers; 0 at first */
    float *handoff;            /* where */
    unsigned n_handoff_floats; /* floats, a multiple of 4 */
    uint8_t is_attention[LN_DECODE_MAX_TASKS];
} ln_decode_args;

#endif
