/* Prefill attention on Hopper's warpgroup products: heads of 64 and 128, scores that need no more
 * than scale and mask.
 *
 * A block has 128 rows (tokens times the query heads of a KV head) in two warpgroups; a third
 * brings tiles of 64 keys and values through a ring of stages: by bulk tensor copies, or, where the
 * cache's numbers are bytes, by making f16 of these, once for all rows. Sums run in the order of
 * mma.cu, and products of either kind of instruction have the same bits: so have the
 * results. While a warpgroup weighs the scores of a tile, the products of the values of the tile
 * before run, and those of the other warpgroup. Scores are weighed by the references that there are
 * before it is known whether these must move, which few tiles ask for but the first of a slice.
 *
 * Grid: (tiles of rows, the last first; KV heads; sequences). Shared memory: the queries; STAGES
 * tiles of K and of V, rows of 64 numbers with the 16-byte parts of row r exchanged by r % 8; and
 * BYTE_TILES of both as bytes. Every tile of K and V is read once for 128 rows. */
#include "backend/cuda/attention/sm90_prefill_producer.cuh"

#include "backend/cuda/attention/sm90_wgmma.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    WORKERS = 2, /* warpgroups that compute */
    THREADS = GROUP * (1 + WORKERS),
    WIDE_ROWS = 64 * WORKERS,
    SWIZZLE_GROUP = 8 * HALF * 2, /* bytes after which the exchange begins again */
    STAGE_BARRIERS = 2 * sizeof(uint64_t)
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0 /* never launched there */
#endif

#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)

/* ---- the parts of a step --------------------------------------------------------------------- */

/* The low word of what products know of a tile whose rows are 128 bytes: its place in 16 bytes, and
 * those from one half of the columns to the next. Places within the tile are added to it. */
static __device__ __forceinline__ unsigned place_of(unsigned address, unsigned leading_bytes) {
    return address >> 4 | leading_bytes >> 4 << 16;
}

static __device__ __forceinline__ uint64_t describe(unsigned place) {
    enum { SWIZZLE_128_BYTES = 1 };
    return (uint64_t)place | (uint64_t)(SWIZZLE_GROUP >> 4) << 32 |
           (uint64_t)SWIZZLE_128_BYTES << 62;
}

/* Queues s = q k^T. */
template <int D, bool BF16>
static __device__ __forceinline__ void queue_scores(unsigned queries, unsigned keys,
                                                    float s[LN_KV_TILE_N8][4]) {
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        unsigned at = (k / 4 * HALF_BYTES + k % 4 * 32) >> 4;
        ln_multiply_keys<BF16>(s, describe(queries + at), describe(keys + at), k > 0);
    }
    ln_wgmma_commit();
}

/* Queues sum = weights v, or sum += weights v. */
template <int D, bool BF16>
static __device__ __forceinline__ void queue_values(uint32_t weights[LN_KV_TILE / 16][4],
                                                    unsigned values, bool adds,
                                                    float sum[D / 8][4]) {
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++)
        ln_multiply_values<D, BF16>(sum, weights[k],
                                    describe(values + (k * 2 * SWIZZLE_GROUP >> 4)), k > 0 || adds);
    ln_wgmma_commit();
}

/* Multiplies four scores, or weights, of keys 8 n + 2 t and on by scales of keys 2 t and on. */
static __device__ __forceinline__ void scale_four(unsigned scales, int n, float x[4]) {
    float2 scale;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" /* of a place that others write */
                 : "=f"(scale.x), "=f"(scale.y)
                 : "r"(scales + 32 * n));
    x[0] *= scale.x;
    x[1] *= scale.y;
    x[2] *= scale.x;
    x[3] *= scale.y;
}

/* Weights of keys 8 n + 2 t and on as numbers of products. */
template <bool BF16, bool BYTES>
static __device__ __forceinline__ void pack_weights(float w[4], unsigned scales, int n,
                                                    uint32_t weights[LN_KV_TILE / 16][4]) {
    if (BYTES)
        scale_four(scales, n, w);
    weights[n / 2][n % 2 * 2] = ln_pack_x2<BF16>(w[0], w[1]);
    weights[n / 2][n % 2 * 2 + 1] = ln_pack_x2<BF16>(w[2], w[3]);
}

