/* y = x W^T with its epilogue, W in tiles that meet x of 16 bits or of E4M3, for many rows of x, on
 * WGMMA: the tiles are the A operand, from registers, where those of few bits become f16, and rows
 * of x the B operand; E4M3 is multiplied from shared memory. The order of every sum is that of
 * tile_linear, and tile_few_f8.
 *
 * Grid: a block per core, which takes one tile of results after another, COLUMNS of them (half as
 * many with a gate, when half of the warps have the gate's) of ROWS rows, by which kernels differ.
 * Block: two groups of four warps that multiply, and one whose first thread brings what they read
 * by tensor copies, in stages of one tile of columns, also while the results of the tile before are
 * written. Shared memory: the stages, and for each warp sixteen rows of its results on their way
 * out.
 *
 * A step of 16 columns takes ROWS clocks of the tensor cores (at least), and of the port of shared
 * memory (COLUMNS + ROWS) / 4 for copies, COLUMNS / 4 for weights and 2 * ROWS / 4 for x, which is
 * more; sums of a slice and those of all before it take ROWS registers of a thread. Where tiles of
 * results are few, blocks share them (split_k.cuh). */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_CUH

#define LN_JOB_GROUPS 2
#include "backend/cuda/gemm/mainloop.cuh"

/* What is multiplied, as tensors of rows of 128 bytes. */
typedef struct gemm_args {
    ln_gemm_args p;
    unsigned n_shares; /* blocks of a tile of results */
    CUtensorMap x, rest, gate, weights[LN_GEMM_MAX_PARTS];
} gemm_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Brings stage after stage for one job after another; by one thread. */
template <int KIND, int ROWS, bool GATE, bool PRECISE, bool SHARED>
static __device__ void bring(const gemm_args &g, char *stages, pipe &pipe) {
    typedef stage_shape<KIND, ROWS, PRECISE> shape;
    constexpr unsigned TILES = WARPS / (GATE ? 2 : 1); /* of a matrix */
    place at = {0, 1};
    job job;
    for (unsigned number = first_job<SHARED>(g.n_shares); find_job<ROWS, GATE>(g.p, number, job);
         number += gridDim.x) {
        stretch own = find_columns<ROWS, SHARED>(g.p, job, g.n_shares);
        int row = (int)(job.block * TILES);
        int x_at = (int)(own.begin * g.p.x.panel + job.panel * ROWS);
        for (unsigned tile = own.begin; tile < own.end; tile++, x_at += (int)g.p.x.panel) {
            uint64_t *full = &pipe.full[at.stage];
            char *x = stages + at.stage * shape::BYTES, *w = x + shape::TILES_AT;
            int tile_at = (int)(tile * (shape::TILE_BYTES / 128));
            ln_mbarrier_wait(&pipe.empty[at.stage], at.parity);
            ln_mbarrier_expect_tx(full, shape::USED);
            if (GATE)
                ln_tma_load(w, &g.gate, 0, tile_at, row, full);
            ln_tma_load(w + shape::W_BYTES - TILES * shape::TILE_BYTES, &g.weights[job.part], 0,
                        tile_at, row, full);
            ln_tma_load(x, &g.x, 0, x_at, full);
            if (PRECISE)
                ln_tma_load(x + shape::X_BYTES, &g.rest, 0, x_at, full);
            advance<shape::N_STAGES>(at);
        }
    }
}

