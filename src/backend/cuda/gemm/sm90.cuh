/* Y [M][N] = X [M][K] W^T with its epilogue, on Hopper, for M above 64 (F8_ROW: above 8; by groups:
 * 32 rows of a group and more): one warp-specialised skeleton, for prefill and large batches, for
 * every weight layout, dense and grouped. The mainloops are in sm90_mainloop_16.cuh (BF16, types
 * that become f16, FP8) and sm90_mainloop_int.cuh.
 *
 * Grid: persistent CTAs, one for each SM or output tile. Block: one to three consumer warpgroups
 * (WGMMA: weight tiles are the A operand, from registers, activations the B operand), and a
 * warpgroup whose first thread is the producer (TMA). An output tile is sm90_config's ROWS by
 * N_COLUMNS, its accumulators are in registers. Shared memory: up to 8 pipeline stages of one
 * weight tile along K, which the producer also fills while the epilogue runs, and for each warp
 * sixteen rows of results on their way out, in all up to 226 KiB. Bytes: W once for each row of
 * output tiles, mostly from L2; X once for each column of them; Y once.
 *
 * Where output tiles are fewer than SMs, CTAs share them (split-K: sm90_split_k.cuh). BF16 of many
 * rows has clusters of two CTAs: each copies half of the activations to both (TMA multicast), so
 * that L2 is asked for X once for two columns of output tiles. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_CUH

#include "backend/cuda/gemm/select.cuh"
#include "backend/cuda/gemm/sm90_epilogue.cuh"
#include "backend/cuda/gemm/sm90_mainloop_16.cuh"
#include "backend/cuda/gemm/sm90_mainloop_int.cuh"
#include "backend/cuda/gemm/sm90_scheduler.cuh"
#include "backend/cuda/gemm/sm90_shape.cuh"
#include "backend/cuda/gemm/tensor_maps.cuh"
#include "backend/cuda/ptx/setmaxnreg.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

/* Whether all rows of activations are one tile, of which output tiles take ROWS each; else an
 * activation tile has the rows of an output tile. */
template <typename CONFIG>
static __host__ __device__ constexpr bool is_one_act_tile(const dense_args *) {
    return ln_weight_tile_has_16_bit_act(CONFIG::LAYOUT) || CONFIG::LAYOUT == LN_LAYOUT_F8_ROW;
}

