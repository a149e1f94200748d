/* Epilogue of the small-M GEMM (sm90_small_m.cuh): scales, gate and stores of accumulators in
 * registers, of one CTA or reduced from several. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_EPILOGUE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_EPILOGUE_CUH

#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"

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
template <int N> struct result_block {
    size_t row, column;
    unsigned first;
    float u[N], g[N];
};

template <int N> static __device__ __forceinline__ size_t row_of(const result_block<N> &r, int i) {
    return r.row + (r.first + (unsigned)i) / 4 * 8 + i % 2;
}

template <int N>
static __device__ __forceinline__ size_t column_of(const result_block<N> &r, int i) {
    return r.column + (r.first + (unsigned)i) % 4 / 2 * 8;
}

/* What sums stand for where rows of x, and maybe of weights, have scales. */
template <int LAYOUT, bool GATE, int N>
static __device__ __forceinline__ void scale_results(const ln_gemm_args &p, const weight_unit &unit,
                                                     result_block<N> &r) {
    const ln_gemm_part &part = p.parts[unit.part];
#pragma unroll
    for (int i = 0; i < N; i++) {
        size_t row = row_of(r, i), column = column_of(r, i);
        if (row >= p.n_rows || column >= part.epilogue.n_out)
            continue;
        float x = p.x.scales[row], up = x, gate = x;
        if constexpr (ln_weight_tile_has_row_scales(LAYOUT)) {
            size_t at = column / LN_WEIGHT_TILE_ROWS * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles);
            unsigned in_tile = (unsigned)column % LN_WEIGHT_TILE_ROWS;
            up = ln_weight_tile_row_scales(LAYOUT, part.weight + at, p.n_tiles)[in_tile] * x;
            if (GATE)
                gate = ln_weight_tile_row_scales(LAYOUT, part.gate + at, p.n_tiles)[in_tile] * x;
        }
        r.u[i] = ln_sum_value<LAYOUT>(r.u[i]) * up;
        if (GATE)
            r.g[i] = ln_sum_value<LAYOUT>(r.g[i]) * gate;
    }
}

/* What is added to them. */
template <int N>
static __device__ __forceinline__ void load_residual(const ln_gemm_args &p, const weight_unit &unit,
                                                     const result_block<N> &r,
                                                     float (&residual)[N]) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
#pragma unroll
    for (int i = 0; i < N; i++) {
        bool loads = row_of(r, i) < p.n_rows && column_of(r, i) < e.n_out && e.residual != NULL;
        residual[i] = loads ? __ldcg(e.residual + row_of(r, i) * e.n_out + column_of(r, i)) : 0.0f;
    }
}

template <int LAYOUT, bool GATE, int N>
static __device__ __forceinline__ void write(const ln_gemm_args &p, const weight_unit &unit,
                                             result_block<N> &r, const float (&residual)[N]) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    if constexpr (ln_weight_tile_has_act_row_scales(LAYOUT))
        scale_results<LAYOUT, GATE>(p, unit, r);
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
static __device__ __forceinline__ void locate_results(const weight_unit &unit, result_block<N> &r) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned tile_row = warp % (SHAPE::UNIT_ROWS / (GATE ? 2 : 1));
    r.row = warp / SHAPE::UNIT_ROWS * SHAPE::GROUP_ROWS + lane % 4 * 2;
    r.column = (size_t)(unit.row + tile_row) * LN_WEIGHT_TILE_ROWS + lane / 4;
}

/* The warps of a pair, one of which has the gate's sums. */
static __device__ __forceinline__ void sync_pair(unsigned pair) {
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/* Writes a unit's results. Where there is a gate, half of the warps have its accumulators: they
 * exchange half of the rows with the others. */
template <int LAYOUT, typename SHAPE, bool GATE>
static __device__ __forceinline__ void finish(const small_m_args &a, const weight_unit &unit,
                                              const float (&total)[SHAPE::N_ACC], float *exchange) {
    constexpr unsigned ALL = SHAPE::N_ACC, HALF = ALL / 2;
    constexpr unsigned AT_ONCE = HALF < EXCHANGED ? HALF : (unsigned)EXCHANGED;
    if constexpr (!GATE) {
        result_block<ALL> r = {};
        locate_results<SHAPE, GATE>(unit, r);
#pragma unroll
        for (unsigned i = 0; i < ALL; i++)
            r.u[i] = total[i];
        float residual[ALL];
        load_residual(a.p, unit, r, residual);
        write<LAYOUT, false>(a.p, unit, r, residual);
    } else {
        constexpr unsigned PAIRS = SHAPE::UNIT_ROWS / 2; /* of a group */
        unsigned warp = threadIdx.x / LN_WARP;
        unsigned pair = warp / SHAPE::UNIT_ROWS * PAIRS + warp % PAIRS;
        bool is_gate = warp % SHAPE::UNIT_ROWS >= PAIRS;
        float *own = exchange + threadIdx.x;
        const float *others = exchange + (threadIdx.x ^ (PAIRS * LN_WARP));
#pragma unroll
        for (unsigned begin = 0; begin < HALF; begin += AT_ONCE) {
            result_block<AT_ONCE> r = {};
            locate_results<SHAPE, GATE>(unit, r);
            r.first = begin + (is_gate ? HALF : 0);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++)
                own[i * CONSUMERS] = is_gate ? total[begin + i] : total[HALF + begin + i];
            sync_pair(pair);
#pragma unroll
            for (unsigned i = 0; i < AT_ONCE; i++) {
                float other = others[i * CONSUMERS];
                r.u[i] = is_gate ? other : total[begin + i];
                r.g[i] = is_gate ? total[HALF + begin + i] : other;
            }
            sync_pair(pair);
            float residual[AT_ONCE];
            load_residual(a.p, unit, r, residual);
            write<LAYOUT, true>(a.p, unit, r, residual);
        }
    }
}

#endif

#endif