/* Weights of scores by the references that there are; scales: of V, for BYTES. False, and nothing
 * is summed, where a score of this warp lies too far above one. (No total is negative: this makes
 * it wait for all weights, which the compiler would bring behind the products under way.) */
template <bool BF16, bool BYTES>
static __device__ __forceinline__ bool weigh_at_once(const float s[LN_KV_TILE_N8][4], float factor,
                                                     unsigned scales, const float reference[2],
                                                     float total[2],
                                                     uint32_t weights[LN_KV_TILE / 16][4]) {
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {total[0], total[1]};
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = fmaf(s[n][i], factor, -reference[i / 2]);
            most[i / 2] = fmaxf(most[i / 2], x);
            w[i] = ln_exp2(x);
            sum[i / 2] += w[i];
        }
        pack_weights<BF16, BYTES>(w, scales, n, weights);
    }
    if (__any_sync(0xffffffffu, most[0] > LN_RESCALE_THRESHOLD(BYTES) || most[1] > LN_RESCALE_THRESHOLD(BYTES) ||
                                    sum[0] < 0.0f || sum[1] < 0.0f))
        return false;
    total[0] = sum[0];
    total[1] = sum[1];
    return true;
}

/* As ln_online_softmax, but for the sums, which are to be multiplied by keep. */
template <bool BF16, bool BYTES>
static __device__ __forceinline__ void weigh_anew(const float s[LN_KV_TILE_N8][4], float factor,
                                                  unsigned scales, float reference[2],
                                                  float total[2], float keep[2],
                                                  uint32_t weights[LN_KV_TILE / 16][4]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            most[n % 2] = fmaxf(most[n % 2], fmaxf(s[n][2 * row], s[n][2 * row + 1]));
        float largest = fmaxf(most[0], most[1]);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        float now = ln_update_max(reference[row], largest, factor, LN_RESCALE_THRESHOLD(BYTES),
                                      LN_MAX_MARGIN(BYTES));
        keep[row] = ln_rescale_factor(reference[row], now);
        reference[row] = now;
        total[row] *= keep[row];
    }
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = ln_softmax_p(s[n][i], factor, reference[i / 2]);
            total[i / 2] += w[i];
        }
        pack_weights<BF16, BYTES>(w, scales, n, weights);
    }
}

/* sum *= keep of its row */
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

/* Values of keys that no row of the block sees become zeros: what lies there may be no number. */
template <int D>
static __device__ __forceinline__ void clear_unseen(char *values, unsigned first, unsigned low,
                                                    unsigned high, unsigned group) {
    for (unsigned at = threadIdx.x % GROUP; at < LN_KV_TILE * (D / 8); at += GROUP) {
        unsigned key = at / (D / 8), part = at % (D / 8);
        if (first + key < low || first + key >= high)
            *(uint4 *)(values + part / 8 * HALF_BYTES + key * HALF * 2 + part % 8 * 16) =
                make_uint4(0, 0, 0, 0);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)GROUP) : "memory");
}

/* ---- a warpgroup's rows ---------------------------------------------------------------------- */

/* What a warpgroup knows; addresses of shared memory. Stage i has its K at tiles + 2 i tiles and V
 * behind it, and their barriers. */
typedef struct wide_task {
    unsigned queries; /* as place_of */
    unsigned tiles, full, empty;
    unsigned scales; /* as of bring_bytes; of K, and of keys 2 t and on */
    float factor;
    unsigned seen_begin, seen_end; /* keys that all rows of this warp see */
    bool tells;                    /* this lane does, when the warp has read a tile */
    bool never;
} wide_task;

/* What a warpgroup keeps of its rows: a slice's sums, and those of all slices before it; and where
 * it is in its walk: at the tile whose weights wait for their values. */
template <int D> struct wide_rows {
    ln_softmax_state<D> slice;
    float reference[2], total[2];
    float sum[D / 8][4];
    float s[LN_KV_TILE_N8][4];
    unsigned first, stage, parity;
    bool is_fresh; /* the tile's values are the first of its slice */
    bool is_ready; /* all rows of the warp have a reference */
};

