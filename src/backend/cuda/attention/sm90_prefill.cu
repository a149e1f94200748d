/* Prefill attention on Hopper by WGMMA (FlashAttention-3's shape): head dims 64, 128 and
 * 256, caches of f16, bf16, int8 or E4M3, plain scores (scale and causal or window mask).
 *
 * A block computes 128 query rows (tokens times the query heads of a KV head; 256: 64 rows). Warp
 * roles: warpgroup 0 is the producer (sm90_prefill_producer.cuh), warpgroups 1 and 2 are consumers
 * with 64 rows each, or of head dim 256 half of the columns of O each; setmaxnreg moves registers
 * to the consumers. Pipeline: stages of a KV tile (64 keys), an mbarrier pair for K and one for V
 * each. A consumer overlaps: Q K^T of the next tile and P V of this one run while it computes the
 * softmax, and while the other consumer does. The softmax first takes the running max as it is, and
 * is computed again with a new max if a score exceeds the threshold, which is rare but for the
 * first tile of a KV split. Bits are those of mma_prefill.cu: both kinds of tensor-core
 * instructions round alike.
 *
 * Grid (tiles of rows, the last first, which see the most keys; KV heads; sequences), block 384.
 * Shared memory: Q, the stages, swizzled in rows of 128 bytes, and for 8-bit caches QUANT_STAGES
 * tiles as they are cached (256: K or V of one). Bytes moved: K and V once for each block. */
#include "backend/cuda/attention/sm90_prefill.cuh"

#include "backend/cuda/attention/kv_tensor_map.cuh"
#include "backend/cuda/attention/sm90_prefill_producer.cuh"
#include "backend/cuda/attention/sm90_wgmma.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { THREADS = WARPGROUP * (1 + CONSUMERS), STAGE_BARRIERS = 2 * sizeof(uint64_t) };

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0 /* never launched there */
#endif

typedef struct prefill_args {
    ln_mma_attention_args mma;
    bool converts; /* the result is written as `to` says, and not as float32 */
    ln_act_view to;
    unsigned box_rows;
    CUtensorMap keys, values;
} prefill_args;

#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)

/* ---- steps of a tile ------------------------------------------------------------------------- */

/* Issues S = Q K^T. */
template <int D, bool BF16>
static __device__ __forceinline__ void issue_qk(unsigned queries, unsigned keys,
                                                float s[LN_KV_TILE_N8][4]) {
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        unsigned at = (k / 4 * LN_SWIZZLE_TILE_BYTES + k % 4 * 32) >> 4;
        ln_wgmma_qk<BF16>(s, ln_wgmma_desc(queries + at), ln_wgmma_desc(keys + at), k > 0);
    }
    ln_wgmma_commit();
}

/* Issues O = P V, or O += P V. */
template <int D, bool BF16>
static __device__ __forceinline__ void issue_pv(uint32_t p_frag[LN_KV_TILE / 16][4],
                                                unsigned values, bool adds, float acc[D / 8][4]) {
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++)
        ln_wgmma_pv<D, BF16>(acc, p_frag[k],
                             ln_wgmma_desc(values + (k * 2 * LN_SWIZZLE_ATOM_BYTES >> 4)),
                             k > 0 || adds);
    ln_wgmma_commit();
}

/* Multiplies S, or P, of keys 8 n + 2 t and on by their scales. */
static __device__ __forceinline__ void scale_four(unsigned scales, int n, float x[4]) {
    float2 scale;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" /* volatile: other threads write it */
                 : "=f"(scale.x), "=f"(scale.y)
                 : "r"(scales + 32 * n));
    x[0] *= scale.x;
    x[1] *= scale.y;
    x[2] *= scale.x;
    x[3] *= scale.y;
}

/* P of keys 8 n + 2 t and on as an A fragment, with the scales of V for QUANT. */
template <bool BF16, bool QUANT>
static __device__ __forceinline__ void pack_p(float w[4], unsigned scales, int n,
                                              uint32_t p_frag[LN_KV_TILE / 16][4]) {
    if (QUANT)
        scale_four(scales, n, w);
    p_frag[n / 2][n % 2 * 2] = ln_pack_x2<BF16>(w[0], w[1]);
    p_frag[n / 2][n % 2 * 2 + 1] = ln_pack_x2<BF16>(w[2], w[3]);
}

