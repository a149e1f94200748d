/* What kernels for 9 to 64 rows of x on Hopper share, whose tiles are WGMMA's A operand, from
 * registers, and x, in a panel of 64 rows, its B operand. The order of every sum is that of
 * tile_linear.
 *
 * A unit is 64 columns of the results of BF16, 128 of other kinds, half as many with their gate.
 * The slices of its sums, and those of the unit behind it and so on, are divided evenly among
 * blocks, so that all of them read weights to the end. A block begins with the slices of its last
 * unit, of which another block has the rest, and leaves the sum of these in device memory early; it
 * ends with those of its first unit, and adds them to what the block in front of it has left.
 *
 * Of kinds other than BF16, where a block gets few slices, several share a unit: each passes the
 * sums of all its slices, and merges those of some rows as soon as they are there. Blocks that wait
 * for others have only a few behind them to wait for, which begin as soon as any other block ends.
 *
 * Grid: a block on every multiprocessor. Block: two groups of four warps that multiply 64 columns,
 * by half of the rows each, or other columns by all of them, and two warps that bring weights and
 * x. With 128 registers to a thread, of BF16, a norm's block finds room beside a block: so the
 * weights of the linear behind that norm come as soon as the linear in front of it has ended.
 *
 * Shared memory: what warps exchange about gates [256 threads][8] floats; stages of two tiles of
 * columns, or of one of int8. Weights are read once, x as often as there are units, from the L2
 * cache. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_CUH

#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/gemm/sm90_small_m_epilogue.cuh"

enum { MAX_SHARED = 224 * 1024, MOST_SHARED = 4 }; /* bytes; slices of a block */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Sums of n_tiles tiles: warp `warp` has columns 16 * (warp % UNIT_ROWS) + lane / 4 (+ 8), and of
 * x, from the first row of its group on, rows 8 j + 2 (lane % 4) (+ 1), as [j][columns][rows].
 * Defined for each kind. */
template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sum);

/* What the warps do that multiply. */
template <int KIND, int ROWS, bool GATE, bool PRECISE>
static __device__ __forceinline__ void work(const few_args &a, const char *stages, float *swap,
                                            few_barriers &bars) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned N = shape::N_SUMS;
    constexpr bool HOLDS = !shape::IS_WIDE; /* else there are too many */
    float sum[N], total[N];
    few_held<N> held = {};
    few_place at = {};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit<shape, GATE>(a.p, piece.unit);
        bool precise = PRECISE && a.p.parts[unit.part].precise, is_whole = piece.begin == 0;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned n = tiles_before(a.p, slice + 1) - tiles_before(a.p, slice);
            if (PRECISE && precise)
                multiply<KIND, ROWS, PRECISE, PRECISE>(a, n, stages, bars, at, sum);
            else
                multiply<KIND, ROWS, PRECISE, false>(a, n, stages, bars, at, sum);
            if (!HOLDS && a.shares) {
                pass_slice<shape>(a, piece.unit * ALL_SLICES + slice, sum);
                continue;
            }
            if (HOLDS && !is_whole) {
                is_whole = held.n > HELD || slice + 1 == piece.end;
                if (is_whole) {
                    float taken[N];
                    take_sums<shape>(a, taken);
                    add_held(taken, held, sum, total);
                } else {
                    hold(sum, held, total);
                }
                continue;
            }
            if (!HOLDS && slice == piece.begin && slice > 0)
                take_sums<shape>(a, total);
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                total[i] += sum[i];
        }
        if (!HOLDS && a.shares)
            continue;
        if (piece.end < ALL_SLICES)
            leave_sums<shape>(a, total);
        else
            finish<KIND, shape, GATE>(a, unit, total, swap);
    }
    if constexpr (!HOLDS)
        if (a.shares)
            merge<KIND, shape, GATE>(a);
}

#endif

template <int KIND, int ROWS, bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(FEW_THREADS, 1)
    multiply_few(const __grid_constant__ few_args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ few_barriers bars;
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    char *stages = memory + SWAP_BYTES;
    ln_pdl_launch_dependents();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < a.n_stages; i++) {
            ln_mbarrier_init(&bars.full[i], 1);
            ln_mbarrier_init(&bars.empty[i], WARPS);
        }
        ln_fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= WORKERS) {
        if (threadIdx.x == WORKERS)
            bring_weights<KIND, ROWS, GATE, PRECISE>(a, stages, bars);
        else if (threadIdx.x == WORKERS + LN_WARP)
            bring_rows<KIND, ROWS, PRECISE>(a, stages, bars);
    } else {
        ln_pdl_wait();
        work<KIND, ROWS, GATE, PRECISE>(a, stages, (float *)memory, bars);
    }
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

template <int KIND, int ROWS, bool GATE, bool PRECISE>
static int launch(const ln_gemm_args &args, cudaStream_t stream) {
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    constexpr unsigned BYTES = shape::BYTES, ROOM = MAX_SHARED - SWAP_BYTES;
    constexpr unsigned COLUMNS = shape::UNIT_ROWS / (GATE ? 2 : 1) * LN_WEIGHT_TILE_ROWS;
    void (*kernel)(few_args) = multiply_few<KIND, ROWS, GATE, PRECISE>;
    unsigned n_cores;
    int code = ln_count_sms(&n_cores);
    if (code == 0)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)MAX_SHARED);
    few_args a = {};
    a.p = args;
    if (code == 0)
        code = map_weights<KIND, shape>(args, &a);
    if (code != 0)
        return code;
    a.n_items = ln_gemm_output_tiles(args, COLUMNS) * LN_K_SPLITS;
    a.n_stages = ROOM / BYTES < MAX_STAGES ? ROOM / BYTES : (unsigned)MAX_STAGES;
    a.per_block = ln_ceil_div(a.n_items, min(n_cores, (unsigned)LN_SPLIT_K_BLOCKS));
    a.shares = shape::IS_WIDE && a.per_block <= MOST_SHARED && a.n_items <= LN_SPLIT_K_SLOTS;
    return ln_pdl_launch(kernel, dim3(ln_ceil_div(a.n_items, a.per_block)), FEW_THREADS,
                     SWAP_BYTES + a.n_stages * BYTES, stream, a);
}

template <int KIND, int ROWS>
static int launch_rows(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch<KIND, ROWS, true, true>(args, stream)
                            : launch<KIND, ROWS, false, true>(args, stream);
    return has_gate ? launch<KIND, ROWS, true, false>(args, stream)
                    : launch<KIND, ROWS, false, false>(args, stream);
}

#endif
