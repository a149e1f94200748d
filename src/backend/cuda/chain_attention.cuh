/* A chain's attention: sequences of one token each, whose heads are finished and cached on the way.
 * A block takes a slice of a KV head: a warp scores each of its tiles, then every warp weighs all
 * of them for 16 columns of V. For f16 caches. The recurrence is that of attention_tile.cuh, bit
 * for bit. */
#ifndef LN_BACKEND_CUDA_CHAIN_ATTENTION_CUH
#define LN_BACKEND_CUDA_CHAIN_ATTENTION_CUH

#include "backend/cuda/chain.cuh"

enum {
    LN_CHAIN_TILES = LN_ATTENTION_SLICE / LN_KEYS,
    LN_CHAIN_MAX_HEADS = 16,    /* query heads that share K and V */
    LN_CHAIN_MAX_HEAD_DIM = 128 /* what shared memory has room for */
};

/* A block's work memory: tiles of K, then of V; finished heads, then weights. */
template <int D> struct ln_chain_slice_memory {
    uint16_t tiles[LN_CHAIN_TILES][LN_TILE_HALVES(D)];
    union {
        struct {
            float q[LN_CHAIN_MAX_HEADS][D], k[D];
        } heads;
        float4 weights[LN_CHAIN_TILES][LN_KEY_TILES][LN_WARP];
    };
    float largest[LN_CHAIN_TILES][16];
};

/* Finishes the query heads, and k where the slice is the token's own, which goes to the cache with
 * v. A warp for a head. */
template <int D>
static __device__ __forceinline__ void ln_chain_heads(const ln_chain_attention &c, size_t token,
                                                      unsigned kv_head, bool is_own,
                                                      ln_chain_slice_memory<D> &m) {
    const ln_qkv_args &qkv = c.qkv;
    unsigned warp = threadIdx.x / LN_WARP, kv_heads = (unsigned)qkv.kv.n_heads;
    int32_t position = qkv.positions[token];
    for (unsigned h = warp; h < c.fast.heads_per_kv; h += LN_CHAIN_WARPS) {
        unsigned head = kv_head * c.fast.heads_per_kv + h;
        ln_finish_head(qkv, qkv.q_norm, head, position, D, qkv.q + (token * qkv.n_heads + head) * D,
                       m.heads.q[h]);
    }
    if (!is_own || warp < LN_CHAIN_WARPS - 2)
        return;
    size_t at = (token * kv_heads + kv_head) * D;
    size_t row = ln_kv_row(qkv.kv, (size_t)qkv.slots[token], kv_head);
    if (warp == LN_CHAIN_WARPS - 2) {
        ln_kv_store(qkv.values, row, qkv.v + at, D);
        return;
    }
    ln_finish_head(qkv, qkv.k_norm, kv_head, position, D, qkv.k + at, m.heads.k);
    ln_kv_store(qkv.keys, row, m.heads.k, D);
}

template <int D>
static __device__ __forceinline__ void ln_chain_load(const ln_tile_source &from, unsigned first,
                                                     unsigned n_tiles, const ln_kv_array &array,
                                                     ln_chain_slice_memory<D> &m) {
    for (unsigned tile = 0; tile < n_tiles; tile++)
        ln_load_tile<D, false, false>(from, first + tile * LN_KEYS, array, m.tiles[tile], array,
                                      NULL);
    ln_copy_commit();
}

/* The scores of this warp's tile, and the largest of each row to m.largest. */
template <int D>
static __device__ __forceinline__ void
ln_chain_score(const ln_chain_attention &c, const ln_rows &rows, unsigned first,
               ln_chain_slice_memory<D> &m, float s[LN_KEY_TILES][4]) {
    unsigned lane = threadIdx.x % LN_WARP, tile = threadIdx.x / LN_WARP, row = lane / 4;
    uint32_t q[D / 16][4];
    ln_load_query<D, false>(row < c.fast.heads_per_kv ? m.heads.q[row] : NULL,
                            row + 8 < c.fast.heads_per_kv ? m.heads.q[row + 8] : NULL, q);
    ln_score<D, false>(q, m.tiles[tile], s);
    ln_finish_scores(c.fast.a, rows, first + tile * LN_KEYS, s);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float largest = -INFINITY;
#pragma unroll
        for (int n = 0; n < LN_KEY_TILES; n++)
            largest = fmaxf(largest, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        if (lane % 4 == 0)
            m.largest[tile][row + 8 * i] = largest;
    }
}