/* What multiply does, of F8_ROW, a tile of columns at a time. */
template <bool SHARED, int N>
static __device__ __forceinline__ void multiply_f8(const ln_gemm_args &p, unsigned number,
                                                   stretch own, const char *stages, pipe &pipe,
                                                   place &at, float (&total)[N]) {
    typedef stage_shape<LN_LAYOUT_F8_ROW, 2 * N, false> shape;
    unsigned group = threadIdx.x / GROUP_THREADS, lane = threadIdx.x % LN_WARP, last = 0;
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    const char *weights = stages + shape::TILES_AT + group * 4 * shape::TILE_BYTES;
    float sum[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        total[i] = -0.0f, sum[i] = 0.0f;
    lag_behind(own, pipe, number);
    for (unsigned begin = own.begin; begin < own.end; begin += per_slice) {
        unsigned end = min(begin + per_slice, own.end);
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.stage * shape::BYTES;
            const char *w = weights + at.stage * shape::BYTES;
            ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
            ln_wgmma_fence();
#pragma unroll
            for (int i = 0; i < 4; i++)
                ln_wgmma_fp8(sum, ln_wgmma_desc_no_swizzle(w + i * 256, 128, 1024), ln_wgmma_desc_swizzle128(x + i * 32),
                            i > 0 || tile > begin);
            ln_wgmma_commit();
            ln_wgmma_wait<1>();
            if (tile > begin)
                release(&pipe.empty[last], lane);
            let_follow(own, pipe, tile);
            last = at.stage;
            advance<shape::N_STAGES>(at);
        }
        ln_wgmma_wait<0>();
        ln_wgmma_keep(sum);
        release(&pipe.empty[last], lane);
        add_slice<SHARED>(own, sum, total);
    }
    if (!SHARED)
        add_empty_slices(p.n_tiles, total);
}

template <int KIND, int ROWS, bool GATE>
static __device__ __forceinline__ void end_job(const ln_gemm_args &p, unsigned &number,
                                               float (&total)[ROWS / 2], float *outs) {
    if constexpr (ln_weight_tile_has_act_row_scales(KIND)) {
        job job;
        find_job<ROWS, GATE>(p, number, job);
        const float *scales = NULL;
        if constexpr (ln_weight_tile_has_row_scales(KIND))
            scales = find_row_scales<KIND, GATE>(p, job);
        scale_sums<KIND>(p.x.scales + job.panel * ROWS, scales, total);
    }
    finish<ROWS, GATE>(p, number, total, outs);
}

#endif

template <int KIND, int ROWS, bool GATE, bool PRECISE, bool SHARED>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm(const __grid_constant__ gemm_args g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stage_shape<KIND, ROWS, PRECISE> shape;
    extern __shared__ __align__(1024) char stages[];
    __shared__ pipe pipe;
    ln_pdl_launch_dependents();
    init_pipe(pipe, shape::N_STAGES);
    ln_pdl_wait();
    if (threadIdx.x >= WORKERS) {
        ln_setmaxnreg_dec<FEW_REGISTERS>();
        if (threadIdx.x == WORKERS)
            bring<KIND, ROWS, GATE, PRECISE, SHARED>(g, stages, pipe);
        return;
    }
    ln_setmaxnreg_inc<REGISTERS>();
    const ln_gemm_args &p = g.p;
    float *outs = (float *)(stages + shape::N_STAGES * shape::BYTES);
    place at = {0, 0};
    job job;
    for (unsigned number = first_job<SHARED>(g.n_shares); find_job<ROWS, GATE>(p, number, job);
         number += gridDim.x) {
        float total[ROWS / 2];
        stretch own = find_columns<ROWS, SHARED>(p, job, g.n_shares);
        if (!GATE && own.begin == 0)
            expect_residual<ROWS>(p, job);
        if constexpr (KIND == LN_LAYOUT_F8_ROW)
            multiply_f8<SHARED>(p, number, own, stages, pipe, at, total);
        else
            multiply<KIND, PRECISE, SHARED>(p, number, own, p.parts[job.part].precise, stages, pipe,
                                            at, total);
        if constexpr (SHARED)
            end_share<KIND, ROWS>(p, job, number, g.n_shares, outs);
        else
            end_job<KIND, ROWS, GATE>(p, number, total, outs);
    }
#endif
}

