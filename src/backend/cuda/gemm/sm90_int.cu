/* y = x W^T with its epilogue, W in tiles of INT8 or INT4, for many rows of x, on WGMMA: the tiles
 * are the A operand, from registers, and x, in panels of 64 rows, the B operand. The order of every
 * sum is that of tile_linear. Blocks as in scheduler.cuh, or some for a tile of results
 * (split_k.cuh); a stage is one tile of columns. */
#include "backend/cuda/gemm/mainloop_int.cuh"

/* What is multiplied, as tensors of rows of 128 bytes. */
typedef struct gemm_args {
    ln_gemm_args p;
    unsigned n_shares; /* blocks of a tile of results */
    CUtensorMap x, scales, gate, weights[LN_GEMM_MAX_PARTS];
} gemm_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <int KIND, bool GATE, bool SHARED>
static __device__ void bring(const gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<KIND> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    job job;
    for (unsigned number = first_job<SHARED>(g.n_shares); find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        stretch own = find_columns<PANEL, SHARED>(g.p, job, g.n_shares);
        int row = (int)(job.block * TILES), x_at = (int)(job.panel * g.p.n_tiles + own.begin);
        for (unsigned tile = own.begin; tile < own.end; tile++, x_at++) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (shape::TILE_BYTES / 128));
            ln_mbarrier_wait(&pipe.empty[at.stage], at.parity);
            ln_mbarrier_expect_tx(full, shape::BYTES);
            if (GATE)
                ln_tma_load(w, &g.gate, 0, tile_at, row, full);
            ln_tma_load(w + shape::W_BYTES - TILES * shape::TILE_BYTES, &g.weights[job.part], 0,
                        tile_at, row, full);
            ln_tma_load(x, &g.x, 0, x_at * (X_BYTES / 128), full);
            ln_tma_load(x + X_BYTES, &g.scales, 0, x_at * (SCALE_BYTES / 128), full);
            advance<shape::N_STAGES>(at);
        }
    }
}

template <int KIND, int ROWS, bool GATE>
static __device__ __forceinline__ void end_job(const ln_gemm_args &p, unsigned &number,
                                               float (&total)[ROWS / 2], float *outs) {
    finish<ROWS, GATE>(p, number, total, outs);
}

#endif

template <int KIND, bool GATE, bool SHARED>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm(const __grid_constant__ gemm_args g) {
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
            bring<KIND, GATE, SHARED>(g, stages, pipe);
        return;
    }
    ln_setmaxnreg_inc<REGISTERS>();
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    job job;
    for (unsigned number = first_job<SHARED>(g.n_shares); find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        float total[N_SUMS];
        stretch own = find_columns<PANEL, SHARED>(g.p, job, g.n_shares);
        if (!GATE && own.begin == 0)
            expect_residual<PANEL>(g.p, job);
        multiply<KIND, SHARED>(g.p, own, stages, pipe, at, total);
        if constexpr (SHARED)
            end_share<KIND, PANEL>(g.p, job, number, g.n_shares, outs);
        else
            end_job<KIND, PANEL, GATE>(g.p, number, total, outs);
    }
#endif
}

template <int KIND, bool GATE, bool SHARED>
static int launch(const ln_gemm_args &args, unsigned n_shares, cudaStream_t stream) {
    gemm_args g = {args, n_shares, {}, {}, {}, {}};
    size_t tiles = (size_t)ln_ceil_div(args.n_rows, PANEL) * args.n_tiles;
    int code = map_rows(args.x.int8, tiles * (X_BYTES / 128), X_BYTES / 128, &g.x);
    if (code == 0)
        code = map_rows(args.x.scales, tiles * (SCALE_BYTES / 128), SCALE_BYTES / 128, &g.scales);
    if (code == 0)
        code = map_weights(KIND, args, g.weights, &g.gate);
    if (code != 0)
        return code;
    return launch_jobs(gemm<KIND, GATE, SHARED>, g, PANEL, stage_shape<KIND>::SHARED, stream,
                       n_shares);
}

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    enum { TILE_CLOCKS = 4300 }; /* by the rate of long prompts */
    if (args.parts[0].gate != NULL)
        return launch<KIND, true, false>(args, 1, stream);
    unsigned n_cores, n_shares = 1, least = UINT32_MAX;
    int code = ln_count_sms(&n_cores);
    for (unsigned n = 1; n <= 4 && code == 0; n *= 2) {
        unsigned clocks = count_clocks(args, PANEL, n, n_cores, TILE_CLOCKS);
        if (clocks < least)
            least = clocks, n_shares = n;
    }
    if (code != 0)
        return code;
    return n_shares > 1 ? launch<KIND, false, true>(args, n_shares, stream)
                        : launch<KIND, false, false>(args, 1, stream);
}

int ln_gemm_sm90_int(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    return kind == LN_LAYOUT_INT8 ? launch_kind<LN_LAYOUT_INT8>(args, stream)
                                : launch_kind<LN_LAYOUT_INT4>(args, stream);
}