/* P by the running max as it is. False, and no row sum changes, if a score of this warp exceeds the
 * threshold. (No row sum is negative: the test makes it wait for all of P, which the compiler would
 * else move behind the WGMMA under way.) */
template <bool BF16, bool QUANT>
static __device__ __forceinline__ bool
softmax_same_max(const float s[LN_KV_TILE_N8][4], float factor, unsigned scales,
                 const float row_max[2], float row_sum[2], uint32_t p_frag[LN_KV_TILE / 16][4]) {
    float tile_max[2] = {-INFINITY, -INFINITY}, sum[2] = {row_sum[0], row_sum[1]};
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = fmaf(s[n][i], factor, -row_max[i / 2]);
            tile_max[i / 2] = fmaxf(tile_max[i / 2], x);
            w[i] = ln_exp2(x);
            sum[i / 2] += w[i];
        }
        pack_p<BF16, QUANT>(w, scales, n, p_frag);
    }
    if (__any_sync(0xffffffffu, tile_max[0] > LN_RESCALE_THRESHOLD(QUANT) ||
                                    tile_max[1] > LN_RESCALE_THRESHOLD(QUANT) || sum[0] < 0.0f ||
                                    sum[1] < 0.0f))
        return false;
    row_sum[0] = sum[0];
    row_sum[1] = sum[1];
    return true;
}

/* As ln_online_softmax, but O is not rescaled: it is to be multiplied by `rescale`. */
template <bool BF16, bool QUANT>
static __device__ __forceinline__ void
softmax_new_max(const float s[LN_KV_TILE_N8][4], float factor, unsigned scales, float row_max[2],
                float row_sum[2], float rescale[2], uint32_t p_frag[LN_KV_TILE / 16][4]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float tile_max[2] = {-INFINITY, -INFINITY};
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            tile_max[n % 2] = fmaxf(tile_max[n % 2], fmaxf(s[n][2 * row], s[n][2 * row + 1]));
        float largest = fmaxf(tile_max[0], tile_max[1]);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        float now = ln_update_max(row_max[row], largest, factor, LN_RESCALE_THRESHOLD(QUANT),
                                  LN_MAX_MARGIN(QUANT));
        rescale[row] = ln_rescale_factor(row_max[row], now);
        row_max[row] = now;
        row_sum[row] *= rescale[row];
    }
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = ln_softmax_p(s[n][i], factor, row_max[i / 2]);
            row_sum[i / 2] += w[i];
        }
        pack_p<BF16, QUANT>(w, scales, n, p_frag);
    }
}

/* O *= rescale of its row */
template <int D>
static __device__ __forceinline__ void rescale_acc(float acc[D / 8][4], const float rescale[2]) {
    if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f))
        return;
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            acc[d][i] *= rescale[i / 2];
}

/* Sets V of keys that no row of the block sees to zero: cache memory there may hold NaNs. */
template <int D>
static __device__ __forceinline__ void zero_unseen(char *values, unsigned first, unsigned low,
                                                   unsigned high, unsigned group) {
    for (unsigned at = threadIdx.x % WARPGROUP; at < LN_KV_TILE * (D / 8); at += WARPGROUP) {
        unsigned key = at / (D / 8), part = at % (D / 8);
        if (first + key < low || first + key >= high)
            *(uint4 *)(values + part / 8 * LN_SWIZZLE_TILE_BYTES + key * LN_SWIZZLE_COLS * 2 +
                       part % 8 * 16) = make_uint4(0, 0, 0, 0);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)WARPGROUP) : "memory");
}

/* ---- a consumer warpgroup -------------------------------------------------------------------- */

/* What a consumer knows; addresses of shared memory. Stage i has K at tiles + 2 i tiles, V behind
 * it, and their mbarriers in the same order. */
typedef struct consumer {
    unsigned queries; /* descriptor, as ln_wgmma_desc_low */
    unsigned tiles, full, empty;
    unsigned first_column; /* of V and of the result */
    unsigned scales;       /* of K of stage 0, keys 2 t and on */
    float factor;
    unsigned unmasked_begin, unmasked_end; /* keys that all rows of this warp see */
    bool arrives;                          /* this lane does, at empty barriers */
    bool never;                            /* false, which the compiler does not know */
} consumer;

