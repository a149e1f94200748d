/* Split-KV decode attention on Hopper: caches of int8 and E4M3, head dims 64, 128 and 256, up to 16
 * query heads to a KV head, sequences of one token each.
 *
 * Persistent CTAs: a block stays on each SM. A warp claims KV splits of KV heads from an atomic
 * counter; whole splits come first, the last ones of all sequences behind them. It is its own
 * producer: it fetches KV tiles of 64 keys by cp.async into its pipeline of up to 16 stages, those
 * of its next split while it computes this one. A stage has K or V of a tile, of head dim 256 of
 * half a tile (K K V V). Elements become f16 in registers where mma.sync reads them, and scales are
 * applied to S and P. With up to 8 query heads O is computed transposed, which halves MMAs and
 * accumulators; with more of head dim 256 Q lies in shared memory, as O leaves no registers.
 * Partial results go to memory; the warp that finishes the last split of a sequence's KV head
 * merges them in order, unless merge.cu does. Bits are those of mma_decode.cu. (16-bit caches are
 * faster in one-warp blocks: sm90_decode_f16.cu.)
 *
 * Keys and values of earlier steps are prefetched ahead of the PDL wait.
 *
 * Grid: one block an SM; block: 12 warps, or 8 where D = 256, or D = 128 and more than 8 heads
 * share K and V. Shared memory: pipelines (208 KiB), what is known of each sequence. Bytes moved: K
 * and V once. */
#include "backend/cuda/attention/sm90_decode_q8.cuh"

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/attention/mma_tile.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

enum { MAX_PIPELINE_BYTES = 208 * 1024, MAX_STAGES = 16, QUEUE_ITEMS = 16 };

/* A pipeline stage: [KEYS][ROW_BYTES] of a KV tile, and their scales. Swizzle: the 16 bytes at i of
 * a row lie at i ^ row % 8, or at i ^ row / 2 % 4 of rows of 64 bytes. */
template <int D, int DTYPE, int ROWS> struct pipeline_shape {
    static constexpr int TYPE = DTYPE;
    static constexpr int HEAD_ROWS = ROWS; /* of a lane; 1: up to 8 query heads to a KV head */
    static constexpr unsigned ROW_BYTES = D;
    static constexpr unsigned KEYS = D > 128 ? LN_KV_TILE / 2 : LN_KV_TILE;
    static constexpr unsigned PARTS = LN_KV_TILE / KEYS; /* stages of K of a tile */
    static constexpr int KEYS_N8 = KEYS / 8;
    static constexpr unsigned STAGE_BYTES = KEYS * ROW_BYTES;
    static constexpr unsigned BYTES = STAGE_BYTES + KEYS * 4; /* with scales */
    static constexpr unsigned QUERY_BYTES = D > 128 && ROWS == 2 ? 16 * D * 2 : 0;
    static constexpr unsigned WARPS = D > 128 || (D > 64 && ROWS == 2) ? 8 : 12;
    static constexpr unsigned THREADS = WARPS * LN_WARP;
    static constexpr unsigned MOST = (MAX_PIPELINE_BYTES / WARPS - QUERY_BYTES) / BYTES;
    static constexpr unsigned STAGES = MOST < MAX_STAGES ? MOST : (unsigned)MAX_STAGES;
    static constexpr unsigned PIPELINE_BYTES = WARPS * (STAGES * BYTES + QUERY_BYTES);
};

/* What a block knows of a sequence. */
typedef struct seq_splits {
    unsigned first; /* full KV splits of the sequences before it, without their last ones */
    int token;      /* -1: it has more than one */
    unsigned begin, end;
} seq_splits;

typedef struct decode_args {
    ln_mma_attention_args mma;
    unsigned n_seqs;
    bool all_single; /* no sequence has more than one token */
    bool merges;     /* else another kernel does */
    bool converts;   /* the result is converted for the next linear, too */
    ln_act_view to;
} decode_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Work item: a KV split of a KV head of a sequence, keys first .. stop - 1. */
typedef struct kv_split {
    unsigned seq, kv_head, split, first, stop;
} kv_split;

