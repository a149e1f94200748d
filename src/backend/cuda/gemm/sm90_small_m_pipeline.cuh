/* Small-M GEMM on Hopper: how CTAs divide the work, and the producers of their pipeline
 * (sm90_small_m.cuh). */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_PIPELINE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_PIPELINE_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/pipeline.cuh"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/ptx/tma.cuh"

enum { ACT_TILE_ROWS = 64, SMALL_M_STAGES = 16 };
enum { WARPS = 8, CONSUMERS = WARPS * LN_WARP, SMALL_M_THREADS = CONSUMERS + 2 * LN_WARP };
enum { EXCHANGED = 8, EXCHANGE_BYTES = CONSUMERS * EXCHANGED * 4 }; /* floats of a thread at once */

typedef struct small_m_args {
    ln_gemm_args p;
    unsigned n_items, per_block; /* K splits of units, of all and of a CTA */
    unsigned n_stages;
    bool split_all; /* several CTAs share a unit, and publish all K splits */
    CUtensorMap gate, weights[LN_GEMM_MAX_PARTS]; /* in boxes of a unit's rows of tiles */
} small_m_args;

/* A consumer warpgroup multiplies GROUP_ROWS of the rows of activations. A stage: weights
 * [UNIT_ROWS][TILES] tiles, activations [TILES] tiles of ROWS rows, with PRECISE [TILES] of the
 * residual of bf16 rounding, or, of int8 in blocks, with [8 blocks][64 rows] of scales. */
