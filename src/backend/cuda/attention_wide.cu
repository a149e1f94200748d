/* Prefill attention on Hopper's warpgroup products: heads of 64 and 128, caches of 16-bit numbers,
 * scores that need no more than scale and mask.
 *
 * A block has 128 rows (tokens times the query heads of a KV head) in two warpgroups; one warp of a
 * third brings tiles of 64 keys or values by bulk tensor copies through a ring of slots. Sums run
 * in the order of attention_fast.cu, and products of either kind of instruction have the same bits:
 * so have the results. While one warpgroup weighs scores, the other one's products run, and so do
 * the values of its own last tile.
 *
 * Grid: (tiles of rows, the last first; KV heads; sequences). Shared memory: the queries, and SLOTS
 * tiles, rows of 64 numbers with the 16-byte parts of row r exchanged by r % 8. Every tile of K and
 * V is read once for 128 rows. */
#include "backend/cuda/attention_fast.cuh"
#include "backend/cuda/wgmma.cuh"

enum {
    GROUP = 128, /* threads of a warpgroup */
    WORKERS = 2, /* warpgroups that compute */
    THREADS = GROUP * (1 + WORKERS),
    WIDE_ROWS = 64 * WORKERS,
    SLOTS = 8,
    HALF = 64,                       /* numbers of a row of shared memory */
    HALF_BYTES = LN_KEYS * HALF * 2, /* 64 rows of them */
    SWIZZLE_GROUP = 8 * HALF * 2     /* bytes after which the exchange begins again */
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0 /* never launched there */
#endif

#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)

/* ---- warpgroup products ---------------------------------------------------------------------- */

/* Of a tile whose rows are 128 bytes; `leading`: bytes from one half of the columns to the next. */
static __device__ __forceinline__ uint64_t describe(const void *shared, unsigned leading) {
    enum { SWIZZLE_128_BYTES = 1 };
    return (uint64_t)(ln_shared_address(shared) >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(SWIZZLE_GROUP >> 4) << 32 | (uint64_t)SWIZZLE_128_BYTES << 62;
}

/* Keeps the compiler from using registers of products before or after their time. */
template <int N> static __device__ __forceinline__ void hold(float x[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(x[n][0]), "+f"(x[n][1]), "+f"(x[n][2]), "+f"(x[n][3])::"memory");
}

#define ROW(x, i) "+f"(x[i][0]), "+f"(x[i][1]), "+f"(x[i][2]), "+f"(x[i][3])

/* s = a b^T, or s += a b^T, over 16 columns; both [64][16] of a tile. */
template <bool BF16>
static __device__ __forceinline__ void multiply_keys(float s[LN_KEY_TILES][4], uint64_t a,
                                                     uint64_t b, int adds) {
    if constexpr (BF16)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%"
                     "21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                     "%32, %33, p, 1, 1, 0, 0;\n}"
                     : ROW(s, 0), ROW(s, 1), ROW(s, 2), ROW(s, 3), ROW(s, 4), ROW(s, 5), ROW(s, 6),
                       ROW(s, 7)
                     : "l"(a), "l"(b), "r"(adds));
    else
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%"
                     "21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                     "%32, %33, p, 1, 1, 0, 0;\n}"
                     : ROW(s, 0), ROW(s, 1), ROW(s, 2), ROW(s, 3), ROW(s, 4), ROW(s, 5), ROW(s, 6),
                       ROW(s, 7)
                     : "l"(a), "l"(b), "r"(adds));
}