/* Counts the KV splits of all sequences, and their prefix sums; by the block. seqs [n_seqs + 1] */
static __device__ void find_splits(const decode_args &p, seq_splits *seqs) {
    for (unsigned seq = threadIdx.x; seq <= p.n_seqs; seq += blockDim.x) {
        seq_splits s = {0, -1, 0, 0};
        int token = (int)seq, n_tokens = seq < p.n_seqs ? 1 : 0;
        if (seq < p.n_seqs && !p.all_single) {
            token = p.mma.a.seq_starts[seq];
            n_tokens = p.mma.a.seq_starts[seq + 1] - token;
        }
        if (n_tokens == 1) {
            size_t begin, end;
            ln_key_range(p.mma.a, seq, (size_t)p.mma.a.positions[token], &begin, &end);
            s.token = token;
            s.begin = (unsigned)begin;
            s.end = (unsigned)end;
            s.first = (s.end - 1) / LN_KV_SPLIT - s.begin / LN_KV_SPLIT;
        }
        seqs[seq] = s;
    }
    __syncthreads();
    unsigned lane = threadIdx.x, before = 0;
    for (unsigned done = 0; lane < LN_WARP && done <= p.n_seqs; done += LN_WARP) {
        unsigned seq = done + lane, n = seq <= p.n_seqs ? seqs[seq].first : 0, sum = n;
#pragma unroll
        for (unsigned step = 1; step < LN_WARP; step *= 2) {
            unsigned other = __shfl_up_sync(0xffffffffu, sum, step);
            sum += lane >= step ? other : 0;
        }
        if (seq <= p.n_seqs)
            seqs[seq].first = before + sum - n;
        before += __shfl_sync(0xffffffffu, sum, LN_WARP - 1);
    }
    __syncthreads();
}

/* Work item `number`; false if its sequence has more than one token. */
static __device__ __forceinline__ bool find_item(const decode_args &p, const seq_splits *seqs,
                                                 unsigned number, kv_split &item) {
    unsigned n_heads = (unsigned)p.mma.a.kv.n_heads, n_early = seqs[p.n_seqs].first;
    unsigned place = number / n_heads;
    item.kv_head = number % n_heads;
    if (place < n_early) { /* the last sequence that does not begin behind it */
        unsigned low = 0, high = p.n_seqs;
        while (high - low > 1) {
            unsigned middle = (low + high) / 2;
            if (seqs[middle].first <= place)
                low = middle;
            else
                high = middle;
        }
        item.seq = low;
        item.split = seqs[low].begin / LN_KV_SPLIT + (place - seqs[low].first);
    } else {
        item.seq = place - n_early;
        if (seqs[item.seq].token < 0)
            return false;
        item.split = (seqs[item.seq].end - 1) / LN_KV_SPLIT;
    }
    unsigned begin = item.split * LN_KV_SPLIT;
    item.first = max(begin, seqs[item.seq].begin / LN_KV_TILE * LN_KV_TILE);
    item.stop = min(begin + LN_KV_SPLIT, seqs[item.seq].end);
    return true;
}

/* The scheduler: a warp's first item is static, others are claimed from a counter, as some SMs are
 * slower. The last claim resets the counter for the next kernel. */
typedef struct work_queue {
    const seq_splits *seqs;
    unsigned n_items, n_warps; /* n_items is also the number of claims of all warps */
    unsigned *count;
    unsigned *queue; /* [QUEUE_ITEMS] items that the warp has claimed: producer to consumer */
} work_queue;

/* Claims an item that is to be computed, and returns its number; n_items or more: there is none. */
static __device__ unsigned claim_item(const decode_args &p, const work_queue &work,
                                      kv_split &item) {
    for (;;) {
        unsigned call = 0;
        if (threadIdx.x % LN_WARP == 0) {
            call = atomicAdd(work.count, 1);
            if (call + 1 == work.n_items)
                *work.count = 0;
        }
        unsigned number = work.n_warps + __shfl_sync(0xffffffffu, call, 0);
        if (number >= work.n_items || find_item(p, work.seqs, number, item))
            return number;
    }
}

