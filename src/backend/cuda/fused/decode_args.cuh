/* What decode.cu's kernel takes, and its grid's barrier. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH

#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/fused/decode_handoff.cuh"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/ops/qkv.cuh"
#include "backend/cuda/gemm/args.cuh"

enum {
    LN_DECODE_GROUP_THREADS = LN_K_SPLITS * LN_WARP, /* threads that share a row of tiles */
    LN_DECODE_GROUPS = 2,
    LN_DECODE_THREADS = LN_DECODE_GROUPS * LN_DECODE_GROUP_THREADS
};
static_assert(LN_DECODE_WARPS == LN_DECODE_THREADS / LN_WARP, "as the planner has it");

/* Bytes of a tile, of what lies behind a row of them, and tiles that one copy brings to a stage,
 * unless the slice tile_ends. */
typedef struct ln_decode_tile_copy {
    uint16_t tile_bytes, tail_bytes, tiles_per_copy;
} ln_decode_tile_copy;

static __host__ __device__ constexpr ln_decode_tile_copy ln_decode_tile_copy_of(int kind) {
    return {(uint16_t)ln_weight_tile_bytes(kind), (uint16_t)ln_weight_tile_row_bytes(kind, 0),
            (uint16_t)(ln_decode_stage_bytes(kind) / ln_weight_tile_bytes(kind))};
}

/* By kind; of kinds that do not become f16 nothing. */
static __constant__ const ln_decode_tile_copy ln_decode_f16_tile_copies[] = {
    {}, {}, {}, {}, {}, ln_decode_tile_copy_of(LN_LAYOUT_Q4), ln_decode_tile_copy_of(LN_LAYOUT_Q5),
    ln_decode_tile_copy_of(LN_LAYOUT_Q6), ln_decode_tile_copy_of(LN_LAYOUT_F8), {},
    ln_decode_tile_copy_of(LN_LAYOUT_MXFP4), ln_decode_tile_copy_of(LN_LAYOUT_I8)};
static_assert(LN_LAYOUT_Q4 == 5 && LN_LAYOUT_Q5 == 6 && LN_LAYOUT_Q6 == 7 && LN_LAYOUT_F8 == 8 &&
                  LN_LAYOUT_MXFP4 == 10 && LN_LAYOUT_I8 == 11,
              "in this order");

template <int KIND>
static __device__ __forceinline__ ln_decode_tile_copy ln_decode_find_tile_copy(unsigned kind) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        return ln_decode_f16_tile_copies[kind];
    else
        return {ln_weight_tile_bytes(KIND), 0, 1};
}

/* Linears that multiply the same x: the rows themselves, or their norms, which `normed` receives,
 * too. */
typedef struct ln_decode_linear {
    ln_gemm_part parts[LN_GEMM_MAX_PARTS];
    unsigned n_parts, k_tiles; /* k_tiles: weight tiles along K */
    unsigned n_output_tiles;      /* of all parts */
    unsigned x_cols;           /* of x in shared memory, from row to row */
    bool has_gate, precise;
    const float *x;
    unsigned stride, n_cols; /* floats from row to row of x, and of a row */
    bool normalizes;
    ln_norm norm;
    const int32_t *rows;              /* that norms gather, or NULL */
    float *normed;                    /* or NULL */
    bool x_is_handed_off;                 /* by blocks of this fused_plan */
    bool residual_is_handed_off;          /* likewise */
    float *handoff[LN_GEMM_MAX_PARTS]; /* results for other blocks, as in `out`, or NULL */
    float *normed_handoff;
} ln_decode_linear;

/* Heads of q, k and v are finished, k and v cached, and q attends. */
typedef struct ln_decode_attention {
    ln_qkv_args qkv; /* q, k and v are handoff */
    ln_mma_attention_args mma;
    float *handoff; /* the result for other blocks, or NULL */
} ln_decode_attention;

/* A task as shared memory holds it. */
typedef union ln_decode_task {
    ln_decode_linear linear;
    ln_decode_attention attention;
} ln_decode_task;

/* What copies of weights need to know of a linear. */
typedef struct ln_decode_weight_tiles {
    const uint8_t *parts[LN_GEMM_MAX_PARTS], *gate;
    unsigned tile_ends[LN_GEMM_MAX_PARTS]; /* rows of tiles up to a part's end */
    unsigned k_tiles;
    uint8_t kinds[LN_GEMM_MAX_PARTS];
} ln_decode_weight_tiles;

typedef struct ln_decode_args {
    unsigned n_rows, n_linears, n_attentions, n_tasks;
    unsigned n_stages;                       /* of a warp's ring */
    unsigned work_offset, plan_offset, barriers_offset; /* bytes of shared memory */
    unsigned *barrier_count;                      /* what blocks count at barriers; 0 at first */
    float *handoff;                          /* where */
    unsigned n_handoff_floats;                      /* floats, a multiple of 4 */
    uint8_t is_attention[LN_DECODE_MAX_TASKS];
    ln_decode_weight_tiles weights[LN_DECODE_MAX_LINEARS]; /* of linears */
    ln_decode_linear linears[LN_DECODE_MAX_LINEARS];
    ln_decode_attention attentions[LN_DECODE_MAX_ATTENTIONS];
} ln_decode_args;

static_assert(sizeof(ln_decode_args) < 32700, "kernels take so many bytes");

/* Bit 31 of what blocks count, which is turned at every barrier; before the first one of this
 * block. */
static __device__ __forceinline__ unsigned ln_grid_barrier_phase(const unsigned *barrier_count) {
    unsigned now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(barrier_count) : "memory");
    return now & 0x80000000u;
}

/* A barrier's halves, by one thread of each block, between barriers of the block. Blocks count to
 * 2^31, from where the next barrier counts on; what they wrote is seen then. */
static __device__ __forceinline__ void ln_grid_barrier_arrive(unsigned *barrier_count) {
    unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(barrier_count), "r"(add) : "memory");
}

static __device__ __forceinline__ void ln_grid_barrier_wait(const unsigned *barrier_count, unsigned *turn) {
    unsigned now;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(barrier_count) : "memory");
    while (((*turn ^ now) & 0x80000000u) == 0);
    *turn ^= 0x80000000u;
}

static __device__ __forceinline__ void ln_grid_barrier(unsigned *barrier_count, unsigned *turn) {
    __syncthreads();
    if (threadIdx.x == 0) {
        ln_grid_barrier_arrive(barrier_count);
        ln_grid_barrier_wait(barrier_count, turn);
    }
    __syncthreads();
}

#endif
