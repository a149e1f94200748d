/* mma.sync of small M: what the dense and the grouped kernel share. Weight tiles are the A operand,
 * rows of activations the B operand, eight at a time (m16n8k16, int8: m16n8k32).
 *
 * A CTA has one row of weight tiles (16 columns of the result) and eight warps, one for each K
 * split, whose accumulators are added in order through shared memory. A lane loads 16 bytes at a
 * time and a warp 512 in a row; weights are read once for 8 * N8_TILES rows, activations come from
 * the caches. */
#ifndef LN_BACKEND_CUDA_GEMM_MMA_SMALL_M_CUH
#define LN_BACKEND_CUDA_GEMM_MMA_SMALL_M_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

enum { MMA_THREADS = LN_K_SPLITS * LN_WARP };

/* Where a lane finds its elements of 8 * N8_TILES rows of activations. Rows past the last one
 * repeat it: their results are not written. */
template <int N8_TILES> struct act_rows { unsigned own[N8_TILES], scales[N8_TILES][2]; };

/* Units that a lane has in flight. */
template <int LAYOUT, int N8_TILES, bool GATE> static constexpr int units_in_flight(void) {
    int most = ln_weight_tile_dequantizes_to_f16(LAYOUT) ? 8 : LAYOUT == LN_LAYOUT_BF16 ? 4 : 2;
    return N8_TILES > 2 ? 1 : most / (GATE ? 2 : 1);
}

/* A warp's K split of a row of weight tiles, of which AHEAD units are in flight. */
template <int LAYOUT, int AHEAD, bool GATE> struct weight_split {
    const uint8_t *up_tiles, *gate_tiles;
    unsigned begin, end;
    ln_lane_tile<LAYOUT> up[AHEAD], gate[GATE ? AHEAD : 1];
};

template <int LAYOUT, int AHEAD, bool GATE>
static __device__ __forceinline__ void begin_split(const ln_gemm_args &p, const uint8_t *weight,
                                                   const uint8_t *gate, unsigned tile_row,
                                                   weight_split<LAYOUT, AHEAD, GATE> &s) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(LAYOUT) / ln_lane_tile<LAYOUT>::UNIT;
    unsigned lane = threadIdx.x % LN_WARP, split = threadIdx.x / LN_WARP;
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    size_t row_at = tile_row * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles);
    s.begin = min(split * per_split, p.n_tiles) * PER_TILE;
    s.end = min((split + 1) * per_split, p.n_tiles) * PER_TILE;
    s.up_tiles = weight + row_at;
    s.gate_tiles = GATE ? gate + row_at : NULL;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (s.begin + i < s.end) {
            ln_load_unit<LAYOUT>(s.up_tiles, s.begin + i, lane, s.up[i]);
            if constexpr (GATE)
                ln_load_unit<LAYOUT>(s.gate_tiles, s.begin + i, lane, s.gate[i]);
        }
}

/* Accumulates it, with 8 * N8_TILES rows of activations. */
template <int LAYOUT, int N8_TILES, int AHEAD, bool GATE, bool PRECISE>
static __device__ __forceinline__ void
multiply_split(const ln_act_view &x, const act_rows<N8_TILES> &rows, bool precise,
               weight_split<LAYOUT, AHEAD, GATE> &s, float up_sum[N8_TILES][4],
               float gate_sum[N8_TILES][4]) {
    unsigned lane = threadIdx.x % LN_WARP;
    for (unsigned base = s.begin; base < s.end; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            unsigned unit = base + i;
            if (unit >= s.end)
                break;
#pragma unroll
            for (int n8 = 0; n8 < N8_TILES; n8++) {
                ln_lane_x<LAYOUT, PRECISE> share;
                ln_load_x<LAYOUT, PRECISE>(x, rows.own[n8], rows.scales[n8][0], rows.scales[n8][1],
                                           unit, lane, share);
                ln_add_unit<LAYOUT, PRECISE>(s.up[i], share, precise, up_sum[n8]);
                if constexpr (GATE)
                    ln_add_unit<LAYOUT, PRECISE>(s.gate[i], share, precise, gate_sum[n8]);
            }
            if (unit + AHEAD < s.end) {
                ln_load_unit<LAYOUT>(s.up_tiles, unit + AHEAD, lane, s.up[i]);
                if constexpr (GATE)
                    ln_load_unit<LAYOUT>(s.gate_tiles, unit + AHEAD, lane, s.gate[i]);
            }
        }
    }
}

template <int N8_TILES> struct split_sums {
    float sums[LN_K_SPLITS][LN_WEIGHT_TILE_ROWS][8 * N8_TILES + 1];
};

/* Split-K reduction within a CTA, in order of the K splits: total[i] is that of element threadIdx.x
 * + i * MMA_THREADS of [8 * N8_TILES rows of activations][16 rows of weights]. */
template <int LAYOUT, int N8_TILES>
static __device__ __forceinline__ void add_splits(split_sums<N8_TILES> &shared,
                                                  const float sum[N8_TILES][4], float *total) {
    unsigned lane = threadIdx.x % LN_WARP, split = threadIdx.x / LN_WARP;
    __syncthreads();
#pragma unroll
    for (int n8 = 0; n8 < N8_TILES; n8++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            shared.sums[split][lane / 4 + i / 2 * 8][n8 * 8 + lane % 4 * 2 + i % 2] = sum[n8][i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (N8_TILES + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * MMA_THREADS;
        unsigned row = element / LN_WEIGHT_TILE_ROWS, column = element % LN_WEIGHT_TILE_ROWS;
        if (row >= 8 * N8_TILES)
            continue;
        total[i] = shared.sums[0][column][row];
#pragma unroll
        for (int s = 1; s < LN_K_SPLITS; s++)
            total[i] = ln_add_k_splits<LAYOUT>(total[i], shared.sums[s][column][row]);
    }
}

/* A sum of a row of activations and a row of weight tiles of `matrix`, times their scales. */
template <int LAYOUT>
static __device__ __forceinline__ float scale_sum(const ln_gemm_args &p, const uint8_t *matrix,
                                                  unsigned tile_row, size_t row, size_t column,
                                                  float sum) {
    float x = p.x.scales[row / p.rows_per_x];
    if constexpr (!ln_weight_tile_has_row_scales(LAYOUT))
        return sum * x;
    const uint8_t *at = matrix + tile_row * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles);
    float w = ln_weight_tile_row_scales(LAYOUT, at, p.n_tiles)[column % LN_WEIGHT_TILE_ROWS];
    return ln_sum_value<LAYOUT>(sum) * (w * x);
}

#endif