static __device__ __forceinline__ void wait_at(unsigned barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void arrive_at(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Behind products that have read weights: the compiler, which takes them for read when products are
 * queued, must not use their registers before. */
static __device__ __forceinline__ void hold_weights(const wide_task &t,
                                                    const uint32_t weights[LN_KV_TILE / 16][4]) {
    if (t.never)
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++)
            asm volatile("st.shared.v4.b32 [%4], {%0, %1, %2, %3};" ::"r"(weights[k][0]),
                         "r"(weights[k][1]), "r"(weights[k][2]), "r"(weights[k][3]),
                         "r"(t.tiles + 16 * k)
                         : "memory");
}

template <int D>
static __device__ __forceinline__ unsigned keys_of(const wide_task &t, unsigned stage) {
    enum { TILE_BYTES = D / HALF * HALF_BYTES };
    return place_of(t.tiles + 2 * stage * TILE_BYTES, 16);
}

template <int D>
static __device__ __forceinline__ unsigned values_of(const wide_task &t, unsigned stage) {
    enum { TILE_BYTES = D / HALF * HALF_BYTES };
    return place_of(t.tiles + (2 * stage + 1) * TILE_BYTES, HALF_BYTES);
}

/* Merges a slice, of which these were the references and totals. */
template <int D>
static __device__ __forceinline__ void merge_wide(wide_rows<D> *rows, const float reference[2],
                                                  const float total[2]) {
    float keep[2], add[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ln_merge_scales(&rows->reference[i], reference[i], &keep[i], &add[i]);
        rows->total[i] = ln_merge(rows->total[i], keep[i], ln_reduce_row_sum(total[i]), add[i]);
    }
    scale_sums<D>(rows->sum, keep);
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rows->sum[d][i] = ln_merge(rows->sum[d][i], 1.0f, rows->slice.sum[d][i], add[i / 2]);
}

/* Tells that this warp has read the K of the tile that it is at; of bytes every lane does, that it
 * has read scales. */
template <bool BYTES>
static __device__ __forceinline__ void leave_keys(const wide_task &t, unsigned stage) {
    if (BYTES || t.tells)
        arrive_at(t.empty + stage * STAGE_BARRIERS);
}

/* Weights of the scores of tile `first`, which begins a slice or goes on with one; true where sums
 * are to be multiplied by keep. */
template <int D, int DTYPE>
static __device__ __forceinline__ bool weigh(const wide_task &t, const ln_query_rows &lanes,
                                             unsigned first, bool begins, wide_rows<D> *rows,
                                             float keep[2], uint32_t weights[LN_KV_TILE / 16][4]) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), BYTES = LN_KV_QUANT_OF(DTYPE) != 0;
    ln_softmax_state<D> &slice = rows->slice;
    const unsigned scales = t.scales + rows->stage * 8 * LN_KV_TILE, of_values = scales + 4 * LN_KV_TILE;
    if (BYTES)
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            scale_four(scales, n, rows->s[n]);
    if (first < t.seen_begin || first + LN_KV_TILE > t.seen_end)
        ln_mask_scores(lanes, first, rows->s);
    if (!begins && rows->is_ready &&
        weigh_at_once<BF16, BYTES>(rows->s, t.factor, of_values, slice.reference, slice.total,
                                   weights))
        return false;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        slice.reference[i] = begins ? -INFINITY : slice.reference[i];
        slice.total[i] = begins ? 0.0f : slice.total[i];
    }
    weigh_anew<BF16, BYTES>(rows->s, t.factor, of_values, slice.reference, slice.total, keep,
                            weights);
    rows->is_ready =
        __all_sync(0xffffffffu, slice.reference[0] > -INFINITY && slice.reference[1] > -INFINITY &&
                                    slice.total[0] >= 0.0f && slice.total[1] >= 0.0f);
    return true;
}

/* From one tile to the next: queues its scores and the values of the one before, and weighs the
 * scores meanwhile. Nothing may come between products and their end that the compiler could take
 * for a use of their registers: it would wait after each of them. */
