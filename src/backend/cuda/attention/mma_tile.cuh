/* Attention on tensor cores, by a warp: 16 rows (tokens and heads that share K and V) meet the 64
 * keys of a tile in shared memory, by mma.sync m16n8k16 with float32 sums.
 *
 * One recurrence serves decode and prefill, so that both give a row the same bits: tiles begin at
 * multiples of 64 positions, a slice of LN_ATTENTION_SLICE positions starts from nothing, and
 * slices merge in order. What is masked changes nothing, bit for bit: its weight is 0 and it moves
 * no reference. Scores are logarithms to base 2 once they are multiplied by ln_score_factor.
 *
 * Weights are 2^(score - reference) of their row and slice. A tile moves the reference to its
 * largest score, or to a margin above it, only where that lies more than a slack above: most tiles
 * then leave what was summed before as it is.
 *
 * Fragments: lane 4 g + t holds of a 16 x 8 result (g, 2 t), (g, 2 t + 1), (g + 8, 2 t),
 * (g + 8, 2 t + 1). Rows of shared memory have 16 bytes more than their numbers, which spreads
 * them over the banks. */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_TILE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_TILE_CUH

#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/ptx/cp_async.cuh"

enum { LN_KV_TILE = 64, LN_KV_TILE_N8 = LN_KV_TILE / 8, LN_KV_PAD = 8 };

/* Numbers of one tile of K or V in shared memory. */
#define LN_KV_TILE_ELEMENTS(D) (LN_KV_TILE * ((D) + LN_KV_PAD))

/* How far scores may lie above their reference, and how far above the largest of them a tile moves
 * it: weights become f16, those of values in bytes times scales, and so are never more than 1. */
#define LN_RESCALE_THRESHOLD(BYTES) ((BYTES) ? 0.0f : 12.0f)
#define LN_MAX_MARGIN(BYTES) ((BYTES) ? 6.0f : 0.0f)

/* Of a cache's type: whether operands of products are bf16, else f16; and, where its numbers are
 * bytes with scales, which, LN_KV_Q8_0 or LN_KV_FP8, else 0: BYTES below. */
#define LN_KV_IS_BF16(DTYPE) ((DTYPE) == LN_KV_BF16)
#define LN_KV_QUANT_OF(DTYPE) ((DTYPE) == LN_KV_Q8_0 || (DTYPE) == LN_KV_FP8 ? (DTYPE) : 0)

/* A slice's softmax for rows g and g + 8: what scores are taken relative to, sum of weights (of
 * this lane's keys), and weighted sum of values. */
template <int D> struct ln_softmax_state {
    float reference[2], total[2];
    float sum[D / 8][4];
};

/* What a lane knows of its two rows. */
typedef struct ln_query_rows {
    size_t head[2], position[2];
    size_t begin[2], end[2]; /* keys that the row sees; nothing for rows that are not there */
} ln_query_rows;

template <bool BF16> static __device__ __forceinline__ uint32_t ln_pack_x2(float low, float high) {
    uint32_t packed;
    if (BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* c += a b */
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

static __device__ __forceinline__ void ln_ldmatrix(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ln_shared_address(row)));
}

static __device__ __forceinline__ void ln_ldmatrix_trans(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ln_shared_address(row)));
}

/* The fragments of 16 rows of queries; NULL: a row of zeros. Of 16 columns lane t has 2 t, 2 t + 1,
 * 2 t + 8 and 2 t + 9, but where keys are bytes 4 t .. 4 t + 3, which are one word there. */
template <int D, bool BF16, bool BYTES = false>
static __device__ __forceinline__ void ln_load_query(const float *row0, const float *row1,
                                                     uint32_t q[D / 16][4]) {
    unsigned t = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned at = 16 * k + (BYTES ? 4 * t + 2 * half : 8 * half + 2 * t);
            float2 a = row0 != NULL ? *(const float2 *)(row0 + at) : make_float2(0.0f, 0.0f);
            float2 b = row1 != NULL ? *(const float2 *)(row1 + at) : make_float2(0.0f, 0.0f);
            q[k][2 * half] = ln_pack_x2<BF16>(a.x, a.y);
            q[k][2 * half + 1] = ln_pack_x2<BF16>(b.x, b.y);
        }
}

