/* What consumers of the fused linear + norm kernel do: WGMMA, split-K partial sums handed from
 * block to block, and the epilogue.
 *
 * They repeat gemm/sm90_small_m.cuh for BF16 because weights and activations have pipelines of
 * their own here, of which that kernel has one: weights must run ahead of a norm that activations
 * wait for. Output tiles and the order of sums are shared (gemm/sm90_small_m_pipeline.cuh,
 * gemm/sm90_small_m_split_k.cuh). */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"
#include "backend/cuda/gemm/sm90_small_m_split_k.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/ptx/wgmma_n8_n64.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Multiplies the next stage of activations, TILES of its tiles, by these fragments of the next
 * stage of weights. */
template <int ROWS, int TILES, unsigned X_STAGES>
static __device__ __forceinline__ void
multiply_fragments(const fused_args &c, const pipelines &pipes, ln_pipeline_stage &at,
                   ln_pipeline_stage &x_at, uint4 (&steps)[4 * TILES],
                   float (&sum)[stage_shape<ROWS>::N_ACC]) {
    typedef stage_shape<ROWS> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *x =
        pipes.x + x_at.index * shape::X_BYTES + warp / shape::UNIT_ROWS * (shape::GROUP_ROWS * 128);
    ln_mbarrier_wait(&pipes.bars->x_full[x_at.index], x_at.phase);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_small_n(sum, steps[k],
                         ln_wgmma_desc_swizzle128(x + k / 4 * shape::PART_BYTES + k % 4 * 32));
    ln_wgmma_commit();
    if (lane == 0)
        ln_mbarrier_arrive(&pipes.bars->empty[at.index]);
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    if (lane == 0)
        ln_mbarrier_arrive(&pipes.bars->x_empty[x_at.index]);
    ln_pipeline_advance(at, c.n_stages);
    ln_pipeline_advance(x_at, X_STAGES);
}