template <int D, int DTYPE>
static __device__ __forceinline__ void step(const wide_task &t, const ln_query_rows &lanes,
                                            wide_rows<D> *rows, uint32_t weights[LN_KV_TILE / 16][4],
                                            uint32_t coming[LN_KV_TILE / 16][4]) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), BYTES = LN_KV_QUANT_OF(DTYPE) != 0;
    ln_softmax_state<D> &slice = rows->slice;
    unsigned last = rows->stage;
    float ended_reference[2], ended_total[2], keep[2];
    rows->first += LN_KV_TILE;
    bool begins = rows->first % LN_ATTENTION_SLICE == 0;
    wait_at(t.full + last * STAGE_BARRIERS + sizeof(uint64_t), rows->parity);
    rows->stage = (last + 1) % STAGES;
    rows->parity ^= rows->stage == 0;
    wait_at(t.full + rows->stage * STAGE_BARRIERS, rows->parity);
    ln_hold<LN_KV_TILE_N8>(rows->s);
    ln_hold<D / 8>(slice.sum);
    ln_wgmma_fence();
    queue_scores<D, BF16>(t.queries, keys_of<D>(t, rows->stage), rows->s);
    queue_values<D, BF16>(weights, values_of<D>(t, last), !rows->is_fresh, slice.sum);
    ln_wgmma_wait<1>();
    ln_hold<LN_KV_TILE_N8>(rows->s);
    if (!BYTES)
        leave_keys<BYTES>(t, rows->stage);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ended_reference[i] = slice.reference[i];
        ended_total[i] = slice.total[i];
    }
    bool has_moved = weigh<D, DTYPE>(t, lanes, rows->first, begins, rows, keep, coming);
    if (BYTES)
        leave_keys<BYTES>(t, rows->stage);
    ln_wgmma_wait<0>();
    ln_hold<D / 8>(slice.sum);
    hold_weights(t, weights);
    if (t.tells)
        arrive_at(t.empty + last * STAGE_BARRIERS + sizeof(uint64_t));
    if (begins)
        merge_wide<D>(rows, ended_reference, ended_total);
    else if (has_moved)
        scale_sums<D>(slice.sum, keep);
    rows->is_fresh = begins;
}

/* All tiles by one warpgroup. Weights change places from step to step. */
template <int D, int DTYPE>
static __device__ __forceinline__ void work(const wide_task &t, const wide_walk &w,
                                            const ln_query_rows &lanes, char *tiles, unsigned group,
                                            wide_rows<D> *rows) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), BYTES = LN_KV_QUANT_OF(DTYPE) != 0;
    enum { TILE_BYTES = D / HALF * HALF_BYTES };
    uint32_t weights[LN_KV_TILE / 16][4], others[LN_KV_TILE / 16][4];
    float keep[2];
    ln_softmax_init(&rows->slice);
    rows->first = w.first;
    rows->stage = rows->parity = 0;
    rows->is_fresh = true;
    wait_at(t.full, 0);
    ln_wgmma_fence();
    queue_scores<D, BF16>(t.queries, keys_of<D>(t, 0), rows->s);
    ln_wgmma_wait<0>();
    ln_hold<LN_KV_TILE_N8>(rows->s);
    weigh<D, DTYPE>(t, lanes, w.first, true, rows, keep, weights);
    __syncwarp();
    leave_keys<BYTES>(t, 0);
    if (!BYTES && w.first < w.low) {
        wait_at(t.full + sizeof(uint64_t), 0);
        clear_unseen<D>(tiles + TILE_BYTES, w.first, w.low, w.high, group);
    }
    unsigned n = 1;
    for (; n + 1 < w.n_tiles; n += 2) {
        step<D, DTYPE>(t, lanes, rows, weights, others);
        step<D, DTYPE>(t, lanes, rows, others, weights);
    }
    if (n < w.n_tiles) {
        step<D, DTYPE>(t, lanes, rows, weights, others);
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[k][i] = others[k][i];
    }
    wait_at(t.full + rows->stage * STAGE_BARRIERS + sizeof(uint64_t), rows->parity);
    if (!BYTES && (rows->first < w.low || rows->first + LN_KV_TILE > w.high))
        clear_unseen<D>(tiles + (2 * rows->stage + 1) * TILE_BYTES, rows->first, w.low, w.high,
                        group);
    ln_hold<D / 8>(rows->slice.sum);
    ln_wgmma_fence();
    queue_values<D, BF16>(weights, values_of<D>(t, rows->stage), !rows->is_fresh, rows->slice.sum);
    ln_wgmma_wait<0>();
    ln_hold<D / 8>(rows->slice.sum);
    hold_weights(t, weights);
    merge_wide<D>(rows, rows->slice.reference, rows->slice.total);
}

/* ---- the block ------------------------------------------------------------------------------- */

