/* A fused_plan's attention: sequences of one token each, whose heads are finished and cached on the way.
 * A block takes a slice of a KV head: four warps score each of its tiles, then a warp for every 16
 * columns of V weighs all of them. Before q, k and v are there, what was cached by earlier steps is
 * under way, and what positions turn heads by is known. For f16 caches. The recurrence is that of
 * attention/mma_tile.cuh, bit for bit. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ATTENTION_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ATTENTION_CUH

#include "backend/cuda/fused/decode_args.cuh"

enum {
    LN_DECODE_KV_TILES = LN_ATTENTION_SLICE / LN_KV_TILE,
    LN_DECODE_TILE_WARPS = LN_DECODE_WARPS / LN_DECODE_KV_TILES, /* of a tile's keys, a warp each */
    LN_DECODE_WARP_KEYS = LN_KV_TILE / LN_DECODE_TILE_WARPS,
    LN_DECODE_MAX_HEAD_DIM = 128 /* what shared memory has room for */
};

static_assert(LN_DECODE_TILE_WARPS == 4 && LN_DECODE_WARP_KEYS == 16, "a float4, and two steps of keys");

/* A slice of a KV head; sequence `token` has one token, that one. */
typedef struct ln_decode_kv_split {
    unsigned token, kv_head, s;
    unsigned position, begin, end; /* of the token; keys that it sees */
    unsigned first, n_tiles;       /* of the slice; none where the token sees nothing of it */
    bool is_own;                   /* has the token's own key */
    size_t row;                    /* then, of the token in the cache */
} ln_decode_kv_split;

/* A block's work memory: tiles of K, behind them, and then where these were, of V; finished heads,
 * then weights, of rows 8 and on only where a KV head has so many heads. */
template <int D> struct ln_decode_attention_memory {
    uint16_t tiles[LN_DECODE_KV_TILES][LN_KV_TILE_ELEMENTS(D)];
    float4 largest[LN_DECODE_KV_TILES][16]; /* of each part of the keys */
    union {
        struct {
            float k[D], q[LN_DECODE_MAX_HEADS][D];
        } heads;
        float2 weights[2][LN_DECODE_KV_TILES][LN_KV_TILE_N8][LN_WARP];
    };
};

/* What is known of a block's first slice ahead, beside the work memory. */
template <int D> struct ln_decode_split_plan {
    ln_decode_kv_split place;
    float2 turns[D / 2]; /* cosine and sine for each pair of a head */
};

/* Rows of weights from 8 on are spared where a KV head has no more heads. */
static_assert(sizeof(ln_decode_attention_memory<64>) == ln_decode_attention_work_bytes(64, 16) &&
                  sizeof(ln_decode_attention_memory<128>) ==
                      ln_decode_attention_work_bytes(128, 16) &&
                  sizeof(((ln_decode_attention_memory<128> *)0)->weights[1]) ==
                      ln_decode_attention_work_bytes(128, 16) -
                          ln_decode_attention_work_bytes(128, 8) &&
                  (sizeof(ln_decode_split_plan<LN_DECODE_MAX_HEAD_DIM>) + 127) / 128 * 128 ==
                      LN_DECODE_PLAN_BYTES,
              "as the planner has it");

static_assert(9 * LN_DECODE_MAX_HEAD_DIM * sizeof(float) <=
                  sizeof(ln_decode_attention_memory<64>::weights[0]),
              "eight heads and k lie within the weights of eight rows");

/* Slice `number` of all. */
static __device__ __forceinline__ ln_decode_kv_split
ln_decode_find_split(const ln_decode_attention &c, unsigned number) {
    const ln_mma_attention_args &p = c.mma;
    ln_decode_kv_split at;
    unsigned kv_heads = (unsigned)p.a.kv.n_heads;
    size_t position, from, to;
    at.s = number % p.n_splits;
    at.kv_head = number / p.n_splits % kv_heads;
    at.token = number / p.n_splits / kv_heads;
    position = (size_t)p.a.positions[at.token];
    ln_key_range(p.a, at.token, position, &from, &to);
    at.position = (unsigned)position, at.begin = (unsigned)from, at.end = (unsigned)to;
    unsigned begin = at.s * LN_ATTENTION_SLICE, end = begin + LN_ATTENTION_SLICE;
    bool is_seen = begin < at.end && end > at.begin;
    end = min(end, at.end);
    at.first = begin > at.begin ? begin : at.begin / LN_KV_TILE * LN_KV_TILE;
    at.n_tiles = is_seen ? (end - at.first + LN_KV_TILE - 1) / LN_KV_TILE : 0;
    at.is_own = at.position / LN_ATTENTION_SLICE == at.s;
    at.row = ln_kv_row(c.qkv.kv, (size_t)c.qkv.slots[at.token], at.kv_head);
    return at;
}

