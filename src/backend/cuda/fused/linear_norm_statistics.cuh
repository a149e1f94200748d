/* Norms between the linears of a fused linear + norm kernel: a block takes rows. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"
#include "backend/cuda/ptx/cp_async.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A row whose first ROW_FLOATS elements are in shared memory. */
typedef struct row_source {
    const float *shared, *global;
} row_source;

/* Queues a thread's share of the first ROW_FLOATS elements for shared memory. */
static __device__ __forceinline__ void fetch(const float *from, unsigned dim, float *to) {
    for (unsigned i = 4 * threadIdx.x; i < dim && i < ROW_FLOATS && from != NULL;
         i += 4 * CONSUMERS)
        ln_cp_async_16(to + i, from + i);
    ln_cp_async_commit();
}

template <typename T> static __device__ __forceinline__ T load(const row_source &x, unsigned i) {
    return i < ROW_FLOATS ? *(const T *)(x.shared + i) : __ldcg((const T *)(x.global + i));
}

/* As ln_norm_row_statistics; each thread reads what it has fetched. */
static __device__ __forceinline__ void row_statistics(const ln_norm &norm, const row_source &x,
                                                      float *shared, float *mean, float *inverse) {
    const unsigned dim = (unsigned)norm.dim;
    *mean = 0.0f;
    *inverse = 1.0f;
    if (norm.kind == LN_NORM_LAYER) {
        float sum[VPT] = {};
#pragma unroll 1
        for (unsigned h = 4 * threadIdx.x; h < dim; h += 4 * LN_NORM_VTHREADS)
#pragma unroll
            for (unsigned s = 0; s < VPT; s++)
                if (h + s * 4 * CONSUMERS < dim) {
                    float4 v = load<float4>(x, h + s * 4 * CONSUMERS);
                    sum[s] += v.x + v.y + (v.z + v.w);
                }
        *mean = ln_norm_sum<VPT>(sum, shared) / (float)dim;
    }
    float squares[VPT] = {};
#pragma unroll 1
    for (unsigned h = 4 * threadIdx.x; h < dim; h += 4 * LN_NORM_VTHREADS)
#pragma unroll
        for (unsigned s = 0; s < VPT; s++)
            if (h + s * 4 * CONSUMERS < dim) {
                float4 v = load<float4>(x, h + s * 4 * CONSUMERS);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    squares[s] = fmaf(ln_part(v, i) - *mean, ln_part(v, i) - *mean, squares[s]);
            }
    if (norm.kind != LN_NORM_NONE)
        *inverse = 1.0f / sqrtf(ln_norm_sum<VPT>(squares, shared) / (float)dim + norm.eps);
}

static __device__ __forceinline__ float2 normalize_two(const ln_norm &norm, const row_source &x,
                                                       const row_source &weight, unsigned col,
                                                       float mean, float inverse) {
    float2 v = load<float2>(x, col), w = {}, b = {};
    if (norm.weight != NULL)
        w = load<float2>(weight, col);
    if (norm.bias != NULL)
        b = *(const float2 *)(norm.bias + col);
    return make_float2(ln_norm_scale(norm, v.x, w.x, b.x, mean, inverse),
                       ln_norm_scale(norm, v.y, w.y, b.y, mean, inverse));
}

/* Normalises rows as norm_rows of ops/norm_launch.cu, once all blocks have stored the outputs of
 * the linear in front, and converts them to bf16 activation tiles. memory: TILE_OUT_BYTES and
 * ROW_FLOATS floats. shared [LN_MAX_WARPS] */
static __device__ __forceinline__ void normalize(const fused_args &c, unsigned number,
                                                 float *memory, float *shared) {
    const fused_linear &l = c.linears[number];
    const ln_norm &norm = l.norm;
    const ln_act_view &to = l.gemm.p.x;
    grid_counts &counts = c.memory->counts;
    const unsigned dim = (unsigned)norm.dim;
    float *const weights = memory + TILE_OUT_BYTES / 4;
    if (blockIdx.x >= c.n_rows)
        return;
    fetch(norm.weight, dim, weights);
    if (threadIdx.x == 0)
        wait_for_blocks(&counts.done[number - 1], gridDim.x);
    ln_norm_sync<VPT>();
#pragma unroll 1
    for (unsigned row = blockIdx.x; row < c.n_rows; row += gridDim.x) {
        const float *from = l.from + (l.rows != NULL ? (size_t)l.rows[row] : row) * dim;
        const row_source x = {memory, from}, weight = {weights, norm.weight};
        float mean, inverse;
        fetch(from, dim, memory);
        ln_cp_async_wait<0>();
        row_statistics(norm, x, shared, &mean, &inverse);
        ln_norm_sync<VPT>(); /* weights that other threads fetched */
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < dim / 8; i += CONSUMERS) {
            unsigned col = i / 4 * 32 + i % 4 * 2, chunk = i % 8;
            uint32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float2 y = normalize_two(norm, x, weight, col + 8 * j, mean, inverse);
                words[j] = ln_pack_bf16(y.x, y.y);
                if (l.normed != NULL)
                    *(float2 *)(l.normed + (size_t)row * dim + col + 8 * j) = y;
            }
            *(uint4 *)((char *)to.bf16 + ((size_t)(col / 64) * ACT_TILE_ROWS + row) * 128 +
                       (chunk ^ row % 8) * 16) = make_uint4(words[0], words[1], words[2], words[3]);
        }
        ln_norm_sync<VPT>(); /* before the next row is fetched */
    }
    arrive_block(&counts.normed[number], true);
}

#endif

#endif
