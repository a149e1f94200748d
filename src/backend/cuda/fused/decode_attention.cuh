/* Attention of the fused decode kernel: RoPE, KV write and split-KV attention of sequences of one
 * token, f16 caches, head dims 64 and 128, up to 16 query heads to a KV head.
 *
 * A block computes one KV split of one KV head: four warps to a KV tile compute its S, then one
 * warp for every 16 head dims computes P V of all tiles. Cached keys and values are prefetched, and
 * rotation angles computed, before q, k and v are there. Bits are those of attention/mma_tile.cuh.
 * The block table is read by ln_kv_tile_row (attention/kv_tile.cuh). */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_ATTENTION_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_ATTENTION_CUH

#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/attention/split_kv.cuh"
#include "backend/cuda/fused/decode_args.cuh"
#include "backend/cuda/fused/grid_barrier.cuh"

enum {
    LN_DECODE_KV_TILES = LN_KV_SPLIT / LN_KV_TILE,
    LN_DECODE_TILE_WARPS = LN_DECODE_WARPS / LN_DECODE_KV_TILES, /* of a tile's keys, a warp each */
    LN_DECODE_WARP_KEYS = LN_KV_TILE / LN_DECODE_TILE_WARPS,
    LN_DECODE_MAX_HEAD_DIM = 128 /* what shared memory has room for */
};

static_assert(LN_DECODE_TILE_WARPS == 4 && LN_DECODE_WARP_KEYS == 16,
              "a float4, and two steps of keys");

/* A KV split of a KV head; sequence `token` has one token, that one. */
typedef struct ln_decode_kv_split {
    unsigned token, kv_head, s;
    unsigned position, begin, end; /* of the token; keys that it sees */
    unsigned first, n_tiles;       /* of the split; none where the token sees nothing of it */
    bool has_own;                  /* has the token's own key */
    size_t row;                    /* then, of the token in the cache */
} ln_decode_kv_split;

/* A block's work memory: tiles of K, and of V behind them and then in their place; rotated heads,
 * then P, of rows 8 and on only where a KV head has so many query heads. */
template <int D> struct ln_decode_attention_memory {
    uint16_t tiles[LN_DECODE_KV_TILES][LN_KV_TILE_ELEMENTS(D)];
    float4 row_maxima[LN_DECODE_KV_TILES][16]; /* of each part of the keys */
    union {
        struct {
            float k[D], q[LN_DECODE_MAX_HEADS][D];
        } heads;
        float2 weights[2][LN_DECODE_KV_TILES][LN_KV_TILE_N8][LN_WARP];
    };
};

/* A block's first KV split, found ahead of its task; beside the work memory. */
template <int D> struct ln_decode_split_plan {
    ln_decode_kv_split place;
    float2 rotation[D / 2]; /* cosine and sine for each pair of a head */
};

/* P of rows from 8 on is left out where a KV head has no more query heads. */
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

/* KV split `number` of all. */
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
    unsigned begin = at.s * LN_KV_SPLIT, end = begin + LN_KV_SPLIT;
    bool is_seen = begin < at.end && end > at.begin;
    end = min(end, at.end);
    at.first = begin > at.begin ? begin : at.begin / LN_KV_TILE * LN_KV_TILE;
    at.n_tiles = is_seen ? (end - at.first + LN_KV_TILE - 1) / LN_KV_TILE : 0;
    at.has_own = at.position / LN_KV_SPLIT == at.s;
    at.row = ln_kv_row(c.qkv.kv, (size_t)c.qkv.slots[at.token], at.kv_head);
    return at;
}

/* cos and sin of a pair at a position; as ln_finish_head has it. */
static __device__ __forceinline__ void
ln_decode_rope_angles(const ln_qkv_args &qkv, unsigned position, unsigned pair, float2 *rotation) {
    if (!qkv.has_rope || pair >= (unsigned)qkv.rope.n_dims / 2)
        return;
    float angle = (float)((int32_t)position + qkv.rope.first) * qkv.rope.inv_freq[pair];
    rotation[pair] =
        make_float2(cosf(angle) * qkv.rope.magnitude, sinf(angle) * qkv.rope.magnitude);
}

/* Where a tile of V lies: behind those of K, or in their place where there is no room. */
static __device__ __forceinline__ unsigned ln_decode_v_tile(const ln_decode_kv_split &at,
                                                            unsigned tile) {
    return (at.n_tiles + tile) % LN_DECODE_KV_TILES;
}