/* sum += a b; a [64][16] in fragments, b [16][64] of a tile. */
template <bool BF16>
static __device__ __forceinline__ void multiply_values_64(float sum[8][4], const uint32_t a[4],
                                                          uint64_t b) {
    if constexpr (BF16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%"
                     "21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                     "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                     : ROW(sum, 0), ROW(sum, 1), ROW(sum, 2), ROW(sum, 3), ROW(sum, 4), ROW(sum, 5),
                       ROW(sum, 6), ROW(sum, 7)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%"
                     "21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                     "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                     : ROW(sum, 0), ROW(sum, 1), ROW(sum, 2), ROW(sum, 3), ROW(sum, 4), ROW(sum, 5),
                       ROW(sum, 6), ROW(sum, 7)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same for b [16][128]. */
template <bool BF16>
static __device__ __forceinline__ void multiply_values_128(float sum[16][4], const uint32_t a[4],
                                                           uint64_t b) {
    if constexpr (BF16)
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%"
            "23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%"
            "44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
            "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
            : ROW(sum, 0), ROW(sum, 1), ROW(sum, 2), ROW(sum, 3), ROW(sum, 4), ROW(sum, 5),
              ROW(sum, 6), ROW(sum, 7), ROW(sum, 8), ROW(sum, 9), ROW(sum, 10), ROW(sum, 11),
              ROW(sum, 12), ROW(sum, 13), ROW(sum, 14), ROW(sum, 15)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%"
            "23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%"
            "44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
            "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
            : ROW(sum, 0), ROW(sum, 1), ROW(sum, 2), ROW(sum, 3), ROW(sum, 4), ROW(sum, 5),
              ROW(sum, 6), ROW(sum, 7), ROW(sum, 8), ROW(sum, 9), ROW(sum, 10), ROW(sum, 11),
              ROW(sum, 12), ROW(sum, 13), ROW(sum, 14), ROW(sum, 15)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* ---- the parts of a step --------------------------------------------------------------------- */

/* What a warpgroup keeps of its rows: a slice's sums, and those of all slices before it. */
template <int D> struct wide_rows {
    ln_slice<D> slice;
    float largest[2], total[2];
    float sum[D / 8][4];
};

/* This warp's 16 rows of queries to shared memory, as 16-bit numbers; rows that are not there are
 * zeros. */
template <int D, bool BF16>
static __device__ __forceinline__ void
store_queries(const ln_fast_args &p, size_t seq, size_t kv_head, unsigned first_row,
              unsigned n_rows, unsigned warp_in_group, char *queries) {
    enum { PARTS = D / 8 };
    unsigned lane = threadIdx.x % LN_WARP;
    size_t first_token = (size_t)p.a.seq_starts[seq];
    for (unsigned at = lane; at < 16 * PARTS; at += LN_WARP) {
        unsigned row = at / PARTS, part = at % PARTS, in_tile = 16 * warp_in_group + row;
        unsigned row_of_all = first_row + row;
        uint4 packed = make_uint4(0, 0, 0, 0);
        if (row_of_all < n_rows) {
            size_t token = first_token + row_of_all / p.heads_per_kv;
            size_t head = kv_head * p.heads_per_kv + row_of_all % p.heads_per_kv;
            const float4 *q = (const float4 *)(p.a.q + (token * p.a.n_heads + head) * D + 8 * part);
            float4 low = q[0], high = q[1];
            packed = make_uint4(ln_pack<BF16>(low.x, low.y), ln_pack<BF16>(low.z, low.w),
                                ln_pack<BF16>(high.x, high.y), ln_pack<BF16>(high.z, high.w));
        }
        *(uint4 *)(queries + part / 8 * HALF_BYTES + in_tile * HALF * 2 +
                   (part % 8 ^ in_tile % 8) * 16) = packed;
    }
}

/* Queues s = q k^T. */
template <int D, bool BF16>
static __device__ __forceinline__ void queue_scores(const char *queries, const char *keys,
                                                    float s[LN_KEY_TILES][4]) {
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        unsigned at = k / 4 * HALF_BYTES + k % 4 * 32;
        multiply_keys<BF16>(s, describe(queries + at, 16), describe(keys + at, 16), k > 0);
    }
    ln_wgmma_commit();
}

/* Queues sum += weights v. */
template <int D, bool BF16>
static __device__ __forceinline__ void queue_values(const uint32_t weights[LN_KEYS / 16][4],
                                                    const char *values, float sum[D / 8][4]) {
#pragma unroll
    for (int k = 0; k < LN_KEYS / 16; k++) {
        uint64_t v = describe(values + k * 2 * SWIZZLE_GROUP, HALF_BYTES);
        if constexpr (D == 64)
            multiply_values_64<BF16>(sum, weights[k], v);
        else
            multiply_values_128<BF16>(sum, weights[k], v);
    }
    ln_wgmma_commit();
}

/* As ln_add_scores, but for the sums, which are to be multiplied by keep. */
template <int D>
static __device__ __forceinline__ void weigh_scores(float s[LN_KEY_TILES][4], ln_slice<D> *slice,
                                                    float keep[2]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float largest = slice->largest[row];
#pragma unroll
        for (int n = 0; n < LN_KEY_TILES; n++)
            largest = fmaxf(largest, fmaxf(s[n][2 * row], s[n][2 * row + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        keep[row] = largest == slice->largest[row] ? 1.0f : ln_weigh(slice->largest[row], largest);
        float total = slice->total[row] * keep[row];
#pragma unroll
        for (int n = 0; n < LN_KEY_TILES; n++)
#pragma unroll
            for (int i = 2 * row; i < 2 * row + 2; i++) {
                s[n][i] = ln_weigh(s[n][i], largest);
                total += s[n][i];
            }
        slice->largest[row] = largest;
        slice->total[row] = total;
    }
}

template <int D>
static __device__ __forceinline__ void scale_sums(float sum[D / 8][4], const float keep[2]) {
    if (__all_sync(0xffffffffu, keep[0] == 1.0f && keep[1] == 1.0f))
        return;
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[d][i] *= keep[i / 2];
}

/* Merges a slice, of which these were the largest score and the total, and clears its sums. */
template <int D>
static __device__ __forceinline__ void merge_wide(wide_rows<D> *rows, const float slice_largest[2],
                                                  const float slice_total[2]) {
    float keep[2], add[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ln_merge_factors(&rows->largest[i], slice_largest[i], &keep[i], &add[i]);
        rows->total[i] = ln_merge(rows->total[i], keep[i], ln_row_total(slice_total[i]), add[i]);
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            rows->sum[d][i] =
                ln_merge(rows->sum[d][i], keep[i / 2], rows->slice.sum[d][i], add[i / 2]);
            rows->slice.sum[d][i] = 0.0f;
        }
}

/* Values of keys that no row of the block sees become zeros: what lies there may be no number. */
template <int D>
static __device__ __forceinline__ void clear_unseen(char *values, unsigned first, unsigned low,
                                                    unsigned high, unsigned group) {
    for (unsigned at = threadIdx.x % GROUP; at < LN_KEYS * (D / 8); at += GROUP) {
        unsigned key = at / (D / 8), part = at % (D / 8);
        if (first + key < low || first + key >= high)
            *(uint4 *)(values + part / 8 * HALF_BYTES + key * HALF * 2 + part % 8 * 16) =
                make_uint4(0, 0, 0, 0);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)GROUP) : "memory");
}

/* The keys that a block walks over, and its ring of tiles. */
typedef struct wide_walk {
    unsigned low, high, first, n_tiles;
    char *slots;
    uint64_t *full, *empty; /* [SLOTS] */
} wide_walk;

/* One warp brings K of tile 0, V of tile 0, K of tile 1 ... */
template <int D>
static __device__ __forceinline__ void bring(const ln_fast_args &p, const wide_walk &w, size_t seq,
                                             unsigned kv_head, const CUtensorMap *keys,
                                             const CUtensorMap *values, unsigned box_rows) {
    enum { HALVES = D / HALF };
    unsigned lane = threadIdx.x % LN_WARP, n_boxes = LN_KEYS / box_rows * HALVES;
    const int32_t *table = p.a.block_tables + seq * p.a.max_blocks;
    unsigned box = lane / HALVES, half = lane % HALVES;
    for (unsigned item = 0; item < 2 * w.n_tiles; item++) {
        unsigned slot = item % SLOTS, first = w.first + item / 2 * LN_KEYS;
        char *to = w.slots + slot * HALVES * HALF_BYTES;
        unsigned key = first + box * box_rows;
        unsigned block_key = min(max(key, w.low), w.high - 1);
        unsigned block = lane < n_boxes ? (unsigned)table[block_key >> p.block_shift] : 0;
        unsigned row = ((block * (unsigned)p.a.kv.n_heads + kv_head) << p.block_shift) +
                       (key & ((1u << p.block_shift) - 1));
        ln_barrier_wait(&w.empty[slot], (item / SLOTS & 1) ^ 1);
        if (lane == 0)
            ln_barrier_expect(&w.full[slot], HALVES * HALF_BYTES);
        __syncwarp();
        if (lane < n_boxes)
            ln_copy_box(to + half * HALF_BYTES + box * box_rows * HALF * 2,
                        item % 2 == 0 ? keys : values, (int)(half * HALF), (int)row, &w.full[slot]);
    }
}

/* Tells that this warp has read the slot. */
static __device__ __forceinline__ void leave(const wide_walk &w, unsigned item) {
    if (threadIdx.x % LN_WARP == 0)
        ln_barrier_arrive(&w.empty[item % SLOTS]);
}

static __device__ __forceinline__ char *enter(const wide_walk &w, unsigned item, unsigned bytes) {
    ln_barrier_wait(&w.full[item % SLOTS], item / SLOTS & 1);
    return w.slots + item % SLOTS * bytes;
}

/* Scale and mask, of what needs nothing else. */
static __device__ __forceinline__ void finish_plain(const ln_fast_args &p, const ln_rows &rows,
                                                    unsigned first, float s[LN_KEY_TILES][4]) {
    float scale = p.a.scale * 1.44269504088896340736f;
    bool sees_tile = first >= rows.begin[0] && first + LN_KEYS <= rows.end[0] &&
                     first >= rows.begin[1] && first + LN_KEYS <= rows.end[1];
#pragma unroll
    for (int n = 0; n < LN_KEY_TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] *= scale;
    if (!sees_tile)
        ln_mask_scores(rows, first, s);
}

template <bool BF16>
static __device__ __forceinline__ void pack_weights(const float s[LN_KEY_TILES][4],
                                                    uint32_t weights[LN_KEYS / 16][4]) {
#pragma unroll
    for (int k = 0; k < LN_KEYS / 16; k++) {
        weights[k][0] = ln_pack<BF16>(s[2 * k][0], s[2 * k][1]);
        weights[k][1] = ln_pack<BF16>(s[2 * k][2], s[2 * k][3]);
        weights[k][2] = ln_pack<BF16>(s[2 * k + 1][0], s[2 * k + 1][1]);
        weights[k][3] = ln_pack<BF16>(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
}

/* The values of tile n, once they are there. */
template <int D>
static __device__ __forceinline__ const char *enter_values(const wide_walk &w, unsigned n,
                                                           unsigned group) {
    unsigned first = w.first + n * LN_KEYS;
    char *values = enter(w, 2 * n + 1, D / HALF * HALF_BYTES);
    if (first < w.low || first + LN_KEYS > w.high)
        clear_unseen<D>(values, first, w.low, w.high, group);
    return values;
}

/* All tiles by one warpgroup. While the scores of a tile are weighed, the products of the values of
 * the tile before run. Nothing may come between products and their end that the compiler could
 * take for a use of their registers: it would wait after each of them. */
template <int D, bool BF16>
static __device__ __forceinline__ void work(const ln_fast_args &p, const wide_walk &w,
                                            const ln_rows &rows, const char *queries,
                                            unsigned group, wide_rows<D> *whole) {
    enum { TILE_BYTES = D / HALF * HALF_BYTES };
    ln_slice<D> &slice = whole->slice;
    float s[LN_KEY_TILES][4], keep[2];
    uint32_t weights[LN_KEYS / 16][4];
    ln_begin_slice(&slice);
    const char *keys = enter(w, 0, TILE_BYTES);
    ln_wgmma_fence();
    queue_scores<D, BF16>(queries, keys, s);
    ln_wgmma_wait<0>();
    hold<LN_KEY_TILES>(s);
    leave(w, 0);
    finish_plain(p, rows, w.first, s);
    weigh_scores<D>(s, &slice, keep);
    pack_weights<BF16>(s, weights);
    for (unsigned n = 0; n + 1 < w.n_tiles; n++) {
        unsigned next = w.first + (n + 1) * LN_KEYS;
        bool begins = next % LN_ATTENTION_SLICE == 0;
        float ended_largest[2], ended_total[2];
        const char *values = enter_values<D>(w, n, group);
        keys = enter(w, 2 * n + 2, TILE_BYTES);
        hold<LN_KEY_TILES>(s);
        hold<D / 8>(slice.sum);
        ln_wgmma_fence();
        queue_scores<D, BF16>(queries, keys, s);
        queue_values<D, BF16>(weights, values, slice.sum);
        ln_wgmma_wait<1>();
        hold<LN_KEY_TILES>(s);
        leave(w, 2 * n + 2);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ended_largest[i] = slice.largest[i];
            ended_total[i] = slice.total[i];
            slice.largest[i] = begins ? -INFINITY : ended_largest[i];
            slice.total[i] = begins ? 0.0f : ended_total[i];
        }
        finish_plain(p, rows, next, s);
        weigh_scores<D>(s, &slice, keep);
        ln_wgmma_wait<0>();
        hold<D / 8>(slice.sum);
        leave(w, 2 * n + 1);
        if (begins)
            merge_wide<D>(whole, ended_largest, ended_total);
        else
            scale_sums<D>(slice.sum, keep);
        pack_weights<BF16>(s, weights);
    }
    const char *values = enter_values<D>(w, w.n_tiles - 1, group);
    hold<D / 8>(slice.sum);
    ln_wgmma_fence();
    queue_values<D, BF16>(weights, values, slice.sum);
    ln_wgmma_wait<0>();
    hold<D / 8>(slice.sum);
    merge_wide<D>(whole, slice.largest, slice.total);
}
#endif

template <int D, bool BF16>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_wide(const __grid_constant__ ln_fast_args p, const __grid_constant__ CUtensorMap keys,
                const __grid_constant__ CUtensorMap values, unsigned box_rows) {
#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)
    extern __shared__ char unaligned[];
    __shared__ uint64_t full[SLOTS], empty[SLOTS];
    enum { TILE_BYTES = D / HALF * HALF_BYTES };
    char *shared = unaligned + (-ln_shared_address(unaligned) & (SWIZZLE_GROUP - 1));
    size_t kv_head = blockIdx.y, seq = blockIdx.z;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * WIDE_ROWS;
    if (first_row >= n_rows || (p.splits && n_tokens == 1))
        return;
    unsigned last_row = min(first_row + WIDE_ROWS, n_rows) - 1;
    size_t token0 = (size_t)p.a.seq_starts[seq], begin, end, last_begin, last_end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], &begin,
                 &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &last_begin,
                 &last_end);
    wide_walk w;
    w.low = (unsigned)begin;
    w.high = (unsigned)last_end;
    w.first = w.low / LN_KEYS * LN_KEYS;
    w.n_tiles = (w.high - w.first + LN_KEYS - 1) / LN_KEYS;
    w.slots = shared + WORKERS * TILE_BYTES;
    w.full = full;
    w.empty = empty;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) {
            ln_barrier_init(&full[i], 1);
            ln_barrier_init(&empty[i], WORKERS * GROUP / LN_WARP);
        }
        ln_barriers_ready();
    }
    __syncthreads();
    unsigned group = threadIdx.x / GROUP; /* 0 brings, the others work */
    if (group == 0) {
        ln_leave_registers<24>();
        if (threadIdx.x < LN_WARP)
            bring<D>(p, w, seq, (unsigned)kv_head, &keys, &values, box_rows);
        return;
    }
    ln_take_registers<240>();
    group--;
    unsigned warp = threadIdx.x / LN_WARP % 4, lane = threadIdx.x % LN_WARP;
    unsigned warp_row = first_row + 64 * group + 16 * warp;
    char *queries = shared + group * TILE_BYTES;
    store_queries<D, BF16>(p, seq, kv_head, warp_row, n_rows, warp, queries);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)GROUP) : "memory");
    ln_rows rows;
    size_t items[2];
    ln_find_rows(p, seq, kv_head, warp_row, n_rows, &rows, items);
    wide_rows<D> whole;
    for (int i = 0; i < 2; i++)
        ln_begin_whole(p, rows.head[i], &whole.largest[i], &whole.total[i]);
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        whole.sum[d][0] = whole.sum[d][1] = whole.sum[d][2] = whole.sum[d][3] = 0.0f;
    work<D, BF16>(p, w, rows, queries, group, &whole);
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int d = 0; d < D / 8; d++)
            if (items[i] != SIZE_MAX)
                *(float2 *)(p.a.out + items[i] * D + 8 * d + lane % 4 * 2) = make_float2(
                    whole.sum[d][2 * i] / whole.total[i], whole.sum[d][2 * i + 1] / whole.total[i]);