/* ---- tiles to shared memory ------------------------------------------------------------------ */

/* A warp's pipeline stages, and Q where it lies in shared memory. */
typedef struct pipeline {
    char *tiles;
    float *scales;
    uint4 *queries; /* [D / 16][LN_WARP] A fragments, each read by the lane that has written it */
} pipeline;

template <typename SHAPE> static __device__ __forceinline__ void advance(unsigned &stage) {
    stage = stage + 1 == SHAPE::STAGES ? 0 : stage + 1;
}

/* The producer side of a warp: what it fetches next, part by part of a tile, K before V. */
typedef struct producer {
    kv_split item;
    unsigned number, first, stage, n_taken;
    unsigned part;  /* of 2 PARTS */
    unsigned block; /* id of cache block `lane` of the tile */
} producer;

/* Byte `byte` of a row of a stage. */
template <typename SHAPE>
static __device__ __forceinline__ char *element_at(char *tile, unsigned row, unsigned byte) {
    unsigned chunk = byte / 16 ^ (SHAPE::ROW_BYTES == 64 ? row / 2 % 4 : row % 8);
    return tile + row * SHAPE::ROW_BYTES + chunk * 16 + byte % 16;
}

/* Hands a claimed item to the consumer side and starts fetching it. */
static __device__ __forceinline__ void begin_producer(const work_queue &work, unsigned number,
                                                      producer &next) {
    next.number = number;
    next.first = next.item.first;
    if (threadIdx.x % LN_WARP == 0)
        work.queue[next.n_taken % QUEUE_ITEMS] = number;
    next.n_taken++;
    __syncwarp();
}

/* Loads the ids of the cache blocks of the next tile. */
static __device__ __forceinline__ void load_block_ids(const decode_args &p, const work_queue &work,
                                                      producer &next) {
    if (next.number >= work.n_items)
        return;
    unsigned block = (next.first >> p.mma.block_shift) + threadIdx.x % LN_WARP;
    unsigned last = (work.seqs[next.item.seq].end - 1) >> p.mma.block_shift;
    next.block =
        (unsigned)p.mma.a.block_tables[next.item.seq * p.mma.a.max_blocks + min(block, last)];
}

/* Queues the copies of a stage of K or V and its scales. Keys outside [begin, end) are replaced by
 * ones inside. */
template <typename SHAPE>
static __device__ __forceinline__ void copy_part(const decode_args &p, const seq_splits &seq,
                                                 const pipeline &pipe, const producer &next) {
    constexpr unsigned CHUNKS = SHAPE::ROW_BYTES / 16, ROWS = LN_WARP / CHUNKS; /* at once */
    const ln_kv_array &array = next.part >= SHAPE::PARTS ? p.mma.a.values : p.mma.a.keys;
    unsigned lane = threadIdx.x % LN_WARP, shift = p.mma.block_shift, mask = (1u << shift) - 1;
    unsigned n_heads = (unsigned)p.mma.a.kv.n_heads, chunk = lane % CHUNKS;
    unsigned low = seq.begin, last = seq.end - 1, first_block = next.first >> shift;
    unsigned first = next.first + next.part % SHAPE::PARTS * SHAPE::KEYS;
    char *tile = pipe.tiles + next.stage * SHAPE::STAGE_BYTES;
#pragma unroll
    for (unsigned i = 0; i < SHAPE::KEYS / ROWS; i++) {
        unsigned row = i * ROWS + lane / CHUNKS, key = min(max(first + row, low), last);
        unsigned block = __shfl_sync(0xffffffffu, next.block, (key >> shift) - first_block);
        const char *head =
            array.data + (size_t)(block * n_heads + next.item.kv_head) * array.head_bytes;
        ln_cp_async_16(element_at<SHAPE>(tile, row, chunk * 16),
                       head + (key & mask) * SHAPE::ROW_BYTES + chunk * 16);
    }
#pragma unroll
    for (unsigned i = 0; i < SHAPE::KEYS / LN_WARP; i++) {
        unsigned row = i * LN_WARP + lane, key = min(max(first + row, low), last);
        unsigned block = __shfl_sync(0xffffffffu, next.block, (key >> shift) - first_block);
        const char *head =
            array.data + (size_t)(block * n_heads + next.item.kv_head) * array.head_bytes;
        ln_cp_async_4(pipe.scales + next.stage * SHAPE::KEYS + row,
                      head + array.scales_offset + (key & mask) * 4);
    }
}