static __device__ __forceinline__ bool ln_decode_v_fits(const ln_decode_kv_split &at,
                                                        unsigned tile) {
    return at.n_tiles + tile < LN_DECODE_KV_TILES;
}

/* Queues the copies of a tile without the token's own row; rows that are not there become zeros. */
template <int D>
static __device__ __forceinline__ void
ln_decode_load_cached_tile(const ln_kv_tile_source &from, const ln_decode_kv_split &at,
                           unsigned tile, const ln_kv_array &array, uint16_t *to) {
    enum { COPIES = D / 8 };
    for (unsigned i = from.thread; i < LN_KV_TILE * COPIES; i += from.n_threads) {
        unsigned row = i / COPIES, column = i % COPIES * 8,
                 key = at.first + tile * LN_KV_TILE + row;
        uint16_t *place = to + row * (D + LN_KV_PAD) + column;
        if (key >= from.low && key < from.high)
            ln_load_kv_chunk<D, false>(array, ln_kv_tile_row(from, key), column, place);
        else if (key != at.position)
            *(uint4 *)place = make_uint4(0, 0, 0, 0);
    }
}

/* Queues the cached keys and values of a split, as far as there is room. */
template <int D>
static __device__ __forceinline__ void
ln_decode_prefetch_kv(const ln_mma_attention_args &p, const ln_decode_kv_split &at, unsigned thread,
                      unsigned n_threads, ln_decode_attention_memory<D> &m) {
    unsigned end = min(at.end, at.position);
    ln_kv_tile_source from =
        ln_make_kv_tile_source(p, at.token, at.kv_head, at.begin, end, thread, n_threads);
    for (unsigned tile = 0; tile < at.n_tiles; tile++)
        ln_decode_load_cached_tile<D>(from, at, tile, p.a.keys, m.tiles[tile]);
    for (unsigned tile = 0; tile < at.n_tiles && ln_decode_v_fits(at, tile); tile++)
        ln_decode_load_cached_tile<D>(from, at, tile, p.a.values,
                                      m.tiles[ln_decode_v_tile(at, tile)]);
    ln_cp_async_commit();
}

/* Queues the tiles of V that there was no room for, the token's own row among them. */
template <int D>
static __device__ __forceinline__ void ln_decode_load_rest_of_v(const ln_mma_attention_args &p,
                                                                const ln_decode_kv_split &at,
                                                                ln_decode_attention_memory<D> &m) {
    ln_kv_tile_source from = ln_make_kv_tile_source(p, at.token, at.kv_head, at.begin, at.end,
                                                    threadIdx.x, LN_DECODE_THREADS);
    for (unsigned tile = 0; tile < at.n_tiles; tile++)
        if (!ln_decode_v_fits(at, tile))
            ln_load_kv_tile<D, false, false>(from, at.first + tile * LN_KV_TILE, p.a.values,
                                             m.tiles[ln_decode_v_tile(at, tile)], p.a.values, NULL);
    ln_cp_async_commit();
}

/* A value of a head, once it is handed off; x: what was read there. */
static __device__ __forceinline__ float ln_decode_wait_for(const float *at, float x) {
    while (ln_handoff_is_empty(x))
        x = ln_load_relaxed(at);
    return x;
}

/* Writes a head of k or v to its cache row and to its row of a tile (or NULL); by a warp. */
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

/* A lane's values of a head: every LN_WARP-th. */
template <int D>
static __device__ __forceinline__ void ln_decode_load_head(const float *x,
                                                           float held[D / LN_WARP]) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = ln_load_relaxed(x + lane + j * LN_WARP);
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = ln_decode_wait_for(x + lane + j * LN_WARP, held[j]);
}

