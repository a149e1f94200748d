/* Mainloops of the small-M GEMM (sm90_small_m.cuh): WGMMA of M64N8 to M64N64, weights as the A
 * operand from registers. BF16: a stage is two weight tiles. What is dequantised to f16: while a
 * stage is multiplied the fragments of the next are loaded. INT8 and INT4: a stage is one weight
 * tile; while some blocks of 32 columns are scaled the next ones are multiplied. INT8_ROW: a stage
 * is two weight tiles, sums are int32. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_MAINLOOP_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_MAINLOOP_CUH

#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"
#include "backend/cuda/ptx/wgmma_n8_n64.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Multiplies the first TILES weight tiles of the next stage. */
template <int ROWS, bool PRECISE, int TILES, bool IS_PRECISE>
static __device__ __forceinline__ void
add_stage(const small_m_args &a, const char *stages, small_m_pipeline &bars, ln_pipeline_stage &at,
          float (&sum)[small_m_stage<LN_LAYOUT_BF16, ROWS, PRECISE>::N_ACC]) {
    typedef small_m_stage<LN_LAYOUT_BF16, ROWS, PRECISE> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = stages + at.index * shape::BYTES;
    const char *x = w + shape::W_BYTES + warp / shape::UNIT_ROWS * (shape::GROUP_ROWS * 128);
    uint4 steps[4 * TILES];
    w += warp % shape::UNIT_ROWS * (shape::TILES * shape::TILE_BYTES) + lane * 16;
    ln_mbarrier_wait(&bars.full[at.index], at.phase);
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    ln_wgmma_fence();
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            ln_wgmma_small_n(sum, steps[4 * i + k],
                             ln_wgmma_desc_swizzle128(x + i * shape::PART_BYTES + k * 32));
        if constexpr (IS_PRECISE)
#pragma unroll
            for (int k = 0; k < 4; k++)
                ln_wgmma_small_n(
                    sum, steps[4 * i + k],
                    ln_wgmma_desc_swizzle128(x + (shape::TILES + i) * shape::PART_BYTES + k * 32));
    }
    ln_wgmma_commit();
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    ln_pipeline_release(&bars.empty[at.index], lane);
    ln_pipeline_advance(at, a.n_stages);
}

template <int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void mainloop_bf16(const small_m_args &a, unsigned n_tiles,
                                                     const char *stages, small_m_pipeline &bars,
                                                     ln_pipeline_stage &at, float *sums) {
    constexpr unsigned N = small_m_stage<LN_LAYOUT_BF16, ROWS, PRECISE>::N_ACC;
    float(&sum)[N] = *(float(*)[N])sums;
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        sum[k] = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles / 2; i++)
        add_stage<ROWS, PRECISE, 2, IS_PRECISE>(a, stages, bars, at, sum);
    if (n_tiles % 2 > 0)
        add_stage<ROWS, PRECISE, 1, IS_PRECISE>(a, stages, bars, at, sum);
}