/* Queues the next stage, if there is one, as a cp.async group: K, then V of the same keys. */
template <typename SHAPE>
static __device__ __forceinline__ void load_next(const decode_args &p, const work_queue &work,
                                                 const pipeline &pipe, producer &next) {
    if (next.number < work.n_items) {
        copy_part<SHAPE>(p, work.seqs[next.item.seq], pipe, next);
        advance<SHAPE>(next.stage);
        next.part = (next.part + 1) % (2 * SHAPE::PARTS);
        if (next.part == 0) {
            next.first += LN_KV_TILE;
            if (next.first >= next.item.stop)
                begin_producer(work, claim_item(p, work, next.item), next);
            load_block_ids(p, work, next);
        }
    }
    ln_cp_async_commit();
}

/* Waits for the stage that was queued STAGES calls of load_next ago. */
template <typename SHAPE> static __device__ __forceinline__ void wait_for_stage(void) {
    ln_cp_async_wait<SHAPE::STAGES - 1>();
    __syncwarp();
}

/* ---- products -------------------------------------------------------------------------------- */

/* A fragment k of Q: q, or of pipe.queries. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void read_query(const uint32_t q[D / 16][4], const pipeline &pipe,
                                                  int k, uint32_t a[4]) {
    if constexpr (SHAPE::QUERY_BYTES > 0) {
        uint4 four = pipe.queries[k * LN_WARP + threadIdx.x % LN_WARP];
        a[0] = four.x, a[1] = four.y, a[2] = four.z, a[3] = four.w;
    } else {
        a[0] = q[k][0], a[1] = q[k][1], a[2] = q[k][2], a[3] = q[k][3];
    }
}

/* S = Q K^T of a stage, without the scales of K. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void qk(const uint32_t q[D / 16][4], const pipeline &pipe,
                                          char *keys, float s[SHAPE::KEYS_N8][4]) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int n = 0; n < SHAPE::KEYS_N8; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        const char *row = element_at<SHAPE>(keys, lane / 4, 16 * k + lane % 4 * 4);
        uint32_t a[4];
        read_query<D, SHAPE>(q, pipe, k, a);
#pragma unroll
        for (int n = 0; n < SHAPE::KEYS_N8; n++) {
            uint32_t word = *(const uint32_t *)(row + n * 8 * SHAPE::ROW_BYTES);
            word = ln_dequantize_bias<SHAPE::TYPE>(word);
            ln_mma<false>(s[n], a, ln_dequantize_x2<SHAPE::TYPE>(word, 0),
                          ln_dequantize_x2<SHAPE::TYPE>(word, 2));
        }
    }
}

/* State and O of a split. ROWS 1: O^T, of which product 2 j + i has head dims 32 j + 4 g + 2 i and
 * the next. ROWS 2: acc 4 j + i has head dims 32 j + 4 g + i. */
template <int D, int ROWS> struct accumulators {
    ln_softmax_state<ROWS == 1 ? 8 : D> state;
    ln_transposed_acc<ROWS == 1 ? D : 16> transposed;
};

template <int D, int ROWS>
static __device__ __forceinline__ void online_softmax(float s[LN_KV_TILE_N8][4], float factor,
                                                      accumulators<D, ROWS> *sums) {
    if constexpr (ROWS == 1)
        ln_online_softmax<D, true>(s, factor, &sums->state, &sums->transposed);
    else
        ln_online_softmax<D, true>(s, factor, &sums->state);
}