/* The rows of a lane: state of this KV split, merged state of those before it; and the pipeline
 * position: the tile whose P waits for its V. */
template <int V> struct consumer_rows {
    ln_softmax_state<V> split;
    float row_max[2], row_sum[2];
    float acc[V / 8][4];
    float s[LN_KV_TILE_N8][4];
    unsigned first, stage, parity;
    bool starts_split; /* the tile is the first of its split */
    bool has_max;      /* all rows of the warp have a running max */
};

static __device__ __forceinline__ void mbarrier_wait_at(unsigned barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void mbarrier_arrive_at(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* The compiler takes P for read once its WGMMA is issued. This use behind the WGMMA's end keeps it
 * from reusing the registers before. */
static __device__ __forceinline__ void keep_p_registers(const consumer &t,
                                                        const uint32_t p_frag[LN_KV_TILE / 16][4]) {
    if (t.never)
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++)
            asm volatile("st.shared.v4.b32 [%4], {%0, %1, %2, %3};" ::"r"(p_frag[k][0]),
                         "r"(p_frag[k][1]), "r"(p_frag[k][2]), "r"(p_frag[k][3]),
                         "r"(t.tiles + 16 * k)
                         : "memory");
}

template <int D>
static __device__ __forceinline__ unsigned k_desc(const consumer &t, unsigned stage) {
    enum { TILE_BYTES = D / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES };
    return ln_wgmma_desc_low(t.tiles + 2 * stage * TILE_BYTES, 16);
}

template <int D>
static __device__ __forceinline__ unsigned v_desc(const consumer &t, unsigned stage) {
    enum { TILE_BYTES = D / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES };
    unsigned own = t.first_column / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES;
    return ln_wgmma_desc_low(t.tiles + (2 * stage + 1) * TILE_BYTES + own, LN_SWIZZLE_TILE_BYTES);
}

/* Merges a split with this running max and row sum. */
template <int V>
static __device__ __forceinline__ void merge_split(consumer_rows<V> *rows, const float row_max[2],
                                                   const float row_sum[2]) {
    float rescale[2], add[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ln_merge_scales(&rows->row_max[i], row_max[i], &rescale[i], &add[i]);
        rows->row_sum[i] =
            ln_merge(rows->row_sum[i], rescale[i], ln_reduce_row_sum(row_sum[i]), add[i]);
    }
    rescale_acc<V>(rows->acc, rescale);
#pragma unroll
    for (int d = 0; d < V / 8; d++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rows->acc[d][i] = ln_merge(rows->acc[d][i], 1.0f, rows->split.acc[d][i], add[i / 2]);
}

/* Releases K of a stage: a lane of each warp, or for QUANT every lane, which has read scales. */
template <bool QUANT>
static __device__ __forceinline__ void release_keys(const consumer &t, unsigned stage) {
    if (QUANT || t.arrives)
        mbarrier_arrive_at(t.empty + stage * STAGE_BARRIERS);
}

/* P of the tile at key `first`, which starts a split or goes on with one. True: O is to be
 * multiplied by `rescale`. */
template <int V, int DTYPE>
static __device__ __forceinline__ bool
softmax(const consumer &t, const ln_query_rows &lanes, unsigned first, bool starts,
        consumer_rows<V> *rows, float rescale[2], uint32_t p_frag[LN_KV_TILE / 16][4]) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), QUANT = LN_KV_QUANT_OF(DTYPE) != 0;
    ln_softmax_state<V> &split = rows->split;
    const unsigned scales = t.scales + rows->stage * 8 * LN_KV_TILE,
                   of_values = scales + 4 * LN_KV_TILE;
    if (QUANT)
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++)
            scale_four(scales, n, rows->s[n]);
    if (first < t.unmasked_begin || first + LN_KV_TILE > t.unmasked_end)
        ln_mask_scores(lanes, first, rows->s);
    if (!starts && rows->has_max &&
        softmax_same_max<BF16, QUANT>(rows->s, t.factor, of_values, split.row_max, split.row_sum,
                                      p_frag))
        return false;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        split.row_max[i] = starts ? -INFINITY : split.row_max[i];
        split.row_sum[i] = starts ? 0.0f : split.row_sum[i];
    }
    softmax_new_max<BF16, QUANT>(rows->s, t.factor, of_values, split.row_max, split.row_sum,
                                 rescale, p_frag);
    rows->has_max =
        __all_sync(0xffffffffu, split.row_max[0] > -INFINITY && split.row_max[1] > -INFINITY &&
                                    split.row_sum[0] >= 0.0f && split.row_sum[1] >= 0.0f);
    return true;
}