/* ln_finish_head of a head without a norm, with the angles at hand. */
template <int D>
static __device__ __forceinline__ void ln_decode_rotate(const ln_rope &rope, unsigned n_rotated,
                                                        const float2 *rotation, const float *x,
                                                        float *out) {
    enum { PAIRS = D / 2 / LN_WARP };
    unsigned lane = threadIdx.x % LN_WARP, first[PAIRS], second[PAIRS];
    float2 held[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        unsigned pair = lane + j * LN_WARP;
        bool rotates = pair < n_rotated / 2;
        first[j] = 2 * pair, second[j] = 2 * pair + 1;
        if (rotates)
            ln_rope_pair(rope, pair, &first[j], &second[j]);
        held[j] = make_float2(ln_load_relaxed(x + first[j]), ln_load_relaxed(x + second[j]));
    }
#pragma unroll
    for (int j = 0; j < PAIRS; j++) {
        float a = ln_decode_wait_for(x + first[j], held[j].x);
        float b = ln_decode_wait_for(x + second[j], held[j].y);
        if (lane + j * LN_WARP < n_rotated / 2) {
            float2 turn = rotation[lane + j * LN_WARP];
            out[first[j]] = a * turn.x - b * turn.y;
            out[second[j]] = b * turn.x + a * turn.y;
        } else {
            out[first[j]] = a;
            out[second[j]] = b;
        }
    }
    __syncwarp();
}

/* Norm and rotation of a head of q or k; by a warp. */
template <int D>
static __device__ __forceinline__ void
ln_decode_finish_head(const ln_qkv_args &qkv, const ln_norm &norm, unsigned head, unsigned position,
                      const float2 *rotation, const float *x, float *out) {
    if (qkv.normalizes) {
        float held[D / LN_WARP];
        ln_decode_load_head<D>(x, held);
#pragma unroll
        for (int j = 0; j < D / LN_WARP; j++)
            out[threadIdx.x % LN_WARP + j * LN_WARP] = held[j];
        __syncwarp();
        ln_finish_head(qkv, norm, head, (int32_t)position, D, out, out);
    } else {
        ln_decode_rotate<D>(qkv.rope, qkv.has_rope ? (unsigned)qkv.rope.n_dims : 0, rotation, x,
                            out);
    }
}

/* Rotates the query heads, and k where the split has the token's own key, which goes to the cache
 * and to the tiles with v. A warp a head. */
template <int D>
static __device__ __forceinline__ void
ln_decode_finish_heads(const ln_decode_attention &c, const float2 *rotation,
                       const ln_decode_kv_split &at, ln_decode_attention_memory<D> &m) {
    const ln_qkv_args &qkv = c.qkv;
    unsigned warp = threadIdx.x / LN_WARP, kv_heads = (unsigned)qkv.kv.n_heads;
    for (unsigned h = warp; h < c.mma.heads_per_kv; h += LN_DECODE_WARPS) {
        unsigned head = at.kv_head * c.mma.heads_per_kv + h;
        ln_decode_finish_head<D>(qkv, qkv.q_norm, head, at.position, rotation,
                                 qkv.q + (at.token * qkv.n_heads + head) * D, m.heads.q[h]);
    }
    if (!at.has_own || warp < LN_DECODE_WARPS - 2)
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
    ln_decode_finish_head<D>(qkv, qkv.k_norm, at.kv_head, at.position, rotation, qkv.k + from,
                             m.heads.k);
#pragma unroll
    for (int j = 0; j < D / LN_WARP; j++)
        held[j] = m.heads.k[threadIdx.x % LN_WARP + j * LN_WARP];
    ln_decode_store_kv<D>(held, qkv.keys, at.row, m.tiles[tile] + in_tile);
}

static __device__ __forceinline__ float ln_decode_tile_max(const float4 &x) {
    return fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
}

/* S of this warp's part of its tile, and the largest score of each row to m.row_maxima. */
template <int D>
static __device__ __forceinline__ void
ln_decode_qk(const ln_decode_attention &c, const ln_query_rows &rows, unsigned first,
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
        float row_maxima = -INFINITY;
#pragma unroll
        for (int n = 0; n < 2; n++)
            row_maxima = fmaxf(row_maxima, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
        row_maxima = fmaxf(row_maxima, __shfl_xor_sync(0xffffffffu, row_maxima, 1));
        row_maxima = fmaxf(row_maxima, __shfl_xor_sync(0xffffffffu, row_maxima, 2));
        if (lane % 4 == 0)
            ((float *)&m.row_maxima[tile][row + 8 * i])[part] = row_maxima;
    }
}

/* P of this warp's part, by the running max of the tiles up to its own. */
template <int D>
static __device__ __forceinline__ void ln_decode_softmax(const float s[2][4], float factor,
                                                         bool has_upper,
                                                         ln_decode_attention_memory<D> &m) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned tile = warp / LN_DECODE_TILE_WARPS, first = warp % LN_DECODE_TILE_WARPS * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float row_max = -INFINITY;
        if (i == 1 && !has_upper)
            break;
        for (unsigned t = 0; t <= tile; t++)
            row_max = ln_update_max(row_max, ln_decode_tile_max(m.row_maxima[t][lane / 4 + 8 * i]),
                                    factor, LN_RESCALE_THRESHOLD(false));