/* The keys that rows of the block see. */
static __device__ __forceinline__ wide_walk find_walk(const ln_mma_attention_args &p, size_t seq,
                                                      unsigned first_row, unsigned last_row) {
    size_t token0 = (size_t)p.a.seq_starts[seq], begin, end, last_begin, last_end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], &begin,
                 &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &last_begin,
                 &last_end);
    wide_walk w;
    w.low = (unsigned)begin;
    w.high = (unsigned)last_end;
    w.first = w.low / LN_KV_TILE * LN_KV_TILE;
    w.n_tiles = (w.high - w.first + LN_KV_TILE - 1) / LN_KV_TILE;
    return w;
}

/* The rows of one warpgroup, from queries to results. */
template <int D, int DTYPE>
static __device__ __forceinline__ void attend_rows(const ln_mma_attention_args &p, const wide_walk &w,
                                                   wide_task &t, size_t seq, size_t kv_head,
                                                   unsigned first_row, unsigned n_rows,
                                                   unsigned group, char *queries, char *tiles) {
    unsigned warp = threadIdx.x / LN_WARP % 4, lane = threadIdx.x % LN_WARP;
    unsigned warp_row = first_row + 16 * warp;
    store_queries<D, DTYPE>(p, seq, kv_head, warp_row, n_rows, warp, queries);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)GROUP) : "memory");
    ln_query_rows lanes;
    size_t items[2];
    ln_find_query_rows(p, seq, kv_head, warp_row, n_rows, &lanes, items);
    t.seen_begin =
        __reduce_max_sync(0xffffffffu, (unsigned)max(lanes.begin[0], lanes.begin[1]));
    t.seen_end = __reduce_min_sync(0xffffffffu, (unsigned)min(lanes.end[0], lanes.end[1]));
    wide_rows<D> rows;
    for (int i = 0; i < 2; i++)
        ln_merge_init(p, lanes.head[i], &rows.reference[i], &rows.total[i]);
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        rows.sum[d][0] = rows.sum[d][1] = rows.sum[d][2] = rows.sum[d][3] = 0.0f;
    work<D, DTYPE>(t, w, lanes, tiles, group, &rows);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float share = ln_normalizer(rows.total[i]);
#pragma unroll
        for (int d = 0; d < D / 8; d++)
            if (items[i] != SIZE_MAX)
                *(float2 *)(p.a.out + items[i] * D + 8 * d + lane % 4 * 2) =
                    make_float2(rows.sum[d][2 * i] * share, rows.sum[d][2 * i + 1] * share);
    }
}
#endif