/* O += P V of a stage; P has the scales of V. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void pv(const float s[SHAPE::KEYS_N8][4], char *values,
                                          accumulators<D, SHAPE::HEAD_ROWS> *sums) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int k = 0; k < SHAPE::KEYS_N8 / 2; k++) {
        const uint32_t a[4] = {ln_pack_x2<false>(s[2 * k][0], s[2 * k][1]),
                               ln_pack_x2<false>(s[2 * k][2], s[2 * k][3]),
                               ln_pack_x2<false>(s[2 * k + 1][0], s[2 * k + 1][1]),
                               ln_pack_x2<false>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            uint32_t words[4], pairs[2][2]; /* [keys 2 t and 2 t + 8][columns 0 and 2] */
#pragma unroll
            for (int i = 0; i < 4; i++)
                words[i] = ln_dequantize_bias<SHAPE::TYPE>(*(const uint32_t *)element_at<SHAPE>(
                    values, 16 * k + lane % 4 * 2 + i % 2 + i / 2 * 8, 32 * j + lane / 4 * 4));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                pairs[i][0] = __byte_perm(words[2 * i], words[2 * i + 1], 0x5140);
                pairs[i][1] = __byte_perm(words[2 * i], words[2 * i + 1], 0x7362);
            }
            uint32_t b[4][2]; /* of columns 0 to 3 */
#pragma unroll
            for (int i = 0; i < 8; i++)
                b[i / 2][i % 2] = ln_dequantize_x2<SHAPE::TYPE>(pairs[i % 2][i / 4], i / 2 % 2 * 2);
            if constexpr (SHAPE::HEAD_ROWS == 1) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint32_t v[4] = {b[2 * i][0], b[2 * i + 1][0], b[2 * i][1],
                                           b[2 * i + 1][1]};
                    ln_mma<false>(sums->transposed.acc[2 * j + i], v, a[0], a[2]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    ln_mma<false>(sums->state.acc[4 * j + i], a, b[i][0], b[i][1]);
            }
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* Partial O to memory: row i of a lane, or row 2 t + i of O^T. */
template <int D>
static __device__ __forceinline__ void store_partial_row(const accumulators<D, 1> &sums, int i,
                                                         float *to) {
    const float(*of)[4] = sums.transposed.acc;
#pragma unroll
    for (int j = 0; j < D / 32; j++)
        __stcg((float4 *)(to + 32 * j + threadIdx.x % LN_WARP / 4 * 4),
               make_float4(of[2 * j][i], of[2 * j][2 + i], of[2 * j + 1][i], of[2 * j + 1][2 + i]));
}

template <int D>
static __device__ __forceinline__ void store_partial_row(const accumulators<D, 2> &sums, int i,
                                                         float *to) {
    unsigned t = threadIdx.x % 4;
    const ln_softmax_state<D> &state = sums.state;
#pragma unroll
    for (int j = 0; j < D / 32; j++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            __stcg((float4 *)(to + 32 * j + 8 * t + 4 * k),
                   make_float4(state.acc[4 * j][2 * i + k], state.acc[4 * j + 1][2 * i + k],
                               state.acc[4 * j + 2][2 * i + k], state.acc[4 * j + 3][2 * i + k]));
}

/* Merges the KV splits of a KV head's query heads, as ln_merge_splits; four columns to a lane at a
 * time. */
template <int D>
static __device__ void merge(const decode_args &m, const seq_splits &s, unsigned seq,
                             unsigned kv_head) {
    enum { AT_ONCE = 4, STEP = 4 * LN_WARP };
    const ln_mma_attention_args &p = m.mma;
    unsigned n_cols = p.heads_per_kv * D, last = (s.end - 1) / LN_KV_SPLIT;
    for (unsigned done = 0; done < n_cols; done += AT_ONCE * STEP) {
        float merged[AT_ONCE][4] = {}, row_max[AT_ONCE], row_sum[AT_ONCE];
        unsigned col[AT_ONCE], head[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            col[i] = done + i * STEP + threadIdx.x % LN_WARP * 4;
            head[i] = kv_head * p.heads_per_kv + min(col[i], n_cols - 1) / D;
            ln_merge_init(p, head[i], &row_max[i], &row_sum[i]);
        }
#pragma unroll 2
        for (unsigned split = s.begin / LN_KV_SPLIT; split <= last; split++) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                size_t at = ((size_t)seq * p.a.n_heads + head[i]) * p.n_splits + split;
                float2 stats = __ldcg(p.partial_stats + at);
                float4 sum = __ldcg((const float4 *)(p.partial_out + at * D + col[i] % D));
                float keep, add;
                ln_merge_scales(&row_max[i], stats.x, &keep, &add);
                row_sum[i] = ln_merge(row_sum[i], keep, stats.y, add);
                merged[i][0] = ln_merge(merged[i][0], keep, sum.x, add);
                merged[i][1] = ln_merge(merged[i][1], keep, sum.y, add);
                merged[i][2] = ln_merge(merged[i][2], keep, sum.z, add);
                merged[i][3] = ln_merge(merged[i][3], keep, sum.w, add);
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (col[i] >= n_cols)
                continue;
            size_t column = (size_t)kv_head * n_cols + col[i];
            float normalizer = ln_normalizer(row_sum[i]);
            for (int k = 0; k < 4; k++)
                merged[i][k] *= normalizer;
            *(float4 *)(p.a.out + (size_t)s.token * p.a.n_heads * D + column) =
                make_float4(merged[i][0], merged[i][1], merged[i][2], merged[i][3]);
            if (m.converts)
                ln_act_store(m.to, (size_t)s.token, column, merged[i]);
        }
    }
}