/* By what positions turn pairs of a head; as ln_finish_head has it. */
static __device__ __forceinline__ void
ln_decode_rope_angles(const ln_qkv_args &qkv, unsigned position, unsigned pair, float2 *turns) {
    if (!qkv.has_rope || pair >= (unsigned)qkv.rope.n_dims / 2)
        return;
    float angle = (float)(int32_t)position * qkv.rope.inv_freq[pair];
    turns[pair] = make_float2(cosf(angle) * qkv.rope.magnitude, sinf(angle) * qkv.rope.magnitude);
}

/* Where a tile of V lies: those of K are in front, and few leave room for it. */
static __device__ __forceinline__ unsigned ln_decode_v_tile(const ln_decode_kv_split &at,
                                                               unsigned tile) {
    return (at.n_tiles + tile) % LN_DECODE_KV_TILES;
}

static __device__ __forceinline__ bool ln_decode_v_fits(const ln_decode_kv_split &at,
                                                         unsigned tile) {
    return at.n_tiles + tile < LN_DECODE_KV_TILES;
}

/* Queues the copies of a tile without the token's own row, for which others see to; rows that are
 * not there become zeros. */
template <int D>
static __device__ __forceinline__ void
ln_decode_load_cached_tile(const ln_kv_tile_source &from, const ln_decode_kv_split &at, unsigned tile,
                     const ln_kv_array &array, uint16_t *to) {
    enum { COPIES = D / 8 };
    for (unsigned i = from.thread; i < LN_KV_TILE * COPIES; i += from.n_threads) {
        unsigned row = i / COPIES, column = i % COPIES * 8, key = at.first + tile * LN_KV_TILE + row;
        uint16_t *place = to + row * (D + LN_KV_PAD) + column;
        if (key >= from.low && key < from.high)
            ln_load_kv_chunk<D, false>(array, ln_kv_tile_row(from, key), column, place);
        else if (key != at.position)
            *(uint4 *)place = make_uint4(0, 0, 0, 0);
    }
}

/* Queues what earlier steps cached of a slice, as far as there is room. */
template <int D>
static __device__ __forceinline__ void
ln_decode_prefetch_kv(const ln_mma_attention_args &p, const ln_decode_kv_split &at, unsigned thread,
                    unsigned n_threads, ln_decode_attention_memory<D> &m) {
    unsigned end = min(at.end, at.position);
    ln_kv_tile_source from = ln_make_kv_tile_source(p, at.token, at.kv_head, at.begin, end, thread, n_threads);
    for (unsigned tile = 0; tile < at.n_tiles; tile++)
        ln_decode_load_cached_tile<D>(from, at, tile, p.a.keys, m.tiles[tile]);
    for (unsigned tile = 0; tile < at.n_tiles && ln_decode_v_fits(at, tile); tile++)
        ln_decode_load_cached_tile<D>(from, at, tile, p.a.values, m.tiles[ln_decode_v_tile(at, tile)]);
    ln_cp_async_commit();
}

/* Queues the tiles of V that there was no room for, the token's own row among them. */
template <int D>
static __device__ __forceinline__ void ln_decode_load_rest_of_v(const ln_mma_attention_args &p,
                                                          const ln_decode_kv_split &at,
                                                          ln_decode_attention_memory<D> &m) {
    ln_kv_tile_source from =
        ln_make_kv_tile_source(p, at.token, at.kv_head, at.begin, at.end, threadIdx.x, LN_DECODE_THREADS);
    for (unsigned tile = 0; tile < at.n_tiles; tile++)
        if (!ln_decode_v_fits(at, tile))
            ln_load_kv_tile<D, false, false>(from, at.first + tile * LN_KV_TILE, p.a.values,
                                          m.tiles[ln_decode_v_tile(at, tile)], p.a.values, NULL);
    ln_cp_async_commit();
}

/* A number of a head, once it is there; x: what was seen there. */
static __device__ __forceinline__ float ln_decode_wait_for(const float *at, float x) {
    while (ln_handoff_is_empty(x))
        x = ln_load_relaxed(at);
    return x;
}

/* A finished head of k, or one of v, to its rows of the cache and of a tile (or NULL); by a warp.
 */
