/* Sums of a unit that several blocks have slices of (sm90_small_m.cuh). */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_SPLIT_K_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_SPLIT_K_CUH

#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"
#include "backend/cuda/ptx/flag.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Where a block has room for sums of its last unit: [4 sums][256 threads]. */
static __device__ __forceinline__ float4 *find_place(const few_args &a, unsigned block) {
    return (float4 *)a.p.split.sums + (size_t)block * (LN_SPLIT_K_SLOT_FLOATS / 4) + threadIdx.x;
}

/* Where a block's warps say that they have left their sums of its last unit. */
static __device__ __forceinline__ unsigned *word_of(const few_args &a, unsigned block) {
    return a.p.split.left + block * WARPS + threadIdx.x / LN_WARP;
}

template <typename SHAPE>
static __device__ __forceinline__ void leave_sums(const few_args &a,
                                                  const float (&sum)[SHAPE::N_SUMS]) {
    float4 *to = find_place(a, blockIdx.x);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_SUMS / 4; i++)
        __stcg(to + i * WORKERS,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __syncwarp();
    if (threadIdx.x % LN_WARP == 0)
        set_word(word_of(a, blockIdx.x));
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

/* A sum that is passed: its bits turned over, which are never all 0. So 0, which fresh memory has
 * and whoever takes a sum leaves, says that there is none yet; fused/decode_handoff.cuh, whose memory every
 * chain fills, passes floats as they are. */
static __device__ __forceinline__ uint32_t turn_over(float sum) {
    uint32_t bits = __float_as_uint(sum);
    return ~(bits == 0xffffffffu ? 0x7fffffffu : bits);
}

static __device__ __forceinline__ float4 turn_back(const uint4 &four) {
    return make_float4(__uint_as_float(~four.x), __uint_as_float(~four.y),
                       __uint_as_float(~four.z), __uint_as_float(~four.w));
}

static __device__ __forceinline__ uint4 look_at_four(const uint4 *four) {
    uint4 now;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(now.x), "=r"(now.y), "=r"(now.z), "=r"(now.w)
                 : "l"(four)
                 : "memory");
    return now;
}

static __device__ __forceinline__ void put_four(uint4 *to, const uint4 &four) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(four.x),
                 "r"(four.y), "r"(four.z), "r"(four.w)
                 : "memory");
}

/* Passes four sums to who waits until they are there. */
static __device__ __forceinline__ void pass_four(uint4 *to, const float *sums) {
    put_four(to, make_uint4(turn_over(sums[0]), turn_over(sums[1]), turn_over(sums[2]),
                            turn_over(sums[3])));
}

static __device__ __forceinline__ bool is_missing(const uint4 &four) {
    return four.x == 0 || four.y == 0 || four.z == 0 || four.w == 0;
}

/* Where slice number `item` of all has room for sums: [4 sums][256 threads]. */
static __device__ __forceinline__ uint4 *find_slice(const few_args &a, unsigned item) {
    return (uint4 *)a.p.split.slices + (size_t)item * (LN_SPLIT_K_SLOT_FLOATS / 4) + threadIdx.x;
}

template <typename SHAPE>
static __device__ __forceinline__ void pass_slice(const few_args &a, unsigned item,
                                                  const float (&sum)[SHAPE::N_SUMS]) {
    uint4 *to = find_slice(a, item);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_SUMS / 4; i++)
        pass_four(to + i * WORKERS, sum + 4 * i);
}

/* Adds what a thread `skipped` threads behind this one passes of eight rows, slice after slice, as
 * soon as all are there, and leaves 0 in their places. */
static __device__ __forceinline__ void add_slices(const few_args &a, unsigned unit, unsigned rows,
                                                  unsigned skipped, float *total) {
    uint4 *places[ALL_SLICES], sums[ALL_SLICES];
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++) {
        places[s] = find_slice(a, unit * ALL_SLICES + s) + rows * WORKERS + skipped;
        sums[s] = look_at_four(places[s]);
    }
#pragma unroll
    for (unsigned s = 0; s < ALL_SLICES; s++) {
        while (is_missing(sums[s]))
            sums[s] = look_at_four(places[s]);
        float4 four = turn_back(sums[s]);
        put_four(places[s], make_uint4(0, 0, 0, 0));
        total[0] = s == 0 ? four.x : total[0] + four.x;
        total[1] = s == 0 ? four.y : total[1] + four.y;
        total[2] = s == 0 ? four.z : total[2] + four.z;
        total[3] = s == 0 ? four.w : total[3] + four.w;
    }
}

#endif

#endif
