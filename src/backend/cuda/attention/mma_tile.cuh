/* Attention of a warp on tensor cores: 16 query rows (tokens times the query heads of a KV head)
 * and a KV tile in shared memory, by mma.sync m16n8k16 with float32 accumulators: S = Q K^T, mask,
 * online softmax, O += P V.
 *
 * Fragments: lane 4 g + t holds of a 16 x 8 result (g, 2 t), (g, 2 t + 1), (g + 8, 2 t),
 * (g + 8, 2 t + 1): two query rows, g and g + 8. */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_TILE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_TILE_CUH

#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/attention/online_softmax.cuh"
#include "backend/cuda/attention/scores.cuh"
#include "backend/cuda/ptx/ldmatrix.cuh"

/* The two rows of a lane within a KV split: running max, row sum (of this lane's keys), O. */
template <int D> struct ln_softmax_state {
    float row_max[2], row_sum[2];
    float acc[D / 8][4];
};

/* The two query rows of a lane. */
typedef struct ln_query_rows {
    size_t head[2], position[2];
    size_t begin[2], end[2]; /* keys that the row sees; none if the row is not there */
} ln_query_rows;

template <bool BF16> static __device__ __forceinline__ uint32_t ln_pack_x2(float low, float high) {
    uint32_t packed;
    if (BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* mma.sync m16n8k16: c += a b */
template <bool BF16>
static __device__ __forceinline__ void ln_mma(float c[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1) {
    if (BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The A fragments of Q; a NULL row is zeros. Of 16 columns lane t has 2 t, 2 t + 1, 2 t + 8 and
 * 2 t + 9. For 8-bit K it has 4 t .. 4 t + 3, which are one word there. */
template <int D, bool BF16, bool QUANT = false>
static __device__ __forceinline__ void ln_load_query(const float *row0, const float *row1,
                                                     uint32_t q[D / 16][4]) {
    unsigned t = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned at = 16 * k + (QUANT ? 4 * t + 2 * half : 8 * half + 2 * t);
            float2 a = row0 != NULL ? *(const float2 *)(row0 + at) : make_float2(0.0f, 0.0f);
            float2 b = row1 != NULL ? *(const float2 *)(row1 + at) : make_float2(0.0f, 0.0f);
            q[k][2 * half] = ln_pack_x2<BF16>(a.x, a.y);
            q[k][2 * half + 1] = ln_pack_x2<BF16>(b.x, b.y);
        }
}

/* Multiplies S, or P, by `unit` times the scales of the tile's keys, which are `stride` floats
 * apart: S by those of K before the softmax, P by those of V behind it. ROWS 1: no row g + 8. */
template <int ROWS = 2, int N8 = LN_KV_TILE_N8>
static __device__ __forceinline__ void ln_scale_scores(const float *scales, unsigned stride,
                                                       float unit, float s[N8][4]) {
    unsigned t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < N8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float scale = unit * scales[(8 * n + 2 * t + i) * stride];
            s[n][i] *= scale;
            if (ROWS == 2)
                s[n][2 + i] *= scale;
        }
}

/* S = Q K^T; keys [LN_KV_TILE][D + LN_KV_PAD] */
template <int D, bool BF16>
static __device__ __forceinline__ void ln_mma_qk(const uint32_t q[D / 16][4], const uint16_t *keys,
                                                 float s[LN_KV_TILE_N8][4]) {
    unsigned lane = threadIdx.x % LN_WARP;
    /* matrices of ldmatrix: keys 0..7 and 8..15, each with dims 0..7 and 8..15 */
    const uint16_t *row = keys + (lane % 8 + lane / 16 * 8) * (D + LN_KV_PAD) + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n += 2) {
            uint32_t b[4];
            ln_ldmatrix(b, row + n * 8 * (D + LN_KV_PAD) + 16 * k);
            ln_mma<BF16>(s[n], q[k], b[0], b[1]);
            ln_mma<BF16>(s[n + 1], q[k], b[2], b[3]);
        }
}

/* Masks the keys of the tile at `first` that a row does not see. */
static __device__ __forceinline__ void ln_mask_scores(const ln_query_rows &rows, size_t first,
                                                      float s[LN_KV_TILE_N8][4]) {
    int key = (int)(first + 2 * (threadIdx.x % 4));
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int begin = (int)rows.begin[row] - key, end = (int)rows.end[row] - key;
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (8 * n + i < begin || 8 * n + i >= end)
                    s[n][2 * row + i] = -INFINITY;
    }
}

/* Mask, and where scores are not plain their scale, soft-cap and biases, of the tile at `first`. */
static __device__ __forceinline__ void ln_finish_scores(const ln_attention_args &p,
                                                        const ln_query_rows &rows, size_t first,
                                                        float s[LN_KV_TILE_N8][4]) {
    unsigned t = threadIdx.x % 4;
    bool sees_tile = first >= rows.begin[0] && first + LN_KV_TILE <= rows.end[0] &&
                     first >= rows.begin[1] && first + LN_KV_TILE <= rows.end[1];
    if (!ln_has_plain_scores(p)) {
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                size_t key = first + 8 * n + 2 * t + i % 2;
                int row = i / 2;
                if (key >= rows.begin[row] && key < rows.end[row])
                    s[n][i] = ln_finish_score(p, s[n][i], rows.head[row], rows.position[row], key);
            }
    }
    if (!sees_tile)
        ln_mask_scores(rows, first, s);
}

