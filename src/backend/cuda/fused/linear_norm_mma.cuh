/* What consumers of the fused linear + norm kernel do: WGMMA, split-K partial sums handed from
 * block to block, and the epilogue.
 *
 * They repeat gemm/sm90_small_m.cuh because weights and activations have pipelines of
 * their own here, of which that kernel has one: weights must run ahead of a norm that activations
 * wait for. Output tiles and the order of sums are shared (gemm/sm90_small_m_pipeline.cuh,
 * gemm/sm90_small_m_split_k.cuh). */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"
#include "backend/cuda/gemm/sm90_small_m_split_k.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/ptx/wgmma_fp8_splits.cuh"
#include "backend/cuda/ptx/wgmma_n8_n64.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Where a warpgroup's rows of a stage of activations are. */
template <typename SHAPE>
static __device__ __forceinline__ const char *x_of(const pipelines &pipes,
                                                   const ln_pipeline_stage &x_at) {
    return pipes.x + x_at.index * SHAPE::X_BYTES +
           threadIdx.x / LN_WARP / SHAPE::UNIT_ROWS * (SHAPE::GROUP_ROWS * 128);
}

/* A lane's A operand: K step k of a weight tile. */
template <int LAYOUT> static __device__ __forceinline__ uint4 load_step(const char *tile, int k) {
    if constexpr (LAYOUT == LN_LAYOUT_F8_ROW)
        return ln_fp8_take_step(tile, k);
    else
        return *(const uint4 *)(tile + k * WEIGHT_STEP_BYTES + threadIdx.x % LN_WARP * 16);
}

static __device__ __forceinline__ float sum_as_float(float sum) {
    return sum;
}

static __device__ __forceinline__ float sum_as_float(int sum) {
    return __int_as_float(sum);
}

static __device__ __forceinline__ void take_sum(float from, float *sum) {
    *sum = from;
}

static __device__ __forceinline__ void take_sum(float from, int *sum) {
    *sum = __float_as_int(from);
}

/* Four K steps, a tile of activations. */
template <int LAYOUT, typename T, int N>
static __device__ __forceinline__ void multiply_tile(const uint4 *steps, const char *x,
                                                     T (&sum)[N]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint64_t b = ln_wgmma_desc_swizzle128(x + k * 32);
        if constexpr (LAYOUT == LN_LAYOUT_F8_ROW)
            ln_wgmma_small_n_fp8(sum, steps[k], b);
        else if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
            ln_wgmma_small_n_int8_add(sum, steps[k], b);
        else
            ln_wgmma_small_n(sum, steps[k], b);
    }
}

static __device__ __forceinline__ void release_weights(const fused_args &c, const pipelines &pipes,
                                                       ln_pipeline_stage &at) {
    if (threadIdx.x % LN_WARP == 0)
        ln_mbarrier_arrive(&pipes.bars->empty[at.index]);
    ln_pipeline_advance(at, c.n_stages);
}

/* Releases a stage of activations once its products are there. */
template <unsigned X_STAGES, int N_STEPS, typename T, int N>
static __device__ __forceinline__ void release_x(const pipelines &pipes, ln_pipeline_stage &x_at,
                                                 uint4 (&steps)[N_STEPS], T (&sum)[N]) {
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < N_STEPS; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    if (threadIdx.x % LN_WARP == 0)
        ln_mbarrier_arrive(&pipes.bars->x_empty[x_at.index]);
    ln_pipeline_advance(x_at, X_STAGES);
}

/* Accumulates the first TILES K tiles of the next stage of activations. A tile's fragments are
 * loaded while the one before is multiplied. */
