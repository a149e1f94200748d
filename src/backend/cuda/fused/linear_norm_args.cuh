/* Fused linear + norm kernel for 9 to 64 rows: its arguments, workspace, grid-wide counters and
 * pipelines. See linear_norm.cu. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ARGS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ARGS_CUH

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"
#include "backend/cuda/ops/norm.cuh"
#include "backend/cuda/ptx/flag.cuh"

enum {
    MAX_LINEARS = LN_LINEAR_NORM_MAX_TASKS,
    X_STAGES = 5, /* of activations */
    TILE_N = 64,
    TILE_OUT_STRIDE = TILE_N + 4, /* floats of a row of an output tile in shared memory */
    TILE_OUT_BYTES = ACT_TILE_ROWS * TILE_OUT_STRIDE * 4,
    ROW_FLOATS = ACT_TILE_ROWS * TILE_N, /* of a residual tile, or of a norm's row */
    STAGES_OFFSET = (TILE_OUT_BYTES + ROW_FLOATS * 4 + 1023) / 1024 * 1024,
    STATIC_SHARED = 1024,              /* at most, that the kernel declares */
    VPT = LN_NORM_VTHREADS / CONSUMERS /* virtual threads of a norm in each consumer thread */
};
static_assert(ROW_FLOATS * 4 <= TILE_OUT_BYTES, "a norm's row lies where output tiles do");

/* Grid-wide counters, all 0 between kernels. */
typedef struct grid_counts {
    unsigned done[MAX_LINEARS];   /* blocks that have stored their outputs */
    unsigned normed[MAX_LINEARS]; /* blocks that have stored their normed rows */
    unsigned ended;               /* blocks that wait for no other any more */
} grid_counts;

/* Device memory, behind that of the decode kernel (workspace.h). */
typedef struct fused_workspace {
    union {
        grid_counts counts;
        char line[128];
    };
    uint4 partials[][4][CONSUMERS]; /* [blocks] sums, all bits 0 between kernels */
} fused_workspace;

static_assert(sizeof(fused_workspace) == LN_LINEAR_NORM_COUNTER_BYTES &&
                  sizeof(uint4[4][CONSUMERS]) == LN_LINEAR_NORM_BLOCK_BYTES,
              "as ln_fused_workspace_bytes has it");

/* Linears that multiply the same activations, with the norm in front of them if there is one. */
typedef struct fused_linear {
    small_m_args gemm;
    bool has_gate, normalizes;
    ln_norm norm; /* of `from`, float32 [n_rows][dim], of which `rows` are gathered unless NULL */
    const float *from;
    const int32_t *rows;
    float *normed; /* where other operations read the normed rows, or NULL */
} fused_linear;

typedef struct fused_args {
    unsigned n_linears, n_rows;
    unsigned n_stages; /* of weights */
    fused_workspace *memory;
    fused_linear linears[MAX_LINEARS];
} fused_args;

template <int ROWS> using stage_shape = small_m_stage<LN_LAYOUT_BF16, ROWS, false>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The pipelines of weights and of activations (linear_norm_pipeline.cuh). */
typedef struct pipeline_barriers {
    uint64_t full[SMALL_M_STAGES], empty[SMALL_M_STAGES]; /* of weights */
    uint64_t x_full[X_STAGES], x_empty[X_STAGES];
} pipeline_barriers;

typedef struct pipelines {
    char *weights, *x;
    pipeline_barriers *bars;
} pipelines;

static __device__ __forceinline__ weight_unit find_unit(const fused_linear &l, unsigned number) {
    return l.has_gate ? find_unit<stage_shape<64>, true>(l.gemm.p, number)
                      : find_unit<stage_shape<64>, false>(l.gemm.p, number);
}

/* Waits until n blocks have arrived. Bulk copies issued from here on see what these wrote. */
static __device__ __forceinline__ void wait_for_blocks(const unsigned *count, unsigned n) {
    while (ln_flag_load(count) < n)
        continue;
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Counts a block whose consumers have stored something, for bulk copies to read if has_x; by all of
 * them. */
static __device__ __forceinline__ void arrive_block(unsigned *count, bool has_x) {
    if (has_x)
        asm volatile("fence.proxy.async;" ::: "memory");
    ln_norm_sync<VPT>();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}

#endif

#endif
