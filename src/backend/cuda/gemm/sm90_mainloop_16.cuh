/* Mainloops of the prefill GEMM (sm90.cuh) for 16-bit activations: weights of BF16, and those that
 * are dequantised to f16 in registers; and for E4M3 (F8_ROW). WGMMA: M64 of weight rows (N of the
 * GEMM), N of activation rows, K16 (E4M3: K32). Weights are the A operand, from registers (E4M3:
 * from shared memory), activations the B operand, from shared memory. Each warp of a consumer
 * warpgroup has 16 rows of weights. The order of every sum is that of mma_small_m.cu, and of
 * sm90_small_m_fp8.cu.
 *
 * What bounds it: a K step of 16 columns takes ROWS clocks of the tensor cores. Shared memory takes
 * longer: (COLUMNS + ROWS) / 4 clocks for the copies, COLUMNS / 4 to read weights and 2 * ROWS / 4
 * to read activations. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_MAINLOOP_16_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_MAINLOOP_16_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/sm90_split_k.cuh"
#include "backend/cuda/ptx/bulk_store.cuh"
#include "backend/cuda/ptx/wgmma_n64_n256.cuh"
#include "backend/cuda/weights/unpack.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The A operand of half of a warp's weight tile: two K steps of 16 columns. */
template <int LAYOUT>
static __device__ __forceinline__ void load_half(const char *tile, int half, unsigned lane,
                                                 uint4 a[2]) {
    if constexpr (ln_weight_tile_bytes_to_f16(LAYOUT)) {
        const char *scales = tile + ln_weight_tile_scale_at(LAYOUT, 0, 0) + lane / 4 * 8 + half * 4;
        ln_dequantize_bytes<LAYOUT>(*(const uint4 *)(tile + half * 512 + lane * 16),
                                    *(const uint32_t *)scales, *(const uint32_t *)(scales + 64), a);
    } else if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT)) {
        const char *scales = tile + ln_weight_tile_scale_at(LAYOUT, 0, 0) + lane / 4 * 8 + half * 4;
        uint2 packed = *(const uint2 *)(tile + lane * 16 + half * 8);
        uint32_t high = 0;
        if constexpr (ln_weight_tile_has_high_bits(LAYOUT))
            high = *(const uint32_t *)(tile + 512 + lane * 8 + half * 4);
        ln_dequantize_bits<LAYOUT>(packed, high, *(const uint32_t *)scales,
                                   *(const uint32_t *)(scales + 64), lane, a);
    } else {
        a[0] = *(const uint4 *)(tile + half * 1024 + lane * 16);
        a[1] = *(const uint4 *)(tile + half * 1024 + 512 + lane * 16);
    }
}

/* Issues a K step of 16 columns; accumulates: else the accumulators are overwritten. */
template <int LAYOUT, int N>
static __device__ __forceinline__ void multiply_step(float (&acc)[N], const uint4 &a, uint64_t x,
                                                     bool accumulates = true) {
    if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT))
        ln_wgmma_f16(acc, a, x, accumulates);
    else
        ln_wgmma_bf16(acc, a, x, accumulates);
}

/* The order of two consumer warpgroups, like that of a ping-pong schedule: the second begins an
 * output tile when the first has had a stage of it, so while one adds the accumulators of a K split
 * the other multiplies. Not where a tile has so few stages that the first would come round to its
 * next tile before that. number: of the output tile. */
template <typename CONFIG> static __device__ __forceinline__ bool has_lead(const k_range &own) {
    return CONFIG::WARPGROUPS == 2 && own.end - own.begin > MAX_STAGES;
}

template <typename CONFIG>
static __device__ __forceinline__ void wait_for_lead(const k_range &own, sm90_pipeline &pipeline,
                                                     unsigned number) {
    if (has_lead<CONFIG>(own) && threadIdx.x / WARPGROUP == 1)
        ln_mbarrier_wait(&pipeline.led, number / count_clusters<CONFIG>() % 2);
}