template <typename SHAPE, int TILES, unsigned X_STAGES>
static __device__ __forceinline__ void
multiply_stage(const fused_args &c, const pipelines &pipes, ln_pipeline_stage &at,
               ln_pipeline_stage &x_at, typename SHAPE::sum_type (&sum)[SHAPE::N_ACC]) {
    unsigned warp = threadIdx.x / LN_WARP;
    const char *w = pipes.weights + warp % SHAPE::UNIT_ROWS * (SHAPE::W_TILES * SHAPE::TILE_BYTES);
    const char *x = x_of<SHAPE>(pipes, x_at);
    uint4 steps[4 * TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        if (tile == 0 || SHAPE::IS_WIDE)
            ln_mbarrier_wait(&pipes.bars->full[at.index], at.phase);
        const char *from =
            w + at.index * SHAPE::W_BYTES + (SHAPE::IS_WIDE ? 0 : tile * (int)SHAPE::TILE_BYTES);
#pragma unroll
        for (int k = 0; k < 4; k++)
            steps[4 * tile + k] = load_step<SHAPE::LAYOUT>(from, k);
        if (tile == 0)
            ln_mbarrier_wait(&pipes.bars->x_full[x_at.index], x_at.phase);
        ln_wgmma_fence();
        multiply_tile<SHAPE::LAYOUT>(steps + 4 * tile, x + tile * SHAPE::PART_BYTES, sum);
        ln_wgmma_commit();
        if (tile == TILES - 1 || SHAPE::IS_WIDE)
            release_weights(c, pipes, at);
    }
    release_x<X_STAGES>(pipes, x_at, steps, sum);
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* Accumulates the next TILES tiles of activations, of which tiles [begin, end) of adapters from
 * `first` on are this warp's. */
template <typename SHAPE, int TILES, unsigned X_STAGES>
static __device__ __forceinline__ void multiply_low(const fused_args &c, const pipelines &pipes,
                                                    unsigned first, unsigned begin, unsigned end,
                                                    ln_pipeline_stage &at, ln_pipeline_stage &x_at,
                                                    float (&sum)[SHAPE::N_ACC]) {
    constexpr unsigned STEP_BYTES = SHAPE::W_BYTES / LN_ADAPTER_STAGE_STEPS,
                       STEP_ROWS = STEP_BYTES / WEIGHT_STEP_BYTES;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = pipes.weights + at.index * SHAPE::W_BYTES + lane * 16 +
                    warp % STEP_ROWS * WEIGHT_STEP_BYTES;
    uint4 steps[4 * TILES];
    ln_mbarrier_wait(&pipes.bars->full[at.index], at.phase);
#pragma unroll
    for (unsigned k = 0; k < 4 * TILES; k++)
        steps[k] = first + k >= begin && first + k < end ? *(const uint4 *)(w + k * STEP_BYTES)
                                                         : make_uint4(0, 0, 0, 0);
    ln_mbarrier_wait(&pipes.bars->x_full[x_at.index], x_at.phase);
    ln_wgmma_fence();
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        multiply_tile<SHAPE::LAYOUT>(steps + 4 * tile,
                                     x_of<SHAPE>(pipes, x_at) + tile * SHAPE::PART_BYTES, sum);
    ln_wgmma_commit();
    release_weights(c, pipes, at);
    release_x<X_STAGES>(pipes, x_at, steps, sum);
}

/* Releases a stage that has nothing for this warpgroup, once it is there: a barrier's phases are
 * waited for one after another. */
template <typename SHAPE, unsigned X_STAGES>
static __device__ __forceinline__ void skip_stage(const fused_args &c, const pipelines &pipes,
                                                  ln_pipeline_stage &at, ln_pipeline_stage &x_at) {
    ln_mbarrier_wait(&pipes.bars->full[at.index], at.phase);
    ln_mbarrier_wait(&pipes.bars->x_full[x_at.index], x_at.phase);
    release_weights(c, pipes, at);
    if (threadIdx.x % LN_WARP == 0)
        ln_mbarrier_arrive(&pipes.bars->x_empty[x_at.index]);
    ln_pipeline_advance(x_at, X_STAGES);
}

/* Adds the K split of adapters, if there are any, to a unit's sums. */
template <typename SHAPE, unsigned X_STAGES>
static __device__ __forceinline__ void
add_adapters(const fused_args &c, const fused_linear &l, const adapter_list *list,
             const pipelines &pipes, ln_pipeline_stage &at, ln_pipeline_stage &x_at,
             float (&total)[SHAPE::N_ACC]) {
    if (list == NULL)
        return;
    unsigned begin = 0, end = list->n;
    if (l.has_gate) { /* half of the warps have the gate's columns */
        bool is_gate = threadIdx.x / LN_WARP % SHAPE::UNIT_ROWS >= SHAPE::UNIT_ROWS / 2;
        begin = is_gate ? list->n_up : 0;
        end = is_gate ? list->n : list->n_up;
    }
    float sum[SHAPE::N_ACC];
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (unsigned first = 0; first < list->n; first += LN_ADAPTER_STAGE_STEPS)
        if (SHAPE::IS_WIDE && (first >= end || first + LN_ADAPTER_STAGE_STEPS <= begin))
            skip_stage<SHAPE, X_STAGES>(c, pipes, at, x_at);
        else if (list->n - first > 4)
            multiply_low<SHAPE, 2, X_STAGES>(c, pipes, first, begin, end, at, x_at, sum);
        else
            multiply_low<SHAPE, 1, X_STAGES>(c, pipes, first, begin, end, at, x_at, sum);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC; i++)
        total[i] += sum[i];
}

