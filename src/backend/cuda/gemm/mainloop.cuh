/* Panels of rows of x with rows of tiles that meet x of 16 bits, on WGMMA: the tiles are the A
 * operand, from registers, where those of few bits become f16, and x the B operand. The order of
 * every sum is that of tile_linear. */
#ifndef LN_BACKEND_CUDA_GEMM_MAINLOOP_CUH
#define LN_BACKEND_CUDA_GEMM_MAINLOOP_CUH

#include "backend/cuda/gemm/scheduler.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/gemm/split_k.cuh"
#include "backend/cuda/ptx/wgmma_n64_n208.cuh"

/* A stage: ROWS rows of x, with PRECISE what rounding left of them, and the tiles of each warp. */
template <int KIND, int ROWS, bool PRECISE> struct stage_shape {
    static constexpr unsigned TILE_BYTES = ln_weight_tile_bytes(KIND), W_BYTES = WARPS * TILE_BYTES;
    static constexpr unsigned X_BYTES = ROWS * 128, TILES_AT = X_BYTES * (PRECISE ? 2 : 1);
    static constexpr unsigned USED = TILES_AT + W_BYTES, BYTES = (USED + 1023) / 1024 * 1024;
    static constexpr unsigned MOST = (MAX_SHARED - OUT_BYTES) / BYTES;
    static constexpr unsigned N_STAGES = MOST < 8 ? MOST : 8;
    static constexpr unsigned SHARED = N_STAGES * BYTES + OUT_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Half of a warp's weights: two steps of 16 columns. */
template <int KIND>
static __device__ __forceinline__ void load_half(const char *tile, int half, unsigned lane,
                                                 uint4 a[2]) {
    if constexpr (ln_weight_tile_bytes_to_f16(KIND)) {
        const char *scales = tile + ln_weight_tile_scale_at(KIND, 0, 0) + lane / 4 * 8 + half * 4;
        ln_widen_bytes<KIND>(*(const uint4 *)(tile + half * 512 + lane * 16),
                             *(const uint32_t *)scales, *(const uint32_t *)(scales + 64), a);
    } else if constexpr (ln_weight_tile_dequantizes_to_f16(KIND)) {
        const char *scales = tile + ln_weight_tile_scale_at(KIND, 0, 0) + lane / 4 * 8 + half * 4;
        uint2 numbers = *(const uint2 *)(tile + lane * 16 + half * 8);
        uint32_t above = 0;
        if constexpr (ln_weight_tile_has_bits_above(KIND))
            above = *(const uint32_t *)(tile + 512 + lane * 8 + half * 4);
        ln_widen<KIND>(numbers, above, *(const uint32_t *)scales, *(const uint32_t *)(scales + 64),
                       lane, a);
    } else {
        a[0] = *(const uint4 *)(tile + half * 1024 + lane * 16);
        a[1] = *(const uint4 *)(tile + half * 1024 + 512 + lane * 16);
    }
}

/* Begins the products of 16 columns; adds: to what is in sum. */
template <int KIND, int N>
static __device__ __forceinline__ void multiply_step(float (&sum)[N], const uint4 &a,
                                                     const char *x, bool adds = true) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(KIND))
        ln_wgmma_f16(sum, a, ln_wgmma_desc_swizzle128(x), adds);
    else
        ln_wgmma_bf16(sum, a, ln_wgmma_desc_swizzle128(x), adds);
}

/* What sums stand for where rows of x, and maybe of weights, have scales. x_scales: of a panel. */
template <int KIND, int N>
static __device__ __forceinline__ void scale_sums(const float *x_scales, const float *scales,
                                                  float (&total)[N]) {
    unsigned lane = threadIdx.x % LN_WARP;
    float w0 = 1.0f, w1 = 1.0f;
    x_scales += lane % 4 * 2;
    if constexpr (ln_weight_tile_has_row_scales(KIND))
        w0 = scales[lane / 4], w1 = scales[lane / 4 + 8];
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        total[4 * j] *= w0 * x.x;
        total[4 * j + 1] *= w0 * x.y;
        total[4 * j + 2] *= w1 * x.x;
        total[4 * j + 3] *= w1 * x.y;
    }
}

/* Where there are two groups of warps the second begins a tile of results when the first has had a
 * stage of it: so while one adds the sums of a slice the other multiplies. Few stages would let the
 * first come round to its next tile before that. number: of the job. */
