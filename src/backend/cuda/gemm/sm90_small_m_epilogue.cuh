/* Results of few rows of x: what sums become, from one block or from several (sm90_small_m.cuh). */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_EPILOGUE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_EPILOGUE_CUH

#include "backend/cuda/gemm/sm90_small_m_split_k.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Whether a gate's results are silu(g) * u, and others plain sums with bias and residual. */
static __device__ __forceinline__ bool is_plain(const ln_epilogue &e) {
    bool is_bare = e.bias == NULL && e.gate_bias == NULL && e.residual == NULL;
    return e.softcap <= 0.0f &&
           (e.has_gate ? e.activation == LN_ACT_SILU && is_bare : e.activation == LN_ACT_NONE);
}

/* What ln_epilogue_value is where is_plain. */
template <bool GATE>
static __device__ __forceinline__ float plain_value(const ln_epilogue &e, float u, float g,
                                                    float bias, float residual) {
    if (GATE)
        return e.scale * ln_gated(LN_ACT_SILU, true, g, u);
    float y = e.scale * (e.bias != NULL ? u + bias : u);
    return e.residual != NULL ? residual + y : y;
}

/* N results of a lane from number `first` on: rows `row` + 8 j (+ 1), columns `column` (+ 8). */
template <int N> struct few_results {
    size_t row, column;
    unsigned first;
    float u[N], g[N];
};

template <int N> static __device__ __forceinline__ size_t row_of(const few_results<N> &r, int i) {
    return r.row + (r.first + (unsigned)i) / 4 * 8 + i % 2;
}

template <int N>
static __device__ __forceinline__ size_t column_of(const few_results<N> &r, int i) {
    return r.column + (r.first + (unsigned)i) % 4 / 2 * 8;
}

/* What sums stand for where rows of x, and maybe of weights, have scales. */
template <int KIND, bool GATE, int N>
static __device__ __forceinline__ void scale_results(const ln_gemm_args &p, const few_unit &unit,
                                                     few_results<N> &r) {
    const ln_gemm_part &part = p.parts[unit.part];
#pragma unroll
    for (int i = 0; i < N; i++) {
        size_t row = row_of(r, i), column = column_of(r, i);
        if (row >= p.n_rows || column >= part.epilogue.n_out)
            continue;
        float x = p.x.scales[row], up = x, gate = x;
        if constexpr (ln_weight_tile_has_row_scales(KIND)) {
            size_t at = column / LN_WEIGHT_TILE_ROWS * ln_weight_tile_row_bytes(KIND, p.n_tiles);
            unsigned in_tile = (unsigned)column % LN_WEIGHT_TILE_ROWS;
            up = ln_weight_tile_row_scales(KIND, part.weight + at, p.n_tiles)[in_tile] * x;
            if (GATE)
                gate = ln_weight_tile_row_scales(KIND, part.gate + at, p.n_tiles)[in_tile] * x;
        }
        r.u[i] *= up;
        if (GATE)
            r.g[i] *= gate;
    }
}

/* What is added to them. */
template <int N>
static __device__ __forceinline__ void load_residual(const ln_gemm_args &p, const few_unit &unit,
                                                     const few_results<N> &r,
                                                     float (&residual)[N]) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
#pragma unroll
    for (int i = 0; i < N; i++) {
        bool loads = row_of(r, i) < p.n_rows && column_of(r, i) < e.n_out && e.residual != NULL;
        residual[i] = loads ? __ldcg(e.residual + row_of(r, i) * e.n_out + column_of(r, i)) : 0.0f;
    }
}