/* ---- epilogue -------------------------------------------------------------------------------- */

/* A thread's accumulators in shared memory, [row][column], a gate's behind the others. */
template <typename SHAPE> static __device__ __forceinline__ float *thread_tile(float *sums) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned row = warp / SHAPE::UNIT_ROWS * SHAPE::GROUP_ROWS + lane % 4 * 2;
    return sums + row * SHAPE::OUT_STRIDE + warp % SHAPE::UNIT_ROWS * LN_WEIGHT_TILE_ROWS +
           lane / 4;
}

/* Queues the residual of an output tile for shared memory, [row][column], where the epilogue is
 * plain. */
template <int ROWS>
static __device__ __forceinline__ void fetch_residual(const ln_gemm_args &p,
                                                      const weight_unit &unit, float *to) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned first = unit.row * LN_WEIGHT_TILE_ROWS;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * TILE_N / 4; i += CONSUMERS) {
        unsigned row = i / (TILE_N / 4), column = i % (TILE_N / 4) * 4;
        if (row < p.n_rows && first + column < e.n_out)
            ln_cp_async_16(to + row * TILE_N + column, e.residual + row * e.n_out + first + column);
    }
}

/* Queues the scales of an output tile, four of a thread. */
static __device__ __forceinline__ void fetch_scales(const ln_gemm_args &p, const weight_unit &unit,
                                                    bool has_gate, int layout, tile_scales *to) {
    constexpr unsigned FOURS = LN_WEIGHT_TILE_ROWS / 4;
    const ln_gemm_part &part = p.parts[unit.part];
    unsigned tile = threadIdx.x / FOURS, rows = TILE_N / LN_WEIGHT_TILE_ROWS / (has_gate ? 2 : 1);
    unsigned i = threadIdx.x - TILE_N / 4, row = unit.row + tile % rows;
    const uint8_t *matrix = tile < rows ? part.weight : part.gate;
    if (tile < TILE_N / LN_WEIGHT_TILE_ROWS && row * LN_WEIGHT_TILE_ROWS < part.epilogue.n_out)
        ln_cp_async_16(
            to->w + 4 * threadIdx.x,
            ln_weight_tile_row_scales(
                layout, matrix + row * ln_weight_tile_row_bytes(layout, p.n_tiles), p.n_tiles) +
                threadIdx.x % FOURS * 4);
    else if (i < ACT_TILE_ROWS / 4 && 4 * i < p.n_rows)
        ln_cp_async_16(to->x + 4 * i, p.x.scales + 4 * i);
}

/* Whether an epilogue reads something that is fetched for it. */
template <typename SHAPE>
static __device__ __forceinline__ bool has_operands(const ln_epilogue &e) {
    return SHAPE::HAS_ROW_SCALES || (e.residual != NULL && ln_epilogue_is_plain(e));
}

/* Queues what the epilogue of an output tile reads. */
template <typename SHAPE, int ROWS>
static __device__ __forceinline__ void
fetch_operands(const fused_linear &l, const weight_unit &unit, const consumer_memory &memory) {
    const ln_epilogue &e = l.gemm.p.parts[unit.part].epilogue;
    ln_norm_sync<VPT>(); /* those of the last tile are read */
    if (e.residual != NULL && ln_epilogue_is_plain(e))
        fetch_residual<ROWS>(l.gemm.p, unit, memory.tile + TILE_OUT_BYTES / 4);
    if (SHAPE::HAS_ROW_SCALES)
        fetch_scales(l.gemm.p, unit, l.has_gate, SHAPE::LAYOUT, memory.scales);
    ln_cp_async_commit();
}