template <int D>
static __device__ __forceinline__ void ln_decode_store_kv(const float held[D / LN_WARP],
                                                     const ln_kv_array &array, size_t row,
                                                     uint16_t *in_tile) {
    uint16_t *cached = (uint16_t *)array.data + row * D;
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++) {
        unsigned i = threadIdx.x % LN_WARP + j * LN_WARP;
        uint16_t bits = __half_as_ushort(__float2half_rn(held[j]));
        cached[i] = bits;
        if (in_tile != NULL)
            in_tile[i] = bits;
    }
}

/* Numbers of a head, of a lane: every LN_WARP-th. */
template <int D>
static __device__ __forceinline__ void ln_decode_load_head(const float *x, float held[D / LN_WARP]) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = ln_load_relaxed(x + lane + j * LN_WARP);
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = ln_decode_wait_for(x + lane + j * LN_WARP, held[j]);
}

/* ln_finish_head of a head without a norm, whose turns are known. */
template <int D>
static __device__ __forceinline__ void ln_decode_rotate(const ln_rope &rope, unsigned n_rotated,
                                                     const float2 *turns, const float *x,
                                                     float *out) {
    enum { PAIRS = D / 2 / LN_WARP };
    unsigned lane = threadIdx.x % LN_WARP, first[PAIRS], second[PAIRS];
    float2 held[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        unsigned pair = lane + j * LN_WARP;
        bool turns_pair = pair < n_rotated / 2;
        first[j] = 2 * pair, second[j] = 2 * pair + 1;
        if (turns_pair)
            ln_find_pair(rope, pair, &first[j], &second[j]);
        held[j] = make_float2(ln_load_relaxed(x + first[j]), ln_load_relaxed(x + second[j]));
    }
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        float a = ln_decode_wait_for(x + first[j], held[j].x);
        float b = ln_decode_wait_for(x + second[j], held[j].y);
        if (lane + j * LN_WARP < n_rotated / 2) {
            float2 turn = turns[lane + j * LN_WARP];
            out[first[j]] = a * turn.x - b * turn.y;
            out[second[j]] = b * turn.x + a * turn.y;
        } else {
            out[first[j]] = a;
            out[second[j]] = b;
        }
    }
    __syncwarp();
}

/* A head of q or k; by a warp. */
template <int D>
static __device__ __forceinline__ void
ln_decode_finish_head(const ln_qkv_args &qkv, const ln_norm &norm, unsigned head, unsigned position,
                const float2 *turns, const float *x, float *out) {
    if (qkv.normalizes) {
        float held[D / LN_WARP];
        ln_decode_load_head<D>(x, held);
#pragma unroll
        for (int j = 0; j < D / LN_WARP; j++)
            out[threadIdx.x % LN_WARP + j * LN_WARP] = held[j];
        __syncwarp();
        ln_finish_head(qkv, norm, head, (int32_t)position, D, out, out);
    } else {
        ln_decode_rotate<D>(qkv.rope, qkv.has_rope ? (unsigned)qkv.rope.n_dims : 0, turns, x, out);
    }
}

/* Finishes the query heads, and k where the slice is the token's own, which goes to the cache and
 * to the tiles with v. A warp for a head. */
template <int D>
static __device__ __forceinline__ void
ln_decode_finish_heads(const ln_decode_attention &c, const float2 *turns, const ln_decode_kv_split &at,
               ln_decode_attention_memory<D> &m) {
    const ln_qkv_args &qkv = c.qkv;
    unsigned warp = threadIdx.x / LN_WARP, kv_heads = (unsigned)qkv.kv.n_heads;
    for (unsigned h = warp; h < c.mma.heads_per_kv; h += LN_DECODE_WARPS) {
        unsigned head = at.kv_head * c.mma.heads_per_kv + h;
        ln_decode_finish_head<D>(qkv, qkv.q_norm, head, at.position, turns,
                           qkv.q + (at.token * qkv.n_heads + head) * D, m.heads.q[h]);
    }
    if (!at.is_own || warp < LN_DECODE_WARPS - 2)
        return;
    unsigned from = (at.token * kv_heads + at.kv_head) * D;
    unsigned tile = (at.position - at.first) / LN_KV_TILE;
    unsigned in_tile = at.position % LN_KV_TILE * (D + LN_KV_PAD);
    float held[D / LN_WARP];
    if (warp == LN_DECODE_WARPS - 2) {
        bool is_early = ln_decode_v_fits(at, tile);
        ln_decode_load_head<D>(qkv.v + from, held);
        ln_decode_store_kv<D>(held, qkv.values, at.row,
                         is_early ? m.tiles[ln_decode_v_tile(at, tile)] + in_tile : NULL);
        return;
    }
    ln_decode_finish_head<D>(qkv, qkv.k_norm, at.kv_head, at.position, turns, qkv.k + from, m.heads.k);
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = m.heads.k[threadIdx.x % LN_WARP + j * LN_WARP];
    ln_decode_store_kv<D>(held, qkv.keys, at.row, m.tiles[tile] + in_tile);
}

