/* Norms between the linears of a fused linear + norm kernel, and what quantises rows for linears
 * with row scales: a block takes rows. */
#ifndef LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH
#define LN_BACKEND_CUDA_FUSED_LINEAR_NORM_STATISTICS_CUH

#include "backend/cuda/fused/linear_norm_args.cuh"
#include "backend/cuda/ptx/cp_async.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A row whose first ROW_FLOATS elements are in shared memory. */
typedef struct row_source {
    float *shared;
    const float *global;
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

/* A row to bf16 activation tiles, and to `normed` unless that is NULL. */
static __device__ __forceinline__ void store_bf16_row(const fused_linear &l, unsigned row,
                                                      const row_source &x, const row_source &weight,
                                                      float mean, float inverse) {
    const ln_norm &norm = l.norm;
    const unsigned dim = (unsigned)norm.dim;
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
        *(uint4 *)((char *)l.gemm.p.x.bf16 + ((size_t)(col / 64) * ACT_TILE_ROWS + row) * 128 +
                   (chunk ^ row % 8) * 16) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* The largest of all consumers. shared [LN_MAX_WARPS] */
static __device__ __forceinline__ float largest_of_block(float x, float *shared) {
    unsigned bits = __reduce_max_sync(0xffffffffu, __float_as_uint(x));
    if (threadIdx.x % LN_WARP == 0)
        shared[threadIdx.x / LN_WARP] = __uint_as_float(bits);
    ln_norm_sync<VPT>();
    bits = __float_as_uint(shared[threadIdx.x % WARPS]);
    ln_norm_sync<VPT>();
    return __uint_as_float(__reduce_max_sync(0xffffffffu, bits));
}

/* Four columns of a row to int8 or E4M3, in activation tiles. */
template <int LAYOUT>
static __device__ __forceinline__ void store_scaled_four(const ln_act_view &to, unsigned row,
                                                         unsigned col, const float v[4],
                                                         float largest) {
    constexpr bool IS_F8 = LAYOUT == LN_LAYOUT_F8_ROW;
    unsigned chunk = col % 128 / 32 * 2 + col % 8 / 4, lane = col % 32 / 8;
    size_t at = (size_t)(col / 128 * to.rows_per_tile + row) * 128;
    *(uint32_t *)(to.int8 + at + (chunk ^ row % 8) * 16 + lane * 4) =
        IS_F8 ? ln_f8_four(v, ln_f8_factor(largest))
              : ln_quantize_four(v, ln_inverse_scale(largest));
    if (col == 0)
        to.scales[row] = largest * (IS_F8 ? 1.0f / 448.0f : 1.0f / 127.0f);
}

/* A row to int8 or E4M3 with a scale, and to `normed` unless that is NULL. What is in shared memory
 * is normalised there. */
template <int LAYOUT>
static __device__ __forceinline__ void
store_scaled_row(const fused_linear &l, unsigned row, const row_source &x, const row_source &weight,
                 float mean, float inverse, float *shared) {
    const unsigned dim = (unsigned)l.norm.dim;
    float largest = 0.0f;
#pragma unroll 1
    for (unsigned pass = 0; pass < 2; pass++) {
#pragma unroll 1
        for (unsigned col = 4 * threadIdx.x; col < dim; col += 4 * CONSUMERS) {
            float v[4];
            if (pass == 0 || col >= ROW_FLOATS) {
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    float2 y = normalize_two(l.norm, x, weight, col + i, mean, inverse);
                    v[i] = y.x, v[i + 1] = y.y;
                }
            } else {
                float4 y = *(const float4 *)(x.shared + col);
                v[0] = y.x, v[1] = y.y, v[2] = y.z, v[3] = y.w;
            }
            if (pass > 0) {
                store_scaled_four<LAYOUT>(l.gemm.p.x, row, col, v, largest);
                continue;
            }
            largest = fmaxf(largest, ln_largest_of_four(v));
            float4 y = make_float4(v[0], v[1], v[2], v[3]);
            if (col < ROW_FLOATS)
                *(float4 *)(x.shared + col) = y;
            if (l.normed != NULL)
                *(float4 *)(l.normed + (size_t)row * dim + col) = y;
        }
        if (pass == 0)
            largest = largest_of_block(largest, shared);
    }
}

/* Normalises rows as norm_rows of ops/norm_launch.cu, once all blocks have stored the outputs of
 * the linear in front, and converts them to activation tiles as activations/convert.cu. */
template <int LAYOUT>
static __device__ __forceinline__ void normalize(const fused_args &c, unsigned number,
                                                 const consumer_memory &memory) {
    const fused_linear &l = c.linears[number];
    const ln_norm &norm = l.norm;
    grid_counts &counts = c.memory->counts;
    const unsigned dim = (unsigned)norm.dim;
    float *const weights = memory.tile + TILE_OUT_BYTES / 4;
    if (blockIdx.x >= c.n_rows)
        return;
    fetch(norm.weight, dim, weights);
    if (threadIdx.x == 0)
        wait_for_blocks(&counts.done[number - 1], gridDim.x);
    ln_norm_sync<VPT>();
#pragma unroll 1
    for (unsigned row = blockIdx.x; row < c.n_rows; row += gridDim.x) {
        const float *from = l.from + (l.rows != NULL ? (size_t)l.rows[row] : row) * dim;
        const row_source x = {memory.tile, from}, weight = {weights, norm.weight};
        float mean, inverse;
        fetch(from, dim, memory.tile);
        ln_cp_async_wait<0>();
        row_statistics(norm, x, memory.norm_sums, &mean, &inverse);
        ln_norm_sync<VPT>(); /* weights that other threads fetched */
        if constexpr (LAYOUT == LN_LAYOUT_BF16)
            store_bf16_row(l, row, x, weight, mean, inverse);
        else
            store_scaled_row<LAYOUT>(l, row, x, weight, mean, inverse, memory.norm_sums);
        ln_norm_sync<VPT>(); /* before the next row is fetched */
    }
    arrive_block(&counts.normed[number], true);
}

/* Hands on a block's part of the largest magnitudes of rows, which linear `number` quantises. */
static __device__ __forceinline__ void publish_amax(const fused_args &c, unsigned number,
                                                    const consumer_memory &memory) {
    unsigned *own = memory.scales->amax;
    ln_norm_sync<VPT>();
    if (threadIdx.x < c.n_rows) {
        atomicMax(&c.memory->counts.amax[number][threadIdx.x], own[threadIdx.x]);
        own[threadIdx.x] = 0;
    }
}

/* Quantises rows of a gated linear's results, once all blocks have stored theirs: warps of all
 * blocks take 128 columns of a row each. */
template <int LAYOUT>
static __device__ __forceinline__ void quantize(const fused_args &c, unsigned number) {
    enum { AT_ONCE = 4 };
    const fused_linear &l = c.linears[number];
    grid_counts &counts = c.memory->counts;
    const unsigned n_items = c.n_rows * l.gemm.p.n_tiles, n_warps = gridDim.x * WARPS;
    unsigned item = blockIdx.x * WARPS + threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    if (threadIdx.x == 0)
        wait_for_blocks(&counts.done[number - 1], gridDim.x);
    ln_norm_sync<VPT>();
#pragma unroll 1
    for (; item < n_items; item += AT_ONCE * n_warps) {
        float4 x[AT_ONCE];
        unsigned largest[AT_ONCE], row[AT_ONCE], col[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            unsigned at = min(item + i * n_warps, n_items - 1);
            row[i] = at % c.n_rows;
            col[i] = at / c.n_rows * 128 + lane * 4;
            x[i] = __ldcg((const float4 *)(l.from + (size_t)row[i] * l.norm.dim + col[i]));
            largest[i] = __ldcg(&counts.amax[number][row[i]]);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float v[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
            if (item + i * n_warps < n_items)
                store_scaled_four<LAYOUT>(l.gemm.p.x, row[i], col[i], v,
                                          __uint_as_float(largest[i]));
        }
    }
    arrive_block(&counts.normed[number], true);
}

#endif

#endif
