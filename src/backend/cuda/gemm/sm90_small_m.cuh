/* Y [M][N] = X [M][K] W^T with its epilogue, on Hopper, for M of 9 to 64, any layout but
 * F8_ROW. Weights are WGMMA's A operand, from registers, activations, in one tile of 64 rows,
 * its B operand. The order of every sum is that of mma_small_m.cu.
 *
 * A unit is 64 columns of the result (BF16), or 128 (other layouts), half as many with their gate.
 * The K splits of a unit, and those of the unit behind it and so on, are divided evenly among CTAs
 * (stream-K), so that all of them read weights to the end. A CTA begins with the K splits of its
 * last unit, of which another CTA has the rest, and stores their partial sum early; it ends with
 * those of its first unit, and adds them to what the CTA in front of it has stored.
 *
 * Of layouts other than BF16, where a CTA gets at most four K splits, several share a unit: each
 * publishes the partial sums of all its K splits, and reduces those of some rows as soon as they
 * are there. That cannot deadlock: a CTA waits for the few CTAs behind it alone, and these begin as
 * soon as any other CTA ends.
 *
 * Of BF16, rows may have adapters: one more K split, whose K steps ops/lora_shrink_mma.cu lists, so
 * that they are as many as the step's adapters want.
 *
 * Grid: a CTA for each SM. Block: two consumer warpgroups, which multiply 64 columns by half of the
 * rows each, or other columns by all of them, and two producer warps, for weights and for
 * activations. With 128 registers to a thread, of BF16, a norm's CTA finds room beside a CTA: so
 * the weights of the linear behind that norm are loaded as soon as the linear in front of it has
 * ended.
 *
 * Shared memory: what warps exchange about gates [256 threads][8] floats; up to 16 stages of two
 * weight tiles, or of one of int8. Bytes: W once; X as often as there are units, from L2; Y once.
 */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_CUH

#include "backend/cuda/gemm/sm90_small_m_epilogue.cuh"
#include "backend/cuda/gemm/sm90_small_m_mainloop.cuh"
#include "backend/cuda/gemm/sm90_small_m_split_k.cuh"
#include "backend/cuda/gemm/tensor_maps.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

enum { MAX_SHARED = 224 * 1024, MAX_PUBLISHED = 4 }; /* bytes; K splits of a CTA */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Reduces eight rows of the unit of each of the CTA's K splits. Where there are fewer than 64 rows,
 * not every K split stands for some. */
template <int LAYOUT, typename SHAPE, bool GATE>
static __device__ __forceinline__ void reduce_published(const small_m_args &a) {
    enum { STEP = 8 * LN_K_SPLITS / SHAPE::GROUP_ROWS };
    enum { GATE_AT = SHAPE::UNIT_ROWS / 2 }; /* the first warp of a group with a gate's sums */
    unsigned end = min((blockIdx.x + 1) * a.per_block, a.n_items);
    if (GATE && threadIdx.x / LN_WARP % SHAPE::UNIT_ROWS >= GATE_AT)
        return;
    for (unsigned item = blockIdx.x * a.per_block; item < end; item++) {
        unsigned number = item / LN_K_SPLITS, rows = item % LN_K_SPLITS / STEP;
        if (item % STEP > 0)
            continue;
        weight_unit unit = find_unit<SHAPE, GATE>(a.p, number);
        result_block<4> r = {};
        float residual[4];
        locate_results<SHAPE, GATE>(unit, r);
        r.first = 4 * rows;
        load_residual(a.p, unit, r, residual);
        add_published<LAYOUT>(a, number, rows, 0, r.u);
        if (GATE)
            add_published<LAYOUT>(a, number, rows, GATE_AT * LN_WARP, r.g);
        write<LAYOUT, GATE>(a.p, unit, r, residual);
    }
}