static __device__ __forceinline__ float ln_largest_of_parts(const float4 &x) {
    return fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
}

/* The scores of this warp's part of its tile, and the largest of each row to m.largest. */
template <int D>
static __device__ __forceinline__ void ln_decode_qk(const ln_decode_attention &c,
                                                      const ln_query_rows &rows, unsigned first,
                                                      ln_decode_attention_memory<D> &m, float s[2][4]) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP, row = lane / 4;
    unsigned tile = warp / LN_DECODE_TILE_WARPS, part = warp % LN_DECODE_TILE_WARPS;
    uint32_t q[D / 16][4];
    ln_load_query<D, false>(row < c.mma.heads_per_kv ? m.heads.q[row] : NULL,
                            row + 8 < c.mma.heads_per_kv ? m.heads.q[row + 8] : NULL, q);
    const uint16_t *keys = m.tiles[tile] + part * LN_DECODE_WARP_KEYS * (D + LN_KV_PAD) +
                           (lane % 8 + lane / 16 * 8) * (D + LN_KV_PAD) + lane / 8 % 2 * 8;
    float all[LN_KV_TILE_N8][4] = {}; /* of which the part has two */
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t b[4];
        ln_ldmatrix(b, keys + 16 * k);
        ln_mma<false>(all[0], q[k], b[0], b[1]);
        ln_mma<false>(all[1], q[k], b[2], b[3]);
    }
    ln_finish_scores(c.mma.a, rows, first + tile * LN_KV_TILE + part * LN_DECODE_WARP_KEYS, all);
#pragma unroll
    for (int i = 0; i < 8; i++)
        s[i / 4][i % 4] = all[i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float largest = -INFINITY;
#pragma unroll
        for (int n = 0; n < 2; n++)
            largest = fmaxf(largest, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        if (lane % 4 == 0)
            ((float *)&m.largest[tile][row + 8 * i])[part] = largest;
    }
}

/* Scores of this warp's part to weights, given the tiles before it. */
template <int D>
static __device__ __forceinline__ void ln_decode_softmax(const float s[2][4], float factor,
                                                      bool has_upper,
                                                      ln_decode_attention_memory<D> &m) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned tile = warp / LN_DECODE_TILE_WARPS, first = warp % LN_DECODE_TILE_WARPS * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float reference = -INFINITY;
        if (i == 1 && !has_upper)
            break;
        for (unsigned t = 0; t <= tile; t++)
            reference = ln_update_max(
                reference, ln_largest_of_parts(m.largest[t][lane / 4 + 8 * i]), factor,
                LN_RESCALE_THRESHOLD(false));
#pragma unroll
        for (unsigned n = 0; n < 2; n++)
            m.weights[i][tile][first + n][lane] =
                make_float2(ln_softmax_p(s[n][2 * i], factor, reference),
                            ln_softmax_p(s[n][2 * i + 1], factor, reference));
    }
}

/* Columns 16 * warp and on of the slice's sums, as ln_online_softmax and ln_mma_pv make them. */
template <int D>
static __device__ __forceinline__ void
ln_decode_pv(const ln_decode_attention_memory<D> &m, const ln_decode_kv_split &at, float factor,
                bool has_upper, float reference[2], float total[2], float sum[2][4]) {
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * 16;
    for (unsigned tile = 0; tile < at.n_tiles; tile++) {
        float4 w[LN_KV_TILE_N8];
        float keep[2];
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++) {
            float2 low = m.weights[0][tile][n][lane];
            float2 high = has_upper ? m.weights[1][tile][n][lane] : make_float2(0.0f, 0.0f);
            w[n] = make_float4(low.x, low.y, high.x, high.y);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float most = ln_largest_of_parts(m.largest[tile][lane / 4 + 8 * i]);
            float now = ln_update_max(reference[i], most, factor, LN_RESCALE_THRESHOLD(false));
            keep[i] = ln_rescale_factor(reference[i], now);
            reference[i] = now;
            total[i] *= keep[i];
        }
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++) {
            total[0] += w[n].x;
            total[0] += w[n].y;
            total[1] += w[n].z;
            total[1] += w[n].w;
        }
