/* y = x W^T with its epilogue, one W in tiles for each group of rows, for many rows, on WGMMA:
 * tile_gemm with the jobs of grouped_scheduler.cuh, for tiles that meet x of 16 bits. */
#include "backend/cuda/gemm/grouped_scheduler.cuh"
#include "backend/cuda/gemm/mainloop.cuh"

enum { PANEL = LN_ACT_TILE_ROWS(LN_LAYOUT_BF16) };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <int KIND, bool GATE, bool PRECISE>
static __device__ void bring(const group_gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<KIND, PANEL, PRECISE> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    group_job job;
    for (unsigned number = blockIdx.x; find_group_job<GATE>(g, number, job); number += gridDim.x) {
        int row = (int)(job.block * TILES), group = (int)job.slot.group;
        int x_at = (int)(job.panel * g.a.p.n_tiles * PANEL);
        for (unsigned tile = 0; tile < g.a.p.n_tiles; tile++, x_at += PANEL) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (shape::TILE_BYTES / 128));
            ln_mbarrier_wait(&pipe.empty[at.stage], at.parity);
            ln_mbarrier_expect_tx(full, shape::USED);
            if (GATE)
                ln_tma_load(w, &g.gate, 0, tile_at, row, group, full);
            ln_tma_load(w + shape::W_BYTES - TILES * shape::TILE_BYTES, &g.weight, 0, tile_at, row,
                        group, full);
            ln_tma_load(x, &g.x, 0, x_at, full);
            if (PRECISE)
                ln_tma_load(x + shape::X_BYTES, &g.beside, 0, x_at, full);
            advance<shape::N_STAGES>(at);
        }
    }
}

#endif

template <int KIND, bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    group_gemm(const __grid_constant__ group_gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<KIND, PANEL, PRECISE> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_pdl_launch_dependents();
    init_pipe(pipe, shape::N_STAGES);
    ln_pdl_wait();
    if (threadIdx.x >= WORKERS) {
        ln_setmaxnreg_dec<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<KIND, GATE, PRECISE>(g, stages, pipe);
        return;
    }
    ln_setmaxnreg_inc<REGISTERS>();
    const ln_gemm_args &p = g.a.p;
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    group_job job;
    for (unsigned number = blockIdx.x; find_group_job<GATE>(g, number, job); number += gridDim.x) {
        float total[PANEL / 2];
        multiply<KIND, PRECISE, false>(p, number, all_columns(p), p.parts[0].precise, stages, pipe,
                                       at, total);
        if constexpr (ln_weight_tile_has_act_row_scales(KIND)) {
            find_group_job<GATE>(g, number, job);
            const float *scales = NULL;
            if constexpr (ln_weight_tile_has_row_scales(KIND))
                scales = find_group_scales<KIND, GATE>(g, job);
            scale_sums<KIND>(p.x.scales + job.panel * PANEL, scales, total);
        }
        finish_group<PANEL, GATE>(g, number, total, outs);
    }
#endif
}

template <int KIND, bool GATE, bool PRECISE>
static int launch(group_gemm_args &g, cudaStream_t stream) {
    size_t n_rows = (size_t)g.a.n_slots * PANEL * g.a.p.n_tiles;
    int code = map_rows(g.a.p.x.bf16, n_rows, PANEL, &g.x);
    if (code == 0 && PRECISE)
        code = map_rows(g.a.p.x.rest, n_rows, PANEL, &g.beside);
    if (code != 0)
        return code;
    return launch_group_jobs(group_gemm<KIND, GATE, PRECISE>, KIND, g,
                             stage_shape<KIND, PANEL, PRECISE>::SHARED, stream);
}

template <int KIND> static int launch_kind(group_gemm_args &g, cudaStream_t stream) {
    bool has_gate = g.a.groups.gate.data != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(g.a.p))
            return has_gate ? launch<KIND, true, true>(g, stream)
                            : launch<KIND, false, true>(g, stream);
    return has_gate ? launch<KIND, true, false>(g, stream) : launch<KIND, false, false>(g, stream);
}

int ln_gemm_sm90_grouped(int kind, const ln_grouped_args &args, cudaStream_t stream) {
    group_gemm_args g = {args, {}, {}, {}, {}};
    switch (kind) {
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(g, stream);
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(g, stream);
    case LN_LAYOUT_Q5: return launch_kind<LN_LAYOUT_Q5>(g, stream);
    case LN_LAYOUT_Q6: return launch_kind<LN_LAYOUT_Q6>(g, stream);
    case LN_LAYOUT_F8: return launch_kind<LN_LAYOUT_F8>(g, stream);
    case LN_LAYOUT_MXFP4: return launch_kind<LN_LAYOUT_MXFP4>(g, stream);
    case LN_LAYOUT_I8: return launch_kind<LN_LAYOUT_I8>(g, stream);
    default: return ln_gemm_sm90_grouped_int(kind, args, stream);
    }
}