/* Accumulates the first TILES K tiles of the next stage. */
template <int ROWS, int TILES, unsigned X_STAGES>
static __device__ __forceinline__ void
multiply_stage(const fused_args &c, const pipelines &pipes, ln_pipeline_stage &at,
               ln_pipeline_stage &x_at, float (&sum)[stage_shape<ROWS>::N_ACC]) {
    typedef stage_shape<ROWS> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = pipes.weights + at.index * shape::W_BYTES + lane * 16 +
                    warp % shape::UNIT_ROWS * (shape::TILES * shape::TILE_BYTES);
    uint4 steps[4 * TILES];
    ln_mbarrier_wait(&pipes.bars->full[at.index], at.phase);
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    multiply_fragments<ROWS, TILES, X_STAGES>(c, pipes, at, x_at, steps, sum);
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* Accumulates the next TILES tiles of activations, of which tiles [begin, end) of adapters from
 * `first` on are this warp's. */
template <int ROWS, int TILES, unsigned X_STAGES>
static __device__ __forceinline__ void multiply_low(const fused_args &c, const pipelines &pipes,
                                                    unsigned first, unsigned begin, unsigned end,
                                                    ln_pipeline_stage &at, ln_pipeline_stage &x_at,
                                                    float (&sum)[stage_shape<ROWS>::N_ACC]) {
    typedef stage_shape<ROWS> shape;
    constexpr unsigned STEP_BYTES = shape::W_BYTES / LN_ADAPTER_STAGE_STEPS;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = pipes.weights + at.index * shape::W_BYTES + lane * 16 +
                    warp % shape::UNIT_ROWS * (STEP_BYTES / shape::UNIT_ROWS);
    uint4 steps[4 * TILES];
    ln_mbarrier_wait(&pipes.bars->full[at.index], at.phase);
#pragma unroll
    for (unsigned k = 0; k < 4 * TILES; k++)
        steps[k] = first + k >= begin && first + k < end ? *(const uint4 *)(w + k * STEP_BYTES)
                                                         : make_uint4(0, 0, 0, 0);
    multiply_fragments<ROWS, TILES, X_STAGES>(c, pipes, at, x_at, steps, sum);
}

/* Adds the K split of adapters, if there are any, to a unit's sums. */
template <int ROWS, unsigned X_STAGES>
static __device__ __forceinline__ void
add_adapters(const fused_args &c, const fused_linear &l, const adapter_list *list,
             const pipelines &pipes, ln_pipeline_stage &at, ln_pipeline_stage &x_at,
             float (&total)[stage_shape<ROWS>::N_ACC]) {
    typedef stage_shape<ROWS> shape;
    if (list == NULL)
        return;
    unsigned begin = 0, end = list->n;
    if (l.has_gate) { /* half of the warps have the gate's columns */
        bool is_gate = threadIdx.x / LN_WARP % shape::UNIT_ROWS >= shape::UNIT_ROWS / 2;
        begin = is_gate ? list->n_up : 0;
        end = is_gate ? list->n : list->n_up;
    }
    float sum[shape::N_ACC];
#pragma unroll
    for (unsigned i = 0; i < shape::N_ACC; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (unsigned first = 0; first < list->n; first += LN_ADAPTER_STAGE_STEPS)
        if (list->n - first > 4)
            multiply_low<ROWS, 2, X_STAGES>(c, pipes, first, begin, end, at, x_at, sum);
        else
            multiply_low<ROWS, 1, X_STAGES>(c, pipes, first, begin, end, at, x_at, sum);
#pragma unroll
    for (unsigned i = 0; i < shape::N_ACC; i++)
        total[i] += sum[i];
}

/* ---- epilogue -------------------------------------------------------------------------------- */

/* A thread's accumulators in shared memory, [row][column], a gate's behind the others. */
template <int ROWS> static __device__ __forceinline__ float *thread_tile(float *sums) {
    typedef stage_shape<ROWS> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned row = warp / shape::UNIT_ROWS * shape::GROUP_ROWS + lane % 4 * 2;
    return sums + row * TILE_OUT_STRIDE + warp % shape::UNIT_ROWS * LN_WEIGHT_TILE_ROWS + lane / 4;
}

/* Queues the residual of an output tile for shared memory, [row][column], where the epilogue is
 * plain. */
template <int ROWS>
static __device__ __forceinline__ void fetch_residual(const ln_gemm_args &p,
                                                      const weight_unit &unit, float *to) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned first = unit.row * LN_WEIGHT_TILE_ROWS;
    if (!ln_epilogue_is_plain(e))
        return;
    ln_norm_sync<VPT>(); /* the last tile's residual is read */
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * TILE_N / 4; i += CONSUMERS) {
        unsigned row = i / (TILE_N / 4), column = i % (TILE_N / 4) * 4;
        if (row < p.n_rows && first + column < e.n_out)
            ln_cp_async_16(to + row * TILE_N + column, e.residual + row * e.n_out + first + column);
    }
    ln_cp_async_commit();
}

/* Two columns of a row of results. */
template <bool GATE>
static __device__ __forceinline__ float2 epilogue_two(const ln_epilogue &e, const float *sums,
                                                      const float *residual, size_t column) {
    float2 u = *(const float2 *)sums, r = {};
    if (GATE) {
        float2 g = *(const float2 *)(sums + TILE_N / 2);
        return make_float2(e.scale * ln_gated(LN_ACT_SILU, true, g.x, u.x),
                           e.scale * ln_gated(LN_ACT_SILU, true, g.y, u.y));
    }
    if (e.bias != NULL && column < e.n_out)
        u.x += e.bias[column], u.y += e.bias[column + 1];
    u.x *= e.scale, u.y *= e.scale;
    if (e.residual != NULL)
        r = *(const float2 *)residual, u.x = r.x + u.x, u.y = r.y + u.y;
    return u;
}

/* Stores an output tile where the epilogue is plain. A thread takes eight columns of a row whose
 * bf16 lie together in the next linear's activation tiles: two of every eight of 32. */