/* One tile on: issues its Q K^T and P V of the tile before, and computes the softmax meanwhile.
 * Between WGMMAs and their wait nothing may look to the compiler like a use of their registers: it
 * would wait after each of them. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
next_tile(const consumer &t, const ln_query_rows &lanes, consumer_rows<prefill_shape<D>::V> *rows,
          uint32_t p_frag[LN_KV_TILE / 16][4], uint32_t next_p[LN_KV_TILE / 16][4]) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), QUANT = LN_KV_QUANT_OF(DTYPE) != 0;
    constexpr int V = prefill_shape<D>::V;
    constexpr unsigned STAGES = prefill_shape<D, QUANT>::STAGES;
    ln_softmax_state<V> &split = rows->split;
    unsigned last = rows->stage;
    float ended_max[2], ended_sum[2], rescale[2];
    rows->first += LN_KV_TILE;
    bool starts = rows->first % LN_KV_SPLIT == 0;
    mbarrier_wait_at(t.full + last * STAGE_BARRIERS + sizeof(uint64_t), rows->parity);
    rows->stage = (last + 1) % STAGES;
    if (STAGES == 2) /* else descriptors of both are kept, for which there are no registers */
        asm volatile("" : "+r"(rows->stage));
    rows->parity ^= rows->stage == 0;
    mbarrier_wait_at(t.full + rows->stage * STAGE_BARRIERS, rows->parity);
    ln_keep_acc<LN_KV_TILE_N8>(rows->s);
    ln_keep_acc<V / 8>(split.acc);
    ln_wgmma_fence();
    issue_qk<D, BF16>(t.queries, k_desc<D>(t, rows->stage), rows->s);
    issue_pv<V, BF16>(p_frag, v_desc<D>(t, last), !rows->starts_split, split.acc);
    ln_wgmma_wait<1>();
    ln_keep_acc<LN_KV_TILE_N8>(rows->s);
    if (!QUANT)
        release_keys<QUANT>(t, rows->stage);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ended_max[i] = split.row_max[i];
        ended_sum[i] = split.row_sum[i];
    }
    bool has_moved = softmax<V, DTYPE>(t, lanes, rows->first, starts, rows, rescale, next_p);
    if (QUANT)
        release_keys<QUANT>(t, rows->stage);
    ln_wgmma_wait<0>();
    ln_keep_acc<V / 8>(split.acc);
    keep_p_registers(t, p_frag);
    if (t.arrives)
        mbarrier_arrive_at(t.empty + last * STAGE_BARRIERS + sizeof(uint64_t));
    if (starts)
        merge_split<V>(rows, ended_max, ended_sum);
    else if (has_moved)
        rescale_acc<V>(split.acc, rescale);
    rows->starts_split = starts;
}

