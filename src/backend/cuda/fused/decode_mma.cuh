/* Products of the fused decode kernel by mma.sync: weight tiles in shared memory times activations,
 * and the sums over K splits, in the order of gemm/mma_small_m.cuh. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_MMA_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_MMA_CUH

#include "backend/cuda/fused/decode_weights.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

/* Accumulates n weight tiles of a stage times the activations: output columns g and g + 8, rows 2 t
 * and 2 t + 1. */
template <int KIND>
static __device__ __forceinline__ void
ln_decode_mma_tiles(const uint8_t *tiles, unsigned n, const ln_act_view &x, const unsigned rows[3],
                    unsigned first_unit, bool precise, float sum[4]) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    constexpr unsigned UNITS = PER_TILE * ln_decode_tile_copy_of(KIND).tiles_per_copy;
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (unsigned unit = 0; unit < UNITS; unit++) {
        if (unit >= n * PER_TILE)
            break;
        const uint8_t *tile = tiles + unit / PER_TILE * ln_weight_tile_bytes(KIND);
        ln_lane_tile<KIND> part;
        ln_take_unit<KIND>(tile, unit % PER_TILE, lane, part);
        if (KIND == LN_LAYOUT_BF16 && precise) {
            ln_lane_x<KIND, true> act;
            ln_load_x<KIND, true>(x, rows[0], rows[1], rows[2], first_unit + unit, lane, act);
            ln_add_unit<KIND, true>(part, act, true, sum);
        } else {
            ln_lane_x<KIND, false> act;
            ln_load_x<KIND, false>(x, rows[0], rows[1], rows[2], first_unit + unit, lane, act);
            ln_add_unit<KIND, false>(part, act, false, sum);
        }
    }
}

/* The same for a tile in shared memory that is dequantised to f16. */
template <int KIND>
static __device__ __forceinline__ void ln_decode_mma_f16_tile(const uint8_t *at,
                                                              const ln_act_view &x, unsigned row,
                                                              unsigned unit, float sum[4]) {
    const unsigned lane = threadIdx.x % LN_WARP;
    ln_lane_tile<KIND> tile;
    ln_lane_x<KIND, false> act;
    ln_take_unit<KIND>(at, 0, lane, tile);
    ln_load_x<KIND, false>(x, row, 0, 0, unit, lane, act);
    ln_add_unit<KIND, false>(tile, act, false, sum);
}

/* The same for n tiles, mostly as many as a stage has. */
template <int KIND>
static __device__ __forceinline__ void
ln_decode_mma_f16_tiles_of(const uint8_t *tiles, unsigned n, const ln_act_view &x, unsigned row,
                           unsigned unit, float sum[4]) {
    constexpr unsigned BYTES = ln_weight_tile_bytes(KIND),
                       N = ln_decode_tile_copy_of(KIND).tiles_per_copy;
    if (n == N)
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            ln_decode_mma_f16_tile<KIND>(tiles + i * BYTES, x, row, unit + i, sum);
    else
#pragma unroll 1
        for (unsigned i = 0; i < n; i++)
            ln_decode_mma_f16_tile<KIND>(tiles + i * BYTES, x, row, unit + i, sum);
}

/* The same for tiles of any such kind. */
static __device__ __forceinline__ void ln_decode_mma_f16_tiles(int kind, const uint8_t *tiles,
                                                               unsigned n, const ln_act_view &x,
                                                               unsigned row, unsigned first_unit,
                                                               float sum[4]) {
    switch (kind) {
    case LN_LAYOUT_Q4:
        ln_decode_mma_f16_tiles_of<LN_LAYOUT_Q4>(tiles, n, x, row, first_unit, sum);
        break;
    case LN_LAYOUT_Q5:
        ln_decode_mma_f16_tiles_of<LN_LAYOUT_Q5>(tiles, n, x, row, first_unit, sum);
        break;
    case LN_LAYOUT_Q6:
        ln_decode_mma_f16_tiles_of<LN_LAYOUT_Q6>(tiles, n, x, row, first_unit, sum);
        break;
    case LN_LAYOUT_MXFP4:
        ln_decode_mma_f16_tiles_of<LN_LAYOUT_MXFP4>(tiles, n, x, row, first_unit, sum);
        break;
    case LN_LAYOUT_F8:
        ln_decode_mma_f16_tiles_of<LN_LAYOUT_F8>(tiles, n, x, row, first_unit, sum);
        break;
    default: ln_decode_mma_f16_tiles_of<LN_LAYOUT_I8>(tiles, n, x, row, first_unit, sum);
    }
}

/* The sum of an output column over the K splits of a group. */
template <int KIND>
static __device__ __forceinline__ float ln_decode_reduce(const float *sums, unsigned column,
                                                         unsigned row, unsigned width) {
    float total = sums[column * width + row];
#pragma unroll
    for (int s = 1; s < LN_K_SPLITS; s++)
        total =
            ln_add_k_splits<KIND>(total, sums[(s * LN_WEIGHT_TILE_ROWS + column) * width + row]);
    return ln_sum_value<KIND>(total);
}

#endif