/* Stores the partial results of an item. */
template <int D, int ROWS>
static __device__ __forceinline__ void store_partials(const decode_args &m, const kv_split &item,
                                                      const accumulators<D, ROWS> &sums) {
    const ln_mma_attention_args &p = m.mma;
    unsigned lane = threadIdx.x % LN_WARP;
    size_t first_head = (size_t)item.seq * p.a.n_heads + item.kv_head * p.heads_per_kv;
    for (unsigned i = 0; i < ROWS; i++) {
        float row_sum = ln_reduce_row_sum(sums.state.row_sum[i]);
        unsigned row = lane / 4 + 8 * i;
        if (row < p.heads_per_kv && lane % 4 == 0)
            __stcg(p.partial_stats + (first_head + row) * p.n_splits + item.split,
                   make_float2(sums.state.row_max[i], row_sum));
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned row = ROWS == 1 ? lane % 4 * 2 + i : lane / 4 + 8 * i;
        if (row < p.heads_per_kv)
            store_partial_row<D>(
                sums, (int)i, p.partial_out + ((first_head + row) * p.n_splits + item.split) * D);
    }
}

/* Whether all splits of an item's sequence and KV head are stored now. */
static __device__ __forceinline__ bool is_last_split(const ln_mma_attention_args &p,
                                                     const seq_splits &s, const kv_split &item) {
    unsigned lane = threadIdx.x % LN_WARP;
    unsigned n = (s.end - 1) / LN_KV_SPLIT - s.begin / LN_KV_SPLIT, before = 0;
    unsigned *word = p.arrival_counts + item.seq * p.a.kv.n_heads + item.kv_head;
    __threadfence();
    __syncwarp();
    if (lane == 0) {
        before = atomicAdd(word, 1);
        if (before == n)
            *word = 0;
    }
    __threadfence();
    return __shfl_sync(0xffffffffu, before, 0) == n;
}