/* s *= `unit` times the scales of the keys of a tile, which are `stride` floats apart: before the
 * softmax those of K, and of V behind it. ROWS 1: there are no rows g + 8. */
template <int ROWS = 2>
static __device__ __forceinline__ void ln_scale_scores(const float *scales, unsigned stride,
                                                       float unit, float s[LN_KV_TILE_N8][4]) {
    unsigned t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float scale = unit * scales[(8 * n + 2 * t + i) * stride];
            s[n][i] *= scale;
            if (ROWS == 2)
                s[n][2 + i] *= scale;
        }
}

/* s = q k^T; keys [LN_KV_TILE][D + LN_KV_PAD] */
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

/* Masks keys `first` and on that a row does not see. */
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

/* Whether scores need no more than scale and mask. */
static __host__ __device__ __forceinline__ bool ln_has_plain_scores(const ln_attention_args &p) {
    return p.softcap <= 0.0f && p.alibi_slopes == NULL && p.relative.table == NULL;
}

/* What scores of ln_finish_scores are to be multiplied by; greater than 0. */
static __device__ __forceinline__ float ln_score_factor(const ln_attention_args &p) {
    return ln_has_plain_scores(p) ? p.scale * 1.44269504088896340736f : 1.44269504088896340736f;
}

/* Cap, biases and mask of the scores of keys `first` and on; scale, too, where these need it. */
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

static __device__ __forceinline__ float ln_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 2^(x - largest), 0 where nothing was seen yet */
static __device__ __forceinline__ float ln_softmax_exp2(float x, float largest) {
    return ln_exp2(x - (largest == -INFINITY ? 0.0f : largest)); /* then x is -infinity too */
}

/* A row's reference after a tile whose largest score is `most`; -infinity: nothing was seen. */
static __device__ __forceinline__ float ln_update_max(float reference, float most, float factor,
                                                          float slack, float margin = 0.0f) {
    return fmaf(most, factor, -reference) > slack ? fmaf(most, factor, margin) : reference;
}

/* The weight of a score. */
static __device__ __forceinline__ float ln_softmax_p(float score, float factor, float reference) {
    return ln_exp2(fmaf(score, factor, -(reference == -INFINITY ? 0.0f : reference)));
}

/* What sums are to be multiplied by where their reference has moved to `now`. */
static __device__ __forceinline__ float ln_rescale_factor(float reference, float now) {
    return reference == now ? 1.0f : ln_softmax_exp2(reference, now);
}

/* Takes a tile's scores into the slice; s becomes weights. ROWS 1: there are no rows g + 8. */
template <int D, bool BYTES = false, int ROWS = 2>
static __device__ __forceinline__ void ln_online_softmax(float s[LN_KV_TILE_N8][4], float factor,
                                                     ln_softmax_state<D> *slice) {
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        float most = -INFINITY;
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            most = fmaxf(most, fmaxf(s[n][2 * row], s[n][2 * row + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        float now = ln_update_max(slice->reference[row], most, factor, LN_RESCALE_THRESHOLD(BYTES),
                                      LN_MAX_MARGIN(BYTES));
        float keep = ln_rescale_factor(slice->reference[row], now);
        float total = slice->total[row] * keep;
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
#pragma unroll
            for (int i = 2 * row; i < 2 * row + 2; i++) {
                s[n][i] = ln_softmax_p(s[n][i], factor, now);
                total += s[n][i];
            }
        slice->reference[row] = now;
        slice->total[row] = total;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            slice->sum[d][2 * row] *= keep;
            slice->sum[d][2 * row + 1] *= keep;
        }
    }
}

/* Sums of at most eight rows, of values as the rows of products and weights as their columns: lane
 * 4 g + t has of two columns of values, which are rows g and g + 8 of product d, rows 2 t and
 * 2 t + 1. That halves products and sums. */
template <int D> struct ln_transposed_acc {
    float of[D / 16][4]; /* (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1) */
};

/* What row g has, as lanes 4 g + t have it, for rows 2 t and 2 t + 1. */
static __device__ __forceinline__ float2 ln_transposed_rows(float x) {
    unsigned t = threadIdx.x % 4;
    return make_float2(__shfl_sync(0xffffffffu, x, 8 * t),
                       __shfl_sync(0xffffffffu, x, 8 * t + 4));
}

/* As ln_online_softmax. `slice` is for references and totals alone. */
template <int D, bool BYTES = false>
static __device__ __forceinline__ void ln_online_softmax(float s[LN_KV_TILE_N8][4], float factor,
                                                     ln_softmax_state<8> *slice, ln_transposed_acc<D> *sums) {
    float before = slice->reference[0];
    ln_online_softmax<8, BYTES, 1>(s, factor, slice);
    if (!__any_sync(0xffffffffu, before != slice->reference[0]))
        return;
    float2 keep = ln_transposed_rows(ln_rescale_factor(before, slice->reference[0]));
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        sums->of[d][0] *= keep.x;
        sums->of[d][1] *= keep.y;
        sums->of[d][2] *= keep.x;
        sums->of[d][3] *= keep.y;
    }
}

