/* A chain's sums: products, what blocks pass each other, and what becomes of them. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_MMA_CUH

#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/fused/linear_norm_pipeline.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Adds the first TILES tiles of the next stage. */
template <int ROWS, int TILES>
static __device__ __forceinline__ void add_stage(const chain_args &c, const chain_rings &rings,
                                                 few_place &at, few_place &x_at,
                                                 float (&sum)[chain_stage<ROWS>::N_SUMS]) {
    typedef chain_stage<ROWS> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = rings.weights + at.stage * shape::W_BYTES + lane * 16 +
                    warp % shape::UNIT_ROWS * (shape::TILES * shape::TILE_BYTES);
    const char *x = rings.x + x_at.stage * shape::X_BYTES +
                    warp / shape::UNIT_ROWS * (shape::GROUP_ROWS * 128);
    uint4 steps[4 * TILES];
    ln_mbarrier_wait(&rings.bars->full[at.stage], at.parity);
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    ln_mbarrier_wait(&rings.bars->x_full[x_at.stage], x_at.parity);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_small_n(sum, steps[k], ln_wgmma_desc_swizzle128(x + k / 4 * shape::PART_BYTES + k % 4 * 32));
    ln_wgmma_commit();
    if (lane == 0)
        ln_mbarrier_arrive(&rings.bars->empty[at.stage]);
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    if (lane == 0)
        ln_mbarrier_arrive(&rings.bars->x_empty[x_at.stage]);
    advance(c.n_stages, at);
    advance(X_STAGES, x_at);
}

/* ---- what becomes of sums -------------------------------------------------------------------- */

/* Where a thread's sums go in shared memory, [row][column], those of a gate behind the others. */
template <int ROWS>
static __device__ __forceinline__ float *find_sums(float *sums) {
    typedef chain_stage<ROWS> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned row = warp / shape::UNIT_ROWS * shape::GROUP_ROWS + lane % 4 * 2;
    return sums + row * SUM_STRIDE + warp % shape::UNIT_ROWS * LN_WEIGHT_TILE_ROWS + lane / 4;
}

/* Has the residual of a unit brought to shared memory, [row][column], where the epilogue is plain.
 */
template <int ROWS>
static __device__ __forceinline__ void bring_residual(const ln_gemm_args &p, const few_unit &unit,
                                                      float *to) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned first = unit.row * LN_WEIGHT_TILE_ROWS;
    if (!ln_epilogue_is_plain(e))
        return;
    ln_held_meet<PLAYED>(); /* who has read the last unit's */
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * UNIT_COLUMNS / 4; i += WORKERS) {
        unsigned row = i / (UNIT_COLUMNS / 4), column = i % (UNIT_COLUMNS / 4) * 4;
        if (row < p.n_rows && first + column < e.n_out)
            ln_cp_async_16(to + row * UNIT_COLUMNS + column,
                          e.residual + row * e.n_out + first + column);
    }
    ln_cp_async_commit();
}