template <typename CONFIG>
static __device__ __forceinline__ void release_lead(const k_range &own, sm90_pipeline &pipeline,
                                                    unsigned tile) {
    if (has_lead<CONFIG>(own) && tile == own.begin + 1 && threadIdx.x / WARPGROUP == 0)
        ln_pipeline_release(&pipeline.led, threadIdx.x % LN_WARP);
}

template <int N> static __device__ __forceinline__ void clear(float (&total)[N], float (&acc)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        total[i] = -0.0f, acc[i] = 0.0f; /* -0 + x is x */
}

/* ---- sums of K splits that are in shared memory -------------------------------------------------
 *
 * A tile of 256 rows has 128 accumulators a thread, which leaves registers for no more than half of
 * as many sums, so the others (CONFIG::N_SPILLED) are in shared memory between K splits. That costs
 * 128 KiB of its traffic for each split, where the products of a split of K = 512 take 1 MiB. A
 * warp's spilled sums lie where its results do on their way out (CONFIG::WARP_FLOATS): they are
 * registers again by then. */

/* Where a thread's spilled sums are: float4s LN_WARP apart. */
template <typename CONFIG>
static __device__ __forceinline__ float4 *find_spill(const char *stages) {
    typedef sm90_stage<CONFIG> shape;
    return (float4 *)(stages + shape::N_STAGES * shape::BYTES) +
           threadIdx.x / LN_WARP * (CONFIG::WARP_FLOATS / 4) + threadIdx.x % LN_WARP;
}

/* Before a warp's memory takes spilled sums: what was left there by the tile before has gone. */
template <typename CONFIG> static __device__ __forceinline__ void wait_for_results(void) {
    if constexpr (CONFIG::HAS_IMAGE) {
        if (threadIdx.x % WARPGROUP == 0)
            ln_bulk_store_wait_read<0>();
        sync_warpgroup(threadIdx.x / WARPGROUP);
    } else if constexpr (CONFIG::TMA_STORE) {
        wait_for_boxes(threadIdx.x % LN_WARP);
    }
}

/* add_split of a tile whose last sums are spilled. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void spill_split(float4 *spill, bool is_first,
                                                   const float (&acc)[N], float (&total)[N]) {
    constexpr int KEPT = N - CONFIG::N_SPILLED;
    if (is_first)
        wait_for_results<CONFIG>();
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        total[i] += acc[i];
#pragma unroll
    for (int i = 0; i < CONFIG::N_SPILLED / 4; i++) {
        const float *own = acc + KEPT + 4 * i;
        float4 sum = make_float4(own[0], own[1], own[2], own[3]);
        if (!is_first) {
            float4 before = spill[i * LN_WARP];
            sum.x += before.x, sum.y += before.y, sum.z += before.z, sum.w += before.w;
        }
        spill[i * LN_WARP] = sum;
        asm volatile("" ::: "memory"); /* or all loads come first, and take registers */
    }
}

/* Behind the last K split: the spilled sums become registers again. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void fetch_spilled(const float4 *spill, float (&total)[N]) {
    float *to = total + N - CONFIG::N_SPILLED;
#pragma unroll
    for (int i = 0; i < CONFIG::N_SPILLED / 4; i++) {
        float4 sum = spill[i * LN_WARP];
        to[4 * i] = sum.x, to[4 * i + 1] = sum.y, to[4 * i + 2] = sum.z, to[4 * i + 3] = sum.w;
    }
    __syncwarp(); /* results take its place */
}

