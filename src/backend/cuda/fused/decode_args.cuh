/* What decode.cu's kernel takes, and its grid's barrier. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ARGS_CUH

#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/fused/decode_handoff.cuh"
#include "backend/cuda/ops/qkv.cuh"
#include "backend/cuda/gemm/args.cuh"

enum {
    LN_FUSED_DECODE_TEAM = LN_K_SPLITS * LN_WARP, /* threads that share a row of tiles */
    LN_FUSED_DECODE_TEAMS = 2,
    LN_FUSED_DECODE_THREADS = LN_FUSED_DECODE_TEAMS * LN_FUSED_DECODE_TEAM,
    LN_FUSED_DECODE_WARPS = LN_FUSED_DECODE_THREADS / LN_WARP,
    LN_FUSED_DECODE_LINEARS = 48,
    LN_FUSED_DECODE_ATTENTIONS = 12,
    LN_FUSED_DECODE_STAGES = LN_FUSED_DECODE_LINEARS + LN_FUSED_DECODE_ATTENTIONS,
    LN_FUSED_DECODE_MAX_SLOTS = 16
};

/* What a chain's tiles are: BF16, INT8, INT4, or any of those that become f16, for which LN_LAYOUT_Q4
 * stands as KIND of a template; then a part says which its own are. */
static __host__ __device__ constexpr int ln_fused_decode_kind(int kind) {
    return ln_weight_tile_dequantizes_to_f16(kind) ? (int)LN_LAYOUT_Q4 : kind;
}

/* Bytes of a slot of a ring. */
static __host__ __device__ constexpr unsigned ln_fused_decode_slot_bytes(int kind) {
    return (unsigned)(ln_weight_tile_dequantizes_to_f16(kind) ? 3 * ln_weight_tile_bytes(LN_LAYOUT_Q6)
                                              : ln_weight_tile_bytes(kind));
}

/* Bytes of a tile, of what lies behind a row of them, and tiles that one copy brings to a slot,
 * unless the slice ends. */
typedef struct ln_fused_decode_size {
    uint16_t tile_bytes, tail_bytes, n_copied;
} ln_fused_decode_size;

static __host__ __device__ constexpr ln_fused_decode_size ln_fused_decode_size_of(int kind) {
    return {(uint16_t)ln_weight_tile_bytes(kind), (uint16_t)ln_weight_tile_row_bytes(kind, 0),
            (uint16_t)(ln_fused_decode_slot_bytes(kind) / ln_weight_tile_bytes(kind))};
}

/* By kind; of kinds that do not become f16 nothing. */
static __constant__ const ln_fused_decode_size ln_fused_decode_narrow_sizes[] = {
    {}, {}, {}, {}, {}, ln_fused_decode_size_of(LN_LAYOUT_Q4), ln_fused_decode_size_of(LN_LAYOUT_Q5),
    ln_fused_decode_size_of(LN_LAYOUT_Q6), ln_fused_decode_size_of(LN_LAYOUT_F8), {},
    ln_fused_decode_size_of(LN_LAYOUT_MXFP4), ln_fused_decode_size_of(LN_LAYOUT_I8)};
static_assert(LN_LAYOUT_Q4 == 5 && LN_LAYOUT_Q5 == 6 && LN_LAYOUT_Q6 == 7 && LN_LAYOUT_F8 == 8 &&
                  LN_LAYOUT_MXFP4 == 10 && LN_LAYOUT_I8 == 11,
              "in this order");

template <int KIND>
static __device__ __forceinline__ ln_fused_decode_size ln_fused_decode_find_size(unsigned kind) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        return ln_fused_decode_narrow_sizes[kind];
    else
        return {ln_weight_tile_bytes(KIND), 0, 1};
}

/* Linears that multiply the same x: the rows themselves, or their norms, which `normed` receives,
 * too. */
typedef struct ln_fused_decode_linear {
    ln_gemm_part parts[LN_GEMM_MAX_PARTS];
    unsigned n_parts, n_tiles; /* n_tiles: along the columns */
    unsigned n_tile_rows;      /* of all parts */
    unsigned x_cols;           /* of x in shared memory, from row to row */
    bool has_gate, precise;
    const float *x;
    unsigned stride, n_cols; /* floats from row to row of x, and of a row */
    bool normalizes;
    ln_norm norm;
    const int32_t *rows;              /* that norms gather, or NULL */
    float *normed;                    /* or NULL */
    bool x_is_passed;                 /* by blocks of this chain */
    bool residual_is_passed;          /* likewise */
    float *passed[LN_GEMM_MAX_PARTS]; /* results for other blocks, as in `out`, or NULL */
    float *passed_normed;
} ln_fused_decode_linear;

/* Heads of q, k and v are finished, k and v cached, and q attends. */
typedef struct ln_fused_decode_attention {
    ln_qkv_args qkv; /* q, k and v are passed */
    ln_mma_attention_args fast;
    float *passed; /* the result for other blocks, or NULL */
} ln_fused_decode_attention;

/* A stage as shared memory holds it. */
typedef union ln_fused_decode_stage {
    ln_fused_decode_linear linear;
    ln_fused_decode_attention attention;
} ln_fused_decode_stage;

/* What copies of weights need to know of a linear. */
typedef struct ln_fused_decode_weights {
    const uint8_t *parts[LN_GEMM_MAX_PARTS], *gate;
    unsigned ends[LN_GEMM_MAX_PARTS]; /* rows of tiles up to a part's end */
    unsigned n_tiles;
    uint8_t kinds[LN_GEMM_MAX_PARTS];
} ln_fused_decode_weights;

typedef struct ln_fused_decode_args {
    unsigned n_rows, n_linears, n_attentions, n_stages;
    unsigned n_slots;                       /* of a warp's ring */
    unsigned work_at, plan_at, barriers_at; /* bytes of shared memory */
    unsigned *arrived;                      /* what blocks count at barriers; 0 at first */
    float *passed;                          /* where */
    unsigned n_passed;                      /* floats, a multiple of 4 */
    uint8_t is_attention[LN_FUSED_DECODE_STAGES];
    ln_fused_decode_weights weights[LN_FUSED_DECODE_LINEARS]; /* of linears */
    ln_fused_decode_linear linears[LN_FUSED_DECODE_LINEARS];
    ln_fused_decode_attention attentions[LN_FUSED_DECODE_ATTENTIONS];
} ln_fused_decode_args;

static_assert(sizeof(ln_fused_decode_args) < 32700, "kernels take so many bytes");

/* Bit 31 of what blocks count, which is turned at every barrier; before the first one of this
 * block. */
static __device__ __forceinline__ unsigned ln_fused_decode_turn(const unsigned *arrived) {
    unsigned now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    return now & 0x80000000u;
}

/* A barrier's halves, by one thread of each block, between barriers of the block. Blocks count to
 * 2^31, from where the next barrier counts on; what they wrote is seen then. */
static __device__ __forceinline__ void ln_arrive(unsigned *arrived) {
    unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(arrived), "r"(add) : "memory");
}

static __device__ __forceinline__ void ln_wait_for_blocks(const unsigned *arrived, unsigned *turn) {
    unsigned now;
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    while (((*turn ^ now) & 0x80000000u) == 0);
    *turn ^= 0x80000000u;
}

static __device__ __forceinline__ void ln_grid_barrier(unsigned *arrived, unsigned *turn) {
    __syncthreads();
    if (threadIdx.x == 0) {
        ln_arrive(arrived);
        ln_wait_for_blocks(arrived, turn);
    }
    __syncthreads();
}

#endif