/* sum += weights v; values [LN_KV_TILE][D + LN_KV_PAD] */
template <int D, bool BF16>
static __device__ __forceinline__ void ln_mma_pv(const float s[LN_KV_TILE_N8][4],
                                                     const uint16_t *values, ln_softmax_state<D> *slice) {
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
            ln_mma<BF16>(slice->sum[d], a, b[0], b[1]);
            ln_mma<BF16>(slice->sum[d + 1], a, b[2], b[3]);
        }
    }
}

template <int D> static __device__ __forceinline__ void ln_softmax_init(ln_softmax_state<D> *slice) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        slice->reference[row] = -INFINITY;
        slice->total[row] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        slice->sum[d][0] = slice->sum[d][1] = slice->sum[d][2] = slice->sum[d][3] = 0.0f;
}

/* The sum of weights over the lanes that share a row. */
static __device__ __forceinline__ float ln_reduce_row_sum(float total) {
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    return total + __shfl_xor_sync(0xffffffffu, total, 2);
}

/* How a slice is merged into all before it: whole = whole * keep + slice * add. */
static __device__ __forceinline__ void ln_merge_scales(float *whole_reference, float reference,
                                                        float *keep, float *add) {
    float now = fmaxf(*whole_reference, reference);
    *keep = ln_rescale_factor(*whole_reference, now);
    *add = ln_softmax_exp2(reference, now);
    *whole_reference = now;
}

static __device__ __forceinline__ float ln_merge(float whole, float keep, float slice, float add) {
    return fmaf(slice, add, whole * keep);
}

/* What a row's sums are to be multiplied by at the end. */
static __device__ __forceinline__ float ln_normalizer(float total) {
    return 1.0f / total;
}

/* ---- tiles to shared memory ------------------------------------------------------------------ */

/* Rows of the cache, as loads of tiles take them. */
typedef struct ln_kv_tile_source {
    const int32_t *table;
    unsigned kv_head, n_heads, block_shift; /* a block has 1 << block_shift tokens */
    unsigned low, high;                     /* keys that are there */
    unsigned thread, n_threads;
} ln_kv_tile_source;

/* The row of the cache that stands for a key: its own, or of one that is there. */
static __device__ __forceinline__ size_t ln_kv_tile_row(const ln_kv_tile_source &from, unsigned key) {
    key = min(max(key, from.low), from.high - 1);
    size_t block = (size_t)from.table[key >> from.block_shift];
    return ((block * from.n_heads + from.kv_head) << from.block_shift) +
           (key & ((1u << from.block_shift) - 1));
}

/* What bytes become for products is smaller by this. */
#define LN_KV_DEQUANT_SCALE(BYTES) ((BYTES) == LN_KV_FP8 ? 256.0f : 128.0f)

/* Four bytes as ln_dequantize_x2 takes them. */
template <int BYTES> static __device__ __forceinline__ uint32_t ln_dequantize_bias(uint32_t word) {
    return BYTES == LN_KV_FP8 ? word : word ^ 0x80808080u; /* 128 more, without a sign */
}

/* Two bytes as f16: i and i + 1. Of int8 they become the low bits of 1024 + byte, and then a 128th
 * of each; those of E4M3 are the bits of a 256th, as which Hopper makes them by itself. */
