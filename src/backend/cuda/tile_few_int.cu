/* Linears of INT8 and INT4 for 17 to 64 rows of x. A stage is one tile of columns; while a block of
 * 32 columns is scaled the next one is multiplied. */
#include "backend/cuda/tile_few.cuh"
#include "backend/cuda/tile_lane.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Begins the products of block `block` of a tile, by the numbers that the lane has of it. */
template <int KIND, int ROWS>
static __device__ __forceinline__ void begin_block(const char *w, const char *x, int block,
                                                   uint4 &numbers, int (&c)[ROWS / 2]) {
    unsigned lane = threadIdx.x % LN_WARP;
    if constexpr (KIND == LN_TILE_INT8)
        numbers = *(const uint4 *)(w + (block * 32 + lane) * 16);
    else
        numbers = ln_unpack_int4(*(const uint4 *)(w + (block / 2 * 32 + lane) * 16), block);
    ln_wgmma_fence();
    ln_wgmma_few_int8(c, numbers, ln_wgmma_rows(x + block / 4 * (ROWS * 128) + block % 4 * 32));
    ln_wgmma_commit();
}

/* Adds c * w * x: what ln_add_scaled does to START + c. */
template <int N>
static __device__ __forceinline__ void add_block(const int (&c)[N], float w0, float w1,
                                                 const float *x_scales, float (&sum)[N]) {
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        float2 x = *(const float2 *)(x_scales + 8 * j);
        sum[4 * j] = fmaf((float)c[4 * j] * w0, x.x, sum[4 * j]);
        sum[4 * j + 1] = fmaf((float)c[4 * j + 1] * w0, x.y, sum[4 * j + 1]);
        sum[4 * j + 2] = fmaf((float)c[4 * j + 2] * w1, x.x, sum[4 * j + 2]);
        sum[4 * j + 3] = fmaf((float)c[4 * j + 3] * w1, x.y, sum[4 * j + 3]);
    }
}

template <int KIND, int ROWS>
static __device__ __forceinline__ void add_tile(const char *w, const char *x, const float *x_scales,
                                                float (&sum)[ROWS / 2]) {
    enum { N_BLOCKS = 8 };
    unsigned lane = threadIdx.x % LN_WARP;
    int c[2][ROWS / 2];
    uint4 w_scales[2], numbers[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        w_scales[i] = *(const uint4 *)(w + ln_tile_scale_at(KIND, lane / 4 + 8 * i, 0));
    begin_block<KIND, ROWS>(w, x, 0, numbers[0], c[0]);
#pragma unroll
    for (int block = 0; block < N_BLOCKS; block++) {
        if (block + 1 < N_BLOCKS) {
            begin_block<KIND, ROWS>(w, x, block + 1, numbers[(block + 1) % 2], c[(block + 1) % 2]);
            ln_wgmma_wait<1>();
        } else {
            ln_wgmma_wait<0>();
        }
        ln_wgmma_keep(numbers[block % 2]);
        ln_wgmma_keep(c[block % 2]);
        add_block(c[block % 2], ln_tile_scale((const uint32_t *)&w_scales[0], block),
                  ln_tile_scale((const uint32_t *)&w_scales[1], block),
                  x_scales + block * PANEL_ROWS, sum);
    }
}

template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sums) {
    float(&sum)[ROWS / 2] = *(float(*)[ROWS / 2]) sums;
    typedef few_stage<KIND, ROWS, PRECISE> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int k = 0; k < ROWS / 2; k++)
        sum[k] = 0.0f;
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i++) {
        const char *w = stages + at.stage * shape::BYTES, *x = w + shape::W_BYTES;
        ln_barrier_wait(&bars.full[at.stage], at.parity);
        add_tile<KIND, ROWS>(w + warp * shape::TILE_BYTES, x,
                             (const float *)(x + shape::X_BYTES) + lane % 4 * 2, sum);
        if (lane == 0)
            ln_barrier_arrive(&bars.empty[at.stage]);
        advance(a, at);
    }
}

#endif

template <int KIND> static int launch_kind(const ln_tile_args &args, cudaStream_t stream) {
    return args.n_rows <= 32 ? launch_rows<KIND, 32>(args, stream)
                             : launch_rows<KIND, 64>(args, stream);
}

int ln_tile_few_int(int kind, const ln_tile_args &args, cudaStream_t stream) {
    return kind == LN_TILE_INT8 ? launch_kind<LN_TILE_INT8>(args, stream)
                                : launch_kind<LN_TILE_INT4>(args, stream);
}