/* ---- online softmax -------------------------------------------------------------------------- */

template <int D>
static __device__ __forceinline__ void ln_softmax_init(ln_softmax_state<D> *state) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        state->row_max[row] = -INFINITY;
        state->row_sum[row] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        state->acc[d][0] = state->acc[d][1] = state->acc[d][2] = state->acc[d][3] = 0.0f;
}

/* Turns S into P, and rescales the state if the running max moves. ROWS 1: no row g + 8. */
template <int D, bool QUANT = false, int ROWS = 2>
static __device__ __forceinline__ void ln_online_softmax(float s[LN_KV_TILE_N8][4], float factor,
                                                         ln_softmax_state<D> *state) {
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        float tile_max = -INFINITY;
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            tile_max = fmaxf(tile_max, fmaxf(s[n][2 * row], s[n][2 * row + 1]));
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
        float now = ln_update_max(state->row_max[row], tile_max, factor,
                                  LN_RESCALE_THRESHOLD(QUANT), LN_MAX_MARGIN(QUANT));
        float rescale = ln_rescale_factor(state->row_max[row], now);
        float row_sum = state->row_sum[row] * rescale;
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
            for (int i = 2 * row; i < 2 * row + 2; i++) {
                s[n][i] = ln_softmax_p(s[n][i], factor, now);
                row_sum += s[n][i];
            }
        state->row_max[row] = now;
        state->row_sum[row] = row_sum;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            state->acc[d][2 * row] *= rescale;
            state->acc[d][2 * row + 1] *= rescale;
        }
    }
}

/* O += P V; values [LN_KV_TILE][D + LN_KV_PAD] */
template <int D, bool BF16>
static __device__ __forceinline__ void
ln_mma_pv(const float s[LN_KV_TILE_N8][4], const uint16_t *values, ln_softmax_state<D> *state) {
    unsigned lane = threadIdx.x % LN_WARP;
    const uint16_t *row = values + lane % 16 * (D + LN_KV_PAD) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++) {
        const uint32_t a[4] = {ln_pack_x2<BF16>(s[2 * k][0], s[2 * k][1]),
                               ln_pack_x2<BF16>(s[2 * k][2], s[2 * k][3]),
                               ln_pack_x2<BF16>(s[2 * k + 1][0], s[2 * k + 1][1]),
                               ln_pack_x2<BF16>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int d = 0; d < D / 8; d += 2) {
            uint32_t b[4];
            ln_ldmatrix_trans(b, row + k * 16 * (D + LN_KV_PAD) + d * 8);
            ln_mma<BF16>(state->acc[d], a, b[0], b[1]);
            ln_mma<BF16>(state->acc[d + 1], a, b[2], b[3]);
        }
    }
}

/* ---- O transposed ---------------------------------------------------------------------------- */

/* O^T = V^T P^T of at most eight query rows, which are the N of the MMA: half the MMAs and
 * accumulators. Lane 4 g + t has of product d head dims g and g + 8 of rows 2 t and 2 t + 1. */
template <int D> struct ln_transposed_acc {
    float acc[D / 16][4]; /* (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1) */
};

