/* Split-K (stream-K) reduction of the small-M GEMM (sm90_small_m.cuh). Where a unit is cut between
 * two CTAs, one stores its partial sum and sets a flag, and its neighbour adds it. Where many CTAs
 * share a unit, each publishes the partial sums of its K splits without a flag: a word that is not
 * 0 is a sum that is there. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_SPLIT_K_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SMALL_M_SPLIT_K_CUH

#include "backend/cuda/gemm/mma_fragments.cuh"
#include "backend/cuda/gemm/sm90_small_m_pipeline.cuh"
#include "backend/cuda/ptx/flag.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A CTA's slot for sums of its last unit: [4 sums][256 threads]. */
static __device__ __forceinline__ float4 *slot_of_cta(const small_m_args &a, unsigned block) {
    return (float4 *)a.p.split.partial + (size_t)block * (LN_SPLIT_K_SLOT_FLOATS / 4) + threadIdx.x;
}

/* The flag of a CTA's warp: it has stored its sums of its last unit. */
static __device__ __forceinline__ unsigned *flag_of(const small_m_args &a, unsigned block) {
    return a.p.split.flags + block * WARPS + threadIdx.x / LN_WARP;
}

template <typename SHAPE>
static __device__ __forceinline__ void store_partial(const small_m_args &a,
                                                     const float (&sum)[SHAPE::N_ACC]) {
    float4 *to = slot_of_cta(a, blockIdx.x);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC / 4; i++)
        __stcg(to + i * CONSUMERS,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __syncwarp();
    if (threadIdx.x % LN_WARP == 0)
        ln_flag_set(flag_of(a, blockIdx.x));
}

/* Loads what the CTA in front has stored. */
template <typename SHAPE>
static __device__ __forceinline__ void load_partial(const small_m_args &a,
                                                    float (&sum)[SHAPE::N_ACC]) {
    const float4 *from = slot_of_cta(a, blockIdx.x - 1);
    unsigned *flag = flag_of(a, blockIdx.x - 1);
    while (ln_flag_load(flag) == 0)
        continue;
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC / 4; i++) {
        float4 four = __ldcg(from + i * CONSUMERS);
        sum[4 * i] = four.x, sum[4 * i + 1] = four.y;
        sum[4 * i + 2] = four.z, sum[4 * i + 3] = four.w;
    }
    if (threadIdx.x % LN_WARP == 0)
        *flag = 0;
}

/* K splits that follow those of another CTA, whose sums may not be there yet: the first of them is
 * `total`, these come behind it. */
enum { MAX_DEFERRED = 2 };
template <int N, unsigned MAX = MAX_DEFERRED> struct deferred_splits {
    float sums[MAX > 0 ? MAX : 1][N];
    unsigned n; /* with the first */
};

template <int N, unsigned MAX>
static __device__ __forceinline__ void
defer_split(const float (&sum)[N], deferred_splits<N, MAX> &deferred, float (&total)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        total[i] = deferred.n == 0 ? sum[i] : total[i];
#pragma unroll
    for (unsigned k = 0; MAX > 0 && k < MAX; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            deferred.sums[k][i] = k + 1 == deferred.n ? sum[i] : deferred.sums[k][i];
    deferred.n++;
}

/* What was loaded of the CTA in front, the deferred K splits, and `sum`, in order. */
template <int N, unsigned MAX>
static __device__ __forceinline__ void add_deferred(const float (&taken)[N],
                                                    deferred_splits<N, MAX> &deferred,
                                                    const float (&sum)[N], float (&total)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float y = taken[i];
        y = deferred.n > 0 ? y + total[i] : y;
#pragma unroll
        for (unsigned k = 0; MAX > 0 && k < MAX; k++)
            y = k + 1 < deferred.n ? y + deferred.sums[k][i] : y;
        total[i] = y + sum[i];
    }
    deferred.n = 0;
}

/* A sum that is published, which is never 0: a float with its bits inverted, an int32, whose
 * magnitude is below 2^31, with its sign inverted. So 0, which fresh memory has and whoever reads a
 * sum leaves behind, says that there is none yet. (fused/decode_handoff.cuh, whose memory each
 * launch fills, hands over floats as they are.) */