template <int ROWS, bool GATE>
static __device__ __forceinline__ void store_plain(const ln_gemm_args &p, const weight_unit &unit,
                                                   const float *sums, const float *residual) {
    constexpr unsigned N8_TILES = TILE_N / 8 / (GATE ? 2 : 1);
    const ln_epilogue &e = p.parts[unit.part].epilogue;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * N8_TILES; i += CONSUMERS) {
        unsigned row = i / N8_TILES, first = i % N8_TILES / 4 * 32 + i % 4 * 2;
        unsigned column = unit.row * LN_WEIGHT_TILE_ROWS + first;
        float2 y[4];
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            y[j] = epilogue_two<GATE>(e, sums + row * TILE_OUT_STRIDE + first + 8 * j,
                                      residual + row * TILE_N + first + 8 * j, column + 8 * j);
            words[j] = ln_pack_bf16(y[j].x, y[j].y);
        }
        if (p.converts) {
            unsigned chunk = column % 64 / 32 * 4 + column % 8 / 2;
            char *to = (char *)p.to.bf16 + (size_t)(column / 64 * ACT_TILE_ROWS + row) * 128;
            *(uint4 *)(to + (chunk ^ row % 8) * 16) =
                make_uint4(words[0], words[1], words[2], words[3]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (!p.leaves_out && row < p.n_rows && column + 8 * j < e.n_out)
                *(float2 *)(e.out + row * e.out_stride + column + 8 * j) = y[j];
    }
}

/* The same for any epilogue; rarely run. */
template <int ROWS>
static __device__ __forceinline__ void store_any(const ln_gemm_args &p, const weight_unit &unit,
                                                 bool has_gate, const float *sums) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned n_columns = has_gate ? TILE_N / 2 : TILE_N;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * n_columns; i += CONSUMERS) {
        unsigned row = i / n_columns, column = unit.row * LN_WEIGHT_TILE_ROWS + i % n_columns;
        const float *u = sums + row * TILE_OUT_STRIDE + i % n_columns;
        if (row < p.n_rows && column < e.n_out)
            ln_finish(e, row, column, *u, has_gate ? u[TILE_N / 2] : 0.0f);
    }
}

/* Epilogue of an output tile. sums: TILE_OUT_BYTES, and the residual behind them. */
template <int ROWS>
static __device__ __forceinline__ void store_tile(const fused_linear &l, const weight_unit &unit,
                                                  const float (&total)[stage_shape<ROWS>::N_ACC],
                                                  float *sums) {
    const ln_gemm_args &p = l.gemm.p;
    float *own = thread_tile<ROWS>(sums), *residual = sums + TILE_OUT_BYTES / 4;
    ln_cp_async_wait<0>(); /* the residual */
    ln_norm_sync<VPT>();   /* the last tile's results are stored */
#pragma unroll
    for (int i = 0; i < stage_shape<ROWS>::N_ACC; i++)
        own[(i / 4 * 8 + i % 2) * TILE_OUT_STRIDE + i % 4 / 2 * 8] = total[i];
    ln_norm_sync<VPT>();
    if (!ln_epilogue_is_plain(p.parts[unit.part].epilogue))
        store_any<ROWS>(p, unit, l.has_gate, sums);
    else if (l.has_gate)
        store_plain<ROWS, true>(p, unit, sums, residual);
    else
        store_plain<ROWS, false>(p, unit, sums, residual);
}

/* ---- split-K --------------------------------------------------------------------------------- */

template <int N>
static __device__ __forceinline__ void send_partials(const fused_args &c, const float (&sum)[N]) {
#pragma unroll
    for (unsigned i = 0; i < N; i += 4)
        publish_four<LN_LAYOUT_BF16>(&c.memory->partials[blockIdx.x][i / 4][threadIdx.x], sum + i);
}

/* Receives the partial sums of the block in front as soon as they are there, and leaves 0 in their
 * place. */
template <int N>
static __device__ __forceinline__ void receive_partials(const fused_args &c, float (&sum)[N]) {
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
        float4 taken = decode_partial<LN_LAYOUT_BF16>(four[i]);
        sum[4 * i] = taken.x, sum[4 * i + 1] = taken.y;
        sum[4 * i + 2] = taken.z, sum[4 * i + 3] = taken.w;
    }
}

#endif

#endif