template <int LAYOUT, int ROWS, bool PRECISE> struct small_m_stage {
    static constexpr bool IS_INT = !ln_weight_tile_has_16_bit_act(LAYOUT),
                          HAS_ACT_BLOCKS = ln_traits_of(LAYOUT).acts == LN_ACT_TYPE_INT8_BLOCK,
                          HAS_128_COLUMNS = LAYOUT != LN_LAYOUT_BF16;
    static constexpr unsigned UNIT_ROWS = HAS_128_COLUMNS ? 8 : 4;
    static constexpr unsigned GROUP_ROWS = ROWS * UNIT_ROWS / WARPS; /* of a warpgroup */
    static constexpr unsigned N_ACC = GROUP_ROWS / 2;                /* of a thread */
    static constexpr unsigned TILES = HAS_ACT_BLOCKS ? 1 : 2,
                              TILE_BYTES = ln_weight_tile_bytes(LAYOUT);
    static constexpr unsigned W_BYTES = UNIT_ROWS * TILES * TILE_BYTES;
    static constexpr unsigned PART_BYTES = ROWS * 128,
                              PARTS = HAS_ACT_BLOCKS ? 2 : 1; /* of an activation tile */
    static constexpr unsigned X_BYTES = TILES * PARTS * PART_BYTES * (PRECISE ? 2 : 1);
    static constexpr unsigned SCALE_BYTES = HAS_ACT_BLOCKS ? 8 * ACT_TILE_ROWS * 4 : 0;
    static constexpr unsigned BYTES = W_BYTES + X_BYTES + SCALE_BYTES;
    static constexpr bool TAKES_ADAPTERS = LAYOUT == LN_LAYOUT_BF16 && !PRECISE;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef ln_pipeline<SMALL_M_STAGES> small_m_pipeline;

/* A unit of columns of a part: rows of weight tiles from `row` on. */
typedef struct weight_unit {
    unsigned part, row;
} weight_unit;

/* Number `number` of all. */
template <typename SHAPE, bool GATE>
static __device__ __forceinline__ weight_unit find_unit(const ln_gemm_args &p, unsigned number) {
    constexpr unsigned ROWS = SHAPE::UNIT_ROWS / (GATE ? 2 : 1),
                       COLUMNS = ROWS * LN_WEIGHT_TILE_ROWS;
    unsigned part = 0;
    for (; part + 1 < p.n_parts; part++) {
        unsigned n = ((unsigned)p.parts[part].epilogue.n_out + COLUMNS - 1) / COLUMNS;
        if (number < n)
            break;
        number -= n;
    }
    weight_unit unit = {part, number * ROWS};
    return unit;
}

/* K splits [begin, end) of a unit. */
typedef struct split_range {
    unsigned unit, begin, end;
} split_range;

/* Range `number` of those of this CTA: of its last unit, whole units, of its first unit. False
 * behind the last. */
static __device__ __forceinline__ bool find_split_range(const small_m_args &a, unsigned number,
                                                        split_range &range) {
    unsigned first = blockIdx.x * a.per_block, last = min(first + a.per_block, a.n_items);
    unsigned begin = first / LN_K_SPLITS, end = last / LN_K_SPLITS;
    if (begin == end) {
        range = {begin, first % LN_K_SPLITS, last % LN_K_SPLITS};
        return number == 0 && first < last;
    }
    if (last % LN_K_SPLITS > 0 && number-- == 0) {
        range = {end, 0, last % LN_K_SPLITS};
        return true;
    }
    unsigned whole = begin + (first % LN_K_SPLITS > 0) + number;
    if (whole < end) {
        range = {whole, 0, LN_K_SPLITS};
        return true;
    }
    range = {begin, first % LN_K_SPLITS, LN_K_SPLITS};
    return whole == end && first % LN_K_SPLITS > 0;
}

/* The first tile of a split; LN_K_SPLITS: behind the last. */
static __device__ __forceinline__ unsigned first_tile_of(const ln_gemm_args &p, unsigned split) {
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    return min(split * per_split, p.n_tiles);
}

/* Whether the range ends a unit of a part with adapters, whose K split follows. */
static __device__ __forceinline__ bool has_adapters(const small_m_args &a, const split_range &range,
                                                    const weight_unit &unit) {
    return range.end == LN_K_SPLITS && a.p.adapters.lists != NULL &&
           (a.p.adapters.parts >> unit.part & 1) != 0;
}

/* Fills stages with B of the adapters of a unit's columns, [K step][row of weight tiles], once the
 * kernel that lists them has ended. Of a gated linear the gate's steps have no other half. */
template <int LAYOUT, int ROWS, bool GATE>
static __device__ __forceinline__ void
produce_adapters(const small_m_args &a, const weight_unit &unit, char *stages,
                 small_m_pipeline &bars, ln_pipeline_stage &at) {
    typedef small_m_stage<LAYOUT, ROWS, false> shape;
    constexpr unsigned STEP_BYTES = shape::W_BYTES / LN_ADAPTER_STAGE_STEPS,
                       UNIT_BYTES = STEP_BYTES / (GATE ? 2 : 1);
    const ln_adapter_list &list = a.p.adapters.lists->lists[unit.part];
    ln_pdl_wait();
    unsigned n = __ldcg(&list.n), n_up = __ldcg(&list.n_up);
#pragma unroll 1
    for (unsigned first = 0; first < n; first += LN_ADAPTER_STAGE_STEPS) {
        unsigned here = min(n - first, (unsigned)LN_ADAPTER_STAGE_STEPS);
        uint64_t *full = &bars.full[at.index];
        char *to = stages + at.index * shape::BYTES;
        const char *from[LN_ADAPTER_STAGE_STEPS];
#pragma unroll
        for (unsigned i = 0; i < LN_ADAPTER_STAGE_STEPS; i++) {
            ulonglong2 step = __ldcg((const ulonglong2 *)&list.steps[first + min(i, here - 1)]);
            from[i] = (const char *)step.x + unit.row / shape::UNIT_ROWS * step.y +
                      unit.row % shape::UNIT_ROWS * (STEP_BYTES / shape::UNIT_ROWS);
        }
        ln_mbarrier_wait(&bars.empty[at.index], at.phase);
        ln_mbarrier_expect_tx(full, here * UNIT_BYTES + shape::X_BYTES);
#pragma unroll
        for (unsigned i = 0; i < LN_ADAPTER_STAGE_STEPS; i++) {
            unsigned skipped = GATE && first + i >= n_up ? UNIT_BYTES : 0;
            if (i < here)
                ln_cp_async_bulk_evict_first(to + i * STEP_BYTES + skipped, from[i], UNIT_BYTES,
                                             full);
        }
        ln_pipeline_advance(at, a.n_stages);
    }
}

/* Brings low, the x of adapters, for these stages. */
template <int LAYOUT, int ROWS>
static __device__ __forceinline__ void produce_low(const small_m_args &a, const weight_unit &unit,
                                                   char *stages, small_m_pipeline &bars,
                                                   ln_pipeline_stage &at) {
    typedef small_m_stage<LAYOUT, ROWS, false> shape;
    unsigned n = __ldcg(&a.p.adapters.lists->lists[unit.part].n);
    const char *from = a.p.adapters.lists->low[unit.part][0];
#pragma unroll 1
    for (unsigned first = 0; first < n; first += LN_ADAPTER_STAGE_STEPS) {
        char *to = stages + at.index * shape::BYTES + shape::W_BYTES;
        ln_mbarrier_wait(&bars.empty[at.index], at.phase);
#pragma unroll
        for (unsigned i = 0; i < shape::TILES; i++, from += LN_ADAPTER_LIST_TILE)
            ln_cp_async_bulk(to + i * shape::PART_BYTES, from, shape::PART_BYTES,
                             &bars.full[at.index]);
        ln_pipeline_advance(at, a.n_stages);
    }
}

/* Fills the weights of stage after stage, and makes stages expect activations; by one thread. */
template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static __device__ void produce_weights(const small_m_args &a, char *stages,
                                       small_m_pipeline &bars) {
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    ln_pipeline_stage at = {0, 1};
    split_range range;
    for (unsigned k = 0; find_split_range(a, k, range); k++) {
        weight_unit unit = find_unit<shape, GATE>(a.p, range.unit);
        const CUtensorMap *map = &a.weights[unit.part];
        for (unsigned split = range.begin; split < range.end; split++) {
            int row = (int)unit.row, end = (int)first_tile_of(a.p, split + 1);
#pragma unroll 1
            for (int tile = (int)first_tile_of(a.p, split); tile < end; tile += shape::TILES) {
                uint64_t *full = &bars.full[at.index];
                char *to = stages + at.index * shape::BYTES;
                int first = tile * (int)(shape::TILE_BYTES / 128);
                ln_mbarrier_wait(&bars.empty[at.index], at.phase);
                ln_mbarrier_expect_tx(full, shape::BYTES);
                ln_tma_load_evict_first(to, map, 0, first, row, full);
                if (GATE)
                    ln_tma_load_evict_first(to + shape::W_BYTES / 2, &a.gate, 0, first, row, full);
                ln_pipeline_advance(at, a.n_stages);
            }
        }
        if constexpr (shape::TAKES_ADAPTERS)
            if (has_adapters(a, range, unit))
                produce_adapters<LAYOUT, ROWS, GATE>(a, unit, stages, bars, at);
    }
}

/* Activations of one weight tile's K, the first ROWS rows of an activation tile. */
template <int LAYOUT, int ROWS, bool PRECISE>
static __device__ __forceinline__ void load_act_tile(const ln_act_view &x, unsigned tile,
                                                     unsigned i, char *to, uint64_t *full) {
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    constexpr unsigned PART_BYTES = shape::PART_BYTES;
    const char *from = shape::IS_INT ? (const char *)x.int8 : (const char *)x.bf16;
#pragma unroll
    for (unsigned part = 0; part < shape::PARTS; part++) {
        size_t skipped = ((size_t)tile * shape::PARTS + part) * (ACT_TILE_ROWS * 128);
        ln_cp_async_bulk(to + (i * shape::PARTS + part) * PART_BYTES, from + skipped, PART_BYTES,
                         full);
        if (PRECISE)
            ln_cp_async_bulk(to + (shape::TILES + i) * PART_BYTES, (const char *)x.lo + skipped,
                             PART_BYTES, full);
    }
    if (shape::HAS_ACT_BLOCKS)
        ln_cp_async_bulk(to + shape::X_BYTES, (const char *)x.scales + tile * shape::SCALE_BYTES,
                         shape::SCALE_BYTES, full);
}

/* Brings x, once the kernel that makes it has ended; by another thread. Where a split has no second
 * tile for a stage, any will do. */
template <int LAYOUT, int ROWS, bool GATE, bool PRECISE>
static __device__ void produce_activations(const small_m_args &a, char *stages,
                                           small_m_pipeline &bars) {
    typedef small_m_stage<LAYOUT, ROWS, PRECISE> shape;
    ln_pipeline_stage at = {0, 1};
    split_range range;
    ln_pdl_wait();
    for (unsigned k = 0; find_split_range(a, k, range); k++) {
        for (unsigned split = range.begin; split < range.end; split++) {
            unsigned end = first_tile_of(a.p, split + 1);
#pragma unroll 1
            for (unsigned tile = first_tile_of(a.p, split); tile < end; tile += shape::TILES) {
                char *to = stages + at.index * shape::BYTES + shape::W_BYTES;
                ln_mbarrier_wait(&bars.empty[at.index], at.phase);
#pragma unroll
                for (unsigned i = 0; i < shape::TILES; i++)
                    load_act_tile<LAYOUT, ROWS, PRECISE>(a.p.x, min(tile + i, a.p.n_tiles - 1), i,
                                                         to, &bars.full[at.index]);
                ln_pipeline_advance(at, a.n_stages);
            }
        }
        if constexpr (shape::TAKES_ADAPTERS) {
            weight_unit unit = find_unit<shape, GATE>(a.p, range.unit);
            if (has_adapters(a, range, unit))
                produce_low<LAYOUT, ROWS>(a, unit, stages, bars, at);
        }
    }
}

#endif

/* ---- what copies need to know of weights ----------------------------------------------------- */

#endif
