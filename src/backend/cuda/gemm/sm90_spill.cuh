/* The sums of K splits of the sm_90 GEMM (sm90.cuh). A tile of 256 rows has 128 accumulators a
 * thread, which leaves registers for as many sums and no more than half of them, so the others
 * (CONFIG::N_SPILLED) are in shared memory between K splits. That costs 128 KiB of its traffic for
 * each split, where the products of a split of K = 512 take 1 MiB.
 *
 * A warp's spilled sums lie where its results do on their way out (CONFIG::WARP_FLOATS): they are
 * registers again by then. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SPILL_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SPILL_CUH

#include "backend/cuda/gemm/sm90_epilogue.cuh"
#include "backend/cuda/gemm/sm90_split_k.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

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
    } else if constexpr (CONFIG::BOXES) {
        begin_boxes(threadIdx.x % LN_WARP);
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

#endif

#endif
