/* y = x W^T with its epilogue, W in tiles of INT8 or INT4, for many rows of x, on WGMMA: the tiles
 * are the A operand, from registers, and x, in panels of 64 rows, the B operand. The order of every
 * sum is that of tile_linear. Blocks as in tile_job.cuh; a stage is one tile of columns. */
#include "backend/cuda/tile_panel_int.cuh"

/* What is multiplied, as tensors of rows of 128 bytes. */
typedef struct gemm_args {
    ln_tile_args p;
    CUtensorMap x, scales, gate, weights[LN_TILE_MAX_PARTS];
} gemm_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <int KIND, bool GATE>
static __device__ void bring(const gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<KIND> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    job job;
    for (unsigned number = blockIdx.x; find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        int row = (int)(job.block * TILES), x_at = (int)(job.panel * g.p.n_tiles);
        for (unsigned tile = 0; tile < g.p.n_tiles; tile++, x_at++) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (shape::TILE_BYTES / 128));
            ln_barrier_wait(&pipe.empty[at.stage], at.parity);
            ln_barrier_expect(full, shape::BYTES);
            if (GATE)
                ln_copy_box(w, &g.gate, 0, tile_at, row, full);
            ln_copy_box(w + shape::W_BYTES - TILES * shape::TILE_BYTES, &g.weights[job.part], 0,
                        tile_at, row, full);
            ln_copy_box(x, &g.x, 0, x_at * (X_BYTES / 128), full);
            ln_copy_box(x + X_BYTES, &g.scales, 0, x_at * (SCALE_BYTES / 128), full);
            advance<shape::N_STAGES>(at);
        }
    }
}

#endif

template <int KIND, bool GATE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm(const __grid_constant__ gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<KIND> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_let_next_start();
    init_pipe(pipe, shape::N_STAGES);
    ln_wait_for_last();
    if (threadIdx.x >= WORKERS) {
        ln_leave_registers<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<KIND, GATE>(g, stages, pipe);
        return;
    }
    ln_take_registers<REGISTERS>();
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    job job;
    for (unsigned number = blockIdx.x; find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        float total[N_SUMS];
        if (!GATE)
            expect_residual<PANEL>(g.p, job);
        multiply<KIND>(g.p, stages, pipe, at, total);
        finish<PANEL, GATE>(g.p, number, total, outs);
    }
#endif
}

template <int KIND, bool GATE> static int launch(const ln_tile_args &args, cudaStream_t stream) {
    gemm_args g = {args, {}, {}, {}, {}};
    size_t tiles = (size_t)ln_ceil_div(args.n_rows, PANEL) * args.n_tiles;
    int code = map_rows(args.x.int8, tiles * (X_BYTES / 128), X_BYTES / 128, &g.x);
    if (code == 0)
        code = map_rows(args.x.scales, tiles * (SCALE_BYTES / 128), SCALE_BYTES / 128, &g.scales);
    if (code == 0)
        code = map_weights(KIND, args, g.weights, &g.gate);
    if (code != 0)
        return code;
    return launch_jobs(gemm<KIND, GATE>, g, PANEL, stage_shape<KIND>::SHARED, stream);
}

#ifndef LAB
int ln_tile_gemm_int(int kind, const ln_tile_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if (kind == LN_TILE_INT8)
        return has_gate ? launch<LN_TILE_INT8, true>(args, stream)
                        : launch<LN_TILE_INT8, false>(args, stream);
    return has_gate ? launch<LN_TILE_INT4, true>(args, stream)
                    : launch<LN_TILE_INT4, false>(args, stream);
}
#endif