#else
    (void)box_rows;
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

/* The cache's rows as a tensor, in boxes of some rows and half a row's numbers. */
static int map_rows(const ln_kv_array *array, unsigned box_rows, CUtensorMap *map) {
    ln_tensor tensor = {};
    tensor.data = array->data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
    tensor.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    tensor.n_dims = 2;
    tensor.dims[0] = array->dim;
    tensor.dims[1] = INT32_MAX;
    tensor.strides[0] = array->dim * 2;
    tensor.box[0] = HALF;
    tensor.box[1] = box_rows;
    return ln_tensor_map(&tensor, map);
}

template <int D, bool BF16>
static int launch(const ln_fast_args *args, size_t n_seqs, size_t most_tokens,
                  cudaStream_t stream) {
    size_t shared = (WORKERS + SLOTS) * (D / HALF) * HALF_BYTES + SWIZZLE_GROUP;
    unsigned block_tokens = 1u << args->block_shift;
    unsigned box_rows = block_tokens < LN_KEYS ? block_tokens : (unsigned)LN_KEYS;
    CUtensorMap keys, values;
    int code = map_rows(&args->a.keys, box_rows, &keys);
    if (code == 0)
        code = map_rows(&args->a.values, box_rows, &values);
    if (code == 0)
        code = cudaFuncSetAttribute(attend_wide<D, BF16>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != 0)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * args->heads_per_kv, WIDE_ROWS),
              (unsigned)args->a.kv.n_heads, (unsigned)n_seqs);
    attend_wide<D, BF16><<<grid, THREADS, shared, stream>>>(*args, keys, values, box_rows);
    return cudaGetLastError();
}

