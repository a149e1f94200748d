/* y = x W^T with its epilogue, W in tiles of INT8 or INT4, for many rows of x, on WGMMA: the tiles
 * are the A operand, from registers, and x, in panels of 64 rows, the B operand. The order of every
 * sum is that of tile_linear. Blocks as in tile_job.cuh; a stage is one tile of columns. */
#include "backend/cuda/tile_job.cuh"
#include "backend/cuda/tile_lane.cuh"

enum { PANEL = LN_TILE_PANEL(LN_TILE_INT8), N_SUMS = PANEL / 2, N_BLOCKS = 8 };
enum { X_BYTES = PANEL * 256, SCALE_BYTES = PANEL * N_BLOCKS * 4 };

/* A stage: x in panels, its scales, then the tiles of each warp. */
template <int KIND> struct stage_shape {
    static constexpr unsigned TILE_BYTES = ln_tile_bytes(KIND), W_BYTES = WARPS * TILE_BYTES;
    static constexpr unsigned TILES_AT = X_BYTES + SCALE_BYTES, BYTES = TILES_AT + W_BYTES;
    static constexpr unsigned N_STAGES = (MAX_SHARED - OUT_BYTES) / BYTES;
    static constexpr unsigned SHARED = N_STAGES * BYTES + OUT_BYTES;
};

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

/* The A operand of a block of a tile of int8 or int4 numbers. */
template <int KIND>
static __device__ __forceinline__ uint4 load_block(const char *tile, unsigned lane, int block) {
    if constexpr (KIND == LN_TILE_INT8)
        return *(const uint4 *)(tile + (block * 32 + lane) * 16);
    else
        return ln_unpack_int4(*(const uint4 *)(tile + (block / 2 * 32 + lane) * 16), block);
}

/* Begins the products of a block. */
static __device__ __forceinline__ void begin_block(const uint4 &a, const char *x, int block,
                                                   int (&c)[N_SUMS]) {
    ln_wgmma_fence();
    ln_wgmma_int8(c, a, ln_wgmma_rows(x + block / 4 * (PANEL * 128) + block % 4 * 32));
    ln_wgmma_commit();
}

/* Adds c * w * x: what ln_add_scaled does to START + c. */
static __device__ __forceinline__ void add_block(const int c[N_SUMS], float w0, float w1,
                                                 const float *x_scales, float sum[N_SUMS]) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        float *s = sum + 4 * j;
        s[0] = fmaf((float)c[4 * j] * w0, x.x, s[0]);
        s[1] = fmaf((float)c[4 * j + 1] * w0, x.y, s[1]);
        s[2] = fmaf((float)c[4 * j + 2] * w1, x.x, s[2]);
        s[3] = fmaf((float)c[4 * j + 3] * w1, x.y, s[3]);
    }
}

/* Sums of a tile of results. While a block is scaled the next one is multiplied. */
template <int KIND>
static __device__ __forceinline__ void multiply(const ln_tile_args &p, const char *stages,
                                                pipe &pipe, place &at, float (&total)[N_SUMS]) {
    typedef stage_shape<KIND> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    float sum[N_SUMS];
#pragma unroll
    for (int i = 0; i < N_SUMS; i++)
        total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
    for (unsigned begin = 0; begin < p.n_tiles; begin += per_slice) {
        unsigned end = min(begin + per_slice, p.n_tiles);
#pragma unroll
        for (int i = 0; i < N_SUMS; i++)
            sum[i] = 0.0f;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.stage * shape::BYTES;
            const char *w = x + shape::TILES_AT + warp * shape::TILE_BYTES;
            const float *x_scales = (const float *)(x + X_BYTES) + lane % 4 * 2;
            int c[2][N_SUMS];
            uint4 w_scales[2], a[2];
            ln_barrier_wait(&pipe.full[at.stage], at.parity);
#pragma unroll
            for (int i = 0; i < 2; i++)
                w_scales[i] = *(const uint4 *)(w + ln_tile_scale_at(KIND, lane / 4 + 8 * i, 0));
            a[0] = load_block<KIND>(w, lane, 0);
            begin_block(a[0], x, 0, c[0]);
#pragma unroll
            for (int block = 0; block < N_BLOCKS; block++) {
                if (block + 1 < N_BLOCKS) {
                    a[(block + 1) % 2] = load_block<KIND>(w, lane, block + 1);
                    begin_block(a[(block + 1) % 2], x, block + 1, c[(block + 1) % 2]);
                    ln_wgmma_wait<1>();
                } else {
                    ln_wgmma_wait<0>();
                }
                ln_wgmma_keep(a[block % 2]);
                ln_wgmma_keep(c[block % 2]);
                add_block(c[block % 2], ln_tile_scale((const uint32_t *)&w_scales[0], block),
                          ln_tile_scale((const uint32_t *)&w_scales[1], block),
                          x_scales + block * 64, sum);
            }
            release(&pipe.empty[at.stage], lane);
            advance<shape::N_STAGES>(at);
        }
#pragma unroll
        for (int i = 0; i < N_SUMS; i++)
            total[i] += sum[i];
    }
    add_empty_slices(p.n_tiles, total);
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