#pragma unroll
        for (unsigned n = 0; n < 2; n++)
            m.weights[i][tile][first + n][lane] =
                make_float2(ln_softmax_p(s[n][2 * i], factor, row_max),
                            ln_softmax_p(s[n][2 * i + 1], factor, row_max));
    }
}

/* O of head dims 16 * warp and on, as ln_online_softmax and ln_mma_pv make it. */
template <int D>
static __device__ __forceinline__ void
ln_decode_pv(const ln_decode_attention_memory<D> &m, const ln_decode_kv_split &at, float factor,
             bool has_upper, float row_max[2], float row_sum[2], float sum[2][4]) {
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
            float most = ln_decode_tile_max(m.row_maxima[tile][lane / 4 + 8 * i]);
            float now = ln_update_max(row_max[i], most, factor, LN_RESCALE_THRESHOLD(false));
            keep[i] = ln_rescale_factor(row_max[i], now);
            row_max[i] = now;
            row_sum[i] *= keep[i];
        }
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++) {
            row_sum[0] += w[n].x;
            row_sum[0] += w[n].y;
            row_sum[1] += w[n].z;
            row_sum[1] += w[n].w;
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

/* Stores, and hands off, an element of the result. */
static __device__ __forceinline__ void ln_decode_store_value(const ln_decode_attention &c,
                                                             size_t at, float y) {
    if (c.handoff != NULL)
        ln_handoff_store(c.handoff + at, y);
    if (c.mma.a.out != NULL)
        c.mma.a.out[at] = y;
}

/* Partial O of this warp's head dims; the result where there is one KV split. */
template <int D>
static __device__ __forceinline__ void
ln_decode_store_split(const ln_decode_attention &c, size_t token, unsigned kv_head, unsigned s,
                      const float row_max[2], const float row_sum[2], const float sum[2][4]) {
    const ln_mma_attention_args &p = c.mma;
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * 16 + lane % 4 * 2;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        float split_sum = ln_reduce_row_sum(row_sum[i]);
        if (row >= p.heads_per_kv)
            continue;
        size_t head = kv_head * p.heads_per_kv + row, item = token * p.a.n_heads + head;
        float keep = 0.0f, add = 1.0f, normalizer = 1.0f;
        if (p.n_splits > 1) {
            if (column == 0)
                p.partial_stats[item * p.n_splits + s] = make_float2(row_max[i], split_sum);
        } else {
            float merged_max, merged_sum;
            ln_merge_init(p, head, &merged_max, &merged_sum);
            ln_merge_scales(&merged_max, row_max[i], &keep, &add);
            normalizer = ln_normalizer(ln_merge(merged_sum, keep, split_sum, add));
        }
#pragma unroll
        for (int d = 0; d < 2; d++) {
            float a = sum[d][2 * i], b = sum[d][2 * i + 1];
            if (p.n_splits > 1) {
                float *to = p.partial_out + (item * p.n_splits + s) * D + column;
                *(float2 *)(to + 8 * d) = make_float2(a, b);
                continue;
            }
            size_t at = item * D + column + 8 * (size_t)d;
            ln_decode_store_value(c, at, ln_merge(0.0f, keep, a, add) * normalizer);
            ln_decode_store_value(c, at + 1, ln_merge(0.0f, keep, b, add) * normalizer);
        }
    }
}

/* One KV split, whose prefetch is under way. */
template <int D>
static __device__ __forceinline__ void
ln_decode_attend_split(const ln_decode_attention &c, const float2 *rotation,
                       const ln_decode_kv_split &at, ln_decode_attention_memory<D> &m) {
    const ln_mma_attention_args &p = c.mma;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    ln_decode_finish_heads<D>(c, rotation, at, m);
    ln_query_rows rows;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        rows.head[i] = at.kv_head * p.heads_per_kv + (row < p.heads_per_kv ? row : 0);
        rows.position[i] = at.position;
        rows.begin[i] = at.begin;
        rows.end[i] = at.end;
    }
    float scores[2][4], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
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
        ln_decode_pv<D>(m, at, factor, p.heads_per_kv > 8, row_max, row_sum, sum);
        ln_decode_store_split<D>(c, at.token, at.kv_head, at.s, row_max, row_sum, sum);
    }
}