bool ln_takes_wide_attention(const ln_fast_args *args) {
    enum { MIN_SHIFT = 3 }; /* boxes of whole groups of the exchange */
    int device, major = 0, minor = 0;
    bool is_hopper =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
        major == 9 && minor == 0;
    const ln_attention_args *a = &args->a;
    bool is_plain = a->softcap <= 0.0f && a->alibi_slopes == NULL && a->relative.table == NULL;
    return is_hopper && is_plain && args->block_shift >= MIN_SHIFT &&
           (a->kv.k_dim == 64 || a->kv.k_dim == 128) &&
           (a->kv.dtype == LN_KV_F16 || a->kv.dtype == LN_KV_BF16);
}

int ln_wide_attention(const ln_fast_args *args, size_t n_seqs, size_t most_tokens,
                      cudaStream_t stream) {
    bool is_bf16 = args->a.kv.dtype == LN_KV_BF16;
    if (args->a.kv.k_dim == 64)
        return is_bf16 ? launch<64, true>(args, n_seqs, most_tokens, stream)
                       : launch<64, false>(args, n_seqs, most_tokens, stream);
    return is_bf16 ? launch<128, true>(args, n_seqs, most_tokens, stream)
                   : launch<128, false>(args, n_seqs, most_tokens, stream);
}