template <int LAYOUT> static __device__ __forceinline__ uint32_t encode_partial(float sum) {
    uint32_t bits = __float_as_uint(sum);
    if constexpr (LAYOUT == LN_LAYOUT_INT8_ROW)
        return bits ^ 0x80000000u;
    return ~(bits == 0xffffffffu ? 0x7fffffffu : bits);
}

template <int LAYOUT> static __device__ __forceinline__ float4 decode_partial(const uint4 &four) {
    constexpr uint32_t INVERTED = LAYOUT == LN_LAYOUT_INT8_ROW ? 0x80000000u : 0xffffffffu;
    return make_float4(__uint_as_float(four.x ^ INVERTED), __uint_as_float(four.y ^ INVERTED),
                       __uint_as_float(four.z ^ INVERTED), __uint_as_float(four.w ^ INVERTED));
}

static __device__ __forceinline__ uint4 load_four_relaxed(const uint4 *four) {
    uint4 now;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(now.x), "=r"(now.y), "=r"(now.z), "=r"(now.w)
                 : "l"(four)
                 : "memory");
    return now;
}

static __device__ __forceinline__ void store_four_relaxed(uint4 *to, const uint4 &four) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(four.x),
                 "r"(four.y), "r"(four.z), "r"(four.w)
                 : "memory");
}

/* Publishes four sums. */
template <int LAYOUT>
static __device__ __forceinline__ void publish_four(uint4 *to, const float *sums) {
    store_four_relaxed(
        to, make_uint4(encode_partial<LAYOUT>(sums[0]), encode_partial<LAYOUT>(sums[1]),
                       encode_partial<LAYOUT>(sums[2]), encode_partial<LAYOUT>(sums[3])));
}

static __device__ __forceinline__ bool is_missing(const uint4 &four) {
    return four.x == 0 || four.y == 0 || four.z == 0 || four.w == 0;
}

/* The slot of K split number `item` of all: [4 sums][256 threads]. */
static __device__ __forceinline__ uint4 *slot_of_split(const small_m_args &a, unsigned item) {
    return (uint4 *)a.p.split.published + (size_t)item * (LN_SPLIT_K_SLOT_FLOATS / 4) + threadIdx.x;
}

template <int LAYOUT, typename SHAPE>
static __device__ __forceinline__ void publish_split(const small_m_args &a, unsigned item,
                                                     const float (&sum)[SHAPE::N_ACC]) {
    uint4 *to = slot_of_split(a, item);
#pragma unroll
    for (unsigned i = 0; i < SHAPE::N_ACC / 4; i++)
        publish_four<LAYOUT>(to + i * CONSUMERS, sum + 4 * i);
}

/* Adds what thread `skipped` threads behind this one publishes of eight rows, K split after K
 * split, as soon as all are there, and clears their slots. */
template <int LAYOUT>
static __device__ __forceinline__ void
add_published(const small_m_args &a, unsigned unit, unsigned rows, unsigned skipped, float *total) {
    uint4 *places[LN_K_SPLITS], sums[LN_K_SPLITS];
#pragma unroll
    for (unsigned s = 0; s < LN_K_SPLITS; s++) {
        places[s] = slot_of_split(a, unit * LN_K_SPLITS + s) + rows * CONSUMERS + skipped;
        sums[s] = load_four_relaxed(places[s]);
    }
#pragma unroll
    for (unsigned s = 0; s < LN_K_SPLITS; s++) {
        while (is_missing(sums[s]))
            sums[s] = load_four_relaxed(places[s]);
        float4 four = decode_partial<LAYOUT>(sums[s]);
        store_four_relaxed(places[s], make_uint4(0, 0, 0, 0));
        total[0] = s == 0 ? four.x : ln_add_k_splits<LAYOUT>(total[0], four.x);
        total[1] = s == 0 ? four.y : ln_add_k_splits<LAYOUT>(total[1], four.y);
        total[2] = s == 0 ? four.z : ln_add_k_splits<LAYOUT>(total[2], four.z);
        total[3] = s == 0 ? four.w : ln_add_k_splits<LAYOUT>(total[3], four.w);
    }
}

#endif

#endif
