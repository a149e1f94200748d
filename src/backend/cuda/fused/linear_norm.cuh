/* Chains of 9 to 64 rows: linears of BF16 one after another as one kernel, with the norms between
 * them. Units, slices and the order of sums are as gemm/sm90_small_m.cuh has them.
 *
 * Weights come through one ring whatever linear they are of, so that memory is read while blocks
 * wait for each other's results: once all have left theirs, rows are normalised by a block each,
 * and once all rows are there, blocks bring x. What a gate gives becomes the next x where it is
 * made. Halves of x's memory serve by turns.
 *
 * Grid: as many blocks as the largest linear has work for, at most one on every multiprocessor, of
 * which all must be there. Block: as of gemm/sm90_small_m.cuh. Code that runs once between linears is short
 * rather than unrolled, as it has to come from memory, too.
 *
 * Shared memory: a unit's sums, or a norm's row; its residual, or the norm's weights; the rings of
 * weights and of x. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_CUH

#include "backend/cuda/fused/limits.h"
#include "backend/cuda/ops/norm.cuh"
#include "backend/cuda/gemm/sm90_small_m_split_k.cuh"

enum {
    MAX_LINKS = LN_LINEAR_NORM_MAX_TASKS,
    X_STAGES = 5,
    UNIT_COLUMNS = 64,
    SUM_STRIDE = UNIT_COLUMNS + 4, /* floats of a row of sums in shared memory */
    SUM_BYTES = PANEL_ROWS * SUM_STRIDE * 4,
    HELD_DIM = PANEL_ROWS * UNIT_COLUMNS, /* floats of a residual; of a norm's row */
    RINGS_AT = (SUM_BYTES + HELD_DIM * 4 + 1023) / 1024 * 1024,
    CHAIN_SHARED = 226 * 1024,
    PLAYED = LN_HELD_THREADS / WORKERS /* threads of a norm by each that works */
};
static_assert(HELD_DIM * 4 <= SUM_BYTES, "a norm's row where sums are put");

/* What blocks count, all 0 between kernels. */
typedef struct chain_counts {
    unsigned done[MAX_LINKS];   /* blocks that have left their results */
    unsigned normed[MAX_LINKS]; /* blocks that have left their rows of x */
    unsigned ended;             /* blocks that wait for nobody any more */
} chain_counts;

/* In LN_LINEAR_NORM_BYTES of device memory. */
typedef struct chain_memory {
    union {
        chain_counts counts;
        char line[128];
    };
    uint4 passed[LN_SPLIT_K_BLOCKS][4][WORKERS]; /* sums; all bits 0 between kernels */
} chain_memory;

static_assert(sizeof(chain_memory) <= LN_LINEAR_NORM_BYTES, "memory of a chain");

/* Linears that multiply the same x. */
typedef struct chain_link {
    few_args linears;
    bool has_gate, normalizes;
    ln_norm norm; /* of `from`, float32 [n_rows][dim], of which `rows` are gathered unless NULL */
    const float *from;
    const int32_t *rows;
    float *normed; /* for others, or NULL */
} chain_link;

typedef struct chain_args {
    unsigned n_links, n_rows;
    unsigned n_stages; /* of weights */
    chain_memory *memory;
    chain_link links[MAX_LINKS];
} chain_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Copies that are queued from here on see what those have written who have counted. */
static __device__ __forceinline__ void wait_for_count(const unsigned *count, unsigned n) {
    while (look_at(count) < n)
        continue;
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Counts a block whose workers have written something, maybe x; by all of them. */
static __device__ __forceinline__ void count_block(unsigned *count, bool has_x) {
    if (has_x)
        asm volatile("fence.proxy.async;" ::: "memory");
    ln_held_meet<PLAYED>();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}

#endif

#endif