#pragma unroll
        for (int d = 0; d < 2; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[d][i] *= keep[i / 2];
        const uint16_t *values = m.tiles[ln_decode_v_tile(at, tile)];
        const uint16_t *row = values + lane % 16 * (D + LN_KV_PAD) + lane / 16 * 8 + column;
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++) {
            const float4 &a = w[2 * k], &b = w[2 * k + 1];
            const uint32_t weights[4] = {ln_pack_x2<false>(a.x, a.y), ln_pack_x2<false>(a.z, a.w),
                                         ln_pack_x2<false>(b.x, b.y), ln_pack_x2<false>(b.z, b.w)};
            uint32_t v[4];
            ln_ldmatrix_trans(v, row + k * 16 * (D + LN_KV_PAD));
            ln_mma<false>(sum[0], weights, v[0], v[1]);
            ln_mma<false>(sum[1], weights, v[2], v[3]);
        }
    }
}

/* A number of the result. */
static __device__ __forceinline__ void ln_decode_store_value(const ln_decode_attention &c, size_t at,
                                                            float y) {
    if (c.handoff != NULL)
        ln_handoff_store(c.handoff + at, y);
    if (c.mma.a.out != NULL)
        c.mma.a.out[at] = y;
}

/* The slice's sums of this warp's columns: the result where there is one slice, else for the merge.
 */
template <int D>
static __device__ __forceinline__ void
ln_decode_store_split(const ln_decode_attention &c, size_t token, unsigned kv_head, unsigned s,
                     const float reference[2], const float total[2], const float sum[2][4]) {
    const ln_mma_attention_args &p = c.mma;
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * 16 + lane % 4 * 2;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        float slice_total = ln_reduce_row_sum(total[i]);
        if (row >= p.heads_per_kv)
            continue;
        size_t head = kv_head * p.heads_per_kv + row, item = token * p.a.n_heads + head;
        float keep = 0.0f, add = 1.0f, share = 1.0f;
        if (p.n_splits > 1) {
            if (column == 0)
                p.stats[item * p.n_splits + s] = make_float2(reference[i], slice_total);
        } else {
            float whole_reference, whole;
            ln_merge_init(p, head, &whole_reference, &whole);
            ln_merge_scales(&whole_reference, reference[i], &keep, &add);
            share = ln_normalizer(ln_merge(whole, keep, slice_total, add));
        }
#pragma unroll
        for (int d = 0; d < 2; d++) {
            float a = sum[d][2 * i], b = sum[d][2 * i + 1];
            if (p.n_splits > 1) {
                float *to = p.sums + (item * p.n_splits + s) * D + column;
                *(float2 *)(to + 8 * d) = make_float2(a, b);
                continue;
            }
            size_t at = item * D + column + 8 * (size_t)d;
            ln_decode_store_value(c, at, ln_merge(0.0f, keep, a, add) * share);
            ln_decode_store_value(c, at + 1, ln_merge(0.0f, keep, b, add) * share);
        }
    }
}

/* One slice, what of it was cached early being under way. */
template <int D>
static __device__ __forceinline__ void
ln_decode_attend_split(const ln_decode_attention &c, const float2 *turns,
                      const ln_decode_kv_split &at, ln_decode_attention_memory<D> &m) {
    const ln_mma_attention_args &p = c.mma;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    ln_decode_finish_heads<D>(c, turns, at, m);
    ln_query_rows rows;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        rows.head[i] = at.kv_head * p.heads_per_kv + (row < p.heads_per_kv ? row : 0);
        rows.position[i] = at.position;
        rows.begin[i] = at.begin;
        rows.end[i] = at.end;
    }
    float scores[2][4], reference[2] = {-INFINITY, -INFINITY}, total[2] = {};
    float sum[2][4] = {};
    const float factor = ln_score_factor(p.a);
    ln_cp_async_wait<0>();
    __syncthreads();
    if (warp / LN_DECODE_TILE_WARPS < at.n_tiles)
        ln_decode_qk<D>(c, rows, at.first, m, scores);
    __syncthreads();
    ln_decode_load_rest_of_v<D>(p, at, m);
    if (warp / LN_DECODE_TILE_WARPS < at.n_tiles)
        ln_decode_softmax<D>(scores, factor, p.heads_per_kv > 8, m);
    ln_cp_async_wait<0>();
    __syncthreads();
    if (warp < D / 16) {
        ln_decode_pv<D>(m, at, factor, p.heads_per_kv > 8, reference, total, sum);
        ln_decode_store_split<D>(c, at.token, at.kv_head, at.s, reference, total, sum);
    }
}