static __device__ __forceinline__ bool lags(const stretch &own) {
    return GROUPS == 2 && own.end - own.begin > MAX_STAGES;
}

static __device__ __forceinline__ void lag_behind(const stretch &own, pipe &pipe, unsigned number) {
    if (lags(own) && threadIdx.x / GROUP_THREADS == 1)
        ln_mbarrier_wait(&pipe.led, number / gridDim.x % 2);
}

static __device__ __forceinline__ void let_follow(const stretch &own, pipe &pipe, unsigned tile) {
    if (lags(own) && tile == own.begin + 1 && threadIdx.x / GROUP_THREADS == 0)
        release(&pipe.led, threadIdx.x % LN_WARP);
}

/* Sums of a tile of results: warp `warp` has columns 16 * warp + lane / 4 (+ 8), and of x rows
 * 8 j + 2 (lane % 4) (+ 1). A tile of columns is two groups of products; while one is under way the
 * weights of the next come to registers. IS_PRECISE: of these linears, of which some are. SHARED:
 * the sums of slices are left for all blocks of the tile, and total has no meaning. */
template <int KIND, bool PRECISE, bool IS_PRECISE, bool SHARED, int N>
static __device__ __forceinline__ void multiply_as(const ln_gemm_args &p, unsigned number,
                                                   stretch own, const char *stages, pipe &pipe,
                                                   place &at, float (&total)[N]) {
    typedef stage_shape<KIND, 2 * N, PRECISE> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    const char *weights = stages + shape::TILES_AT + warp * shape::TILE_BYTES;
    float sum[N];
    uint4 a[4];
#pragma unroll
    for (int i = 0; i < N; i++)
        total[i] = -0.0f, sum[i] = 0.0f; /* -0 + x is x */
    lag_behind(own, pipe, number);
    ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
    load_half<KIND>(weights + at.stage * shape::BYTES, 0, lane, a);
    for (unsigned begin = own.begin; begin < own.end; begin += per_slice) {
        unsigned end = min(begin + per_slice, own.end), last = 0;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.stage * shape::BYTES;
            const char *w = weights + at.stage * shape::BYTES;
            ln_wgmma_fence();
            multiply_step<KIND>(sum, a[0], x, tile > begin);
            multiply_step<KIND>(sum, a[1], x + 32);
            ln_wgmma_commit();
            ln_wgmma_wait<1>(); /* the last tile's second half */
            ln_wgmma_keep(a[2]);
            ln_wgmma_keep(a[3]);
            if (tile > begin)
                release(&pipe.empty[last], lane);
            let_follow(own, pipe, tile);
            load_half<KIND>(w, 1, lane, a + 2);
            ln_wgmma_fence();
            multiply_step<KIND>(sum, a[2], x + 64);
            multiply_step<KIND>(sum, a[3], x + 96);
            if constexpr (IS_PRECISE) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    multiply_step<KIND>(sum, a[i], x + shape::X_BYTES + i * 32);
                ln_wgmma_commit();
                ln_wgmma_wait<0>();
            } else {
                ln_wgmma_commit();
                ln_wgmma_wait<1>();
            }
            ln_wgmma_keep(a[0]);
            ln_wgmma_keep(a[1]);
            last = at.stage;
            advance<shape::N_STAGES>(at);
            if (tile + 1 < own.end) {
                ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
                load_half<KIND>(weights + at.stage * shape::BYTES, 0, lane, a);
            }
        }
        ln_wgmma_wait<0>();
        ln_wgmma_keep(sum);
        ln_wgmma_keep(a[2]);
        ln_wgmma_keep(a[3]);
        release(&pipe.empty[last], lane);
        add_slice<SHARED>(own, sum, total);
    }
    if (!SHARED)
        add_empty_slices(p.n_tiles, total);
}

template <int KIND, bool PRECISE, bool SHARED, int N>
static __device__ __forceinline__ void
multiply(const ln_gemm_args &p, unsigned number, const stretch &own, bool precise,
         const char *stages, pipe &pipe, place &at, float (&total)[N]) {
    if (PRECISE && precise)
        multiply_as<KIND, PRECISE, PRECISE, SHARED>(p, number, own, stages, pipe, at, total);
    else
        multiply_as<KIND, PRECISE, false, SHARED>(p, number, own, stages, pipe, at, total);
}

#endif

#endif
