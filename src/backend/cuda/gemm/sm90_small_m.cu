/* Linears of BF16 for 9 to 64 rows of x. */
#include "backend/cuda/gemm/sm90_small_m.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Adds the first TILES tiles of the next stage. */
template <int ROWS, bool PRECISE, int TILES, bool IS_PRECISE>
static __device__ __forceinline__ void
add_stage(const few_args &a, const char *stages, few_barriers &bars, few_place &at,
          float (&sum)[few_stage<LN_LAYOUT_BF16, ROWS, PRECISE>::N_SUMS]) {
    typedef few_stage<LN_LAYOUT_BF16, ROWS, PRECISE> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    const char *w = stages + at.stage * shape::BYTES;
    const char *x = w + shape::W_BYTES + warp / shape::UNIT_ROWS * (shape::GROUP_ROWS * 128);
    uint4 steps[4 * TILES];
    w += warp % shape::UNIT_ROWS * (shape::TILES * shape::TILE_BYTES) + lane * 16;
    ln_mbarrier_wait(&bars.full[at.stage], at.parity);
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        steps[k] = *(const uint4 *)(w + k * 512);
    ln_wgmma_fence();
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            ln_wgmma_small_n(sum, steps[4 * i + k], ln_wgmma_desc_swizzle128(x + i * shape::PART_BYTES + k * 32));
        if constexpr (IS_PRECISE)
#pragma unroll
            for (int k = 0; k < 4; k++)
                ln_wgmma_small_n(sum, steps[4 * i + k],
                             ln_wgmma_desc_swizzle128(x + (shape::TILES + i) * shape::PART_BYTES + k * 32));
    }
    ln_wgmma_commit();
    ln_wgmma_wait<0>();
#pragma unroll
    for (int k = 0; k < 4 * TILES; k++)
        ln_wgmma_keep(steps[k]);
    ln_wgmma_keep(sum);
    if (lane == 0)
        ln_mbarrier_arrive(&bars.empty[at.stage]);
    advance(a, at);
}

template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sums) {
    constexpr unsigned N = few_stage<KIND, ROWS, PRECISE>::N_SUMS;
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

#endif

int ln_gemm_sm90_small_m(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return ln_gemm_sm90_small_m_f16(kind, args, stream);
    if (kind != LN_LAYOUT_BF16)
        return ln_gemm_sm90_small_m_int(kind, args, stream);
    if (args.n_rows <= 16)
        return launch_rows<LN_LAYOUT_BF16, 16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<LN_LAYOUT_BF16, 32>(args, stream)
                             : launch_rows<LN_LAYOUT_BF16, 64>(args, stream);
}