/* A value that lanes 4 g + t have for row g, for rows 2 t and 2 t + 1. */
static __device__ __forceinline__ float2 ln_transposed_rows(float x) {
    unsigned t = threadIdx.x % 4;
    return make_float2(__shfl_sync(0xffffffffu, x, 8 * t), __shfl_sync(0xffffffffu, x, 8 * t + 4));
}

/* As above. `state` has running max and row sum alone. */
template <int D, bool QUANT = false>
static __device__ __forceinline__ void ln_online_softmax(float s[LN_KV_TILE_N8][4], float factor,
                                                         ln_softmax_state<8> *state,
                                                         ln_transposed_acc<D> *o) {
    float before = state->row_max[0];
    ln_online_softmax<8, QUANT, 1>(s, factor, state);
    if (!__any_sync(0xffffffffu, before != state->row_max[0]))
        return;
    float2 rescale = ln_transposed_rows(ln_rescale_factor(before, state->row_max[0]));
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        o->acc[d][0] *= rescale.x;
        o->acc[d][1] *= rescale.y;
        o->acc[d][2] *= rescale.x;
        o->acc[d][3] *= rescale.y;
    }
}

/* ---- rows of a warp -------------------------------------------------------------------------- */

/* The lane's rows of the warp's tile of 16 from first_row on, and where they lie in q and out
 * (SIZE_MAX: the row is not there). */
static __device__ __forceinline__ void ln_find_query_rows(const ln_mma_attention_args &p,
                                                          size_t seq, size_t kv_head,
                                                          unsigned first_row, unsigned n_rows,
                                                          ln_query_rows *rows, size_t items[2]) {
    size_t first_token = (size_t)p.a.seq_starts[seq];
    for (int i = 0; i < 2; i++) {
        unsigned row = first_row + threadIdx.x % LN_WARP / 4 + 8 * i;
        bool is_there = row < n_rows;
        row = is_there ? row : n_rows - 1;
        size_t token = first_token + row / p.heads_per_kv;
        rows->head[i] = kv_head * p.heads_per_kv + row % p.heads_per_kv;
        rows->position[i] = (size_t)p.a.positions[token];
        ln_key_range(p.a, seq, rows->position[i], &rows->begin[i], &rows->end[i]);
        items[i] = token * p.a.n_heads + rows->head[i];
        if (!is_there) {
            rows->begin[i] = rows->end[i] = 0;
            items[i] = SIZE_MAX;
        }
    }
}

static __device__ __forceinline__ ln_kv_tile_source
ln_make_kv_tile_source(const ln_mma_attention_args &p, size_t seq, size_t kv_head, size_t low,
                       size_t high, unsigned thread, unsigned n_threads) {
    ln_kv_tile_source from;
    from.table = p.a.block_tables + seq * p.a.max_blocks;
    from.kv_head = (unsigned)kv_head;
    from.n_heads = (unsigned)p.a.kv.n_heads;
    from.block_shift = p.block_shift;
    from.low = (unsigned)low;
    from.high = (unsigned)high;
    from.thread = thread;
    from.n_threads = n_threads;
    return from;
}

/* ---- caches of any type ---------------------------------------------------------------------- */

/* S of a KV tile of a cache of type DTYPE. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
ln_tile_scores(const uint32_t q[D / 16][4], const uint16_t *keys, float s[LN_KV_TILE_N8][4]) {
    ln_mma_qk<D, LN_KV_IS_BF16(DTYPE)>(q, keys, s);
    if (LN_KV_QUANT_OF(DTYPE))
        ln_scale_scores(LN_KV_TILE_SCALES(D, keys), LN_KV_SCALE_STRIDE(D),
                        LN_KV_DEQUANT_SCALE(DTYPE), s);
}

/* O += P V of a KV tile of a cache of type DTYPE. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
ln_tile_values(float s[LN_KV_TILE_N8][4], const uint16_t *values, ln_softmax_state<D> *state) {
    if (LN_KV_QUANT_OF(DTYPE))
        ln_scale_scores(LN_KV_TILE_SCALES(D, values), LN_KV_SCALE_STRIDE(D),
                        LN_KV_DEQUANT_SCALE(DTYPE), s);
    ln_mma_pv<D, LN_KV_IS_BF16(DTYPE)>(s, values, state);
}

#endif