/* Two columns of a row of results. GATE: columns before the gate's, or 0. */
template <unsigned GATE>
static __device__ __forceinline__ float2 epilogue_two(const ln_epilogue &e, const float *sums,
                                                      const float *residual, size_t column) {
    float2 u = *(const float2 *)sums, r = {};
    if (GATE > 0) {
        float2 g = *(const float2 *)(sums + GATE);
        u.x = e.scale * ln_gated(LN_ACT_SILU, true, g.x, u.x);
        u.y = e.scale * ln_gated(LN_ACT_SILU, true, g.y, u.y);
        return e.rounds ? make_float2(ln_round_to_bf16(u.x), ln_round_to_bf16(u.y)) : u;
    }
    if (e.bias != NULL && column < e.n_out)
        u.x += e.bias[column], u.y += e.bias[column + 1];
    u.x *= e.scale, u.y *= e.scale;
    if (e.residual != NULL)
        r = *(const float2 *)residual, u.x = r.x + u.x, u.y = r.y + u.y;
    return u;
}

static __device__ __forceinline__ float largest_of_two(const float2 &y) {
    return fmaxf(isnan(y.x) ? INFINITY : fabsf(y.x), isnan(y.y) ? INFINITY : fabsf(y.y));
}

/* Stores an output tile where the epilogue is plain, and keeps the largest magnitudes of rows of a
 * gated one with row scales. A thread takes eight columns of a row whose bf16 lie together in the
 * next linear's activation tiles: two of every eight of 32. */
template <typename SHAPE, int ROWS, unsigned GATE>
static __device__ __forceinline__ void store_plain(const ln_gemm_args &p, const weight_unit &unit,
                                                   const float *sums, const float *residual,
                                                   unsigned *amax) {
    constexpr unsigned N8_TILES = (GATE > 0 ? GATE : (unsigned)TILE_N) / 8;
    const ln_epilogue &e = p.parts[unit.part].epilogue;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * N8_TILES; i += CONSUMERS) {
        unsigned row = i / N8_TILES, first = i % N8_TILES / 4 * 32 + i % 4 * 2;
        unsigned column = unit.row * LN_WEIGHT_TILE_ROWS + first;
        float2 y[4];
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            y[j] = epilogue_two<GATE>(e, sums + row * SHAPE::OUT_STRIDE + first + 8 * j,
                                      residual + row * TILE_N + first + 8 * j, column + 8 * j);
            words[j] = ln_pack_bf16(y[j].x, y[j].y);
        }
        if (p.converts) {
            unsigned chunk = column % 64 / 32 * 4 + column % 8 / 2;
            char *to = (char *)p.to.bf16 + (size_t)(column / 64 * ACT_TILE_ROWS + row) * 128;
            *(uint4 *)(to + (chunk ^ row % 8) * 16) =
                make_uint4(words[0], words[1], words[2], words[3]);
        }
        float largest = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (!p.leaves_out && row < p.n_rows && column + 8 * j < e.n_out) {
                *(float2 *)(e.out + row * e.out_stride + column + 8 * j) = y[j];
                largest = fmaxf(largest, largest_of_two(y[j]));
            }
        if constexpr (SHAPE::HAS_ROW_SCALES && GATE > 0) {
            static_assert(N8_TILES == 4, "lanes of a row");
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            if (i % 4 == 0 && largest > 0.0f)
                atomicMax(&amax[row], __float_as_uint(largest));
        }
    }
}

/* The same for any epilogue; rarely run. */
template <typename SHAPE, int ROWS>
static __device__ __forceinline__ void store_any(const ln_gemm_args &p, const weight_unit &unit,
                                                 bool has_gate, const float *sums) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned n_columns = has_gate ? SHAPE::GATE : (unsigned)TILE_N;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * n_columns; i += CONSUMERS) {
        unsigned row = i / n_columns, column = unit.row * LN_WEIGHT_TILE_ROWS + i % n_columns;
        const float *u = sums + row * SHAPE::OUT_STRIDE + i % n_columns;
        if (row < p.n_rows && column < e.n_out)
            ln_finish(e, row, column, *u, has_gate ? u[SHAPE::GATE] : 0.0f);
    }
}