/* Adds the K split of adapters: sums of its own first, which are those of gemm/lora_expand.cu. */
template <int ROWS, bool GATE>
static __device__ __forceinline__ void
add_adapters(const small_m_args &a, const weight_unit &unit, const char *stages,
             small_m_pipeline &bars, ln_pipeline_stage &at,
             float (&total)[small_m_stage<LN_LAYOUT_BF16, ROWS, false>::N_ACC]) {
    typedef small_m_stage<LN_LAYOUT_BF16, ROWS, false> shape;
    constexpr unsigned STEPS = LN_ADAPTER_STAGE_STEPS, STEP_BYTES = shape::W_BYTES / STEPS;
    static_assert(STEPS == 4 * shape::TILES, "a stage has as many K steps");
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const ln_adapter_list &list = a.p.adapters.lists->lists[unit.part];
    unsigned n = __ldcg(&list.n), begin = 0, end = n;
    if (GATE) { /* half of the warps have the gate's columns */
        unsigned n_up = __ldcg(&list.n_up);
        bool is_gate = warp % shape::UNIT_ROWS >= shape::UNIT_ROWS / 2;
        begin = is_gate ? n_up : 0;
        end = is_gate ? n : n_up;
    }
    float sum[shape::N_ACC];
#pragma unroll
    for (unsigned i = 0; i < shape::N_ACC; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (unsigned first = 0; first < n; first += STEPS) {
        const char *w = stages + at.index * shape::BYTES;
        const char *x = w + shape::W_BYTES + warp / shape::UNIT_ROWS * (shape::GROUP_ROWS * 128);
        uint4 steps[STEPS];
        w += warp % shape::UNIT_ROWS * (STEP_BYTES / shape::UNIT_ROWS) + lane * 16;
        ln_mbarrier_wait(&bars.full[at.index], at.phase);
#pragma unroll
        for (unsigned k = 0; k < STEPS; k++)
            steps[k] = first + k >= begin && first + k < end ? *(const uint4 *)(w + k * STEP_BYTES)
                                                             : make_uint4(0, 0, 0, 0);
        ln_wgmma_fence();
#pragma unroll
        for (unsigned k = 0; k < STEPS; k++)
            ln_wgmma_small_n(sum, steps[k],
                             ln_wgmma_desc_swizzle128(x + k / 4 * shape::PART_BYTES + k % 4 * 32));
        ln_wgmma_commit();
        ln_wgmma_wait<0>();
#pragma unroll
        for (unsigned k = 0; k < STEPS; k++)
            ln_wgmma_keep(steps[k]);
        ln_wgmma_keep(sum);
        ln_pipeline_release(&bars.empty[at.index], lane);
        ln_pipeline_advance(at, a.n_stages);
    }
#pragma unroll
    for (unsigned i = 0; i < shape::N_ACC; i++)
        total[i] += sum[i];
}

/* ---- what is dequantised to f16 ----------------------------------------------------------------
 */

/* A lane's fragment of a weight tile in shared memory. */
template <int LAYOUT>
static __device__ __forceinline__ void load_tile_fragment(const char *tile,
                                                          ln_lane_tile<LAYOUT> &out) {
    unsigned lane = threadIdx.x % LN_WARP;
    if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT)) {
        out.blocks[0] = *((const uint4 *)tile + lane);
        out.blocks[1] = *((const uint4 *)(tile + 512) + lane);
    } else {
        out.packed = *((const uint4 *)tile + lane);
        if constexpr (ln_weight_tile_has_high_bits(LAYOUT))
            out.high = *((const uint2 *)(tile + 512) + lane);
    }
    out.scales[0] = *(const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4, 0));
    out.scales[1] = *(const uint2 *)(tile + ln_weight_tile_scale_at(LAYOUT, lane / 4 + 8, 0));
}

/* The fragments of a stage, once it is filled. */
template <int LAYOUT, int ROWS>
static __device__ __forceinline__ void load_stage(const char *stages, small_m_pipeline &bars,
                                                  const ln_pipeline_stage &at,
                                                  ln_lane_tile<LAYOUT> (&tiles)[2]) {
    typedef small_m_stage<LAYOUT, ROWS, false> shape;
    static_assert(shape::TILES == 2, "tiles of a stage");
    const char *w = stages + at.index * shape::BYTES;
    w += threadIdx.x / LN_WARP * (2 * shape::TILE_BYTES);
    ln_mbarrier_wait(&bars.full[at.index], at.phase);
    load_tile_fragment<LAYOUT>(w, tiles[0]);
    load_tile_fragment<LAYOUT>(w + shape::TILE_BYTES, tiles[1]);
}

/* Issues the WGMMAs of a weight tile, which it dequantises to `steps`. */
template <int LAYOUT, int N>
static __device__ __forceinline__ void issue_tile(const ln_lane_tile<LAYOUT> &tile, const char *x,
                                                  uint4 (&steps)[4], float (&sum)[N]) {
    ln_dequantize_unit<LAYOUT>(tile, steps);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        ln_wgmma_small_n_f16(sum, steps[k], ln_wgmma_desc_swizzle128(x + k * 32));
    ln_wgmma_commit();
}

template <int LAYOUT, int ROWS>
static __device__ __forceinline__ void mainloop_f16(const small_m_args &a, unsigned n_tiles,
                                                    const char *stages, small_m_pipeline &bars,
                                                    ln_pipeline_stage &at, float *sums) {
    typedef small_m_stage<LAYOUT, ROWS, false> shape;
    float(&sum)[shape::N_ACC] = *(float(*)[shape::N_ACC])sums;
    ln_lane_tile<LAYOUT> tiles[2];
    uint4 steps[2][4];
#pragma unroll
    for (unsigned k = 0; k < shape::N_ACC; k++)
        sum[k] = 0.0f;
    if (n_tiles > 0)
        load_stage<LAYOUT, ROWS>(stages, bars, at, tiles);
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i += 2) {
        const char *x = stages + at.index * shape::BYTES + shape::W_BYTES;
        uint64_t *empty = &bars.empty[at.index];
        issue_tile<LAYOUT>(tiles[0], x, steps[0], sum);
        if (i + 1 < n_tiles)
            issue_tile<LAYOUT>(tiles[1], x + shape::PART_BYTES, steps[1], sum);
        ln_pipeline_advance(at, a.n_stages);
        if (i + 2 < n_tiles)
            load_stage<LAYOUT, ROWS>(stages, bars, at, tiles);
        ln_wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < 8; k++)
            ln_wgmma_keep(steps[k / 4][k % 4]);
        ln_wgmma_keep(sum);
        if (threadIdx.x % LN_WARP == 0)
            ln_mbarrier_arrive(empty);
    }
}