/* Adds the accumulators of the K split that begins at weight tile `begin`. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void end_split(k_range &own, unsigned begin, float4 *spill,
                                                 const float (&acc)[N], float (&total)[N]) {
    if constexpr (CONFIG::N_SPILLED > 0)
        spill_split<CONFIG>(spill, begin == own.begin, acc, total);
    else
        add_split<CONFIG>(own, acc, total);
}

/* Behind the last K split of a tile. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void end_splits(unsigned n_tiles, const float4 *spill,
                                                  float (&total)[N]) {
    if constexpr (CONFIG::N_SPILLED > 0)
        fetch_spilled<CONFIG>(spill, total);
    if (!CONFIG::SPLIT)
        add_empty_splits(n_tiles, total);
}

/* ---- 16-bit and E4M3 ----------------------------------------------------------------------- */

/* Waits for all WGMMAs, the last of which read a[2] and a[3]. */
template <int N> static __device__ __forceinline__ void drain(float (&acc)[N], uint4 (&a)[4]) {
    ln_wgmma_wait<0>();
    ln_wgmma_keep(acc);
    ln_wgmma_keep(a[2]);
    ln_wgmma_keep(a[3]);
}

/* Issues a weight tile's four steps with the residual of bf16 rounding. */
template <int LAYOUT, int N>
static __device__ __forceinline__ void multiply_residual(float (&acc)[N], const uint4 (&a)[4],
                                                         uint64_t x) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        multiply_step<LAYOUT>(acc, a[i], ln_wgmma_desc_advance(x, i * 32));
}

/* Accumulates an output tile: the K loop. A weight tile is two groups of WGMMAs; while one is
 * executed the A operand of the next is loaded and dequantised. IS_PRECISE: the lo part of the
 * activations is multiplied, too. CONFIG::SPLIT: the sums of K splits go to global memory, and
 * total has no meaning. */
template <typename CONFIG, bool IS_PRECISE, int N>
static __device__ __forceinline__ void
mainloop_16_as(const ln_gemm_args &p, unsigned number, k_range own, const char *stages,
               sm90_pipeline &pipeline, ln_pipeline_stage &at, float (&total)[N]) {
    typedef sm90_stage<CONFIG> shape;
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    const char *weights = stages + shape::TILES_AT + warp * shape::TILE_BYTES;
    float4 *spill = find_spill<CONFIG>(stages);
    uint64_t x0 = ln_wgmma_desc_uniform(ln_wgmma_desc_swizzle128(stages));
    float acc[N];
    uint4 a[4];
    at.index = __shfl_sync(0xffffffffu, at.index, 0); /* as for ln_wgmma_desc_uniform */
    clear(total, acc);
    wait_for_lead<CONFIG>(own, pipeline, number);
    ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
    load_half<CONFIG::LAYOUT>(weights + at.index * shape::BYTES, 0, lane, a);
    for (unsigned begin = own.begin; begin < own.end; begin += per_split) {
        unsigned end = min(begin + per_split, own.end), last = 0;
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            uint64_t x = ln_wgmma_desc_advance(x0, at.index * shape::BYTES);
            const char *w = weights + at.index * shape::BYTES;
            ln_wgmma_fence();
            multiply_step<CONFIG::LAYOUT>(acc, a[0], x, tile > begin);
            multiply_step<CONFIG::LAYOUT>(acc, a[1], ln_wgmma_desc_advance(x, 32));
            ln_wgmma_commit();
            ln_wgmma_wait<1>(); /* the second half of the tile before */
            ln_wgmma_keep(a[2]);
            ln_wgmma_keep(a[3]);
            if (tile > begin)
                release_stage<CONFIG>(pipeline, last, lane);
            release_lead<CONFIG>(own, pipeline, tile);
            load_half<CONFIG::LAYOUT>(w, 1, lane, a + 2);
            ln_wgmma_fence();
            multiply_step<CONFIG::LAYOUT>(acc, a[2], ln_wgmma_desc_advance(x, 64));
            multiply_step<CONFIG::LAYOUT>(acc, a[3], ln_wgmma_desc_advance(x, 96));
            if constexpr (IS_PRECISE)
                multiply_residual<CONFIG::LAYOUT>(acc, a,
                                                  ln_wgmma_desc_advance(x, shape::ACT_BYTES));
            ln_wgmma_commit();
            ln_wgmma_wait<IS_PRECISE ? 0 : 1>();
            ln_wgmma_keep(a[0]);
            ln_wgmma_keep(a[1]);
            last = at.index;
            advance<CONFIG>(at);
            if (tile + 1 < own.end) {
                ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
                load_half<CONFIG::LAYOUT>(weights + at.index * shape::BYTES, 0, lane, a);
            }
        }
        drain(acc, a);
        release_stage<CONFIG>(pipeline, last, lane);
        end_split<CONFIG>(own, begin, spill, acc, total);
    }
    end_splits<CONFIG>(p.n_tiles, spill, total);
}

