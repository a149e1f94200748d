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
    for (unsigned i = 0; i < X_STAGES; i++) {
        ln_mbarrier_init(&bars.x_full[i], 1);
        ln_mbarrier_init(&bars.x_empty[i], WARPS);
    }
    ln_fence_mbarrier_init();
}

/* Fetches a linear's weight tiles by TMA, stage after stage; by one thread. */
template <int ROWS>
static __device__ __forceinline__ void produce_weights(const fused_args &c, const fused_linear &l,
                                                       const pipelines &pipes,
                                                       ln_pipeline_stage &at) {
    typedef stage_shape<ROWS> shape;
    const small_m_args &a = l.gemm;
    split_range piece;
    for (unsigned k = 0; find_split_range(a, k, piece); k++) {
        weight_unit unit = find_unit(l, piece.unit);
        const CUtensorMap *map = &a.weights[unit.part];
        for (unsigned k_split = piece.begin; k_split < piece.end; k_split++) {
            int row = (int)unit.row, end = (int)first_tile_of(a.p, k_split + 1);
#pragma unroll 1
            for (int tile = (int)first_tile_of(a.p, k_split); tile < end; tile += shape::TILES) {
                uint64_t *full = &pipes.bars->full[at.index];
                char *to = pipes.weights + at.index * shape::W_BYTES;
                int first = tile * (int)(shape::TILE_BYTES / 128);
                ln_mbarrier_wait(&pipes.bars->empty[at.index], at.phase);
                ln_mbarrier_expect_tx(full, shape::W_BYTES);
                ln_tma_load(to, map, 0, first, row, full);
                if (l.has_gate)
                    ln_tma_load(to + shape::W_BYTES / 2, &a.gate, 0, first, row, full);
                ln_pipeline_advance(at, c.n_stages);
            }
        }
    }
}

/* Fetches activations, which are there by now, stage after stage; by one thread. Where a K split
 * ends with half a stage, the other half is any tile. */
template <int ROWS>
static __device__ __forceinline__ void produce_rows(const fused_args &c, const fused_linear &l,
                                                    const pipelines &pipes, ln_pipeline_stage &at) {
    typedef stage_shape<ROWS> shape;
    const small_m_args &a = l.gemm;
    split_range piece;
    for (unsigned k = 0; find_split_range(a, k, piece); k++)
        for (unsigned k_split = piece.begin; k_split < piece.end; k_split++) {
            unsigned end = first_tile_of(a.p, k_split + 1);
#pragma unroll 1
            for (unsigned tile = first_tile_of(a.p, k_split); tile < end; tile += shape::TILES) {
                char *to = pipes.x + at.index * shape::X_BYTES;
                uint64_t *full = &pipes.bars->x_full[at.index];
                ln_mbarrier_wait(&pipes.bars->x_empty[at.index], at.phase);
                ln_mbarrier_expect_tx(full, shape::X_BYTES);
#pragma unroll
                for (unsigned i = 0; i < shape::TILES; i++)
                    load_act_tile<LN_LAYOUT_BF16, ROWS, false>(
                        a.p.x, min(tile + i, a.p.n_tiles - 1), i, to, full);
                ln_pipeline_advance(at, X_STAGES);
            }
        }
}

#endif

#endif
