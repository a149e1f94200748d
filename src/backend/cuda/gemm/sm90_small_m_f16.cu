/* Linears of numbers of few bits that become f16, for 9 to 64 rows of x. While a stage is
 * multiplied the next one comes to registers. */
#include "backend/cuda/gemm/sm90_small_m.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The share of a tile in shared memory. */
template <int KIND>
static __device__ __forceinline__ void take_tile(const char *tile, ln_lane_tile<KIND> &out) {
    unsigned lane = threadIdx.x % LN_WARP;
    if constexpr (ln_weight_tile_bytes_to_f16(KIND)) {
        out.blocks[0] = *((const uint4 *)tile + lane);
        out.blocks[1] = *((const uint4 *)(tile + 512) + lane);
    } else {
        out.numbers = *((const uint4 *)tile + lane);
        if constexpr (ln_weight_tile_has_bits_above(KIND))
            out.above = *((const uint2 *)(tile + 512) + lane);
    }
    out.scales[0] = *(const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4, 0));
    out.scales[1] = *(const uint2 *)(tile + ln_weight_tile_scale_at(KIND, lane / 4 + 8, 0));
}

/* The tiles of a stage, when it is there. */
template <int KIND, int ROWS>
static __device__ __forceinline__ void take_stage(const char *stages, few_barriers &bars,
                                                  const few_place &at,
                                                  ln_lane_tile<KIND> (&tiles)[2]) {
    typedef few_stage<KIND, ROWS, false> shape;
    static_assert(shape::TILES == 2, "tiles of a stage");
    const char *w = stages + at.stage * shape::BYTES;
    w += threadIdx.x / LN_WARP * (2 * shape::TILE_BYTES);
    ln_mbarrier_wait(&bars.full[at.stage], at.parity);
    take_tile<KIND>(w, tiles[0]);
    take_tile<KIND>(w + shape::TILE_BYTES, tiles[1]);
}

/* Begins the products of a tile of columns, which it widens to `steps`. */
template <int KIND, int N>
static __device__ __forceinline__ void begin_tile(const ln_lane_tile<KIND> &tile, const char *x,
                                                  uint4 (&steps)[4], float (&sum)[N]) {
    ln_widen_unit<KIND>(tile, steps);
    ln_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        ln_wgmma_small_n_f16(sum, steps[k], ln_wgmma_desc_swizzle128(x + k * 32));
    ln_wgmma_commit();
}

template <int KIND, int ROWS, bool PRECISE, bool IS_PRECISE>
static __device__ __forceinline__ void multiply(const few_args &a, unsigned n_tiles,
                                                const char *stages, few_barriers &bars,
                                                few_place &at, float *sums) {
    typedef few_stage<KIND, ROWS, false> shape;
    float(&sum)[shape::N_SUMS] = *(float(*)[shape::N_SUMS])sums;
    ln_lane_tile<KIND> tiles[2];
    uint4 steps[2][4];
#pragma unroll
    for (unsigned k = 0; k < shape::N_SUMS; k++)
        sum[k] = 0.0f;
    if (n_tiles > 0)
        take_stage<KIND, ROWS>(stages, bars, at, tiles);
#pragma unroll 1
    for (unsigned i = 0; i < n_tiles; i += 2) {
        const char *x = stages + at.stage * shape::BYTES + shape::W_BYTES;
        uint64_t *empty = &bars.empty[at.stage];
        begin_tile<KIND>(tiles[0], x, steps[0], sum);
        if (i + 1 < n_tiles)
            begin_tile<KIND>(tiles[1], x + shape::PART_BYTES, steps[1], sum);
        advance(a, at);
        if (i + 2 < n_tiles)
            take_stage<KIND, ROWS>(stages, bars, at, tiles);
        ln_wgmma_wait<0>();
#pragma unroll
        for (int k = 0; k < 8; k++)
            ln_wgmma_keep(steps[k / 4][k % 4]);
        ln_wgmma_keep(sum);
        if (threadIdx.x % LN_WARP == 0)
            ln_mbarrier_arrive(empty);
    }
}

#endif

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    if (args.n_rows <= 16)
        return launch_rows<KIND, 16>(args, stream);
    return args.n_rows <= 32 ? launch_rows<KIND, 32>(args, stream)
                             : launch_rows<KIND, 64>(args, stream);
}

int ln_gemm_sm90_small_m_f16(int kind, const ln_gemm_args &args, cudaStream_t stream) {
    switch (kind) {
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, stream);
    case LN_LAYOUT_Q5: return launch_kind<LN_LAYOUT_Q5>(args, stream);
    case LN_LAYOUT_Q6: return launch_kind<LN_LAYOUT_Q6>(args, stream);
    case LN_LAYOUT_MXFP4: return launch_kind<LN_LAYOUT_MXFP4>(args, stream);
    case LN_LAYOUT_F8: return launch_kind<LN_LAYOUT_F8>(args, stream);
    default: return launch_kind<LN_LAYOUT_I8>(args, stream);
    }
}
