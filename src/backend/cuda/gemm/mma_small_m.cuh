/* Few rows of x with a row of tiles, by mma.sync: what the kernels of one matrix and of one matrix
 * per group of rows share. The tiles are the A operand, rows of x the B operand, eight at a time.
 *
 * A block has eight warps, each with a slice of the columns, merged in order through shared memory.
 * A lane reads 16 bytes at a time and a warp 512 in a row; weights are read once for 8 * GROUPS
 * rows of x, x comes from the caches. */
#ifndef LN_BACKEND_CUDA_GEMM_MMA_SMALL_M_CUH
#define LN_BACKEND_CUDA_GEMM_MMA_SMALL_M_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

enum { TILE_THREADS = LN_K_SPLITS * LN_WARP };

/* Where a lane finds its shares of 8 * GROUPS rows of x, in
 * elements. Rows past the last one repeat it: what comes of them is not written. */
template <int GROUPS> struct lane_rows { unsigned own[GROUPS], scales[GROUPS][2]; };

/* Units that a lane has under way. */
template <int KIND, int GROUPS, bool GATE> static constexpr int units_ahead(void) {
    int most = ln_weight_tile_dequantizes_to_f16(KIND) ? 8 : KIND == LN_LAYOUT_BF16 ? 4 : 2;
    return GROUPS > 2 ? 1 : most / (GATE ? 2 : 1);
}

/* A warp's slice of a row of tiles, of which AHEAD units are under way. */
template <int KIND, int AHEAD, bool GATE> struct lane_slice {
    const uint8_t *up_tiles, *gate_tiles;
    unsigned begin, end;
    ln_lane_tile<KIND> up[AHEAD], gate[GATE ? AHEAD : 1];
};

template <int KIND, int AHEAD, bool GATE>
static __device__ __forceinline__ void begin_slice(const ln_gemm_args &p, const uint8_t *weight,
                                                   const uint8_t *gate, unsigned tile_row,
                                                   lane_slice<KIND, AHEAD, GATE> &s) {
    constexpr unsigned PER_TILE = ln_weight_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    unsigned lane = threadIdx.x % LN_WARP, slice = threadIdx.x / LN_WARP;
    unsigned per_slice = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    size_t row_at = tile_row * ln_weight_tile_row_bytes(KIND, p.n_tiles);
    s.begin = min(slice * per_slice, p.n_tiles) * PER_TILE;
    s.end = min((slice + 1) * per_slice, p.n_tiles) * PER_TILE;
    s.up_tiles = weight + row_at;
    s.gate_tiles = GATE ? gate + row_at : NULL;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (s.begin + i < s.end) {
            ln_load_unit<KIND>(s.up_tiles, s.begin + i, lane, s.up[i]);
            if constexpr (GATE)
                ln_load_unit<KIND>(s.gate_tiles, s.begin + i, lane, s.gate[i]);
        }
}

/* The rest of it, with 8 * GROUPS rows of x. */
template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __device__ __forceinline__ void
multiply_slice(const ln_act_view &x, const lane_rows<GROUPS> &rows, bool precise,
               lane_slice<KIND, AHEAD, GATE> &s, float up_sum[GROUPS][4],
               float gate_sum[GROUPS][4]) {
    unsigned lane = threadIdx.x % LN_WARP;
    for (unsigned base = s.begin; base < s.end; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            unsigned unit = base + i;
            if (unit >= s.end)
                break;
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                ln_lane_x<KIND, PRECISE> share;
                ln_load_x<KIND, PRECISE>(x, rows.own[group], rows.scales[group][0],
                                         rows.scales[group][1], unit, lane, share);
                ln_add_unit<KIND, PRECISE>(s.up[i], share, precise, up_sum[group]);
                if constexpr (GATE)
                    ln_add_unit<KIND, PRECISE>(s.gate[i], share, precise, gate_sum[group]);
            }
            if (unit + AHEAD < s.end) {
                ln_load_unit<KIND>(s.up_tiles, unit + AHEAD, lane, s.up[i]);
                if constexpr (GATE)
                    ln_load_unit<KIND>(s.gate_tiles, unit + AHEAD, lane, s.gate[i]);
            }
        }
    }
}

template <int GROUPS> struct slices { float sums[LN_K_SPLITS][LN_WEIGHT_TILE_ROWS][8 * GROUPS + 1]; };

/* Merges the slices in order: total[i] is that of element threadIdx.x + i * TILE_THREADS of
 * [8 * GROUPS rows of x][16 rows of tiles]. */
template <int KIND, int GROUPS>
static __device__ __forceinline__ void merge(slices<GROUPS> &shared, const float sum[GROUPS][4],
                                             float *total) {
    unsigned lane = threadIdx.x % LN_WARP, slice = threadIdx.x / LN_WARP;
    __syncthreads();
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            shared.sums[slice][lane / 4 + i / 2 * 8][group * 8 + lane % 4 * 2 + i % 2] =
                sum[group][i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        unsigned row = element / LN_WEIGHT_TILE_ROWS, column = element % LN_WEIGHT_TILE_ROWS;
        if (row >= 8 * GROUPS)
            continue;
        total[i] = shared.sums[0][column][row];
#pragma unroll
        for (int s = 1; s < LN_K_SPLITS; s++)
            total[i] = ln_add_slices<KIND>(total[i], shared.sums[s][column][row]);
    }
}

/* What the sum of a row and a column of a row of tiles of `matrix` stands for, where rows of x have
 * scales. */
template <int KIND>
static __device__ __forceinline__ float scale_sum(const ln_gemm_args &p, const uint8_t *matrix,
                                                  unsigned tile_row, size_t row, size_t column,
                                                  float sum) {
    float x = p.x.scales[row / p.rows_per_x];
    if constexpr (!ln_weight_tile_has_row_scales(KIND))
        return sum * x;
    const uint8_t *at = matrix + tile_row * ln_weight_tile_row_bytes(KIND, p.n_tiles);
    float w = ln_weight_tile_row_scales(KIND, at, p.n_tiles)[column % LN_WEIGHT_TILE_ROWS];
    return (KIND == LN_LAYOUT_INT8_ROW ? (float)__float_as_int(sum) : sum) * (w * x);
}

#endif
