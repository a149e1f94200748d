/* Linears of INT8 and INT4 for 9 to 64 rows of x. A stage is one tile of columns; while some blocks
 * of 32 columns are scaled the next ones are multiplied. */
#include "backend/cuda/gemm/sm90_small_m.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Blocks of 32 columns whose products are begun together: few rows have more under way. */
template <int ROWS> struct few_blocks {
    enum { N = 64 / ROWS, STEPS = 8 / N };
};

/* A tile of a stage: where it is and its scales. */
typedef struct few_tile {
    const char *w;
    uint64_t x;
    const float *x_scales;
    uint4 w_scales[2];
} few_tile;

template <int KIND, int ROWS>
static __device__ __forceinline__ few_tile find_tile(const char *stages, few_barriers &bars,
                                                     const few_place &at) {
    typedef few_stage<KIND, ROWS, false> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = stages + at.stage * shape::BYTES, *x = w + shape::W_BYTES;
    few_tile tile;
    ln_mbarrier_wait(&bars.full[at.stage], at.parity);
    tile.w = w + warp * shape::TILE_BYTES;
    tile.x = ln_wgmma_desc_swizzle128(x);
    tile.x_scales = (const float *)(x + shape::X_BYTES) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++)
        tile.w_scales[i] = *(const uint4 *)(tile.w + ln_weight_tile_scale_at(KIND, lane / 4 + 8 * i, 0));
    return tile;
}

/* Begins the products of N blocks of a tile from `block` on. */
template <int KIND, int ROWS, int N>
static __device__ __forceinline__ void begin_blocks(const few_tile &tile, int block,
                                                    uint4 (&numbers)[N], int (&c)[N][ROWS / 2]) {
    const char *w = tile.w + threadIdx.x % LN_WARP * 16;
#pragma unroll
    for (int i = 0; i < N; i++)
        if constexpr (KIND == LN_LAYOUT_INT8)
            numbers[i] = *(const uint4 *)(w + (block + i) * 512);
        else
            numbers[i] = ln_unpack_int4(*(const uint4 *)(w + (block + i) / 2 * 512), block + i);
    ln_wgmma_fence();
#pragma unroll
    for (int i = 0; i < N; i++)
        ln_wgmma_small_n_int8(c[i], numbers[i],
                          tile.x + (unsigned)((block + i) / 4 * ROWS * 8 + (block + i) % 4 * 2));
    ln_wgmma_commit();
}

/* Adds c * w * x: what ln_add_scaled does to START + c. */
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

/* The scales of x of N blocks. */
template <int ROWS, int N>
static __device__ __forceinline__ void take_scales(const few_tile &tile, int block,
                                                   float2 (&x)[N][ROWS / 8]) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
            x[i][j] = *(const float2 *)(tile.x_scales + (block + i) * PANEL_ROWS + 8 * j);
}

/* While some blocks are scaled the next ones are multiplied. */
template <int KIND, int ROWS>
static __device__ __forceinline__ void add_tile(const few_tile &tile, float (&sum)[ROWS / 2]) {
    enum { N = few_blocks<ROWS>::N, STEPS = few_blocks<ROWS>::STEPS };
    int c[2][N][ROWS / 2];
    uint4 numbers[2][N];
    begin_blocks<KIND, ROWS>(tile, 0, numbers[0], c[0]);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int now = step % 2, next = 1 - now;
        float2 x[N][ROWS / 8];
        if (step + 1 < STEPS)
            begin_blocks<KIND, ROWS>(tile, (step + 1) * N, numbers[next], c[next]);
        if (ROWS < 64) /* else there are too few registers */
            take_scales<ROWS>(tile, step * N, x);
        if (step + 1 < STEPS)
            ln_wgmma_wait<1>();
        else
            ln_wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < N; k++) {
            ln_wgmma_keep(numbers[now][k]);
            ln_wgmma_keep(c[now][k]);
        }
        if (ROWS == 64)
            take_scales<ROWS>(tile, step * N, x);
#pragma unroll
        for (int k = 0; k < N; k++)
            add_block(c[now][k], ln_weight_tile_scale((const uint32_t *)&tile.w_scales[0], step * N + k),
                      ln_weight_tile_scale((const uint32_t *)&tile.w_scales[1], step * N + k), x[k], sum);
    }
}

template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sums) {
    float(&sum)[ROWS / 2] = *(float(*)[ROWS / 2]) sums;
#pragma unroll
    for (int k = 0; k < ROWS / 2; k++)
        sum[k] = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i++) {
        add_tile<KIND, ROWS>(find_tile<KIND, ROWS>(stages, bars, at), sum);
        if (threadIdx.x % LN_WARP == 0)
            ln_mbarrier_arrive(&bars.empty[at.stage]);
        advance(a, at);
    }
}

#endif

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    if (args.n_rows <= 16)
        return launch_rows<KIND, 16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<KIND, 32>(args, stream)
                             : launch_rows<KIND, 64>(args, stream);
}

int ln_gemm_sm90_small_m_int(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    return kind == LN_LAYOUT_INT8 ? launch_kind<LN_LAYOUT_INT8>(args, stream)
                                : launch_kind<LN_LAYOUT_INT4>(args, stream);
}
