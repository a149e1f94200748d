/* Fused linear + norm kernel for 9 to 64 rows: its arguments, workspace, grid-wide counters and
 * pipelines. See linear_norm.cu. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ARGS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_ARGS_CUH

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/fused/limits.h"
#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/ops/norm.cuh"
#include "backend/cuda/ptx/flag.cuh"

enum {
    MAX_LINEARS = LN_LINEAR_NORM_MAX_TASKS,
    MAX_X_STAGES = 12,       /* of activations */
    WEIGHT_STEP_BYTES = 512, /* fragments of 16 rows by 16 columns */
    TILE_N = 64,
    TILE_OUT_BYTES = ACT_TILE_ROWS * (TILE_N + 4) * 4, /* output tile in shared memory */
    ROW_FLOATS = ACT_TILE_ROWS * TILE_N,               /* of a residual tile, or of a norm's row */
    STAGES_OFFSET = (TILE_OUT_BYTES + ROW_FLOATS * 4 + 1023) / 1024 * 1024,
    STATIC_SHARED = 2048, /* at most, that the kernel declares; with adapters */
    STATIC_SHARED_ADAPTERS = 16 * 1024,
    VPT = LN_NORM_VTHREADS / CONSUMERS /* virtual threads of a norm in each consumer thread */
};
static_assert(ROW_FLOATS * 4 <= TILE_OUT_BYTES, "a norm's row lies where output tiles do");
static_assert(ACT_TILE_ROWS * (2 * TILE_N + 4) * 4 <= STAGES_OFFSET,
              "a wide unit's output tile lies where others and their residuals do");

/* Grid-wide counters, all 0 between kernels. */
typedef struct grid_counts {
    unsigned done[MAX_LINEARS];                /* blocks that have stored their outputs */
    unsigned normed[MAX_LINEARS];              /* blocks that have stored their normed rows */
    unsigned low[MAX_LINEARS];                 /* tiles of adapters whose A x is stored */
    unsigned ended;                            /* blocks that wait for no other any more */
    unsigned amax[MAX_LINEARS][ACT_TILE_ROWS]; /* bits of a row's largest magnitude */
} grid_counts;

/* Device memory, behind that of the decode kernel (workspace.h). */
typedef struct fused_workspace {
    union {
        grid_counts counts;
        char lines[LN_LINEAR_NORM_COUNTER_BYTES];
    };
    uint4 partials[][8][CONSUMERS]; /* [blocks] sums, all bits 0 between kernels */
} fused_workspace;

static_assert(sizeof(fused_workspace) == LN_LINEAR_NORM_COUNTER_BYTES &&
                  sizeof(uint4[8][CONSUMERS]) == LN_LINEAR_NORM_BLOCK_BYTES,
              "as ln_fused_workspace_bytes has it");

/* Linears that multiply the same activations, with what makes these of `from`, if something does: a
 * norm, or what quantises its rows. */
typedef struct fused_linear {
    small_m_args gemm;
    bool has_gate, is_wide, normalizes, quantizes;
    ln_norm norm; /* of `from`, float32 [n_rows][dim], of which `rows` are gathered unless NULL */
    const float *from;
    const int32_t *rows;
    float *normed; /* where other operations read the normed rows, or NULL */
} fused_linear;

/* A weight that adapters change. */
typedef struct adapted_weight {
    const ln_adapter_target *targets; /* by slot */
    size_t a_stride;                  /* bytes of sixteen ranks of A */
    uint8_t linear, part;
    bool is_gate;
} adapted_weight;

/* Adapters of rows; weights in order of linears, parts, and a gate behind the other half. */
typedef struct fused_adapters {
    ln_adapter_rows rows;
    const int32_t *n_runs;
    ln_adapter_scratch *scratch;
    unsigned n_weights; /* 0: there are none */
    adapted_weight weights[LN_LINEAR_NORM_MAX_ADAPTED];
} fused_adapters;

typedef struct fused_args {
    unsigned n_linears, n_rows;
    unsigned n_stages; /* of weights */
    fused_workspace *memory;
    fused_linear linears[MAX_LINEARS];
    fused_adapters adapters;
} fused_args;

enum {
    SHRINK_WARPS = 4,
    SHRINK_THREADS = SHRINK_WARPS * LN_WARP,
    FIRST_SHRINK_THREAD = SMALL_M_THREADS + 2 * LN_WARP, /* a warpgroup, for setmaxnreg */
    CHUNK_STEPS = 8,                                     /* K steps whose sum is of its own */
    PART_CHUNKS = 8,
    CHUNKS = PART_CHUNKS / SHRINK_WARPS, /* of a warp */
    PASS_ROWS = 8,                       /* of a run that are multiplied at once */
    CONSUMER_REGISTERS = 144,            /* of a thread; all have 128 at first */
    OTHER_REGISTERS = 112
};
static_assert(PART_CHUNKS * CHUNK_STEPS * LN_ADAPTER_TILE == LN_LINEAR_NORM_PART_COLS,
              "parts as those who plan know them");
static_assert((int)LN_LINEAR_NORM_MAX_ADAPTER_ITEMS <= (int)LN_SHRINK_PARTIALS &&
                  (int)LN_LINEAR_NORM_MAX_ADAPTER_TILES <= (int)LN_ADAPTER_MAX_STEPS &&
                  (int)LN_LINEAR_NORM_MAX_ADAPTER_TILES <= (int)LN_SHRINK_PARTIALS,
              "ln_adapter_scratch has room for partial sums, counters, and a list of all linears");