template <int KIND, int ROWS, bool GATE, bool PRECISE, bool SHARED>
static int launch(const ln_gemm_args &args, unsigned n_shares, cudaStream_t stream) {
    gemm_args g = {args, n_shares, {}, {}, {}, {}};
    size_t n_rows = (size_t)args.x.panel * args.n_tiles;
    int code = map_rows(args.x.bf16, n_rows, ROWS, &g.x);
    if (code == 0 && PRECISE)
        code = map_rows(args.x.rest, n_rows, ROWS, &g.rest);
    if (code == 0)
        code = map_weights(KIND, args, g.weights, &g.gate);
    if (code != 0)
        return code;
    return launch_jobs(gemm<KIND, ROWS, GATE, PRECISE, SHARED>, g, ROWS,
                       stage_shape<KIND, ROWS, PRECISE>::SHARED, stream, n_shares);
}

/* Whether there is a kernel for so many rows at a time, and whether blocks can share them. */
static constexpr bool has_rows(int kind, bool precise, unsigned rows) {
    bool is_many = kind == LN_LAYOUT_F8_ROW || (kind == LN_LAYOUT_BF16 && !precise);
    return rows == 128 || rows == 192 || (is_many && (rows == 176 || rows == 208)) ||
           (kind == LN_LAYOUT_F8_ROW && rows == 64);
}

static constexpr bool has_shares(bool gate, unsigned rows) {
    return !gate && rows % MERGED_ROWS == 0;
}

/* Rows at a time, and blocks for each such tile. */
typedef struct job_shape {
    unsigned rows, n_shares;
} job_shape;

/* Those that take least. A step takes as long as shared memory does, (256 + 3 ROWS) / 4 clocks, and
 * a tile of columns has four. */
static int choose_shape(int kind, bool precise, const ln_gemm_args &args, job_shape *shape) {
    static const unsigned sizes[] = {64, 128, 176, 192, 208};
    bool has_gate = args.parts[0].gate != NULL;
    unsigned n_cores, least = UINT32_MAX;
    int code = ln_count_sms(&n_cores);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && code == 0; i++)
        for (unsigned n = 1; n <= (has_shares(has_gate, sizes[i]) ? 4 : 1); n *= 2) {
            unsigned clocks = count_clocks(args, sizes[i], n, n_cores, 256 + 3 * sizes[i]);
            if (has_rows(kind, precise, sizes[i]) && clocks < least)
                least = clocks, *shape = {sizes[i], n};
        }
    return code;
}

template <int KIND, int ROWS, bool GATE, bool PRECISE>
static int launch_rows(const ln_gemm_args &args, unsigned n_shares, cudaStream_t stream) {
    if constexpr (has_rows(KIND, PRECISE, ROWS)) {
        if constexpr (has_shares(GATE, ROWS))
            if (n_shares > 1)
                return launch<KIND, ROWS, GATE, PRECISE, true>(args, n_shares, stream);
        return launch<KIND, ROWS, GATE, PRECISE, false>(args, 1, stream);
    }
    return cudaErrorInvalidValue;
}

template <int KIND, bool GATE, bool PRECISE>
static int launch_best(const ln_gemm_args &args, cudaStream_t stream) {
    job_shape shape = {};
    int code = choose_shape(KIND, PRECISE, args, &shape);
    if (code != 0)
        return code;
    switch (shape.rows) {
    case 64: return launch_rows<KIND, 64, GATE, PRECISE>(args, shape.n_shares, stream);
    case 128: return launch_rows<KIND, 128, GATE, PRECISE>(args, shape.n_shares, stream);
    case 176: return launch_rows<KIND, 176, GATE, PRECISE>(args, shape.n_shares, stream);
    case 192: return launch_rows<KIND, 192, GATE, PRECISE>(args, shape.n_shares, stream);
    default: return launch_rows<KIND, 208, GATE, PRECISE>(args, shape.n_shares, stream);
    }
}

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch_best<KIND, true, true>(args, stream)
                            : launch_best<KIND, false, true>(args, stream);
    return has_gate ? launch_best<KIND, true, false>(args, stream)
                    : launch_best<KIND, false, false>(args, stream);
}

#endif