/* What a thread's sums stand for. */
template <typename SHAPE>
static __device__ __forceinline__ void
scale_sums(const tile_scales &scales, const typename SHAPE::sum_type (&sum)[SHAPE::N_ACC],
           float (&y)[SHAPE::N_ACC]) {
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const float *x = scales.x + warp / SHAPE::UNIT_ROWS * SHAPE::GROUP_ROWS + lane % 4 * 2;
    const float *w = scales.w + warp % SHAPE::UNIT_ROWS * LN_WEIGHT_TILE_ROWS + lane / 4;
    const float of_columns[2] = {w[0], w[8]};
#pragma unroll
    for (int i = 0; i < SHAPE::N_ACC; i++)
        y[i] = (float)sum[i] * (of_columns[i % 4 / 2] * x[i / 4 * 8 + i % 2]);
}

/* Epilogue of an output tile. memory.tile: TILE_OUT_BYTES, and the residual behind them; of a wide
 * unit, which has no residual, both together. */
template <typename SHAPE, int ROWS>
static __device__ __forceinline__ void
store_tile(const fused_linear &l, const weight_unit &unit,
           const typename SHAPE::sum_type (&total)[SHAPE::N_ACC], const consumer_memory &memory) {
    const ln_gemm_args &p = l.gemm.p;
    float *sums = memory.tile, *own = thread_tile<SHAPE>(sums);
    float *residual = sums + TILE_OUT_BYTES / 4, y[SHAPE::N_ACC];
    unsigned *amax = SHAPE::HAS_ROW_SCALES ? memory.scales->amax : NULL;
    ln_cp_async_wait<0>(); /* operands */
    ln_norm_sync<VPT>();   /* the last tile's results are stored */
    if constexpr (SHAPE::HAS_ROW_SCALES) {
        scale_sums<SHAPE>(*memory.scales, total, y);
    } else {
#pragma unroll
        for (int i = 0; i < SHAPE::N_ACC; i++)
            y[i] = total[i];
    }
#pragma unroll
    for (int i = 0; i < SHAPE::N_ACC; i++)
        own[(i / 4 * 8 + i % 2) * SHAPE::OUT_STRIDE + i % 4 / 2 * 8] = y[i];
    ln_norm_sync<VPT>();
    if (!ln_epilogue_is_plain(p.parts[unit.part].epilogue))
        store_any<SHAPE, ROWS>(p, unit, l.has_gate, sums);
    else if (SHAPE::IS_WIDE || l.has_gate)
        store_plain<SHAPE, ROWS, SHAPE::GATE>(p, unit, sums, residual, amax);
    else
        store_plain<SHAPE, ROWS, 0>(p, unit, sums, residual, amax);
}

/* ---- split-K --------------------------------------------------------------------------------- */

template <int LAYOUT, typename T, int N>
static __device__ __forceinline__ void send_partials(const fused_args &c, const T (&sum)[N]) {
#pragma unroll
    for (unsigned i = 0; i < N; i += 4) {
        float four[4] = {sum_as_float(sum[i]), sum_as_float(sum[i + 1]), sum_as_float(sum[i + 2]),
                         sum_as_float(sum[i + 3])};
        publish_four<LAYOUT>(&c.memory->partials[blockIdx.x][i / 4][threadIdx.x], four);
    }
}

/* Receives the partial sums of the block in front as soon as they are there, and leaves 0 in their
 * place. */
template <int LAYOUT, typename T, int N>
static __device__ __forceinline__ void receive_partials(const fused_args &c, T (&sum)[N]) {
    uint4(*from)[CONSUMERS] = c.memory->partials[blockIdx.x - 1], four[N / 4];
    for (bool waits = true; waits;) {
        waits = false;
#pragma unroll
        for (unsigned i = 0; i < N / 4; i++) {
            four[i] = load_four_relaxed(&from[i][threadIdx.x]);
            waits |= is_missing(four[i]);
        }
    }
#pragma unroll
    for (unsigned i = 0; i < N / 4; i++) {
        store_four_relaxed(&from[i][threadIdx.x], make_uint4(0, 0, 0, 0));
        float4 taken = decode_partial<LAYOUT>(four[i]);
        take_sum(taken.x, &sum[4 * i]), take_sum(taken.y, &sum[4 * i + 1]);
        take_sum(taken.z, &sum[4 * i + 2]), take_sum(taken.w, &sum[4 * i + 3]);
    }
}