/* All tiles of a consumer. Two sets of P registers alternate. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
consume(const consumer &t, const kv_walk &w, const ln_query_rows &lanes, char *tiles,
        unsigned group, consumer_rows<prefill_shape<D>::V> *rows) {
    constexpr bool BF16 = LN_KV_IS_BF16(DTYPE), QUANT = LN_KV_QUANT_OF(DTYPE) != 0;
    constexpr int V = prefill_shape<D>::V;
    enum { TILE_BYTES = D / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES };
    uint32_t p_frag[LN_KV_TILE / 16][4], other_p[LN_KV_TILE / 16][4];
    float rescale[2];
    unsigned own = t.first_column / LN_SWIZZLE_COLS * LN_SWIZZLE_TILE_BYTES; /* columns of V */
    ln_softmax_init(&rows->split);
    rows->first = w.first;
    rows->stage = rows->parity = 0;
    rows->starts_split = true;
    mbarrier_wait_at(t.full, 0);
    ln_wgmma_fence();
    issue_qk<D, BF16>(t.queries, k_desc<D>(t, 0), rows->s);
    ln_wgmma_wait<0>();
    ln_keep_acc<LN_KV_TILE_N8>(rows->s);
    softmax<V, DTYPE>(t, lanes, w.first, true, rows, rescale, p_frag);
    __syncwarp();
    release_keys<QUANT>(t, 0);
    if (!QUANT && w.first < w.low) {
        mbarrier_wait_at(t.full + sizeof(uint64_t), 0);
        zero_unseen<V>(tiles + TILE_BYTES + own, w.first, w.low, w.high, group);
    }
    unsigned n = 1;
    for (; n + 1 < w.n_tiles; n += 2) {
        next_tile<D, DTYPE>(t, lanes, rows, p_frag, other_p);
        next_tile<D, DTYPE>(t, lanes, rows, other_p, p_frag);
    }
    if (n < w.n_tiles) {
        next_tile<D, DTYPE>(t, lanes, rows, p_frag, other_p);
#pragma unroll
        for (int k = 0; k < LN_KV_TILE / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p_frag[k][i] = other_p[k][i];
    }
    mbarrier_wait_at(t.full + rows->stage * STAGE_BARRIERS + sizeof(uint64_t), rows->parity);
    if (!QUANT && (rows->first < w.low || rows->first + LN_KV_TILE > w.high))
        zero_unseen<V>(tiles + (2 * rows->stage + 1) * TILE_BYTES + own, rows->first, w.low, w.high,
                       group);
    ln_keep_acc<V / 8>(rows->split.acc);
    ln_wgmma_fence();
    issue_pv<V, BF16>(p_frag, v_desc<D>(t, rows->stage), !rows->starts_split, rows->split.acc);
    ln_wgmma_wait<0>();
    ln_keep_acc<V / 8>(rows->split.acc);
    keep_p_registers(t, p_frag);
    merge_split<V>(rows, rows->split.row_max, rows->split.row_sum);
}

/* ---- the block ------------------------------------------------------------------------------- */
static __device__ __forceinline__ kv_walk find_walk(const ln_mma_attention_args &p, size_t seq,
                                                    unsigned first_row, unsigned last_row) {
    size_t token0 = (size_t)p.a.seq_starts[seq], begin, end, last_begin, last_end;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], &begin,
                 &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &last_begin,
                 &last_end);
    kv_walk w;
    w.low = (unsigned)begin;
    w.high = (unsigned)last_end;
    w.first = w.low / LN_KV_TILE * LN_KV_TILE;
    w.n_tiles = (w.high - w.first + LN_KV_TILE - 1) / LN_KV_TILE;
    return w;
}

/* mbarriers of K and V of each stage. QUANT: every thread writes or reads scales, which come with
 * K. */
template <int D, bool QUANT>
static __device__ __forceinline__ void init_barriers(uint64_t *full, uint64_t *empty) {
    for (unsigned i = 0; i < 2 * prefill_shape<D, QUANT>::STAGES; i++) {
        unsigned per_warp = QUANT && i % 2 == 0 ? LN_WARP : 1;
        ln_mbarrier_init(&full[i], QUANT ? WARPGROUP / LN_WARP * per_warp : D / LN_SWIZZLE_COLS);
        ln_mbarrier_init(&empty[i], CONSUMERS * WARPGROUP / LN_WARP * per_warp);
    }
    ln_fence_mbarrier_init();
}

/* V columns of a row, from `column` of all heads' on, to activation tiles: a lane has the 16 bytes
 * of four of its pairs of columns. */
template <int V>
static __device__ __forceinline__ void store_converted(const ln_act_view &to, size_t token,
                                                       size_t column, const float acc[V / 8][4],
                                                       int i, float normalizer) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int d = 0; d < V / 8; d += 4) {
        uint32_t four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] =
                ln_pack_bf16(acc[d + j][2 * i] * normalizer, acc[d + j][2 * i + 1] * normalizer);
        char *at = (char *)to.bf16 + ln_act_tile_byte(to, token, to.cols / 64, column / 64 + d / 8,
                                                      d % 8 + lane % 4, 0);
        *(uint4 *)at = make_uint4(four[0], four[1], four[2], four[3]);
    }
}