template <int D, int DTYPE>
static __global__ void __launch_bounds__(THREADS, 1)
    attend_wide(const __grid_constant__ ln_mma_attention_args p, const __grid_constant__ CUtensorMap keys,
                const __grid_constant__ CUtensorMap values, unsigned box_rows) {
#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)
    extern __shared__ char unaligned[];
    __shared__ uint64_t full[2 * STAGES], empty[2 * STAGES];
    constexpr int BYTES = LN_KV_QUANT_OF(DTYPE);
    __shared__ __align__(8) float scales[BYTES ? STAGES * 2 * LN_KV_TILE : 2];
    enum { HALVES = D / HALF, TILE_BYTES = HALVES * HALF_BYTES };
    char *shared = unaligned + (-ln_shared_address(unaligned) & (SWIZZLE_GROUP - 1));
    char *tiles = shared + WORKERS * TILE_BYTES;
    size_t kv_head = blockIdx.y, seq = blockIdx.z;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * WIDE_ROWS;
    if (first_row >= n_rows || (p.uses_split_kv && n_tokens == 1))
        return;
    wide_walk w = find_walk(p, seq, first_row, min(first_row + WIDE_ROWS, n_rows) - 1);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * STAGES; i++) { /* every thread for scales, which come with K */
            unsigned per_warp = BYTES && i % 2 == 0 ? LN_WARP : 1;
            ln_mbarrier_init(&full[i], BYTES ? GROUP / LN_WARP * per_warp : (unsigned)HALVES);
            ln_mbarrier_init(&empty[i], WORKERS * GROUP / LN_WARP * per_warp);
        }
        ln_fence_mbarrier_init();
    }
    __syncthreads();
    /* the same in all lanes, which the compiler then knows */
    unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / LN_WARP, 0);
    if (warp < GROUP / LN_WARP) {
        ln_setmaxnreg_dec<BYTES ? 40 : 24>();
        if constexpr (BYTES != 0) {
            bring_bytes<D, BYTES>(p, w, seq, (unsigned)kv_head, tiles,
                                  tiles + 2 * STAGES * TILE_BYTES, scales, full, empty);
            return;
        }
        unsigned half = warp % HALVES, array = warp / HALVES;
        if (array < 2)
            bring<D>(p, w, seq, (unsigned)kv_head, array == 0 ? &keys : &values, half, box_rows,
                     tiles + array * TILE_BYTES + half * HALF_BYTES, full + array, empty + array);
        return;
    }
    ln_setmaxnreg_inc<BYTES ? 232 : 240>();
    unsigned group = warp / (GROUP / LN_WARP) - 1;
    char *queries = shared + group * TILE_BYTES;
    wide_task t;
    t.queries = place_of(__shfl_sync(0xffffffffu, ln_shared_address(queries), 0), 16);
    t.tiles = __shfl_sync(0xffffffffu, ln_shared_address(tiles), 0);
    t.full = __shfl_sync(0xffffffffu, ln_shared_address(full), 0);
    t.empty = __shfl_sync(0xffffffffu, ln_shared_address(empty), 0);
    t.factor = ln_score_factor(p.a);
    t.tells = threadIdx.x % LN_WARP == 0;
    t.scales = ln_shared_address(scales) + threadIdx.x % 4 * 8;
    t.never = t.factor != t.factor;
    attend_rows<D, DTYPE>(p, w, t, seq, kv_head, first_row + 64 * group, n_rows, group, queries,
                          tiles);
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

template <int D, int DTYPE>
static int launch(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                  cudaStream_t stream) {
    size_t shared = (WORKERS + 2 * STAGES) * (D / HALF) * HALF_BYTES + SWIZZLE_GROUP;
    unsigned block_tokens = 1u << args->block_shift;
    unsigned box_rows = block_tokens < LN_KV_TILE ? block_tokens : (unsigned)LN_KV_TILE;
    constexpr bool BYTES = LN_KV_QUANT_OF(DTYPE) != 0;
    CUtensorMap keys = {}, values = {};
    int code = 0;
    if (BYTES)
        shared += BYTE_TILES * wide_bytes<D>::TILE_BYTES;
    else
        code = map_rows(&args->a.keys, box_rows, &keys);
    if (code == 0 && !BYTES)
        code = map_rows(&args->a.values, box_rows, &values);
    if (code == 0)
        code = cudaFuncSetAttribute(attend_wide<D, DTYPE>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != 0)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * args->heads_per_kv, WIDE_ROWS),
              (unsigned)args->a.kv.n_heads, (unsigned)n_seqs);
    attend_wide<D, DTYPE><<<grid, THREADS, shared, stream>>>(*args, keys, values, box_rows);
    return cudaGetLastError();
}

bool ln_takes_sm90_prefill(const ln_mma_attention_args *args) {
    enum { MIN_SHIFT = 3 }; /* boxes of whole groups of the exchange */
    const ln_attention_args *a = &args->a;
    return ln_has_sm90a_code() && ln_has_plain_scores(*a) && args->block_shift >= MIN_SHIFT &&
           (a->kv.k_dim == 64 || a->kv.k_dim == 128);
}

template <int D>
static int launch_dtype(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                        cudaStream_t stream) {
    switch (args->a.kv.dtype) {
    case LN_KV_F16: return launch<D, LN_KV_F16>(args, n_seqs, most_tokens, stream);
    case LN_KV_BF16: return launch<D, LN_KV_BF16>(args, n_seqs, most_tokens, stream);
    case LN_KV_FP8: return launch<D, LN_KV_FP8>(args, n_seqs, most_tokens, stream);
    default: return launch<D, LN_KV_Q8_0>(args, n_seqs, most_tokens, stream);
    }
}

int ln_attention_sm90_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                      cudaStream_t stream) {
    return args->a.kv.k_dim == 64 ? launch_dtype<64>(args, n_seqs, most_tokens, stream)
                                  : launch_dtype<128>(args, n_seqs, most_tokens, stream);
}