/* ---- mainloop -------------------------------------------------------------------------------- */

/* Accumulates a K split. */
template <typename SHAPE, unsigned X_STAGES>
static __device__ __forceinline__ void
multiply_split(const fused_args &c, unsigned n_tiles, const pipelines &pipes, ln_pipeline_stage &at,
               ln_pipeline_stage &x_at, typename SHAPE::sum_type (&sum)[SHAPE::N_ACC]) {
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC; i++)
        sum[i] = 0;
    ln_wgmma_keep(sum); /* ahead of wgmma.fence */
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles / 2; i++)
        multiply_stage<SHAPE, 2, X_STAGES>(c, pipes, at, x_at, sum);
    if (n_tiles % 2 > 0)
        multiply_stage<SHAPE, 1, X_STAGES>(c, pipes, at, x_at, sum);
}

/* Adds a K split, whose sums are int32. */
template <int N>
static __device__ __forceinline__ void add_split(const int (&sum)[N], int (&total)[N]) {
#pragma unroll
    for (unsigned i = 0; i < N; i++)
        total[i] += sum[i];
}

/* Adds K splits in order, or defers one whose sums come behind those of the block in front, which
 * may not be there yet. `is_whole`: these are in `total`. */
template <int LAYOUT, int N, unsigned MAX>
static __device__ __forceinline__ void add_split(const fused_args &c, const float (&sum)[N],
                                                 bool is_last, deferred_splits<N, MAX> &held,
                                                 bool &is_whole, float (&total)[N]) {
    if (is_whole) {
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            total[i] += sum[i];
        return;
    }
    is_whole = held.n > MAX || is_last;
    if (is_whole) {
        float taken[N];
        receive_partials<LAYOUT>(c, taken);
        add_deferred(taken, held, sum, total);
    } else {
        defer_split(sum, held, total);
    }
}

/* Accumulates K splits of a unit, with what other blocks have of it, in the K order of
 * gemm/sm90_small_m.cuh; MAX are deferred at most. */
template <typename SHAPE, int ROWS, unsigned X_STAGES, unsigned MAX>
static __device__ __forceinline__ void
multiply_splits(const fused_args &c, const fused_linear &l, const split_range &range,
                const weight_unit &unit, const pipelines &pipes, const consumer_memory &memory,
                ln_pipeline_stage &at, ln_pipeline_stage &x_at,
                typename SHAPE::sum_type (&total)[SHAPE::N_ACC]) {
    const ln_gemm_args &p = l.gemm.p;
    typename SHAPE::sum_type sum[SHAPE::N_ACC];
    deferred_splits<SHAPE::N_ACC, MAX> held = {};
    bool is_whole = range.begin == 0;
    bool fetches = range.end == LN_K_SPLITS && has_operands<SHAPE>(p.parts[unit.part].epilogue);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC; i++)
        total[i] = SHAPE::HAS_INT_SUMS ? 0 : -0.0f; /* -0 + x is x */
#pragma unroll 1
    for (unsigned k_split = range.begin; k_split < range.end; k_split++) {
        unsigned n = first_tile_of(p, k_split + 1) - first_tile_of(p, k_split);
        multiply_split<SHAPE, X_STAGES>(c, n, pipes, at, x_at, sum);
        if (fetches && n > 0) { /* once activations are there operands are, too */
            fetch_operands<SHAPE, ROWS>(l, unit, memory);
            fetches = false;
        }
        if constexpr (SHAPE::HAS_INT_SUMS)
            add_split(sum, total);
        else
            add_split<SHAPE::LAYOUT>(c, sum, k_split + 1 == range.end, held, is_whole, total);
    }
    if constexpr (SHAPE::HAS_INT_SUMS)
        if (!is_whole) {
            receive_partials<SHAPE::LAYOUT>(c, sum);
            add_split(sum, total);
        }
    if (fetches) /* likewise with the partial sums of others */
        fetch_operands<SHAPE, ROWS>(l, unit, memory);
}

#endif

#endif