/* Scores of this warp's tile to weights, given the tiles before it. */
template <int D>
static __device__ __forceinline__ void ln_chain_weigh(const float s[LN_KEY_TILES][4],
                                                      ln_chain_slice_memory<D> &m) {
    unsigned lane = threadIdx.x % LN_WARP, tile = threadIdx.x / LN_WARP;
    float largest[2] = {-INFINITY, -INFINITY};
    for (unsigned t = 0; t <= tile; t++)
        for (int i = 0; i < 2; i++)
            largest[i] = fmaxf(largest[i], m.largest[t][lane / 4 + 8 * i]);
#pragma unroll
    for (int n = 0; n < LN_KEY_TILES; n++)
        m.weights[tile][n][lane] =
            make_float4(ln_weigh(s[n][0], largest[0]), ln_weigh(s[n][1], largest[0]),
                        ln_weigh(s[n][2], largest[1]), ln_weigh(s[n][3], largest[1]));
}

/* Columns 16 * warp and on of the slice's sums, as ln_add_scores and ln_add_values make them. */
template <int D>
static __device__ __forceinline__ void ln_chain_values(const ln_chain_slice_memory<D> &m,
                                                       unsigned n_tiles, float largest[2],
                                                       float total[2], float sum[2][4]) {
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * 16;
    for (unsigned tile = 0; tile < n_tiles; tile++) {
        float4 w[LN_KEY_TILES];
        float keep[2];
#pragma unroll
        for (int n = 0; n < LN_KEY_TILES; n++)
            w[n] = m.weights[tile][n][lane];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float now = fmaxf(largest[i], m.largest[tile][lane / 4 + 8 * i]);
            keep[i] = now == largest[i] ? 1.0f : ln_weigh(largest[i], now);
            largest[i] = now;
            total[i] *= keep[i];
        }
#pragma unroll
        for (int n = 0; n < LN_KEY_TILES; n++) {
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
        const uint16_t *row = m.tiles[tile] + lane % 16 * (D + LN_PAD) + lane / 16 * 8 + column;
#pragma unroll
        for (int k = 0; k < LN_KEYS / 16; k++) {
            const float4 &a = w[2 * k], &b = w[2 * k + 1];
            const uint32_t weights[4] = {ln_pack<false>(a.x, a.y), ln_pack<false>(a.z, a.w),
                                         ln_pack<false>(b.x, b.y), ln_pack<false>(b.z, b.w)};
            uint32_t v[4];
            ln_load_transposed(v, row + k * 16 * (D + LN_PAD));
            ln_mma<false>(sum[0], weights, v[0], v[1]);
            ln_mma<false>(sum[1], weights, v[2], v[3]);
        }
    }
}

/* The slice's sums of this warp's columns: the result where there is one slice, else for the merge.
 */
template <int D>
static __device__ __forceinline__ void
ln_chain_leave_slice(const ln_fast_args &p, size_t token, unsigned kv_head, unsigned s,
                     const float largest[2], const float total[2], const float sum[2][4]) {
    unsigned lane = threadIdx.x % LN_WARP, column = threadIdx.x / LN_WARP * 16 + lane % 4 * 2;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        float slice_total = ln_row_total(total[i]);
        if (row >= p.heads_per_kv)
            continue;
        size_t head = kv_head * p.heads_per_kv + row, item = token * p.a.n_heads + head;
        float *to = p.a.out + item * D + column, keep = 0.0f, add = 1.0f, whole = 1.0f;
        if (p.n_slices > 1) {
            to = p.sums + (item * p.n_slices + s) * D + column;
            if (column == 0)
                p.stats[item * p.n_slices + s] = make_float2(largest[i], slice_total);
        } else {
            float whole_largest;
            ln_begin_whole(p, head, &whole_largest, &whole);
            ln_merge_factors(&whole_largest, largest[i], &keep, &add);
            whole = ln_merge(whole, keep, slice_total, add);
        }
#pragma unroll
        for (int d = 0; d < 2; d++) {
            float a = sum[d][2 * i], b = sum[d][2 * i + 1];
            if (p.n_slices == 1)
                a = ln_merge(0.0f, keep, a, add) / whole, b = ln_merge(0.0f, keep, b, add) / whole;
            *(float2 *)(to + 8 * d) = make_float2(a, b);
        }
    }
}