/* The consumer warps. */
template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static __device__ __forceinline__ void consume(const small_m_args &a, const char *stages,
                                               float *exchange, small_m_pipeline &bars) {
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    constexpr unsigned N = shape::N_ACC;
    constexpr bool DEFERS = !shape::HAS_128_COLUMNS; /* others have no registers for it */
    float sum[N], total[N];
    deferred_splits<N> deferred = {};
    ln_pipeline_stage at = {};
    split_range range;
    for (unsigned k = 0; find_split_range(a, k, range); k++) {
        weight_unit unit = find_unit<shape, GATE>(a.p, range.unit);
        bool precise = PRECISE && a.p.parts[unit.part].precise, is_whole = range.begin == 0;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            total[i] = LAYOUT == LN_LAYOUT_INT8_ROW ? 0.0f : -0.0f; /* -0 + x is x */
#pragma unroll 1
        for (unsigned split = range.begin; split < range.end; split++) {
            unsigned n = first_tile_of(a.p, split + 1) - first_tile_of(a.p, split);
            if (PRECISE && precise)
                multiply<LAYOUT, ROWS, PRECISE, PRECISE>(a, n, stages, bars, at, sum);
            else
                multiply<LAYOUT, ROWS, PRECISE, false>(a, n, stages, bars, at, sum);
            if (!DEFERS && a.split_all) {
                publish_split<LAYOUT, shape>(a, range.unit * LN_K_SPLITS + split, sum);
                continue;
            }
            if (DEFERS && !is_whole) {
                is_whole = deferred.n > MAX_DEFERRED || split + 1 == range.end;
                if (is_whole) {
                    float taken[N];
                    load_partial<shape>(a, taken);
                    add_deferred(taken, deferred, sum, total);
                } else {
                    defer_split(sum, deferred, total);
                }
                continue;
            }
            if (!DEFERS && split == range.begin && split > 0)
                load_partial<shape>(a, total);
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                total[i] = ln_add_k_splits<LAYOUT>(total[i], sum[i]);
        }
        if (!DEFERS && a.split_all)
            continue;
        if constexpr (shape::TAKES_ADAPTERS)
            if (has_adapters(a, range, unit))
                add_adapters<ROWS, GATE>(a, unit, stages, bars, at, total);
        if (range.end < LN_K_SPLITS)
            store_partial<shape>(a, total);
        else
            finish<LAYOUT, shape, GATE>(a, unit, total, exchange);
    }
    if constexpr (!DEFERS)
        if (a.split_all)
            reduce_published<LAYOUT, shape, GATE>(a);
}

#endif

template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static __global__ void __launch_bounds__(SMALL_M_THREADS, 1)
    small_m_gemm(const __grid_constant__ small_m_args a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char memory[];
    __shared__ small_m_pipeline bars;
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    char *stages = memory + EXCHANGE_BYTES;
    ln_pdl_launch_dependents();
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < a.n_stages; i++)
            ln_pipeline_init_stage(bars, i, WARPS);
        ln_fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS)
            produce_weights<LAYOUT, ROWS, GATE, PRECISE>(a, stages, bars);
        else if (threadIdx.x == CONSUMERS + LN_WARP)
            produce_activations<LAYOUT, ROWS, GATE, PRECISE>(a, stages, bars);
    } else {
        ln_pdl_wait();
        consume<LAYOUT, ROWS, GATE, PRECISE>(a, stages, (float *)memory, bars);
    }
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

/* In boxes of a unit's rows of tiles by a stage's tiles. */
template <int LAYOUT, typename SHAPE>
static int map_weights(const ln_gemm_args &args, small_m_args *a) {
    unsigned rows = SHAPE::UNIT_ROWS / (args.parts[0].gate != NULL ? 2 : 1);
    return map_parts(LAYOUT, args, rows, SHAPE::TILES, a->weights, &a->gate);
}

template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static int launch(const ln_gemm_args &args, cudaStream_t stream) {
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    constexpr unsigned BYTES = shape::BYTES, ROOM = MAX_SHARED - EXCHANGE_BYTES;
    constexpr unsigned COLUMNS = shape::UNIT_ROWS / (GATE ? 2 : 1) * LN_WEIGHT_TILE_ROWS;
    void (*kernel)(small_m_args) = small_m_gemm<LAYOUT, ROWS, GATE, PRECISE>;
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)MAX_SHARED);
    small_m_args a = {};
    a.p = args;
    if (code == 0)
        code = map_weights<LAYOUT, shape>(args, &a);
    if (code != 0)
        return code;
    a.n_items = ln_gemm_output_tiles(args, COLUMNS) * LN_K_SPLITS;
    a.n_stages = ROOM / BYTES < SMALL_M_STAGES ? ROOM / BYTES : (unsigned)SMALL_M_STAGES;
    a.per_block = ln_ceil_div(a.n_items, n_sms);
    a.split_all = shape::HAS_128_COLUMNS && a.per_block <= MAX_PUBLISHED &&
                  a.n_items <= ln_split_k_sizes_of(n_sms).n_slots;
    return ln_pdl_launch(kernel, dim3(ln_ceil_div(a.n_items, a.per_block)), SMALL_M_THREADS,
                         EXCHANGE_BYTES + a.n_stages * BYTES, stream, a);
}

template <int LAYOUT, int ROWS>
static int launch_rows(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch<LAYOUT, ROWS, true, true>(args, stream)
                            : launch<LAYOUT, ROWS, false, true>(args, stream);
    return has_gate ? launch<LAYOUT, ROWS, true, false>(args, stream)
                    : launch<LAYOUT, ROWS, false, false>(args, stream);
}

template <int LAYOUT> static int launch_layout(const ln_gemm_args &args, cudaStream_t stream) {
    if (args.n_rows <= 16)
        return launch_rows<LAYOUT, 16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<LAYOUT, 32>(args, stream)
                             : launch_rows<LAYOUT, 64>(args, stream);
}

#endif
