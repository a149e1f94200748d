/* WGMMA of E4M3 for up to eight rows, on F8_ROW tiles as the A operand: M64N32K32. It is meant for
 * four warps with 64 rows of one matrix and the same B. Here each warp has a K split of its own of
 * the same 16 rows, so B is the activations of all four K splits, 32 columns of results, of which
 * each warp keeps the eight of its own.
 *
 * Activations lie in shared memory as activations/view.cuh has them, [16 columns][rows][16 bytes],
 * with the padding of K splits. What WGMMA reads behind a row as further rows has no effect on
 * results that are kept; behind the last row there is room for LN_FP8_BEHIND bytes. */
#ifndef LN_BACKEND_CUDA_PTX_WGMMA_FP8_SPLITS_CUH
#define LN_BACKEND_CUDA_PTX_WGMMA_FP8_SPLITS_CUH

#include "backend/cuda/ptx/ldmatrix.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

enum { LN_FP8_STEPS = 4, LN_FP8_SPLITS = 4 }; /* K steps of a tile; K splits of a WGMMA */
enum { LN_FP8_BEHIND = 32 * 32 }; /* an operand, all of which memory checkers take to be read */

/* A lane's A operand of a weight tile. */
typedef struct ln_fp8_tile {
    uint4 steps[LN_FP8_STEPS];
} ln_fp8_tile;

/* K step `k` of a tile in shared memory. */
static __device__ __forceinline__ uint4 ln_fp8_take_step(const void *tile, int k) {
    constexpr unsigned CORE = 8 * 16; /* bytes of eight rows */
    unsigned lane = threadIdx.x % 32;
    const char *core =
        (const char *)tile + k * (2 * CORE) + lane / 8 % 2 * (8 * CORE) + lane / 16 * CORE;
    uint32_t r[4];
    ln_ldmatrix(r, core + lane % 8 * 16);
    return make_uint4(r[0], r[1], r[2], r[3]);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Issues the WGMMAs of a weight tile of each warp's K split, number `tile` of it. x: the first of
 * the four K splits, which lie split_bytes apart. */
static __device__ __forceinline__ void ln_fp8_add_tile(const ln_fp8_tile &w, const void *x,
                                                       unsigned tile, unsigned n_rows,
                                                       unsigned split_bytes, float (&sum)[16]) {
#pragma unroll
    for (int k = 0; k < LN_FP8_STEPS; k++)
        ln_wgmma_n32_fp8(
            sum, w.steps[k],
            ln_wgmma_desc_no_swizzle((const char *)x + (tile * 8 + k * 2) * n_rows * 16,
                                     n_rows * 16, split_bytes));
}

/* Waits for the WGMMAs that read a tile. */
static __device__ __forceinline__ void ln_fp8_finish_tile(ln_fp8_tile &w) {
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < LN_FP8_STEPS; k++)
        ln_wgmma_keep(w.steps[k]);
}

/* The sums of the warp's own K split. */
static __device__ __forceinline__ void ln_fp8_select_own(const float (&sum)[16], float own[4]) {
    unsigned split = threadIdx.x / 32 % LN_FP8_SPLITS;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = split == 0 ? sum[i] : sum[4 + i], high = split == 2 ? sum[8 + i] : sum[12 + i];
        own[i] = split < 2 ? low : high;
    }
}

#endif
#endif