/* ---- INT8 and INT4 -----------------------------------------------------------------------------
 */

/* Blocks of 32 columns whose WGMMAs are issued together: more of them for fewer rows. */
template <int ROWS> struct block_steps {
    enum { N = 64 / ROWS, STEPS = 8 / N };
};

/* A weight tile of a stage: where it is, and its scales. */
typedef struct int_tile {
    const char *w;
    uint64_t x;
    const float *x_scales;
    uint4 w_scales[2];
} int_tile;

template <int LAYOUT, int ROWS>
static __device__ __forceinline__ int_tile find_tile(const char *stages, small_m_pipeline &bars,
                                                     const ln_pipeline_stage &at) {
    typedef small_m_stage<LAYOUT, ROWS, false> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = stages + at.index * shape::BYTES, *x = w + shape::W_BYTES;
    int_tile tile;
    ln_mbarrier_wait(&bars.full[at.index], at.phase);
    tile.w = w + warp * shape::TILE_BYTES;
    tile.x = ln_wgmma_desc_swizzle128(x);
    tile.x_scales = (const float *)(x + shape::X_BYTES) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++)
        tile.w_scales[i] =
            *(const uint4 *)(tile.w + ln_weight_tile_scale_at(LAYOUT, lane / 4 + 8 * i, 0));
    return tile;
}

/* Issues the WGMMAs of N blocks of a weight tile from `block` on. */
template <int LAYOUT, int ROWS, int N>
static __device__ __forceinline__ void issue_blocks(const int_tile &tile, int block,
                                                    uint4 (&packed)[N], int (&c)[N][ROWS / 2]) {
    const char *w = tile.w + threadIdx.x % LN_WARP * 16;
#pragma unroll
    for (int i = 0; i < N; i++)
        if constexpr (LAYOUT == LN_LAYOUT_INT8)
            packed[i] = *(const uint4 *)(w + (block + i) * 512);
        else
            packed[i] = ln_unpack_int4(*(const uint4 *)(w + (block + i) / 2 * 512), block + i);
    ln_wgmma_fence();
#pragma unroll
    for (int i = 0; i < N; i++)
        ln_wgmma_small_n_int8(
            c[i], packed[i], tile.x + (unsigned)((block + i) / 4 * ROWS * 8 + (block + i) % 4 * 2));
    ln_wgmma_commit();
}

/* acc += c * w * x: what ln_add_scaled does to START + c. */
template <int N>
static __device__ __forceinline__ void add_block(const int (&c)[N], float w0, float w1,
                                                 const float2 (&x)[N / 4], float (&sum)[N]) {
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        sum[4 * j] = fmaf((float)c[4 * j] * w0, x[j].x, sum[4 * j]);
        sum[4 * j + 1] = fmaf((float)c[4 * j + 1] * w0, x[j].y, sum[4 * j + 1]);
        sum[4 * j + 2] = fmaf((float)c[4 * j + 2] * w1, x[j].x, sum[4 * j + 2]);
        sum[4 * j + 3] = fmaf((float)c[4 * j + 3] * w1, x[j].y, sum[4 * j + 3]);
    }
}

/* The scales of activations of N blocks. */
template <int ROWS, int N>
static __device__ __forceinline__ void load_act_scales(const int_tile &tile, int block,
                                                       float2 (&x)[N][ROWS / 8]) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
            x[i][j] = *(const float2 *)(tile.x_scales + (block + i) * ACT_TILE_ROWS + 8 * j);
}

/* While some blocks are scaled the next ones are multiplied. */
template <int LAYOUT, int ROWS>
static __device__ __forceinline__ void add_tile(const int_tile &tile, float (&sum)[ROWS / 2]) {
    enum { N = block_steps<ROWS>::N, STEPS = block_steps<ROWS>::STEPS };
    int c[2][N][ROWS / 2];
    uint4 packed[2][N];
    issue_blocks<LAYOUT, ROWS>(tile, 0, packed[0], c[0]);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int now = step % 2, next = 1 - now;
        float2 x[N][ROWS / 8];
        if (step + 1 < STEPS)
            issue_blocks<LAYOUT, ROWS>(tile, (step + 1) * N, packed[next], c[next]);
        if (ROWS < 64) /* else there are too few registers */
            load_act_scales<ROWS>(tile, step * N, x);
        if (step + 1 < STEPS)
            ln_wgmma_wait<1>();
        else
            ln_wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < N; k++) {
            ln_wgmma_keep(packed[now][k]);
            ln_wgmma_keep(c[now][k]);
        }
        if (ROWS == 64)
            load_act_scales<ROWS>(tile, step * N, x);