template <int KIND, bool GATE, int N>
static __device__ __forceinline__ void write(const ln_gemm_args &p, const few_unit &unit,
                                             few_results<N> &r, const float (&residual)[N]) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        scale_results<KIND, GATE>(p, unit, r);
    size_t n_rows = p.n_rows;
    if (!is_plain(e)) { /* long, and seldom run */
#pragma unroll
        for (int i = 0; i < N; i++)
            if (row_of(r, i) < n_rows && column_of(r, i) < e.n_out)
                ln_finish(e, row_of(r, i), column_of(r, i), r.u[i], r.g[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        size_t row = row_of(r, i), column = column_of(r, i);
        if (row < n_rows && column < e.n_out)
            e.out[row * e.out_stride + column] = plain_value<GATE>(
                e, r.u[i], r.g[i], e.bias != NULL ? e.bias[column] : 0.0f, residual[i]);
    }
}

/* The lane's first row of x and its first column of a unit. */
template <typename SHAPE, bool GATE, int N>
static __device__ __forceinline__ void begin_results(const few_unit &unit, few_results<N> &r) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned tile_row = warp % (SHAPE::UNIT_ROWS / (GATE ? 2 : 1));
    r.row = warp / SHAPE::UNIT_ROWS * SHAPE::GROUP_ROWS + lane % 4 * 2;
    r.column = (size_t)(unit.row + tile_row) * LN_WEIGHT_TILE_ROWS + lane / 4;
}

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void meet_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Writes a unit's results. Where there is a gate, half of the warps have its sums: they exchange
 * halves of the rows with the others. */
template <int KIND, typename SHAPE, bool GATE>
static __device__ __forceinline__ void finish(const few_args &a, const few_unit &unit,
                                              const float (&total)[SHAPE::N_SUMS], float *swap) {
    constexpr unsigned ALL = SHAPE::N_SUMS, HALF = ALL / 2;
    constexpr unsigned AT_ONCE = HALF < SWAPPED ? HALF : (unsigned)SWAPPED;
    if constexpr (!GATE) {
        few_results<ALL> r = {};
        begin_results<SHAPE, GATE>(unit, r);
#pragma unroll
        for (unsigned i = 0; i < ALL; i++)
            r.u[i] = total[i];
        float residual[ALL];
        load_residual(a.p, unit, r, residual);
        write<KIND, false>(a.p, unit, r, residual);
    } else {
        constexpr unsigned PAIRS = SHAPE::UNIT_ROWS / 2; /* of a group */
        unsigned warp = threadIdx.x / LN_WARP;
        unsigned pair = warp / SHAPE::UNIT_ROWS * PAIRS + warp % PAIRS;
        bool is_gate = warp % SHAPE::UNIT_ROWS >= PAIRS;
        float *own = swap + threadIdx.x;
        const float *others = swap + (threadIdx.x ^ (PAIRS * LN_WARP));
#pragma unroll
        for (unsigned begin = 0; begin < HALF; begin += AT_ONCE) {
            few_results<AT_ONCE> r = {};
            begin_results<SHAPE, GATE>(unit, r);
            r.first = begin + (is_gate ? HALF : 0);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++)
                own[i * WORKERS] = is_gate ? total[begin + i] : total[HALF + begin + i];
            meet_pair(pair);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++) {
                float other = others[i * WORKERS];
                r.u[i] = is_gate ? other : total[begin + i];
                r.g[i] = is_gate ? total[HALF + begin + i] : other;
            }
            meet_pair(pair);
            float residual[AT_ONCE];
            load_residual(a.p, unit, r, residual);
            write<KIND, true>(a.p, unit, r, residual);
        }
    }
}

/* Merges eight rows of the unit of each of the block's slices. Where there are fewer than 64, not
 * all slices stand for some. */
template <int KIND, typename SHAPE, bool GATE>
static __device__ __forceinline__ void merge(const few_args &a) {
    enum { STEP = 8 * ALL_SLICES / SHAPE::GROUP_ROWS };
    enum { GATE_AT = SHAPE::UNIT_ROWS / 2 }; /* the first warp of a group with a gate's sums */
    unsigned end = min((blockIdx.x + 1) * a.per_block, a.n_items);
    if (GATE && threadIdx.x / LN_WARP % SHAPE::UNIT_ROWS >= GATE_AT)
        return;
    for (unsigned item = blockIdx.x * a.per_block; item < end; item++) {
        unsigned number = item / ALL_SLICES, rows = item % ALL_SLICES / STEP;
        if (item % STEP > 0)
            continue;
        few_unit unit = find_unit<SHAPE, GATE>(a.p, number);
        few_results<4> r = {};
        float residual[4];
        begin_results<SHAPE, GATE>(unit, r);
        r.first = 4 * rows;
        load_residual(a.p, unit, r, residual);
        add_slices(a, number, rows, 0, r.u);
        if (GATE)
            add_slices(a, number, rows, GATE_AT * LN_WARP, r.g);
        write<KIND, GATE>(a.p, unit, r, residual);
    }
}

#endif

#endif
