/* y = x W^T with its epilogue for many rows of x, on WGMMA, W in tiles of a kind whose sums may run
 * through all columns: the tiles are the A operand, from registers, and x, in panels of 256 rows,
 * the B operand.
 *
 * Blocks as in scheduler.cuh, of two groups, so that a warp's registers hold the sums of 256 rows.
 * A stage is one tile of columns: 128 bytes of each row of x, and 2 KiB of each warp's tiles.
 * Whole numbers (INT8_ROW) have one sum in any order: their results have the bits of tile_linear.
 */
#define LN_JOB_GROUPS 2
#include "backend/cuda/gemm/scheduler.cuh"
#include "backend/cuda/ptx/wgmma_n256.cuh"

enum { PANEL = LN_ACT_TILE_ROWS(LN_LAYOUT_INT8_ROW), N_SUMS = PANEL / 2, TILE_BYTES = 2048 };
enum { X_BYTES = PANEL * 128, STAGE_BYTES = X_BYTES + WARPS * TILE_BYTES };
enum {
    N_STAGES = (MAX_SHARED - OUT_BYTES) / STAGE_BYTES,
    SHARED = N_STAGES * STAGE_BYTES + OUT_BYTES
};

/* What is multiplied, as tensors of rows of 128 bytes. */
typedef struct gemm_args {
    ln_gemm_args p;
    CUtensorMap x, gate, weights[LN_GEMM_MAX_PARTS];
} gemm_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <bool GATE> static __device__ void bring(const gemm_args &g, char *stages, pipe &pipe) {
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    job job;
    for (unsigned number = blockIdx.x; find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        int row = (int)(job.block * TILES), x_at = (int)(job.panel * g.p.n_tiles * PANEL);
        for (unsigned tile = 0; tile < g.p.n_tiles; tile++, x_at += PANEL) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * STAGE_BYTES, *w = x + X_BYTES;
            int tile_at = (int)(tile * (TILE_BYTES / 128));
            ln_mbarrier_wait(&pipe.empty[at.stage], at.parity);
            ln_mbarrier_expect_tx(full, STAGE_BYTES);
            if (GATE)
                ln_tma_load(w, &g.gate, 0, tile_at, row, full);
            ln_tma_load(w + (WARPS - TILES) * TILE_BYTES, &g.weights[job.part], 0, tile_at, row,
                        full);
            ln_tma_load(x, &g.x, 0, x_at, full);
            advance<N_STAGES>(at);
        }
    }
}

/* Two of the four steps of a tile. */
template <typename T>
static __device__ __forceinline__ void begin_half(T (&sum)[N_SUMS], const uint4 a[2],
                                                  const char *x) {
    ln_wgmma_fence();
    ln_wgmma_n256(sum, a[0], ln_wgmma_desc_swizzle128(x));
    ln_wgmma_n256(sum, a[1], ln_wgmma_desc_swizzle128(x + 32));
    ln_wgmma_commit();
}

/* A warp's weights of two steps. */
static __device__ __forceinline__ void load_half(const char *w, uint4 a[2]) {
    a[0] = *(const uint4 *)w;
    a[1] = *(const uint4 *)(w + 512);
}

/* Sums of a tile of results; while half of a tile is multiplied the weights of the next half come
 * to registers. */
template <typename T>
static __device__ __forceinline__ void multiply(const ln_gemm_args &p, const char *stages,
                                                pipe &pipe, place &at, T (&sum)[N_SUMS]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP, last = 0;
    const char *weights = stages + X_BYTES + warp * TILE_BYTES + lane * 16;
    uint4 a[2], b[2];
#pragma unroll
    for (int i = 0; i < N_SUMS; i++)
        sum[i] = 0;
    ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
    load_half(weights + at.stage * STAGE_BYTES, a);
#pragma unroll 1
    for (unsigned tile = 0; tile < p.n_tiles; tile++) {
        const char *x = stages + at.stage * STAGE_BYTES;
        begin_half(sum, a, x);
        ln_wgmma_wait<1>(); /* the last tile's second half */
        ln_wgmma_keep(b[0]);
        ln_wgmma_keep(b[1]);
        if (tile > 0)
            release(&pipe.empty[last], lane);
        load_half(weights + at.stage * STAGE_BYTES + 1024, b);
        begin_half(sum, b, x + 64);
        ln_wgmma_wait<1>();
        ln_wgmma_keep(a[0]);
        ln_wgmma_keep(a[1]);
        last = at.stage;
        advance<N_STAGES>(at);
        if (tile + 1 < p.n_tiles) {
            ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
            load_half(weights + at.stage * STAGE_BYTES, a);
        }
    }
    ln_wgmma_wait<0>();
    ln_wgmma_keep(sum);
    ln_wgmma_keep(b[0]);
    ln_wgmma_keep(b[1]);
    release(&pipe.empty[last], lane);
}

/* What sums of whole numbers stand for. */
template <bool GATE>
static __device__ __forceinline__ void scale_sums(const ln_gemm_args &p, const job &job,
                                                  const int (&sum)[N_SUMS],
                                                  float (&total)[N_SUMS]) {
    unsigned lane = threadIdx.x % LN_WARP;
    const float *x_scales = p.x.scales + job.panel * PANEL + lane % 4 * 2;
    const float *scales = find_row_scales<LN_LAYOUT_INT8_ROW, GATE>(p, job);
    float w0 = scales[lane / 4], w1 = scales[lane / 4 + 8];
#pragma unroll
    for (int j = 0; j < PANEL / 8; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        total[4 * j] = (float)sum[4 * j] * (w0 * x.x);
        total[4 * j + 1] = (float)sum[4 * j + 1] * (w0 * x.y);
        total[4 * j + 2] = (float)sum[4 * j + 2] * (w1 * x.x);
        total[4 * j + 3] = (float)sum[4 * j + 3] * (w1 * x.y);
    }
}

#endif

template <bool GATE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm_wide(const __grid_constant__ gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_pdl_launch_dependents();
    init_pipe(pipe, N_STAGES);
    ln_pdl_wait();
    if (threadIdx.x >= WORKERS) {
        ln_setmaxnreg_dec<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<GATE>(g, stages, pipe);
        return;
    }
    ln_setmaxnreg_inc<REGISTERS>();
    float *outs = (float *)(stages + N_STAGES * STAGE_BYTES);
    place at = {0, 0};
    job job;
    for (unsigned number = blockIdx.x; find_job<PANEL, GATE>(g.p, number, job);
         number += gridDim.x) {
        int sum[N_SUMS];
        float total[N_SUMS];
        if (!GATE)
            expect_residual<PANEL>(g.p, job);
        multiply(g.p, stages, pipe, at, sum);
        find_job<PANEL, GATE>(g.p, number, job);
        scale_sums<GATE>(g.p, job, sum, total);
        finish<PANEL, GATE>(g.p, number, total, outs);
    }
#endif
}

template <bool GATE> static int launch(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    gemm_args g = {args, {}, {}, {}};
    size_t n_rows = (size_t)ln_ceil_div(args.n_rows, PANEL) * PANEL * args.n_tiles;
    int code = map_rows(args.x.int8, n_rows, PANEL, &g.x);
    if (code == 0)
        code = map_weights(kind, args, g.weights, &g.gate);
    if (code != 0)
        return code;
    return launch_jobs(gemm_wide<GATE>, g, PANEL, SHARED, stream);
}

int ln_gemm_sm90_n256(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    return args.parts[0].gate != NULL ? launch<true>(kind, args, stream)
                                      : launch<false>(kind, args, stream);
}
