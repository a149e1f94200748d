/* Sums of a unit that several blocks have slices of (tile_few.cuh). */
#ifndef LN_BACKEND_CUDA_TILE_FEW_SUMS_CUH
#define LN_BACKEND_CUDA_TILE_FEW_SUMS_CUH

#include "backend/cuda/tile_few_stage.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Where place number `place` has room for sums: [4 sums][256 threads]. */
static __device__ __forceinline__ float4 *find_place(const few_args &a, unsigned place) {
    return (float4 *)a.p.split.sums + (size_t)place * (LN_TILE_SPLIT_SUMS / 4) + threadIdx.x;
}

template <typename SHAPE>
static __device__ __forceinline__ void put_sums(const few_args &a, unsigned place,
                                                const float (&sum)[SHAPE::N_SUMS]) {
    float4 *to = find_place(a, place);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_SUMS / 4; i++)
        __stcg(to + i * WORKERS,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __syncwarp();
}

static __device__ __forceinline__ unsigned look_at(const unsigned *word) {
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    return now;
}

/* Where a block's warps say that they have left their sums of its last unit. */
static __device__ __forceinline__ unsigned *word_of(const few_args &a, unsigned block) {
    return a.p.split.left + block * WARPS + threadIdx.x / LN_WARP;
}

template <typename SHAPE>
static __device__ __forceinline__ void leave_sums(const few_args &a,
                                                  const float (&sum)[SHAPE::N_SUMS]) {
    put_sums<SHAPE>(a, blockIdx.x, sum);
    if (threadIdx.x % LN_WARP == 0) {
        unsigned *word = word_of(a, blockIdx.x);
        __threadfence();
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(word) : "memory");
    }
}

/* Takes what the block in front has left. */
template <typename SHAPE>
static __device__ __forceinline__ void take_sums(const few_args &a, float (&sum)[SHAPE::N_SUMS]) {
    const float4 *from = find_place(a, blockIdx.x - 1);
    unsigned *word = word_of(a, blockIdx.x - 1);
    while (look_at(word) == 0)
        continue;
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_SUMS / 4; i++) {
        float4 four = __ldcg(from + i * WORKERS);
        sum[4 * i] = four.x, sum[4 * i + 1] = four.y;
        sum[4 * i + 2] = four.z, sum[4 * i + 3] = four.w;
    }
    if (threadIdx.x % LN_WARP == 0)
        *word = 0;
}

/* Sums of slices that follow those of another block, which may not be there yet: the first of them
 * is `total`, and these come behind it. */
enum { HELD = 2 };
template <int N> struct few_held {
    float sums[HELD][N];
    unsigned n; /* with the first */
};

template <int N>
static __device__ __forceinline__ void hold(const float (&sum)[N], few_held<N> &held,
                                            float (&total)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        total[i] = held.n == 0 ? sum[i] : total[i];
#pragma unroll
    for (unsigned k = 0; k < HELD; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            held.sums[k][i] = k + 1 == held.n ? sum[i] : held.sums[k][i];
    held.n++;
}

/* What was taken from the block in front, what is held, and `sum`. */
template <int N>
static __device__ __forceinline__ void add_held(const float (&taken)[N], few_held<N> &held,
                                                const float (&sum)[N], float (&total)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float y = taken[i];
        y = held.n > 0 ? y + total[i] : y;
#pragma unroll
        for (unsigned k = 0; k < HELD; k++)
            y = k + 1 < held.n ? y + held.sums[k][i] : y;
        total[i] = y + sum[i];
    }
    held.n = 0;
}

/* Leaves the sums of slice number `item` of all, and counts them. */
template <typename SHAPE>
static __device__ __forceinline__ void leave_slice(const few_args &a, unsigned item,
                                                   const float (&sum)[SHAPE::N_SUMS]) {
    put_sums<SHAPE>(a, item, sum);
    if (threadIdx.x % LN_WARP == 0) {
        unsigned *word = a.p.split.left + item / ALL_SLICES;
        __threadfence();
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
    }
}

/* Adds what a thread `skipped` threads behind this one has left of eight rows, slice after slice.
 */
template <typename SHAPE>
static __device__ __forceinline__ void add_slices(const few_args &a, unsigned unit, unsigned rows,
                                                  unsigned skipped, float *total) {
    float4 sums[ALL_SLICES];
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++)
        sums[s] = __ldcg(find_place(a, unit * ALL_SLICES + s) + rows * WORKERS + skipped);
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++) {
        total[0] = s == 0 ? sums[s].x : total[0] + sums[s].x;
        total[1] = s == 0 ? sums[s].y : total[1] + sums[s].y;
        total[2] = s == 0 ? sums[s].z : total[2] + sums[s].z;
        total[3] = s == 0 ? sums[s].w : total[3] + sums[s].w;
    }
}

#endif

#endif