/* One slice of a KV head; sequence `token` has one token, that one. */
template <int D>
static __device__ __forceinline__ void
ln_chain_attend_slice(const ln_chain_attention &c, size_t token, unsigned kv_head, unsigned s,
                      ln_chain_slice_memory<D> &m) {
    const ln_fast_args &p = c.fast;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    size_t position = (size_t)p.a.positions[token], begin, end;
    ln_key_range(p.a, token, position, &begin, &end);
    unsigned slice_begin = s * LN_ATTENTION_SLICE, slice_end = slice_begin + LN_ATTENTION_SLICE;
    if (slice_begin >= end || slice_end <= begin)
        return;
    slice_end = min(slice_end, (unsigned)end);
    unsigned first = slice_begin > begin ? slice_begin : (unsigned)begin / LN_KEYS * LN_KEYS;
    unsigned n_tiles = (slice_end - first + LN_KEYS - 1) / LN_KEYS;
    ln_chain_heads<D>(c, token, kv_head, position / LN_ATTENTION_SLICE == s, m);
    __syncthreads();
    ln_rows rows;
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i;
        rows.head[i] = kv_head * p.heads_per_kv + (row < p.heads_per_kv ? row : 0);
        rows.position[i] = position;
        rows.begin[i] = begin;
        rows.end[i] = end;
    }
    ln_tile_source from =
        ln_make_source(p, token, kv_head, begin, end, threadIdx.x, LN_CHAIN_THREADS);
    float scores[LN_KEY_TILES][4], largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    float sum[2][4] = {};
    ln_chain_load<D>(from, first, n_tiles, p.a.keys, m);
    ln_copy_wait<0>();
    __syncthreads();
    if (warp < n_tiles)
        ln_chain_score<D>(c, rows, first, m, scores);
    __syncthreads();
    ln_chain_load<D>(from, first, n_tiles, p.a.values, m);
    if (warp < n_tiles)
        ln_chain_weigh<D>(scores, m);
    ln_copy_wait<0>();
    __syncthreads();
    if (warp < D / 16) {
        ln_chain_values<D>(m, n_tiles, largest, total, sum);
        ln_chain_leave_slice<D>(p, token, kv_head, s, largest, total, sum);
    }
}

/* One stage, with the barrier between its two parts where slices are to be merged. */
template <int D>
static __device__ __forceinline__ void
ln_chain_attend(const ln_chain_args &p, const ln_chain_attention &c, uint8_t *memory) {
    ln_chain_slice_memory<D> &m = *(ln_chain_slice_memory<D> *)(memory + p.sums_at);
    unsigned kv_heads = (unsigned)c.fast.a.kv.n_heads, n_slices = c.fast.n_slices;
    for (unsigned i = blockIdx.x; i < p.n_rows * kv_heads * n_slices; i += gridDim.x) {
        unsigned s = i % n_slices, head = i / n_slices % kv_heads;
        ln_chain_attend_slice<D>(c, i / n_slices / kv_heads, head, s, m);
        __syncthreads();
    }
    if (n_slices == 1)
        return;
    ln_grid_barrier(p.arrived);
    unsigned n_heads = (unsigned)c.fast.a.n_heads, per_block = LN_CHAIN_THREADS / D;
    for (unsigned i = blockIdx.x * per_block + threadIdx.x / D; i < p.n_rows * n_heads;
         i += gridDim.x * per_block)
        ln_merge_slices<D>(c.fast, i / n_heads, i / n_heads, i % n_heads, threadIdx.x % D);
}

#endif
