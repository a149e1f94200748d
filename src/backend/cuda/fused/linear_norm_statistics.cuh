/* Norms between a chain's linears. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH

#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/fused/linear_norm.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Numbers of a row, the first of which are in shared memory. */
typedef struct held_numbers {
    const float *near, *far;
} held_numbers;

/* Has a thread's share of the first HELD_DIM copied to shared memory. */
static __device__ __forceinline__ void hold(const float *from, unsigned dim, float *to) {
    for (unsigned i = 4 * threadIdx.x; i < dim && i < HELD_DIM && from != NULL; i += 4 * WORKERS)
        ln_cp_async_16(to + i, from + i);
    ln_cp_async_commit();
}

template <typename T> static __device__ __forceinline__ T take(const held_numbers &x, unsigned i) {
    return i < HELD_DIM ? *(const T *)(x.near + i) : __ldcg((const T *)(x.far + i));
}

/* ln_held_statistics of a row; each thread takes what it has brought. */
static __device__ __forceinline__ void find_statistics(const ln_norm &norm, const held_numbers &x,
                                                       float *shared, float *mean,
                                                       float *inverse) {
    const unsigned dim = (unsigned)norm.dim;
    *mean = 0.0f;
    *inverse = 1.0f;
    if (norm.kind == LN_NORM_LAYER) {
        float sum[PLAYED] = {};
#pragma unroll 1
        for (unsigned h = 4 * threadIdx.x; h < dim; h += 4 * LN_HELD_THREADS)
#pragma unroll
            for (unsigned s = 0; s < PLAYED; s++)
                if (h + s * 4 * WORKERS < dim) {
                    float4 v = take<float4>(x, h + s * 4 * WORKERS);
                    sum[s] += v.x + v.y + (v.z + v.w);
                }
        *mean = ln_held_sum<PLAYED>(sum, shared) / (float)dim;
    }
    float squares[PLAYED] = {};
#pragma unroll 1
    for (unsigned h = 4 * threadIdx.x; h < dim; h += 4 * LN_HELD_THREADS)
#pragma unroll
        for (unsigned s = 0; s < PLAYED; s++)
            if (h + s * 4 * WORKERS < dim) {
                float4 v = take<float4>(x, h + s * 4 * WORKERS);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    squares[s] = fmaf(ln_part(v, i) - *mean, ln_part(v, i) - *mean, squares[s]);
            }
    if (norm.kind != LN_NORM_NONE)
        *inverse = 1.0f / sqrtf(ln_held_sum<PLAYED>(squares, shared) / (float)dim + norm.eps);
}

static __device__ __forceinline__ float2 weigh_two(const ln_norm &norm, const held_numbers &x,
                                                   const held_numbers &weight, unsigned col,
                                                   float mean, float inverse) {
    float2 v = take<float2>(x, col), w = {}, b = {};
    if (norm.weight != NULL)
        w = take<float2>(weight, col);
    if (norm.bias != NULL)
        b = *(const float2 *)(norm.bias + col);
    return make_float2(ln_norm_weigh(norm, v.x, w.x, b.x, mean, inverse),
                       ln_norm_weigh(norm, v.y, w.y, b.y, mean, inverse));
}

/* Rows of x, as norm_held_rows has them, once all blocks have left the results of the link in
 * front. memory: SUM_BYTES and HELD_DIM floats. shared [LN_MAX_WARPS] */
static __device__ __forceinline__ void normalize(const chain_args &c, unsigned number,
                                                 float *memory, float *shared) {
    const chain_link &l = c.links[number];
    const ln_norm &norm = l.norm;
    const ln_act_view &to = l.linears.p.x;
    chain_counts &counts = c.memory->counts;
    const unsigned dim = (unsigned)norm.dim;
    float *const weights = memory + SUM_BYTES / 4;
    if (blockIdx.x >= c.n_rows)
        return;
    hold(norm.weight, dim, weights);
    if (threadIdx.x == 0)
        wait_for_count(&counts.done[number - 1], gridDim.x);
    ln_held_meet<PLAYED>();
#pragma unroll 1
    for (unsigned row = blockIdx.x; row < c.n_rows; row += gridDim.x) {
        const float *from = l.from + (l.rows != NULL ? (size_t)l.rows[row] : row) * dim;
        const held_numbers x = {memory, from}, weight = {weights, norm.weight};
        float mean, inverse;
        hold(from, dim, memory);
        ln_cp_async_wait<0>();
        find_statistics(norm, x, shared, &mean, &inverse);
        ln_held_meet<PLAYED>(); /* for the numbers of others */
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < dim / 8; i += WORKERS) {
            unsigned col = i / 4 * 32 + i % 4 * 2, chunk = i % 8;
            uint32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float2 y = weigh_two(norm, x, weight, col + 8 * j, mean, inverse);
                words[j] = ln_pack_bf16(y.x, y.y);
                if (l.normed != NULL)
                    *(float2 *)(l.normed + (size_t)row * dim + col + 8 * j) = y;
            }
            *(uint4 *)((char *)to.bf16 + ((size_t)(col / 64) * PANEL_ROWS + row) * 128 +
                       (chunk ^ row % 8) * 16) = make_uint4(words[0], words[1], words[2], words[3]);
        }
        ln_held_meet<PLAYED>(); /* before the next row comes */
    }
    count_block(&counts.normed[number], true);
}

#endif

#endif
