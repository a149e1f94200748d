/* Mainloops of the prefill GEMM (sm90.cuh) by int8 WGMMA. INT8 and INT4: M64N64K32 for each block
 * of 32 columns, whose int32 products are scaled and added in float32, in the order of
 * mma_small_m.cu. INT8_ROW: M64N256K32, whose int32 sums run through all of K, as they are exact in
 * any order. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_MAINLOOP_INT_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_MAINLOOP_INT_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/sm90_split_k.cuh"
#include "backend/cuda/ptx/wgmma.cuh"
#include "backend/cuda/ptx/wgmma_n256.cuh"
#include "backend/cuda/weights/unpack.cuh"

/* Rows of an output tile, accumulators of a thread, blocks of a weight tile. */
enum { INT_ROWS = ln_act_tile_rows(LN_LAYOUT_INT8), INT_ACC = INT_ROWS / 2, INT_BLOCKS = 8 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The A operand of a block of 32 columns of a tile of int8 or int4. */
template <int LAYOUT>
static __device__ __forceinline__ uint4 load_block(const char *tile, unsigned lane, int block) {
    if constexpr (LAYOUT == LN_LAYOUT_INT8)
        return *(const uint4 *)(tile + (block * 32 + lane) * 16);
    else
        return ln_unpack_int4(*(const uint4 *)(tile + (block / 2 * 32 + lane) * 16), block);
}

/* Issues the WGMMA of a block. */
static __device__ __forceinline__ void begin_block(const uint4 &a, const char *x, int block,
                                                   int (&c)[INT_ACC]) {
    ln_wgmma_fence();
    ln_wgmma_int8(c, a,
                  ln_wgmma_desc_swizzle128(x + block / 4 * (INT_ROWS * 128) + block % 4 * 32));
    ln_wgmma_commit();
}

/* acc += c * w * x: what ln_add_scaled does to START + c. */
static __device__ __forceinline__ void add_block(const int c[INT_ACC], float w0, float w1,
                                                 const float *x_scales, float sum[INT_ACC]) {
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

/* Accumulates an output tile of INT_ROWS rows. While a block is scaled the next one is multiplied.
 */
template <typename CONFIG>
static __device__ __forceinline__ void
mainloop_int(const ln_gemm_args &p, k_range own, const char *stages, sm90_pipeline &pipeline,
             ln_pipeline_stage &at, float (&total)[INT_ACC]) {
    typedef sm90_stage<CONFIG> shape;
    constexpr int LAYOUT = CONFIG::LAYOUT;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    float acc[INT_ACC];
#pragma unroll
    for (int i = 0; i < INT_ACC; i++)
        total[i] = -0.0f; /* -0 + x is x */
#pragma unroll 1
    for (unsigned begin = own.begin; begin < own.end; begin += per_split) {
        unsigned end = min(begin + per_split, own.end);
#pragma unroll
        for (int i = 0; i < INT_ACC; i++)
            acc[i] = 0.0f;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            const char *x = stages + at.index * shape::BYTES;
            const char *w = x + shape::TILES_AT + warp * shape::TILE_BYTES;
            const float *x_scales = (const float *)(x + shape::ACT_BYTES) + lane % 4 * 2;
            int c[2][INT_ACC];
            uint4 w_scales[2], a[2];
            ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
#pragma unroll
            for (int i = 0; i < 2; i++)
                w_scales[i] =
                    *(const uint4 *)(w + ln_weight_tile_scale_at(LAYOUT, lane / 4 + 8 * i, 0));
            a[0] = load_block<LAYOUT>(w, lane, 0);
            begin_block(a[0], x, 0, c[0]);
#pragma unroll
            for (int block = 0; block < INT_BLOCKS; block++) {
                if (block + 1 < INT_BLOCKS) {
                    a[(block + 1) % 2] = load_block<LAYOUT>(w, lane, block + 1);
                    begin_block(a[(block + 1) % 2], x, block + 1, c[(block + 1) % 2]);
                    ln_wgmma_wait<1>();
                } else {
                    ln_wgmma_wait<0>();
                }
                ln_wgmma_keep(a[block % 2]);
                ln_wgmma_keep(c[block % 2]);
                add_block(c[block % 2], ln_block_scale((const uint32_t *)&w_scales[0], block),
                          ln_block_scale((const uint32_t *)&w_scales[1], block),
                          x_scales + block * INT_ROWS, acc);
            }
            ln_pipeline_release(&pipeline.empty[at.index], lane);
            advance<CONFIG>(at);
        }
        add_split<CONFIG>(own, acc, total);
    }
    if (!CONFIG::SPLIT)
        add_empty_splits(p.n_tiles, total);
}

/* ---- INT8_ROW ----------------------------------------------------------------------------------
 */

/* Issues two of the four K steps of a weight tile. */
static __device__ __forceinline__ void begin_half(int (&acc)[128], const uint4 a[2],
                                                  const char *x) {
    ln_wgmma_fence();
    ln_wgmma_n256(acc, a[0], ln_wgmma_desc_swizzle128(x));
    ln_wgmma_n256(acc, a[1], ln_wgmma_desc_swizzle128(x + 32));
    ln_wgmma_commit();
}

/* The A operand of two K steps. */
static __device__ __forceinline__ void load_int8_half(const char *w, uint4 a[2]) {
    a[0] = *(const uint4 *)w;
    a[1] = *(const uint4 *)(w + 512);
}

/* Accumulates an output tile; while half of a weight tile is multiplied the A operand of the next
 * half is loaded. */
template <typename CONFIG>
static __device__ __forceinline__ void mainloop_int8_row(const ln_gemm_args &p, const char *stages,
                                                         sm90_pipeline &pipeline,
                                                         ln_pipeline_stage &at, int (&acc)[128]) {
    typedef sm90_stage<CONFIG> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP, last = 0;
    const char *weights = stages + shape::ACT_BYTES + warp * shape::TILE_BYTES + lane * 16;
    uint4 a[2], b[2];
#pragma unroll
    for (int i = 0; i < 128; i++)
        acc[i] = 0;
    ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
    load_int8_half(weights + at.index * shape::BYTES, a);
#pragma unroll 1
    for (unsigned tile = 0; tile < p.n_tiles; tile++) {
        const char *x = stages + at.index * shape::BYTES;
        begin_half(acc, a, x);
        ln_wgmma_wait<1>(); /* the second half of the tile before */
        ln_wgmma_keep(b[0]);
        ln_wgmma_keep(b[1]);
        if (tile > 0)
            ln_pipeline_release(&pipeline.empty[last], lane);
        load_int8_half(weights + at.index * shape::BYTES + 1024, b);
        begin_half(acc, b, x + 64);
        ln_wgmma_wait<1>();
        ln_wgmma_keep(a[0]);
        ln_wgmma_keep(a[1]);
        last = at.index;
        advance<CONFIG>(at);
        if (tile + 1 < p.n_tiles) {
            ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
            load_int8_half(weights + at.index * shape::BYTES, a);
        }
    }
    ln_wgmma_wait<0>();
    ln_wgmma_keep(acc);
    ln_wgmma_keep(b[0]);
    ln_wgmma_keep(b[1]);
    ln_pipeline_release(&pipeline.empty[last], lane);
}

#endif

#endif