/* The lane's query rows of an item, and their A fragments: q, or pipe.queries. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void load_query(const decode_args &m, const seq_splits &s,
                                                  const kv_split &item, const pipeline &pipe,
                                                  ln_query_rows &rows, uint32_t q[D / 16][4]) {
    const ln_mma_attention_args &p = m.mma;
    const float *q_rows[2];
    for (int i = 0; i < 2; i++) {
        unsigned row = threadIdx.x % LN_WARP / 4 + 8 * i;
        unsigned head = item.kv_head * p.heads_per_kv + min(row, p.heads_per_kv - 1);
        rows.head[i] = head;
        rows.position[i] = (size_t)p.a.positions[s.token];
        rows.begin[i] = s.begin;
        rows.end[i] = s.end;
        const float *q_row = p.a.q + ((size_t)s.token * p.a.n_heads + head) * D;
        q_rows[i] = row < p.heads_per_kv ? q_row : NULL;
    }
    ln_load_query<D, false, true>(q_rows[0], q_rows[1], q);
    if constexpr (SHAPE::QUERY_BYTES > 0)
#pragma unroll
        for (int k = 0; k < D / 16; k++)
            pipe.queries[k * LN_WARP + threadIdx.x % LN_WARP] =
                make_uint4(q[k][0], q[k][1], q[k][2], q[k][3]);
}

/* The scales of V, or K, of a stage to P, or S. */
template <typename SHAPE>
static __device__ __forceinline__ void scale_part(const pipeline &pipe, unsigned stage,
                                                  float s[SHAPE::KEYS_N8][4]) {
    ln_scale_scores<SHAPE::HEAD_ROWS, SHAPE::KEYS_N8>(pipe.scales + stage * SHAPE::KEYS, 1,
                                                      LN_KV_DEQUANT_SCALE(SHAPE::TYPE), s);
}

/* All items of a warp: PARTS stages of K and as many of V to a tile. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void consume(const decode_args &p, const work_queue &work,
                                               const pipeline &pipe, producer &next) {
    const float factor = ln_score_factor(p.mma.a);
    unsigned stage = 0, number;
    kv_split item;
    for (unsigned n = 0; (number = work.queue[n % QUEUE_ITEMS]) < work.n_items; n++) {
        find_item(p, work.seqs, number, item);
        const seq_splits &seq = work.seqs[item.seq];
        ln_query_rows rows;
        uint32_t q[D / 16][4];
        accumulators<D, SHAPE::HEAD_ROWS> sums = {};
        load_query<D, SHAPE>(p, seq, item, pipe, rows, q);
        ln_softmax_init(&sums.state);
#pragma unroll 1
        for (unsigned first = item.first; first < item.stop; first += LN_KV_TILE) {
            float s[LN_KV_TILE_N8][4];
#pragma unroll
            for (unsigned part = 0; part < SHAPE::PARTS; part++) {
                float(*of)[4] = s + part * SHAPE::KEYS_N8;
                wait_for_stage<SHAPE>();
                qk<D, SHAPE>(q, pipe, pipe.tiles + stage * SHAPE::STAGE_BYTES, of);
                scale_part<SHAPE>(pipe, stage, of);
                __syncwarp();
                load_next<SHAPE>(p, work, pipe, next);
                advance<SHAPE>(stage);
            }
            ln_finish_scores(p.mma.a, rows, first, s);
            online_softmax<D>(s, factor, &sums);
#pragma unroll
            for (unsigned part = 0; part < SHAPE::PARTS; part++) {
                float(*of)[4] = s + part * SHAPE::KEYS_N8;
                wait_for_stage<SHAPE>();
                scale_part<SHAPE>(pipe, stage, of);
                pv<D, SHAPE>(of, pipe.tiles + stage * SHAPE::STAGE_BYTES, &sums);
                __syncwarp();
                load_next<SHAPE>(p, work, pipe, next);
                advance<SHAPE>(stage);
            }
        }
        store_partials<D>(p, item, sums);
        if (p.merges && is_last_split(p.mma, seq, item))
            merge<D>(p, seq, item.seq, item.kv_head);
    }
}

#endif

template <int D, int DTYPE, int ROWS>
static __global__ void __launch_bounds__(pipeline_shape<D, DTYPE, ROWS>::THREADS, 1)
    decode(const __grid_constant__ decode_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef pipeline_shape<D, DTYPE, ROWS> shape;
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned queues[shape::WARPS][QUEUE_ITEMS];
    unsigned warp = threadIdx.x / LN_WARP;
    seq_splits *seqs = (seq_splits *)(memory + shape::PIPELINE_BYTES);
    ln_pdl_launch_dependents();
    find_splits(p, seqs);
    pipeline pipe;
    pipe.tiles = memory + warp * shape::STAGES * shape::STAGE_BYTES;
    char *queries = memory + shape::WARPS * shape::STAGES * shape::STAGE_BYTES;
    pipe.queries = (uint4 *)(queries + warp * shape::QUERY_BYTES);
    pipe.scales =
        (float *)(queries + shape::WARPS * shape::QUERY_BYTES) + warp * shape::STAGES * shape::KEYS;
    work_queue work;
    work.seqs = seqs;
    work.n_items = (seqs[p.n_seqs].first + p.n_seqs) * (unsigned)p.mma.a.kv.n_heads;
    work.n_warps = gridDim.x * shape::WARPS;
    work.count = p.mma.arrival_counts + LN_ATTENTION_COUNTERS - 1;
    work.queue = queues[warp];
    producer next = {};
    unsigned number = warp * gridDim.x + blockIdx.x, n = 0;
    if (number >= work.n_items)
        return;
    bool is_there = find_item(p, seqs, number, next.item);
    if (is_there) {
        begin_producer(work, number, next);
        load_block_ids(p, work, next);
    }
    bool reads_past_only = is_there && p.mma.reads_past_only && !p.mma.a.sees_all;
    for (; n < shape::STAGES && reads_past_only && next.first + LN_KV_TILE < next.item.stop; n++)
        load_next<shape>(p, work, pipe, next);
    ln_pdl_wait();
    if (!is_there) {
        begin_producer(work, claim_item(p, work, next.item), next);
        load_block_ids(p, work, next);
    }
    for (; n < shape::STAGES; n++)
        load_next<shape>(p, work, pipe, next);
    consume<D, shape>(p, work, pipe, next);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE, int ROWS>
static int launch(const ln_mma_attention_args *args, const ln_cuda_step *step, bool merges,
                  const ln_act_view *to, cudaStream_t stream) {
    typedef pipeline_shape<D, DTYPE, ROWS> shape;
    decode_args p = {};
    p.mma = *args;
    p.n_seqs = (unsigned)step->batch.n_seqs;
    p.all_single = step->least_tokens == 1 && step->most_tokens == 1;
    p.merges = merges;
    p.converts = to != NULL;
    if (to != NULL)
        p.to = *to;
    size_t shared = shape::PIPELINE_BYTES + (p.n_seqs + 1) * sizeof(seq_splits);
    /* whatever n_seqs is, as graphs of other steps keep their launches */
    size_t most_shared =
        shape::PIPELINE_BYTES + (LN_SM90_DECODE_Q8_MAX_SEQS + 1) * sizeof(seq_splits);
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(decode<D, DTYPE, ROWS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most_shared);
    if (code != 0)
        return code;
    return ln_pdl_launch(decode<D, DTYPE, ROWS>, dim3(n_sms), shape::THREADS, shared, stream, p);
}