template <int BYTES>
static __device__ __forceinline__ uint32_t ln_dequantize_x2(uint32_t word, int i) {
    uint32_t pair;
    if (BYTES == LN_KV_FP8) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
            : "=r"(pair)
            : "h"((uint16_t)(i == 0 ? word : word >> 16)));
        asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x1c001c00u)); /* 2^-8 */
        return pair;
#endif
        pair = __byte_perm(word, 0, i == 0 ? 0x1404u : 0x3424u);
        return (pair & 0x80008000u) | (pair >> 1 & 0x3f803f80u);
    }
    asm("fma.rn.f16x2 %0, %1, %2, %3;" /* 2^-7, and -9 = -(1024 + 128) 2^-7 */
        : "=r"(pair)
        : "r"(__byte_perm(word, 0x64646464u, i == 0 ? 0x4140u : 0x4342u)), "r"(0x20002000u),
          "r"(0xc880c880u));
    return pair;
}

/* 16 numbers of BYTES as f16, of keys in the order of ln_load_query. */
template <int BYTES, bool KEYS>
static __device__ __forceinline__ void ln_dequantize_kv(uint4 bytes, uint4 to[2]) {
    const uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    uint32_t out[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t word = ln_dequantize_bias<BYTES>(words[i]);
        out[KEYS ? i : 2 * i] = ln_dequantize_x2<BYTES>(word, 0);
        out[KEYS ? i + 4 : 2 * i + 1] = ln_dequantize_x2<BYTES>(word, 2);
    }
    to[0] = make_uint4(out[0], out[1], out[2], out[3]);
    to[1] = make_uint4(out[4], out[5], out[6], out[7]);
}

/* 16 bytes of a row: 8 numbers, or 16 of BYTES as 32 bytes of f16. */
template <int D, int BYTES, bool KEYS = false>
static __device__ __forceinline__ void ln_load_kv_chunk(const ln_kv_array &array, size_t row,
                                                    unsigned column, uint16_t *to) {
    if (!BYTES) {
        ln_cp_async_16(to, (const uint16_t *)array.data + row * D + column);
        return;
    }
    uint4 out[2];
    ln_dequantize_kv<BYTES, KEYS>(*(const uint4 *)(ln_kv_bytes(array, row) + column), out);
    ((uint4 *)to)[0] = out[0];
    ((uint4 *)to)[1] = out[1];
}

/* The scale of row 0 of a tile of bytes, and floats from row to row. */
#define LN_KV_TILE_SCALES(D, TILE) ((float *)((TILE) + (D)))
#define LN_KV_SCALE_STRIDE(D) (((D) + LN_KV_PAD) / 2)

/* Copies a thread's share of a tile of one array, a (KEYS: of K), or of K and V (BOTH; else b and
 * tile_b are NULL): keys first .. first + 63. Of BYTES numbers become smaller by LN_KV_DEQUANT_SCALE than
 * what is cached, and scales stand in the padding of rows. Without, the copies are queued, and to
 * be committed. */
template <int D, int BYTES, bool BOTH, bool KEYS = BOTH>
static __device__ __forceinline__ void ln_load_kv_tile(const ln_kv_tile_source &from, unsigned first,
                                                    const ln_kv_array &a, uint16_t *tile_a,
                                                    const ln_kv_array &b, uint16_t *tile_b) {
    enum { PER_COPY = BYTES ? 16 : 8, COPIES = D / PER_COPY };
#pragma unroll 4
    for (unsigned at = from.thread; at < LN_KV_TILE * COPIES; at += from.n_threads) {
        unsigned row = at / COPIES, column = at % COPIES * PER_COPY;
        size_t cached = ln_kv_tile_row(from, first + row);
        uint16_t *row_a = tile_a + row * (D + LN_KV_PAD), *row_b = tile_b + row * (D + LN_KV_PAD);
        ln_load_kv_chunk<D, BYTES, KEYS>(a, cached, column, row_a + column);
        if (BOTH)
            ln_load_kv_chunk<D, BYTES>(b, cached, column, row_b + column);
        if (BYTES && column == 0)
            *LN_KV_TILE_SCALES(D, row_a) = *ln_kv_scale(a, cached);
        if (BYTES && BOTH && column == 0)
            *LN_KV_TILE_SCALES(D, row_b) = *ln_kv_scale(b, cached);
    }
}

#endif