/* The rows of one consumer, from Q to the result. */
template <int D, int DTYPE>
static __device__ __forceinline__ void
consume_rows(const prefill_args &g, const kv_walk &w, consumer &t, size_t seq, size_t kv_head,
             unsigned first_row, unsigned n_rows, unsigned group, char *queries, char *tiles) {
    typedef prefill_shape<D> shape;
    constexpr int V = shape::V;
    const ln_mma_attention_args &p = g.mma;
    unsigned warp = threadIdx.x / LN_WARP % 4, lane = threadIdx.x % LN_WARP;
    unsigned warp_row = first_row + 16 * warp;
    store_queries<D, DTYPE>(p, seq, kv_head, warp_row, n_rows, warp, t.first_column, queries);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (shape::SHARES_ROWS)
        asm volatile("bar.sync 3, %0;" ::"n"(CONSUMERS * WARPGROUP) : "memory");
    else
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"((int)WARPGROUP) : "memory");
    ln_query_rows lanes;
    size_t items[2];
    ln_find_query_rows(p, seq, kv_head, warp_row, n_rows, &lanes, items);
    t.unmasked_begin =
        __reduce_max_sync(0xffffffffu, (unsigned)max(lanes.begin[0], lanes.begin[1]));
    t.unmasked_end = __reduce_min_sync(0xffffffffu, (unsigned)min(lanes.end[0], lanes.end[1]));
    consumer_rows<V> rows;
    for (int i = 0; i < 2; i++)
        ln_merge_init(p, lanes.head[i], &rows.row_max[i], &rows.row_sum[i]);
#pragma unroll
    for (int d = 0; d < V / 8; d++)
        rows.acc[d][0] = rows.acc[d][1] = rows.acc[d][2] = rows.acc[d][3] = 0.0f;
    consume<D, DTYPE>(t, w, lanes, tiles, group, &rows);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float normalizer = ln_normalizer(rows.row_sum[i]);
        if (g.converts) {
            if (items[i] != SIZE_MAX)
                store_converted<V>(g.to, items[i] / p.a.n_heads, lanes.head[i] * D + t.first_column,
                                   rows.acc, i, normalizer);
            continue;
        }
        float *out = p.a.out + items[i] * D + t.first_column + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < V / 8; d++)
            if (items[i] != SIZE_MAX)
                *(float2 *)(out + 8 * d) = make_float2(rows.acc[d][2 * i] * normalizer,
                                                       rows.acc[d][2 * i + 1] * normalizer);
    }
}
#endif

template <int D, int DTYPE>
static __global__ void __launch_bounds__(THREADS, 1)
    prefill(const __grid_constant__ prefill_args g) {
#if HAS_WARPGROUPS && defined(__CUDA_ARCH__)
    constexpr int QUANT = LN_KV_QUANT_OF(DTYPE);
    typedef prefill_shape<D, QUANT != 0> shape;
    constexpr unsigned STAGES = shape::STAGES;
    extern __shared__ char unaligned[];
    __shared__ uint64_t full[2 * STAGES], empty[2 * STAGES];
    __shared__ __align__(8) float scales[QUANT ? STAGES * 2 * LN_KV_TILE : 2];
    enum { COL_TILES = D / LN_SWIZZLE_COLS, TILE_BYTES = COL_TILES * LN_SWIZZLE_TILE_BYTES };
    char *shared = unaligned + (-ln_shared_address(unaligned) & (LN_SWIZZLE_ATOM_BYTES - 1));
    char *tiles = shared + shape::QUERY_TILES * TILE_BYTES;
    const ln_mma_attention_args &p = g.mma;
    size_t kv_head = blockIdx.y, seq = blockIdx.z;
    ln_pdl_launch_dependents();
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * shape::ROWS;
    if (first_row >= n_rows || (p.uses_split_kv && n_tokens == 1))
        return;
    kv_walk w = find_walk(p, seq, first_row, min(first_row + shape::ROWS, n_rows) - 1);
    if (threadIdx.x == 0)
        init_barriers<D, QUANT != 0>(full, empty);
    __syncthreads();
    ln_pdl_wait();
    /* uniform across the warp, and known as such to the compiler */
    unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / LN_WARP, 0);
    if (warp < WARPGROUP / LN_WARP) {
        ln_setmaxnreg_dec<QUANT ? 40 : 24>();
        if constexpr (QUANT != 0) {
            produce_dequantized<D, QUANT>(p, w, seq, (unsigned)kv_head, tiles,
                                          tiles + 2 * STAGES * TILE_BYTES, scales, full, empty);
            return;
        }
        produce_tma<D>(p, w, seq, (unsigned)kv_head, &g.keys, &g.values, warp, g.box_rows, tiles,
                       full, empty);
        return;
    }
    ln_setmaxnreg_inc<QUANT ? 232 : 240>();
    unsigned group = warp / (WARPGROUP / LN_WARP) - 1;
    unsigned row_group = shape::SHARES_ROWS ? 0 : group;
    char *queries = shared + row_group * TILE_BYTES;
    consumer t;
    t.first_column = shape::SHARES_ROWS ? group * shape::V : 0;
    t.queries = ln_wgmma_desc_low(__shfl_sync(0xffffffffu, ln_shared_address(queries), 0), 16);
    t.tiles = __shfl_sync(0xffffffffu, ln_shared_address(tiles), 0);
    t.full = __shfl_sync(0xffffffffu, ln_shared_address(full), 0);
    t.empty = __shfl_sync(0xffffffffu, ln_shared_address(empty), 0);
    t.factor = ln_score_factor(p.a);
    t.arrives = threadIdx.x % LN_WARP == 0;
    t.scales = ln_shared_address(scales) + threadIdx.x % 4 * 8;
    t.never = t.factor != t.factor;
    consume_rows<D, DTYPE>(g, w, t, seq, kv_head, first_row + 64 * row_group, n_rows, group,
                           queries, tiles);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE>