#pragma unroll
        for (int k = 0; k < N; k++)
            add_block(c[now][k], ln_block_scale((const uint32_t *)&tile.w_scales[0], step * N + k),
                      ln_block_scale((const uint32_t *)&tile.w_scales[1], step * N + k), x[k], sum);
    }
}

template <int LAYOUT, int ROWS>
static __device__ __forceinline__ void mainloop_int(const small_m_args &a, unsigned n_tiles,
                                                    const char *stages, small_m_pipeline &bars,
                                                    ln_pipeline_stage &at, float *sums) {
    float(&sum)[ROWS / 2] = *(float(*)[ROWS / 2]) sums;
#pragma unroll
    for (int k = 0; k < ROWS / 2; k++)
        sum[k] = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i++) {
        add_tile<LAYOUT, ROWS>(find_tile<LAYOUT, ROWS>(stages, bars, at), sum);
        if (threadIdx.x % LN_WARP == 0)
            ln_mbarrier_arrive(&bars.empty[at.index]);
        ln_pipeline_advance(at, a.n_stages);
    }
}

/* ---- INT8_ROW ----------------------------------------------------------------------------------
 */

/* Issues the WGMMAs of the first N weight tiles of a stage, from one descriptor on. */
template <int ROWS, int N>
static __device__ __forceinline__ void
add_int8_row_tiles(const char *w, uint64_t x, uint4 (&steps)[4 * N], int (&sum)[ROWS / 2]) {
#pragma unroll
    for (int k = 0; k < 4 * N; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4 * N; k++)
        ln_wgmma_small_n_int8_add(sum, steps[k], x + (unsigned)(k / 4 * ROWS * 8 + k % 4 * 2));
    ln_wgmma_commit();
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * N; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
}

/* Sums are int32, whose bits the floats have. */
template <int ROWS>
static __device__ __forceinline__ void mainloop_int8_row(const small_m_args &a, unsigned n_tiles,
                                                         const char *stages, small_m_pipeline &bars,
                                                         ln_pipeline_stage &at, float *sums) {
    typedef small_m_stage<LN_LAYOUT_INT8_ROW, ROWS, false> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    int sum[ROWS / 2] = {};
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i += 2) {
        const char *w = stages + at.index * shape::BYTES;
        uint64_t x = ln_wgmma_desc_swizzle128(w + shape::W_BYTES);
        w += warp * (shape::TILES * shape::TILE_BYTES) + lane * 16;
        uint4 steps[8];
        ln_mbarrier_wait(&bars.full[at.index], at.phase);
        if (i + 1 < n_tiles)
            add_int8_row_tiles<ROWS, 2>(w, x, steps, sum);
        else
            add_int8_row_tiles<ROWS, 1>(w, x, *(uint4(*)[4])steps, sum);
        ln_pipeline_release(&bars.empty[at.index], lane);
        ln_pipeline_advance(at, a.n_stages);
    }
#pragma unroll
    for (int k = 0; k < ROWS / 2; k++)
        sums[k] = __int_as_float(sum[k]);
}

/* ---- any layout --------------------------------------------------------------------------------
 */

/* Accumulates n_tiles weight tiles: warp `warp` has the columns 16 * (warp % UNIT_ROWS) + lane / 4
 * (+ 8), and from the first row of its warpgroup on the rows 8 j + 2 (lane % 4) (+ 1), as
 * [j][columns][rows]. */
template <int LAYOUT, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const small_m_args &a, unsigned n_tiles,
                                                const char *stages, small_m_pipeline &bars,
                                                ln_pipeline_stage &at, float *acc) {
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        mainloop_bf16<ROWS, PRECISE, IS_PRECISE>(a, n_tiles, stages, bars, at, acc);
    else if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT))
        mainloop_f16<LAYOUT, ROWS>(a, n_tiles, stages, bars, at, acc);
    else if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
        mainloop_int8_row<ROWS>(a, n_tiles, stages, bars, at, acc);
    else
        mainloop_int<LAYOUT, ROWS>(a, n_tiles, stages, bars, at, acc);
}

#endif

#endif