template <typename CONFIG, int N>
static __device__ __forceinline__ void
mainloop_16(const ln_gemm_args &p, unsigned number, const k_range &own, bool precise,
            const char *stages, sm90_pipeline &pipeline, ln_pipeline_stage &at, float (&total)[N]) {
    if (CONFIG::PRECISE && precise)
        mainloop_16_as<CONFIG, CONFIG::PRECISE>(p, number, own, stages, pipeline, at, total);
    else
        mainloop_16_as<CONFIG, false>(p, number, own, stages, pipeline, at, total);
}

/* The mainloop of F8_ROW: both operands are in shared memory. */
template <typename CONFIG, int N>
static __device__ __forceinline__ void
mainloop_fp8(const ln_gemm_args &p, unsigned number, k_range own, const char *stages,
             sm90_pipeline &pipeline, ln_pipeline_stage &at, float (&total)[N]) {
    typedef sm90_stage<CONFIG> shape;
    unsigned group = threadIdx.x / WARPGROUP, lane = threadIdx.x % LN_WARP, last = 0;
    unsigned per_split = (p.n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    const char *weights = stages + shape::TILES_AT + group * 4 * shape::TILE_BYTES;
    float4 *spill = find_spill<CONFIG>(stages);
    uint64_t x0 = ln_wgmma_desc_uniform(ln_wgmma_desc_swizzle128(stages));
    uint64_t w0 = ln_wgmma_desc_uniform(ln_wgmma_desc_no_swizzle(weights, 128, 1024));
    float acc[N];
    at.index = __shfl_sync(0xffffffffu, at.index, 0); /* as for ln_wgmma_desc_uniform */
    clear(total, acc);
    wait_for_lead<CONFIG>(own, pipeline, number);
    for (unsigned begin = own.begin; begin < own.end; begin += per_split) {
        unsigned end = min(begin + per_split, own.end);
#pragma unroll 1
        for (unsigned tile = begin; tile < end; tile++) {
            uint64_t x = ln_wgmma_desc_advance(x0, at.index * shape::BYTES);
            uint64_t w = ln_wgmma_desc_advance(w0, at.index * shape::BYTES);
            ln_mbarrier_wait(&pipeline.full[at.index], at.phase);
            ln_wgmma_fence();
#pragma unroll
            for (int i = 0; i < 4; i++)
                ln_wgmma_fp8(acc, ln_wgmma_desc_advance(w, i * 256),
                             ln_wgmma_desc_advance(x, i * 32), i > 0 || tile > begin);
            ln_wgmma_commit();
            ln_wgmma_wait<1>();
            if (tile > begin)
                release_stage<CONFIG>(pipeline, last, lane);
            release_lead<CONFIG>(own, pipeline, tile);
            last = at.index;
            advance<CONFIG>(at);
        }
        ln_wgmma_wait<0>();
        ln_wgmma_keep(acc);
        release_stage<CONFIG>(pipeline, last, lane);
        end_split<CONFIG>(own, begin, spill, acc, total);
    }
    end_splits<CONFIG>(p.n_tiles, spill, total);
}

#endif

#endif