/* How many slices there are of all tokens and KV heads; every gridDim.x-th is a block's own, the
 * first ones of the last blocks, which have the least rows of tiles. */
static __host__ __device__ __forceinline__ unsigned ln_decode_n_splits(unsigned n_rows,
                                                                      const ln_mma_attention_args &mma) {
    return n_rows * (unsigned)mma.a.kv.n_heads * mma.n_splits;
}

static __device__ __forceinline__ unsigned ln_decode_first_split(void) {
    return gridDim.x - 1 - blockIdx.x;
}

/* Finds the block's first slice and has what is cached of it brought to the L2 cache. */
template <int D>
static __device__ __forceinline__ void ln_decode_plan_split(const ln_decode_args &p,
                                                           const ln_decode_attention &c,
                                                           ln_decode_split_plan<D> &plan) {
    enum { LINE = 64 }; /* numbers of 16 bits in 128 bytes */
    if (ln_decode_first_split() >= ln_decode_n_splits(p.n_rows, c.mma))
        return;
    ln_decode_kv_split at = ln_decode_find_split(c, ln_decode_first_split());
    unsigned end = min(at.end, at.position);
    ln_kv_tile_source from = ln_make_kv_tile_source(c.mma, at.token, at.kv_head, at.begin, end, 0, 1);
    unsigned key = at.first + threadIdx.x / 2;
    const ln_kv_array &array = threadIdx.x % 2 ? c.mma.a.values : c.mma.a.keys;
    if (key < at.first + at.n_tiles * LN_KV_TILE && key < end) {
        const uint16_t *row = (const uint16_t *)array.data + ln_kv_tile_row(from, key) * D;
        for (unsigned i = 0; i < D; i += LINE)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i));
    }
    ln_decode_rope_angles(c.qkv, at.position, threadIdx.x, plan.turns);
    if (threadIdx.x == 0)
        plan.place = at;
}

/* Queues the cached part of the block's first slice; when nobody uses the work memory any more. */
template <int D>
static __device__ __forceinline__ void
ln_decode_prefetch_split(const ln_decode_args &p, const ln_decode_attention &c,
                      const ln_decode_split_plan<D> &plan, uint8_t *work) {
    if (ln_decode_first_split() < ln_decode_n_splits(p.n_rows, c.mma))
        ln_decode_prefetch_kv<D>(c.mma, plan.place, threadIdx.x, LN_DECODE_THREADS,
                               *(ln_decode_attention_memory<D> *)work);
}

/* One task, with a barrier between its two parts where slices are to be merged. The cached part
 * of the first slice is under way. */
template <int D>
static __device__ __forceinline__ void
ln_decode_run_attention(const ln_decode_args &p, const ln_decode_attention &c, ln_decode_split_plan<D> &plan,
                uint8_t *work, unsigned *turn) {
    ln_decode_attention_memory<D> &m = *(ln_decode_attention_memory<D> *)work;
    const unsigned first = ln_decode_first_split();
    for (unsigned i = first; i < ln_decode_n_splits(p.n_rows, c.mma); i += gridDim.x) {
        ln_decode_kv_split at;
        if (i == first) {
            at = plan.place;
        } else {
            at = ln_decode_find_split(c, i);
            ln_decode_prefetch_kv<D>(c.mma, at, threadIdx.x, LN_DECODE_THREADS, m);
            ln_decode_rope_angles(c.qkv, at.position, threadIdx.x, plan.turns);
            __syncthreads();
        }
        if (at.n_tiles > 0)
            ln_decode_attend_split<D>(c, plan.turns, at, m);
        __syncthreads();
    }
    if (c.mma.n_splits == 1)
        return;
    ln_grid_barrier(p.barrier_count, turn);
    unsigned n_heads = (unsigned)c.mma.a.n_heads, per_block = LN_DECODE_THREADS / D;
    for (unsigned i = blockIdx.x * per_block + threadIdx.x / D; i < p.n_rows * n_heads;
         i += gridDim.x * per_block)
        ln_decode_store_value(
            c, (size_t)i * D + threadIdx.x % D,
            ln_merge_splits<D>(c.mma, i / n_heads, i / n_heads, i % n_heads, threadIdx.x % D));
}

#endif