/* Two columns of a row of results. */
template <bool GATE>
static __device__ __forceinline__ float2 find_two(const ln_epilogue &e, const float *sums,
                                                  const float *residual, size_t column) {
    float2 u = *(const float2 *)sums, r = {};
    if (GATE) {
        float2 g = *(const float2 *)(sums + UNIT_COLUMNS / 2);
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

/* Writes a unit's results from its sums, where the epilogue is plain. A thread takes eight columns
 * of a row at a time, those whose bf16 lie together where the next linear takes them: two of every
 * eight of 32. */
template <int ROWS, bool GATE>
static __device__ __forceinline__ void write_plainly(const ln_gemm_args &p, const few_unit &unit,
                                                     const float *sums, const float *residual) {
    constexpr unsigned EIGHTS = UNIT_COLUMNS / 8 / (GATE ? 2 : 1);
    const ln_epilogue &e = p.parts[unit.part].epilogue;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * EIGHTS; i += WORKERS) {
        unsigned row = i / EIGHTS, first = i % EIGHTS / 4 * 32 + i % 4 * 2;
        unsigned column = unit.row * LN_WEIGHT_TILE_ROWS + first;
        float2 y[4];
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            y[j] = find_two<GATE>(e, sums + row * SUM_STRIDE + first + 8 * j,
                                  residual + row * UNIT_COLUMNS + first + 8 * j, column + 8 * j);
            words[j] = ln_pack_bf16(y[j].x, y[j].y);
        }
        if (p.converts) {
            unsigned chunk = column % 64 / 32 * 4 + column % 8 / 2;
            char *to = (char *)p.to.bf16 + (size_t)(column / 64 * PANEL_ROWS + row) * 128;
            *(uint4 *)(to + (chunk ^ row % 8) * 16) =
                make_uint4(words[0], words[1], words[2], words[3]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (!p.leaves_out && row < p.n_rows && column + 8 * j < e.n_out)
                *(float2 *)(e.out + row * e.out_stride + column + 8 * j) = y[j];
    }
}

/* The same of any epilogue: seldom run. */
template <int ROWS>
static __device__ __forceinline__ void write_any(const ln_gemm_args &p, const few_unit &unit,
                                                 bool has_gate, const float *sums) {
    const ln_epilogue &e = p.parts[unit.part].epilogue;
    const unsigned n_columns = has_gate ? UNIT_COLUMNS / 2 : UNIT_COLUMNS;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < ROWS * n_columns; i += WORKERS) {
        unsigned row = i / n_columns, column = unit.row * LN_WEIGHT_TILE_ROWS + i % n_columns;
        const float *u = sums + row * SUM_STRIDE + i % n_columns;
        if (row < p.n_rows && column < e.n_out)
            ln_finish(e, row, column, *u, has_gate ? u[UNIT_COLUMNS / 2] : 0.0f);
    }
}

/* Makes a unit's results of its sums. `sums`: SUM_BYTES, and the residual behind them. */
template <int ROWS>
static __device__ __forceinline__ void finish(const chain_link &l, const few_unit &unit,
                                              const float (&total)[chain_stage<ROWS>::N_SUMS],
                                              float *sums) {
    const ln_gemm_args &p = l.linears.p;
    float *own = find_sums<ROWS>(sums), *residual = sums + SUM_BYTES / 4;
    ln_cp_async_wait<0>();      /* for the residual */
    ln_held_meet<PLAYED>(); /* who has written the last unit's results */
#pragma unroll
    for (int i = 0; i < chain_stage<ROWS>::N_SUMS; i++)
        own[(i / 4 * 8 + i % 2) * SUM_STRIDE + i % 4 / 2 * 8] = total[i];
    ln_held_meet<PLAYED>();
    if (!ln_epilogue_is_plain(p.parts[unit.part].epilogue))
        write_any<ROWS>(p, unit, l.has_gate, sums);
    else if (l.has_gate)
        write_plainly<ROWS, true>(p, unit, sums, residual);
    else
        write_plainly<ROWS, false>(p, unit, sums, residual);
}

/* ---- sums of a unit that several blocks have ------------------------------------------------- */

template <int N>
static __device__ __forceinline__ void pass_sums(const chain_args &c, const float (&sum)[N]) {
#pragma unroll
    for (unsigned i = 0; i < N; i += 4)
        pass_four(&c.memory->passed[blockIdx.x][i / 4][threadIdx.x], sum + i);
}

/* Takes what the block in front passes, as soon as it is there, and leaves 0 in its place. */
template <int N>
static __device__ __forceinline__ void take_passed(const chain_args &c, float (&sum)[N]) {
    uint4(*from)[WORKERS] = c.memory->passed[blockIdx.x - 1], four[N / 4];
    for (bool waits = true; waits;) {
        waits = false;
#pragma unroll
        for (unsigned i = 0; i < N / 4; i++) {
            four[i] = look_at_four(&from[i][threadIdx.x]);
            waits |= is_missing(four[i]);
        }
    }
#pragma unroll
    for (unsigned i = 0; i < N / 4; i++) {
        put_four(&from[i][threadIdx.x], make_uint4(0, 0, 0, 0));
        float4 taken = turn_back(four[i]);
        sum[4 * i] = taken.x, sum[4 * i + 1] = taken.y;
        sum[4 * i + 2] = taken.z, sum[4 * i + 3] = taken.w;
    }
}

/* What the warps do that multiply: all of a block's pieces, as work of gemm/sm90_small_m.cuh. */
template <int ROWS>
static __device__ __forceinline__ void work(const chain_args &c, const chain_link &l,
                                            const chain_rings &rings, float *sums, few_place &at,
                                            few_place &x_at) {
    constexpr unsigned N = chain_stage<ROWS>::N_SUMS;
    const few_args &a = l.linears;
    float sum[N], total[N];
    few_held<N> held = {};
    few_piece piece;
    for (unsigned k = 0; find_piece(a, k, piece); k++) {
        few_unit unit = find_unit(l, piece.unit);
        bool is_whole = piece.begin == 0;
        bool adds = piece.end == ALL_SLICES && a.p.parts[unit.part].epilogue.residual != NULL;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
        for (unsigned slice = piece.begin; slice < piece.end; slice++) {
            unsigned n = tiles_before(a.p, slice + 1) - tiles_before(a.p, slice);
#pragma unroll
            for (unsigned i = 0; i < N; i++)
                sum[i] = 0.0f;
#pragma unroll 1
            for (unsigned i = 0; i < n / 2; i++)
                add_stage<ROWS, 2>(c, rings, at, x_at, sum);
            if (n % 2 > 0)
                add_stage<ROWS, 1>(c, rings, at, x_at, sum);
            if (adds && n > 0) { /* with x the residual is there, too */
                bring_residual<ROWS>(a.p, unit, sums + SUM_BYTES / 4);
                adds = false;
            }
            if (is_whole) {
#pragma unroll
                for (unsigned i = 0; i < N; i++)
                    total[i] += sum[i];
                continue;
            }
            is_whole = held.n > HELD || slice + 1 == piece.end;
            if (is_whole) {
                float taken[N];
                take_passed(c, taken);
                add_held(taken, held, sum, total);
            } else {
                hold(sum, held, total);
            }
        }
        if (adds) /* as it is with the sums of others */
            bring_residual<ROWS>(a.p, unit, sums + SUM_BYTES / 4);
        if (piece.end < ALL_SLICES)
            pass_sums(c, total);
        else
            finish<ROWS>(l, unit, total, sums);
    }
}

#endif

#endif
