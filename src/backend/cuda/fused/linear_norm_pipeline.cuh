/* Producers of the fused linear + norm kernel: one pipeline of weights and one of activations, each
 * with full and empty mbarriers, that run on from linear to linear. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_PIPELINE_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_PIPELINE_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

static __device__ __forceinline__ void init_pipelines(unsigned n_stages, pipeline_barriers &bars) {
    for (unsigned i = 0; i < n_stages; i++) {
        ln_mbarrier_init(&bars.full[i], 1);
        ln_mbarrier_init(&bars.empty[i], WARPS);
    }
    for (unsigned i = 0; i < MAX_X_STAGES; i++) {
        ln_mbarrier_init(&bars.x_full[i], 1);
        ln_mbarrier_init(&bars.x_empty[i], WARPS);
    }
    ln_fence_mbarrier_init();
}

/* Fetches the weight tiles of these K splits of a unit by TMA, stage after stage; by one thread. */
template <typename SHAPE>
static __device__ __forceinline__ void
produce_splits(const fused_args &c, const fused_linear &l, const split_range &range,
               const weight_unit &unit, const pipelines &pipes, ln_pipeline_stage &at) {
    const small_m_args &a = l.gemm;
    const CUtensorMap *map = &a.weights[unit.part];
    int row = (int)unit.row;
    for (unsigned k_split = range.begin; k_split < range.end; k_split++) {
        int end = (int)first_tile_of(a.p, k_split + 1);
#pragma unroll 1
        for (int tile = (int)first_tile_of(a.p, k_split); tile < end; tile += SHAPE::W_TILES) {
            uint64_t *full = &pipes.bars->full[at.index];
            char *to = pipes.weights + at.index * SHAPE::W_BYTES;
            int first = tile * (int)(SHAPE::TILE_BYTES / 128);
            ln_mbarrier_wait(&pipes.bars->empty[at.index], at.phase);
            ln_mbarrier_expect_tx(full, SHAPE::W_BYTES);
            ln_tma_load_evict_first(to, map, 0, first, row, full);
            if (l.has_gate)
                ln_tma_load_evict_first(to + SHAPE::W_BYTES / 2, &a.gate, 0, first, row, full);
            ln_pipeline_advance(at, c.n_stages);
        }
    }
}

/* Fetches a stage of activations, from tile `first` on. Where that is the last, the other half is
 * any tile. Rows past the last are any bytes. */
template <int ROWS, unsigned X_STAGES>
static __device__ __forceinline__ void produce_x_stage(const ln_gemm_args &p, unsigned first,
                                                       const pipelines &pipes,
                                                       ln_pipeline_stage &at) {
    typedef stage_shape<ROWS> shape;
    char *to = pipes.x + at.index * shape::X_BYTES;
    uint64_t *full = &pipes.bars->x_full[at.index];
    ln_mbarrier_wait(&pipes.bars->x_empty[at.index], at.phase);
    ln_mbarrier_expect_tx(full, shape::X_BYTES);
#pragma unroll
    for (unsigned i = 0; i < shape::TILES; i++) {
        size_t skipped = (size_t)min(first + i, p.n_tiles - 1) * p.x.rows_per_tile * 128;
        ln_cp_async_bulk(to + i * shape::PART_BYTES, (const char *)p.x.int8 + skipped,
                         shape::PART_BYTES, full);
    }
    ln_pipeline_advance(at, X_STAGES);
}

/* Fetches the activations of these K splits, which are there by now; by one thread. */
template <int ROWS, unsigned X_STAGES>
static __device__ __forceinline__ void
produce_split_rows(const ln_gemm_args &p, const split_range &range, const pipelines &pipes,
                   ln_pipeline_stage &at) {
    for (unsigned k_split = range.begin; k_split < range.end; k_split++) {
        unsigned end = first_tile_of(p, k_split + 1);
#pragma unroll 1
        for (unsigned tile = first_tile_of(p, k_split); tile < end;
             tile += stage_shape<ROWS>::TILES)
            produce_x_stage<ROWS, X_STAGES>(p, tile, pipes, at);
    }
}

/* Fetches B of a unit's columns: [tile][row of weight tiles]. Of a gated linear a tile has those of
 * its half, which are 32 unless the unit is wide. */
template <int ROWS>
static __device__ __forceinline__ void produce_b(const fused_args &c, const fused_linear &l,
                                                 const weight_unit &unit, const adapter_list &list,
                                                 const adapter_table *table, const pipelines &pipes,
                                                 ln_pipeline_stage &at) {
    typedef stage_shape<ROWS> shape;
    constexpr unsigned STEPS = LN_ADAPTER_STAGE_STEPS, STEP_BYTES = shape::W_BYTES / STEPS,
                       ROW_BYTES = STEP_BYTES / shape::UNIT_ROWS;
    bool has_half = l.has_gate && !l.is_wide;
    unsigned bytes = has_half ? STEP_BYTES / 2 : STEP_BYTES;
#pragma unroll 1
    for (unsigned first = 0; first < list.n; first += STEPS) {
        unsigned here = min(list.n - first, STEPS);
        uint64_t *full = &pipes.bars->full[at.index];
        char *to = pipes.weights + at.index * shape::W_BYTES;
        ln_mbarrier_wait(&pipes.bars->empty[at.index], at.phase);
        ln_mbarrier_expect_tx(full, here * bytes);
#pragma unroll
        for (unsigned i = 0; i < STEPS; i++) {
            const adapter_tile &tile = table->tiles[list.first + first + min(i, here - 1)];
            unsigned skipped = has_half && first + i >= list.n_up ? bytes : 0;
            const char *from = tile.b + (size_t)(unit.row / shape::UNIT_ROWS) * tile.b_stride +
                               unit.row % shape::UNIT_ROWS * ROW_BYTES;
            if (i < here)
                ln_cp_async_bulk_evict_first(to + i * STEP_BYTES + skipped, from, bytes, full);
        }
        ln_pipeline_advance(at, c.n_stages);
    }
}

/* Fetches A x, the activations of B. */
template <int ROWS, unsigned X_STAGES>
static __device__ __forceinline__ void produce_low(const fused_args &c, const adapter_list &list,
                                                   const pipelines &pipes, ln_pipeline_stage &at) {
    typedef stage_shape<ROWS> shape;
    const char(*low)[LN_ADAPTER_LIST_TILE] = c.adapters.scratch->lists.low[0] + list.first / 4;
#pragma unroll 1
    for (unsigned first = 0; first < list.n; first += LN_ADAPTER_STAGE_STEPS) {
        unsigned n_tiles = list.n - first > 4 ? 2 : 1;
        char *to = pipes.x + at.index * shape::X_BYTES;
        uint64_t *full = &pipes.bars->x_full[at.index];
        ln_mbarrier_wait(&pipes.bars->x_empty[at.index], at.phase);
        ln_mbarrier_expect_tx(full, n_tiles * shape::PART_BYTES);
        for (unsigned i = 0; i < n_tiles; i++)
            ln_cp_async_bulk(to + i * shape::PART_BYTES, low[first / 4 + i], shape::PART_BYTES,
                             full);
        ln_pipeline_advance(at, X_STAGES);
    }
}

#endif

#endif