static_assert(2 * LN_WARP == (int)LN_ADAPTER_LIST_ROWS, "a warp finds the tiles of all runs");

template <bool IS_INT> struct sum_of { typedef float type; };
template <> struct sum_of<true> { typedef int type; };

/* A unit has 64 columns, of a gated linear 32 of each half, by two warpgroups with half of the rows
 * each. Weight tiles of F8_ROW and INT8_ROW have the bytes of those of BF16, and twice the K. A
 * wide unit has 64 of each half of a gated linear, a warpgroup's each: weights and activations are
 * read from shared memory, and activations from L2, half as often, and a half's warpgroup
 * multiplies its own adapters alone. A stage of its weights has half of the K. */
template <int ROWS, bool WIDE = false, int WEIGHTS = LN_LAYOUT_BF16>
struct stage_shape : small_m_stage<LN_LAYOUT_BF16, ROWS, false> {
    typedef small_m_stage<LN_LAYOUT_BF16, ROWS, false> narrow;
    static_assert(ln_weight_tile_bytes(WEIGHTS) == narrow::TILE_BYTES, "bytes of a weight tile");
    static constexpr int LAYOUT = WEIGHTS;
    static constexpr bool HAS_INT_SUMS = LAYOUT == LN_LAYOUT_INT8_ROW,
                          HAS_ROW_SCALES = ln_weight_tile_has_row_scales(LAYOUT);
    typedef typename sum_of<HAS_INT_SUMS>::type sum_type;
    static constexpr bool IS_WIDE = WIDE;
    static constexpr unsigned UNIT_ROWS = narrow::UNIT_ROWS * (WIDE ? 2 : 1);
    static constexpr unsigned N_ACC = narrow::N_ACC * (WIDE ? 2 : 1);
    static constexpr unsigned W_TILES = narrow::TILES / (WIDE ? 2 : 1); /* of a row in a stage */
    static constexpr unsigned GROUP_ROWS = narrow::GROUP_ROWS * (WIDE ? 2 : 1);
    static constexpr unsigned GATE = UNIT_ROWS * LN_WEIGHT_TILE_ROWS / 2; /* a gate's column */
    static constexpr unsigned OUT_STRIDE = UNIT_ROWS * LN_WEIGHT_TILE_ROWS + 4; /* floats */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The pipelines of weights and of activations (linear_norm_pipeline.cuh). */
typedef struct pipeline_barriers {
    uint64_t full[SMALL_M_STAGES], empty[SMALL_M_STAGES]; /* of weights */
    uint64_t x_full[MAX_X_STAGES], x_empty[MAX_X_STAGES];
} pipeline_barriers;

typedef struct pipelines {
    char *weights, *x;
    pipeline_barriers *bars;
} pipelines;

/* Row scales of an output tile: of the rows of activations, and of a unit's rows of weights; and
 * the bits of the largest magnitudes of rows of a gated linear's results. */
typedef struct tile_scales {
    alignas(16) float x[ACT_TILE_ROWS];
    alignas(16) float w[TILE_N];
    unsigned amax[ACT_TILE_ROWS];
} tile_scales;

/* What consumers share: an output tile or a norm's row, with its residual or the norm's weights
 * behind it; sums of a norm; scales, unless the layout has none. */
typedef struct consumer_memory {
    float *tile, *norm_sums;
    tile_scales *scales;
} consumer_memory;

/* ---- adapters: linear_norm_adapters.cuh ------------------------------------------------------ */

/* A run's sixteen ranks of a weight. */
typedef struct adapter_tile {
    const char *a, *b; /* fragments: [K step][512 bytes]; of 64 columns; NULL: the tile is empty */
    uint32_t b_stride; /* bytes to the next 64 columns */
    uint32_t run;
} adapter_tile;

/* The tiles of a part of a linear, its gate's behind the others. */
typedef struct adapter_list {
    unsigned first, n, n_up;
} adapter_list;

/* Of all linears, in shared memory. A part's tiles are filled up to whole fours, a tile of
 * activations. */
typedef struct adapter_table {
    uint64_t is_filled; /* mbarrier */
    adapter_list lists[MAX_LINEARS][LN_GEMM_MAX_PARTS];
    unsigned first[MAX_LINEARS], n[MAX_LINEARS]; /* a linear's tiles */
    unsigned n_of[LN_LINEAR_NORM_MAX_ADAPTED];   /* tiles of a weight */
    adapter_tile tiles[LN_LINEAR_NORM_MAX_ADAPTER_TILES];
    bool is_last;
    unsigned rows[LN_ADAPTER_RUN]; /* of the run at hand */
    float sums[PART_CHUNKS][PASS_ROWS][LN_ADAPTER_TILE + 1];
} adapter_table;
static_assert(sizeof(adapter_table) + sizeof(pipeline_barriers) + 256 <= STATIC_SHARED_ADAPTERS,
              "the kernel's declared shared memory");

/* ---------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ weight_unit find_unit(const fused_linear &l, unsigned number) {
    if (l.is_wide)
        return find_unit<stage_shape<64, true>, true>(l.gemm.p, number);
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