static int launch(prefill_args &g, size_t n_seqs, size_t most_tokens, cudaStream_t stream) {
    constexpr bool QUANT = LN_KV_QUANT_OF(DTYPE) != 0;
    typedef prefill_shape<D, QUANT> shape;
    const ln_mma_attention_args &p = g.mma;
    size_t shared =
        (shape::QUERY_TILES + 2 * shape::STAGES) * (D / LN_SWIZZLE_COLS) * LN_SWIZZLE_TILE_BYTES +
        LN_SWIZZLE_ATOM_BYTES;
    unsigned block_tokens = 1u << p.block_shift;
    int code = 0;
    g.box_rows = block_tokens < LN_KV_TILE ? block_tokens : (unsigned)LN_KV_TILE;
    if (QUANT)
        shared += QUANT_STAGES * quant_tile<D>::TILE_BYTES;
    else
        code = ln_kv_tensor_map(&p.a.keys, g.box_rows, &g.keys);
    if (code == 0 && !QUANT)
        code = ln_kv_tensor_map(&p.a.values, g.box_rows, &g.values);
    if (code == 0)
        code = cudaFuncSetAttribute(prefill<D, DTYPE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)shared);
    if (code != 0)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * p.heads_per_kv, shape::ROWS), (unsigned)p.a.kv.n_heads,
              (unsigned)n_seqs);
    return ln_pdl_launch(prefill<D, DTYPE>, grid, THREADS, shared, stream, g);
}

bool ln_takes_sm90_prefill(const ln_mma_attention_args *args) {
    enum { MIN_SHIFT = 3 }; /* boxes of whole swizzle patterns of 8 rows */
    const ln_attention_args *a = &args->a;
    return ln_has_sm90a_code() && ln_has_plain_scores(*a) && args->block_shift >= MIN_SHIFT &&
           ln_is_sm90_prefill_dim(&a->kv);
}

template <int D>
static int launch_dtype(prefill_args &g, size_t n_seqs, size_t most_tokens, cudaStream_t stream) {
    switch (g.mma.a.kv.dtype) {
    case LN_KV_FP8: return launch<D, LN_KV_FP8>(g, n_seqs, most_tokens, stream);
    case LN_KV_Q8_0: return launch<D, LN_KV_Q8_0>(g, n_seqs, most_tokens, stream);
    case LN_KV_F16: return launch<D, LN_KV_F16>(g, n_seqs, most_tokens, stream);
    default: return launch<D, LN_KV_BF16>(g, n_seqs, most_tokens, stream);
    }
}

int ln_attention_sm90_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                              const ln_act_view *to, cudaStream_t stream) {
    prefill_args g = {*args, to != NULL, {}, 0, {}, {}};
    if (to != NULL)
        g.to = *to;
    switch (args->a.kv.k_dim) {
    case 64: return launch_dtype<64>(g, n_seqs, most_tokens, stream);
    case 128: return launch_dtype<128>(g, n_seqs, most_tokens, stream);
    default: return launch_dtype<256>(g, n_seqs, most_tokens, stream);
    }
}
