/* The same as sm90_grouped.cu for tiles of INT8 and INT4: tile_gemm_int by group. */
#include "backend/cuda/gemm/grouped_scheduler.cuh"
#include "backend/cuda/gemm/mainloop_int.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <int KIND, bool GATE>
static __device__ void bring(const group_gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<KIND> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    group_job job;
    for (unsigned number = blockIdx.x; find_group_job<GATE>(g, number, job); number += gridDim.x) {
        int row = (int)(job.block * TILES), group = (int)job.slot.group;
        int x_at = (int)(job.panel * g.a.p.n_tiles);
        for (unsigned tile = 0; tile < g.a.p.n_tiles; tile++, x_at++) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (shape::TILE_BYTES / 128));
            ln_mbarrier_wait(&pipe.empty[at.stage], at.parity);
            ln_mbarrier_expect_tx(full, shape::BYTES);
            if (GATE)
                ln_tma_load(w, &g.gate, 0, tile_at, row, group, full);
            ln_tma_load(w + shape::W_BYTES - TILES * shape::TILE_BYTES, &g.weight, 0, tile_at, row,
                        group, full);
            ln_tma_load(x, &g.x, 0, x_at * (X_BYTES / 128), full);
            ln_tma_load(x + X_BYTES, &g.beside, 0, x_at * (SCALE_BYTES / 128), full);
            advance<shape::N_STAGES>(at);
        }
    }
}

#endif

template <int KIND, bool GATE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    group_gemm(const __grid_constant__ group_gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<KIND> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_pdl_launch_dependents();
    init_pipe(pipe, shape::N_STAGES);
    ln_pdl_wait();
    if (threadIdx.x >= WORKERS) {
        ln_setmaxnreg_dec<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<KIND, GATE>(g, stages, pipe);
        return;
    }
    ln_setmaxnreg_inc<REGISTERS>();
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    group_job job;
    for (unsigned number = blockIdx.x; find_group_job<GATE>(g, number, job); number += gridDim.x) {
        float total[N_SUMS];
        multiply<KIND, false>(g.a.p, all_columns(g.a.p), stages, pipe, at, total);
        finish_group<PANEL, GATE>(g, number, total, outs);
    }
#endif
}

template <int KIND, bool GATE> static int launch(group_gemm_args &g, cudaStream_t stream) {
    size_t tiles = (size_t)g.a.n_slots * g.a.p.n_tiles;
    int code = map_rows(g.a.p.x.int8, tiles * (X_BYTES / 128), X_BYTES / 128, &g.x);
    if (code == 0)
        code = map_rows(g.a.p.x.scales, tiles * (SCALE_BYTES / 128), SCALE_BYTES / 128, &g.beside);
    if (code != 0)
        return code;
    return launch_group_jobs(group_gemm<KIND, GATE>, KIND, g, stage_shape<KIND>::SHARED, stream);
}

int ln_gemm_sm90_grouped_int(int kind, const ln_grouped_args &args, cudaStream_t stream) {
    group_gemm_args g = {args, {}, {}, {}, {}};
    bool has_gate = args.groups.gate.data != NULL;
    if (kind == LN_LAYOUT_INT8)
        return has_gate ? launch<LN_LAYOUT_INT8, true>(g, stream)
                        : launch<LN_LAYOUT_INT8, false>(g, stream);
    return has_gate ? launch<LN_LAYOUT_INT4, true>(g, stream)
                    : launch<LN_LAYOUT_INT4, false>(g, stream);
}