/* KV splits of all tokens and KV heads. Each block takes every gridDim.x-th; the last blocks, which
 * have the fewest output tiles, take the first ones. */
static __host__ __device__ __forceinline__ unsigned
ln_decode_n_splits(unsigned n_rows, const ln_mma_attention_args &mma) {
    return n_rows * (unsigned)mma.a.kv.n_heads * mma.n_splits;
}

static __device__ __forceinline__ unsigned ln_decode_first_split(void) {
    return gridDim.x - 1 - blockIdx.x;
}

/* Finds the block's first KV split and prefetches its cached part to the L2 cache. */
template <int D>
static __device__ __forceinline__ void ln_decode_plan_split(const ln_decode_args &p,
                                                            const ln_decode_attention &c,
                                                            ln_decode_split_plan<D> &plan) {
    enum { LINE = 64 }; /* elements of 16 bits in 128 bytes */
    if (ln_decode_first_split() >= ln_decode_n_splits(p.n_rows, c.mma))
        return;
    ln_decode_kv_split at = ln_decode_find_split(c, ln_decode_first_split());
    unsigned end = min(at.end, at.position);
    ln_kv_tile_source from =
        ln_make_kv_tile_source(c.mma, at.token, at.kv_head, at.begin, end, 0, 1);
    unsigned key = at.first + threadIdx.x / 2;
    const ln_kv_array &array = threadIdx.x % 2 ? c.mma.a.values : c.mma.a.keys;
    if (key < at.first + at.n_tiles * LN_KV_TILE && key < end) {
        const uint16_t *row = (const uint16_t *)array.data + ln_kv_tile_row(from, key) * D;
        for (unsigned i = 0; i < D; i += LINE)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i));
    }
    ln_decode_rope_angles(c.qkv, at.position, threadIdx.x, plan.rotation);
    if (threadIdx.x == 0)
        plan.place = at;
}

/* Queues the cached part of the block's first split, once the work memory is free. */
template <int D>
static __device__ __forceinline__ void
ln_decode_prefetch_split(const ln_decode_args &p, const ln_decode_attention &c,
                         const ln_decode_split_plan<D> &plan, uint8_t *work) {
    if (ln_decode_first_split() < ln_decode_n_splits(p.n_rows, c.mma))
        ln_decode_prefetch_kv<D>(c.mma, plan.place, threadIdx.x, LN_DECODE_THREADS,
                                 *(ln_decode_attention_memory<D> *)work);
}

/* One task, with a grid barrier ahead of the merge where there are several KV splits. The cached
 * part of the first one is under way. */
template <int D>
static __device__ __forceinline__ void
ln_decode_run_attention(const ln_decode_args &p, const ln_decode_attention &c,
                        ln_decode_split_plan<D> &plan, uint8_t *work, unsigned *grid_phase) {
    ln_decode_attention_memory<D> &m = *(ln_decode_attention_memory<D> *)work;
    const unsigned first = ln_decode_first_split();
    for (unsigned i = first; i < ln_decode_n_splits(p.n_rows, c.mma); i += gridDim.x) {
        ln_decode_kv_split at;
        if (i == first) {
            at = plan.place;
        } else {
            at = ln_decode_find_split(c, i);
            ln_decode_prefetch_kv<D>(c.mma, at, threadIdx.x, LN_DECODE_THREADS, m);
            ln_decode_rope_angles(c.qkv, at.position, threadIdx.x, plan.rotation);
            __syncthreads();
        }
        if (at.n_tiles > 0)
            ln_decode_attend_split<D>(c, plan.rotation, at, m);
        __syncthreads();
    }
    if (c.mma.n_splits == 1)
        return;
    ln_grid_barrier(p.barrier_count, grid_phase);
    unsigned n_heads = (unsigned)c.mma.a.n_heads, per_block = LN_DECODE_THREADS / D;
    for (unsigned i = blockIdx.x * per_block + threadIdx.x / D; i < p.n_rows * n_heads;
         i += gridDim.x * per_block)
        ln_decode_store_value(
            c, (size_t)i * D + threadIdx.x % D,
            ln_merge_splits<D>(c.mma, i / n_heads, i / n_heads, i % n_heads, threadIdx.x % D));
}

#endif