template <typename CONFIG>
static __host__ __device__ constexpr bool is_one_act_tile(const grouped_args *) {
    return false;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* ---- producer -------------------------------------------------------------------------------- */

template <typename CONFIG>
static __device__ __forceinline__ void load_weights(const dense_args &g, const output_tile &tile,
                                                    char *w, int column, uint64_t *full) {
    typedef sm90_stage<CONFIG> stage;
    int row = (int)(tile.n * CONFIG::TILES);
    if (CONFIG::GATE)
        ln_tma_load(w, &g.gate, 0, column, row, full);
    ln_tma_load(w + stage::W_BYTES - CONFIG::TILES * stage::TILE_BYTES, &g.weights[tile.part], 0,
                column, row, full);
}

template <typename CONFIG>
static __device__ __forceinline__ void load_weights(const grouped_args &g, const output_tile &tile,
                                                    char *w, int column, uint64_t *full) {
    typedef sm90_stage<CONFIG> stage;
    int row = (int)(tile.n * CONFIG::TILES), group = (int)tile.slot.group;
    if (CONFIG::GATE)
        ln_tma_load(w, &g.gate, 0, column, row, group, full);
    ln_tma_load(w + stage::W_BYTES - CONFIG::TILES * stage::TILE_BYTES, &g.weight, 0, column, row,
                group, full);
}

/* Fetches the tensor maps of a linear; by one thread. */
template <typename CONFIG>
static __device__ __forceinline__ void prefetch_maps(const dense_args &g) {
    ln_tma_prefetch_map(&g.act);
    if (sm90_stage<CONFIG>::AUX_ROWS > 0)
        ln_tma_prefetch_map(&g.aux);
    if (CONFIG::GATE)
        ln_tma_prefetch_map(&g.gate);
    for (unsigned i = 0; i < g.p.n_parts; i++) {
        ln_tma_prefetch_map(&g.weights[i]);
        if (CONFIG::TMA_STORE)
            ln_tma_prefetch_map(&g.outs[i]);
    }
}

template <typename CONFIG>
static __device__ __forceinline__ void prefetch_maps(const grouped_args &g) {
    ln_tma_prefetch_map(&g.act);
    if (sm90_stage<CONFIG>::AUX_ROWS > 0)
        ln_tma_prefetch_map(&g.aux);
    if (CONFIG::GATE)
        ln_tma_prefetch_map(&g.gate);
    ln_tma_prefetch_map(&g.weight);
}

/* Asks for the weights of the first stages before the kernel in front has ended, as they do not
 * depend on it; how many stages. By the producer. */
template <typename CONFIG>
static __device__ __forceinline__ unsigned load_early(const dense_args &g, char *stages,
                                                      sm90_pipeline &pipeline) {
    typedef sm90_stage<CONFIG> stage;
    output_tile tile;
    if (!find_tile<CONFIG>(g, first_tile<CONFIG>(g), tile))
        return 0;
    k_range own = find_k<CONFIG>(g, tile);
    unsigned n = min(own.end - own.begin, stage::N_STAGES);
    for (unsigned i = 0; i < n; i++) {
        ln_mbarrier_expect_tx(&pipeline.full[i], stage::USED);
        load_weights<CONFIG>(g, tile, stages + i * stage::BYTES + stage::TILES_AT,
                             (int)((own.begin + i) * (stage::TILE_BYTES / 128)), &pipeline.full[i]);
    }
    return n;
}

/* None: which groups have rows is a result of the kernel in front. */
template <typename CONFIG>
static __device__ __forceinline__ unsigned load_early(const grouped_args &, char *,
                                                      sm90_pipeline &) {
    return 0;
}

/* Fills stage after stage for one output tile after another; by one thread. */
template <typename CONFIG, typename ARGS>
static __device__ void produce(const ARGS &g, char *stages, sm90_pipeline &pipeline) {
    typedef sm90_stage<CONFIG> stage;
    constexpr bool ONE = is_one_act_tile<CONFIG>((const ARGS *)NULL);
    /* act_at counts rows of 128 bytes; with block scales, activation tiles */
    constexpr bool BY_TILE = stage::HAS_BLOCKS;
    constexpr int ACT_UNIT = BY_TILE ? stage::ACT_ROWS : 1;
    constexpr int AUX_UNIT = BY_TILE ? stage::AUX_ROWS : 1;
    const ln_gemm_args &p = args_of(g);
    ln_pipeline_stage at = {0, 1};
    output_tile tile;
    unsigned rank = cluster_rank<CONFIG>();
    unsigned n_early = load_early<CONFIG>(g, stages, pipeline); /* stages that have weights */
    ln_pdl_wait();
    for (unsigned number = first_tile<CONFIG>(g); find_tile<CONFIG>(g, number, tile);
         number += count_clusters<CONFIG>()) {
        k_range own = find_k<CONFIG>(g, tile);
        int act_at = ONE ? (int)(own.begin * p.x.rows_per_tile + tile.m * CONFIG::ROWS)
                         : (int)((tile.m * p.n_tiles + own.begin) * (BY_TILE ? 1 : CONFIG::ROWS));
        for (unsigned k = own.begin; k < own.end; k++, act_at += ONE       ? (int)p.x.rows_per_tile
                                                                 : BY_TILE ? 1
                                                                           : CONFIG::ROWS) {
            uint64_t *full = &pipeline.full[at.index];
            char *act = stages + at.index * stage::BYTES, *w = act + stage::TILES_AT;
            if (n_early > 0) {
                n_early--;
            } else {
                ln_mbarrier_wait(&pipeline.empty[at.index], at.phase);
                ln_mbarrier_expect_tx(full, stage::USED);
                load_weights<CONFIG>(g, tile, w, (int)(k * (stage::TILE_BYTES / 128)), full);
            }
            if constexpr (CONFIG::CTAS > 1)
                ln_tma_multicast(act + rank * (stage::ACT_BYTES / CONFIG::CTAS), &g.act, 0,
                                 act_at + (int)(rank * (CONFIG::ROWS / CONFIG::CTAS)), full,
                                 (1 << CONFIG::CTAS) - 1);
            else
                ln_tma_load(act, &g.act, 0, act_at * ACT_UNIT, full);
            if (stage::AUX_ROWS > 0)
                ln_tma_load(act + stage::ACT_BYTES, &g.aux, 0, act_at * AUX_UNIT, full);
            advance<CONFIG>(at);
        }
    }
}

/* ---- consumers ------------------------------------------------------------------------------- */

/* Accumulators times the scales of their rows of activations, and of weights. */
template <typename CONFIG, typename T>
static __device__ __forceinline__ void
scale_accumulators(const float *x_scales, const float *w_scales, const T (&acc)[CONFIG::N_ACC],
                   float (&total)[CONFIG::N_ACC]) {
    unsigned lane = threadIdx.x % LN_WARP;
    float w0 = 1.0f, w1 = 1.0f;
    x_scales += lane % 4 * 2;
    if constexpr (ln_weight_tile_has_row_scales(CONFIG::LAYOUT))
        w0 = w_scales[lane / 4], w1 = w_scales[lane / 4 + 8];
#pragma unroll
    for (int j = 0; j < CONFIG::N_ACC / 4; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        total[4 * j] = (float)acc[4 * j] * (w0 * x.x);
        total[4 * j + 1] = (float)acc[4 * j + 1] * (w0 * x.y);
        total[4 * j + 2] = (float)acc[4 * j + 2] * (w1 * x.x);
        total[4 * j + 3] = (float)acc[4 * j + 3] * (w1 * x.y);
    }
}

/* The same of output tile `number`, which is found again, so that it takes no registers before. */
template <typename CONFIG, typename ARGS, typename T>
static __device__ __forceinline__ void scale_tile(const ARGS &g, unsigned number,
                                                  const T (&acc)[CONFIG::N_ACC],
                                                  float (&total)[CONFIG::N_ACC]) {
    const ln_gemm_args &p = args_of(g);
    output_tile tile;
    find_tile<CONFIG>(g, number, tile);
    const float *w_scales = NULL;
    if constexpr (ln_weight_tile_has_row_scales(CONFIG::LAYOUT))
        w_scales = find_row_scales<CONFIG>(g, tile);
    scale_accumulators<CONFIG>(p.x.scales + tile.m * CONFIG::ROWS, w_scales, acc, total);
}

/* Writes output tile `number`, which is found again. */
template <typename CONFIG, typename ARGS>
static __device__ __forceinline__ void
store_tile(const ARGS &g, unsigned &number, const float (&total)[CONFIG::N_ACC], float *outs) {
    const ln_gemm_args &p = args_of(g);
    output_tile tile;
    asm volatile("" : "+r"(number));
    find_tile<CONFIG>(g, number, tile);
    size_t first = (size_t)tile.m * CONFIG::ROWS;
    tile_rows rows = {NULL, first, 1, p.n_rows - first};
    if constexpr (CONFIG::TMA_STORE && CONFIG::GATE)
        store_gated_by_tma<CONFIG>(p, &g.outs[0], tile, total, outs);
    else if constexpr (CONFIG::TMA_STORE)
        store_by_tma<CONFIG>(p.parts[tile.part].epilogue, p.n_rows, &g.outs[tile.part], tile, total,
                             outs);
    else if (!ln_epilogue_is_plain(p.parts[tile.part].epilogue))
        store_any<CONFIG>(p.parts[tile.part].epilogue, tile.n, rows, total, outs);
    else if constexpr (CONFIG::GATE)
        store_gated<CONFIG>(p, tile, total, outs);
    else
        store_plain<CONFIG>(p, tile, total, outs);
}

template <typename CONFIG>
static __device__ __forceinline__ void store_tile(const grouped_args &g, unsigned &number,
                                                  const float (&total)[CONFIG::N_ACC],
                                                  float *outs) {
    output_tile tile;
    asm volatile("" : "+r"(number));
    find_tile<CONFIG>(g, number, tile);
    const ln_gemm_groups &groups = g.a.groups;
    ln_epilogue e = g.a.p.parts[0].epilogue;
    e.bias = ln_bias_of_group(groups.weight, tile.slot.group);
    e.gate_bias = CONFIG::GATE ? ln_bias_of_group(groups.gate, tile.slot.group) : NULL;
    tile_rows rows = {groups.rows.order, tile.slot.begin, 1, tile.slot.n};
    if (groups.rows.order == NULL) {
        rows.first = tile.slot.group + tile.slot.begin * groups.rows.n_groups;
        rows.step = groups.rows.n_groups;
    }
    store_any<CONFIG>(e, tile.n, rows, total, outs);
}

/* Scales and writes an output tile. */
template <typename CONFIG, typename ARGS>
static __device__ __forceinline__ void end_tile(const ARGS &g, unsigned &number,
                                                float (&total)[CONFIG::N_ACC], float *outs) {
    if constexpr (ln_weight_tile_has_act_row_scales(CONFIG::LAYOUT) &&
                  CONFIG::LAYOUT != LN_LAYOUT_INT8_ROW)
        scale_tile<CONFIG>(g, number, total, total);
    store_tile<CONFIG>(g, number, total, outs);
}

/* Split-K: reduces the CTA's rows of the tile that it shares, then runs the epilogue on them as on
 * tiles of so many rows. n_ctas: by reference, where the kernel's parameters lie. */
template <typename CONFIG>
static __device__ __forceinline__ void end_split_tile(const ln_gemm_args &p,
                                                      const output_tile &tile, unsigned number,
                                                      const unsigned &n_ctas, float *outs) {
    k_range all = split_k_range<CONFIG>(p, tile, 0, n_ctas);
    exchange_flags<CONFIG>(p, n_ctas);
#pragma unroll 1
    for (unsigned part = blockIdx.x % n_ctas; part * REDUCED_N8_TILES < all.n_n8_tiles;
         part += n_ctas) {
        unsigned reduced = reduced_number<CONFIG>(p, tile, number, part);
        float total[REDUCED_ACC];
        reduce_rows<CONFIG>(all, part, total);
        end_tile<typename CONFIG::template with_rows<REDUCED_ROWS>>(p, reduced, total, outs);
    }
}

/* Runs the mainloop of the layout: the accumulators of an output tile, all K splits of its range
 * added up. */
template <typename CONFIG, typename ARGS>
static __device__ __forceinline__ void
accumulate(const ARGS &g, const output_tile &tile, unsigned number, const k_range &own,
           const char *stages, sm90_pipeline &pipeline, ln_pipeline_stage &at,
           float (&total)[CONFIG::N_ACC]) {
    const ln_gemm_args &p = args_of(g);
    if constexpr (CONFIG::LAYOUT == LN_LAYOUT_INT8_ROW) {
        int acc[CONFIG::N_ACC];
        mainloop_int8_row<CONFIG>(p, stages, pipeline, at, acc);
        scale_tile<CONFIG>(g, number, acc, total);
    } else if constexpr (CONFIG::LAYOUT == LN_LAYOUT_F8_ROW) {
        mainloop_fp8<CONFIG>(p, number, own, stages, pipeline, at, total);
    } else if constexpr (ln_weight_tile_has_16_bit_act(CONFIG::LAYOUT)) {
        mainloop_16<CONFIG>(p, number, own, p.parts[tile.part].precise, stages, pipeline, at,
                            total);
    } else {
        mainloop_int<CONFIG>(p, own, stages, pipeline, at, total);
    }
}

template <typename CONFIG>
static __device__ __forceinline__ void begin_tile(const dense_args &g, const output_tile &tile,
                                                  const k_range &own) {
    if (!CONFIG::GATE && own.begin == 0)
        prefetch_residual<CONFIG>(g.p, tile);
}

template <typename CONFIG>
static __device__ __forceinline__ void begin_tile(const grouped_args &, const output_tile &,
                                                  const k_range &) {}

#endif

/* ---- kernel ---------------------------------------------------------------------------------- */

template <typename CONFIG, typename ARGS>
static __global__ void __launch_bounds__(CONFIG::THREADS, 1) gemm(const __grid_constant__ ARGS g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef sm90_stage<CONFIG> stage;
    extern __shared__ __align__(1024) char stages[];
    __shared__ sm90_pipeline pipeline;
    ln_pdl_launch_dependents();
    if (threadIdx.x == CONFIG::CONSUMERS)
        prefetch_maps<CONFIG>(g);
    init_pipeline<CONFIG>(pipeline);
    if (threadIdx.x >= CONFIG::CONSUMERS) {
        ln_setmaxnreg_dec<CONFIG::PRODUCER_REGISTERS>();
        if (threadIdx.x == CONFIG::CONSUMERS)
            produce<CONFIG>(g, stages, pipeline);
        return;
    }
    ln_setmaxnreg_inc<CONFIG::CONSUMER_REGISTERS>();
    ln_pdl_wait();
    float *outs = (float *)(stages + stage::N_STAGES * stage::BYTES);
    ln_pipeline_stage at = {0, 0};
    output_tile tile;
    for (unsigned number = first_tile<CONFIG>(g); find_tile<CONFIG>(g, number, tile);
         number += count_clusters<CONFIG>()) {
        float total[CONFIG::N_ACC];
        k_range own = find_k<CONFIG>(g, tile);
        begin_tile<CONFIG>(g, tile, own);
        accumulate<CONFIG>(g, tile, number, own, stages, pipeline, at, total);
        if constexpr (CONFIG::SPLIT)
            end_split_tile<CONFIG>(g.p, tile, number, g.n_ctas, outs);
        else
            end_tile<CONFIG>(g, number, total, outs);
    }
    if constexpr (CONFIG::HAS_IMAGE || CONFIG::TMA_STORE)
        ln_bulk_store_wait();
    if (CONFIG::CTAS > 1)
        sync_cluster(); /* the other CTA arrives on this one's barriers until then */
#endif
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Activations of n_rows rows, in boxes of a stage, and what goes with them. */
template <typename CONFIG>
static int map_act(const ln_act_view &x, size_t n_rows, CUtensorMap *act, CUtensorMap *aux) {
    typedef sm90_stage<CONFIG> stage;
    constexpr bool IS_16_BIT = ln_weight_tile_has_16_bit_act(CONFIG::LAYOUT);
    const void *from = IS_16_BIT ? (const void *)x.bf16 : (const void *)x.int8;
    int code = map_rows(from, n_rows * stage::ACT_ROWS / CONFIG::ROWS,
                        stage::ACT_ROWS / CONFIG::CTAS, act);
    if (code == 0 && stage::AUX_ROWS > 0)
        code = map_rows(CONFIG::PRECISE ? (const void *)x.lo : (const void *)x.scales,
                        n_rows * stage::AUX_ROWS / CONFIG::ROWS, stage::AUX_ROWS, aux);
    return code;
}

/* Queues a kernel of n_blocks CTAs, at most one for each SM. */
template <typename CONFIG, typename ARGS>
static int launch_persistent(const ARGS &g, size_t n_blocks, cudaStream_t stream) {
    constexpr unsigned SHARED_BYTES = sm90_stage<CONFIG>::SHARED_BYTES;
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(gemm<CONFIG, ARGS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)SHARED_BYTES);
    if (code != 0)
        return code;
    unsigned grid = n_blocks < n_sms ? (unsigned)n_blocks : n_sms;
    return ln_pdl_launch_clusters(gemm<CONFIG, ARGS>, dim3(grid / CONFIG::CTAS * CONFIG::CTAS),
                                  CONFIG::THREADS, SHARED_BYTES, CONFIG::CTAS, stream, g);
}

/* Output tiles of dense linears. */
template <typename CONFIG> static inline unsigned count_tiles(const ln_gemm_args &p) {
    return ln_gemm_output_tiles(p, CONFIG::N_COLUMNS) * ln_ceil_div(p.n_rows, CONFIG::ROWS);
}

/* n_ctas: that share an output tile. */
template <typename CONFIG>
static int launch(const ln_gemm_args &args, unsigned n_ctas, cudaStream_t stream) {
    dense_args g = {};
    g.p = args, g.n_ctas = n_ctas;
    g.band_rows = ln_ceil_div(args.n_rows, CONFIG::ROWS);
    if (!CONFIG::SPLIT)
        g.band_rows = choose_band(g.band_rows);
    g.band_tiles = g.band_rows * ln_gemm_output_tiles(args, CONFIG::N_COLUMNS) / CONFIG::CTAS;
    size_t n_rows = is_one_act_tile<CONFIG>((const dense_args *)NULL)
                        ? args.x.rows_per_tile
                        : (size_t)ln_ceil_div(args.n_rows, CONFIG::ROWS) * CONFIG::ROWS;
    int code = map_act<CONFIG>(args.x, n_rows * args.n_tiles, &g.act, &g.aux);
    if (code == 0)
        code = map_parts(CONFIG::LAYOUT, args, CONFIG::TILES, 1, g.weights, &g.gate);
    for (unsigned i = 0; CONFIG::TMA_STORE && i < args.n_parts && code == 0; i++) {
        const ln_epilogue &e = args.parts[i].epilogue;
        code = CONFIG::HAS_IMAGE ? map_out(args.to.bf16, true, args.to.cols, args.to.cols,
                                           args.n_rows, CONFIG::ROWS / 2, &g.outs[i])
                                 : map_out(e.out, false, e.n_out, e.out_stride, args.n_rows,
                                           OUT_ROWS, &g.outs[i]);
    }
    if (code != 0)
        return code;
    return launch_persistent<CONFIG>(g, (size_t)count_tiles<CONFIG>(args) * n_ctas, stream);
}

/* Grouped: activation tiles by slot. */
template <typename CONFIG> static int launch(const ln_grouped_args &args, cudaStream_t stream) {
    grouped_args g = {args, {}, {}, {}, {}};
    size_t n_rows = (size_t)args.n_slots * CONFIG::ROWS * args.p.n_tiles;
    int code = map_act<CONFIG>(args.p.x, n_rows, &g.act, &g.aux);
    if (code == 0)
        code = map_group(CONFIG::LAYOUT, args, args.groups.weight, CONFIG::TILES, &g.weight);
    if (code == 0 && CONFIG::GATE)
        code = map_group(CONFIG::LAYOUT, args, args.groups.gate, CONFIG::TILES, &g.gate);
    if (code != 0)
        return code;
    size_t n_tiles = (size_t)ln_gemm_output_tiles(args.p, CONFIG::N_COLUMNS) * args.n_slots;
    return launch_persistent<CONFIG>(g, n_tiles, stream);
}

/* ---- dense, by shape and layout ----------------------------------------------------------------
 */

/* Whether there are kernels of TMA_STORE; a gate of BF16 has an image without them. */
static constexpr bool has_tma_store(int layout, bool gate, bool precise) {
    return !precise && !(gate && layout == LN_LAYOUT_BF16);
}

/* Whether kernels of TMA_STORE serve all parts; has_add: those of TMA_ADD. */
template <typename CONFIG> static bool suits_tma_store(const ln_gemm_args &args, bool has_add) {
    bool suits = true;
    for (unsigned i = 0; i < args.n_parts; i++) {
        const ln_epilogue &e = args.parts[i].epilogue;
        bool is_in_place = e.residual == e.out && e.out_stride == e.n_out;
        suits = suits && (has_add ? is_in_place : e.residual == NULL) && ln_epilogue_is_plain(e) &&
                !(CONFIG::GATE && !CONFIG::HAS_IMAGE && e.rounds);
    }
    bool is_image = args.converts && args.leaves_out && args.to.rows_per_tile == 0 &&
                    args.to.cols == args.parts[0].epilogue.n_out && args.to.cols % 64 == 0;
    return suits && is_image == CONFIG::HAS_IMAGE && args.converts == CONFIG::HAS_IMAGE;
}

/* Launches without split-K, of many rows in clusters where there are such kernels: those of BF16
 * whose results leave by TMA. The CTAs of a cluster have output tiles beside each other along N, so
 * these must be even in number. */
template <int LAYOUT, int ROWS, bool GATE, bool PRECISE, bool TMA_STORE, bool TMA_ADD>
static int launch_whole(const ln_gemm_args &args, cudaStream_t stream) {
    enum { CLUSTER_ROWS = 1536 }; /* 1,024 rows became slower, 2,048 faster (H200) */
    typedef sm90_config<LAYOUT, ROWS, 2, GATE, PRECISE, false, TMA_STORE, TMA_ADD> config;
    constexpr bool LEAVES_BY_TMA = config::TMA_STORE || config::HAS_IMAGE;
    if constexpr (LAYOUT == LN_LAYOUT_BF16 && LEAVES_BY_TMA)
        if (args.n_rows >= CLUSTER_ROWS && ln_gemm_output_tiles(args, config::N_COLUMNS) % 2 == 0)
            return launch<
                sm90_config<LAYOUT, ROWS, 2, GATE, PRECISE, false, TMA_STORE, TMA_ADD, true>>(
                args, 1, stream);
    return launch<config>(args, 1, stream);
}

template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static int launch_rows(const ln_gemm_args &args, const tile_shape &shape, cudaStream_t stream) {
    if constexpr (has_n64(LAYOUT, GATE, ROWS))
        if (shape.is_n64)
            return launch<sm90_config<LAYOUT, ROWS, 1, GATE, PRECISE, false>>(args, 1, stream);
    if constexpr (has_rows(LAYOUT, PRECISE, ROWS)) {
        if constexpr (can_split_k(GATE, ROWS))
            if (shape.n_ctas > 1)
                return launch<sm90_config<LAYOUT, ROWS, 2, GATE, PRECISE, true>>(args, shape.n_ctas,
                                                                                 stream);
        if constexpr (has_tma_store(LAYOUT, GATE, PRECISE)) {
            typedef sm90_config<LAYOUT, ROWS, 2, GATE, false, false, true> tma_store;
            if (suits_tma_store<tma_store>(args, false))
                return launch_whole<LAYOUT, ROWS, GATE, false, true, false>(args, stream);
            if constexpr (!GATE && LAYOUT != LN_LAYOUT_F8_ROW) /* whose K loop became slower */
                if (suits_tma_store<tma_store>(args, true))
                    return launch_whole<LAYOUT, ROWS, false, false, true, true>(args, stream);
        }
        return launch_whole<LAYOUT, ROWS, GATE, PRECISE, false, false>(args, stream);
    }
    return cudaErrorInvalidValue;
}

template <int LAYOUT, bool GATE, bool PRECISE>
static int launch_best(const ln_gemm_args &args, cudaStream_t stream) {
    tile_shape shape = {};
    int code = choose_shape(LAYOUT, PRECISE, args, &shape);
    if (code != 0)
        return code;
    switch (shape.rows) {
    case 64: return launch_rows<LAYOUT, 64, GATE, PRECISE>(args, shape, stream);
    case 128: return launch_rows<LAYOUT, 128, GATE, PRECISE>(args, shape, stream);
    case 176: return launch_rows<LAYOUT, 176, GATE, PRECISE>(args, shape, stream);
    case 192: return launch_rows<LAYOUT, 192, GATE, PRECISE>(args, shape, stream);
    case 256: return launch_rows<LAYOUT, 256, GATE, PRECISE>(args, shape, stream);
    default: return launch_rows<LAYOUT, 208, GATE, PRECISE>(args, shape, stream);
    }
}

template <int LAYOUT> static int launch_layout(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch_best<LAYOUT, true, true>(args, stream)
                            : launch_best<LAYOUT, false, true>(args, stream);
    return has_gate ? launch_best<LAYOUT, true, false>(args, stream)
                    : launch_best<LAYOUT, false, false>(args, stream);
}

#endif