template <int D, int DTYPE>
static int launch_rows(const ln_mma_attention_args *args, const ln_cuda_step *step, bool merges,
                       const ln_act_view *to, cudaStream_t stream) {
    return args->heads_per_kv <= 8 ? launch<D, DTYPE, 1>(args, step, merges, to, stream)
                                   : launch<D, DTYPE, 2>(args, step, merges, to, stream);
}

bool ln_takes_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step) {
    const ln_attention_args *a = &args->a;
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    return ln_plan_takes_decode_q8(&a->kv, &split, step->batch.n_seqs, ln_has_sm90a_code());
}

template <int D>
static int launch_dtype(const ln_mma_attention_args *args, const ln_cuda_step *step, bool merges,
                        const ln_act_view *to, cudaStream_t stream) {
    return args->a.kv.dtype == LN_KV_FP8
               ? launch_rows<D, LN_KV_FP8>(args, step, merges, to, stream)
               : launch_rows<D, LN_KV_Q8_0>(args, step, merges, to, stream);
}

int ln_attention_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step,
                                bool merges, const ln_act_view *to, cudaStream_t stream) {
    switch (args->a.kv.k_dim) {
    case 64: return launch_dtype<64>(args, step, merges, to, stream);
    case 128: return launch_dtype<128>(args, step, merges, to, stream);
    default: return launch_dtype<256>(args, step, merges, to, stream);
    }
}
