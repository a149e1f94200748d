/* Panels of 64 rows of x with rows of tiles of INT8 or INT4, on WGMMA: the tiles are the A operand,
 * from registers, and x the B operand. The order of every sum is that of tile_linear. */
#ifndef LN_BACKEND_CUDA_GEMM_MAINLOOP_INT_CUH
#define LN_BACKEND_CUDA_GEMM_MAINLOOP_INT_CUH

#include "backend/cuda/gemm/scheduler.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/gemm/split_k.cuh"

enum { PANEL = LN_ACT_TILE_ROWS(LN_LAYOUT_INT8), N_SUMS = PANEL / 2, N_BLOCKS = 8 };
enum { X_BYTES = PANEL * 256, SCALE_BYTES = PANEL * N_BLOCKS * 4 };

/* A stage: x in panels, its scales, then the tiles of each warp. */
template <int KIND> struct stage_shape {
    static constexpr unsigned TILE_BYTES = ln_weight_tile_bytes(KIND), W_BYTES = WARPS * TILE_BYTES;
    static constexpr unsigned TILES_AT = X_BYTES + SCALE_BYTES, BYTES = TILES_AT + W_BYTES;
    static constexpr unsigned N_STAGES = (MAX_SHARED - OUT_BYTES) / BYTES;
    static constexpr unsigned SHARED = N_STAGES * BYTES + OUT_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The A operand of a block of a tile of int8 or int4 numbers. */
template <int KIND>
static __device__ __forceinline__ uint4 load_block(const char *tile, unsigned lane, int block) {
    if constexpr (KIND == LN_LAYOUT_INT8)
        return *(const uint4 *)(tile + (block * 32 + lane) * 16);
    else
        return ln_unpack_int4(*(const uint4 *)(tile + (block / 2 * 32 + lane) * 16), block);
}

/* Begins the products of a block. */
static __device__ __forceinline__ void begin_block(const uint4 &a, const char *x, int block,
                                                   int (&c)[N_SUMS]) {
    ln_wgmma_fence();
    ln_wgmma_int8(c, a, ln_wgmma_desc_swizzle128(x + block / 4 * (PANEL * 128) + block % 4 * 32));
    ln_wgmma_commit();
}

/* Adds c * w * x: what ln_add_scaled does to START + c. */
static __device__ __forceinline__ void add_block(const int c[N_SUMS], float w0, float w1,
                                                 const float *x_scales, float sum[N_SUMS]) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        float *s = sum + 4 * j;
        s[0] = fmaf((float)c[4 * j] * w0, x.x, s[0]);
        s[1] = fmaf((float)c[4 * j + 1] * w0, x.y, s[1]);
        s[2] = fmaf((float)c[4 * j + 2] * w1, x.x, s[2]);
        s[3] = fmaf((float)c[4 * j + 3] * w1, x.y, s[3]);
    }
}

/* Sums of a tile of results. While a block is scaled the next one is multiplied. SHARED: as in
 * mainloop.cuh. */
template <int KIND, bool SHARED>
static __device__ __forceinline__ void multiply(const ln_gemm_args &p, stretch own,
                                                const char *stages, pipe &pipe, place &at,
                                                float (&total)[N_SUMS]) {
    typedef stage_shape<KIND> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    float sum[N_SUMS];
#pragma unroll
    for (int i = 0; i < N_SUMS; i++)
        total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
    for (unsigned begin = own.begin; begin < own.end; begin += per_slice) {
        unsigned end = min(begin + per_slice, own.end);
#pragma unroll
        for (int i = 0; i < N_SUMS; i++)
            sum[i] = 0.0f;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.stage * shape::BYTES;
            const char *w = x + shape::TILES_AT + warp * shape::TILE_BYTES;
            const float *x_scales = (const float *)(x + X_BYTES) + lane % 4 * 2;
            int c[2][N_SUMS];
            uint4 w_scales[2], a[2];
            ln_mbarrier_wait(&pipe.full[at.stage], at.parity);
#pragma unroll
            for (int i = 0; i < 2; i++)
                w_scales[i] = *(const uint4 *)(w + ln_weight_tile_scale_at(KIND, lane / 4 + 8 * i, 0));
            a[0] = load_block<KIND>(w, lane, 0);
            begin_block(a[0], x, 0, c[0]);
#pragma unroll
            for (int block = 0; block < N_BLOCKS; block++) {
                if (block + 1 < N_BLOCKS) {
                    a[(block + 1) % 2] = load_block<KIND>(w, lane, block + 1);
                    begin_block(a[(block + 1) % 2], x, block + 1, c[(block + 1) % 2]);
                    ln_wgmma_wait<1>();
                } else {
                    ln_wgmma_wait<0>();
                }
                ln_wgmma_keep(a[block % 2]);
                ln_wgmma_keep(c[block % 2]);
                add_block(c[block % 2], ln_weight_tile_scale((const uint32_t *)&w_scales[0], block),
                          ln_weight_tile_scale((const uint32_t *)&w_scales[1], block),
                          x_scales + block * 64, sum);
            }
            release(&pipe.empty[at.stage], lane);
            advance<shape::N_STAGES>(at);
        }
        add_slice<SHARED>(own, sum, total);
    }
    if (!SHARED)
        add_empty_slices(p.n_tiles, total);
}

#endif

#endif
