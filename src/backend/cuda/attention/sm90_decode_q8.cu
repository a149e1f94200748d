/* Decode attention on Hopper from caches of int8 and E4M3: sequences that bring one token, heads
 * of 64 and 128. (16-bit caches were slower so within a step, where blocks must begin and end.)
 *
 * Blocks stay on their multiprocessors. A warp takes one slice of a KV head after another, with the
 * query heads that share it as the rows of a tile (V meets up to eight as columns, which halves
 * products and sums), and brings tiles of K and V for itself through a ring of places in shared
 * memory: those of its next slice while it works on the last ones of this. What a slice gives goes
 * to memory, and the warp that ends the last slice of a sequence's KV head merges them in order.
 * Numbers become f16 where they are multiplied. Sums run as in mma.cu, and have its
 * bits.
 *
 * Whole slices are dealt out first, the last ones of all sequences behind them. What other steps
 * have cached is under way before the kernel in front, which writes this step's rows, has ended.
 *
 * Grid: a block on every multiprocessor. Shared memory: the rings; scales; what is known of each
 * sequence. Reads K and V once. */
#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/runtime/sm_count.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { MAX_RING_BYTES = 208 * 1024, MAX_SLOTS = 16, QUEUE = 16, MAX_SEQS = 512 };

/* A tile in shared memory: [LN_KV_TILE][ROW_BYTES], the 16 bytes at i of a row being at i ^ row % 8,
 * or at i ^ row / 2 % 4 of rows of 64 bytes, which spreads them over the banks. */
template <int D, int DTYPE, int ROWS> struct stream_shape {
    static constexpr int TYPE = DTYPE;
    static constexpr int HEAD_ROWS = ROWS; /* of a lane; 1: at most eight heads to a KV head */
    static constexpr unsigned ROW_BYTES = D;
    static constexpr unsigned TILE_BYTES = LN_KV_TILE * ROW_BYTES;
    static constexpr unsigned BYTES = TILE_BYTES + LN_KV_TILE * 4; /* with scales */
    static constexpr unsigned WARPS = D > 64 && ROWS == 2 ? 8 : 12;
    static constexpr unsigned THREADS = WARPS * LN_WARP;
    static constexpr unsigned MOST = MAX_RING_BYTES / (WARPS * BYTES);
    static constexpr unsigned SLOTS = MOST < MAX_SLOTS ? MOST : (unsigned)MAX_SLOTS;
    static constexpr unsigned RING_BYTES = WARPS * SLOTS * BYTES;
};

/* What a block knows of a sequence. */
typedef struct stream_seq {
    unsigned first; /* slices of those before it, without their last ones */
    int token;      /* -1: it brings more than one */
    unsigned begin, end;
} stream_seq;

typedef struct stream_args {
    ln_mma_attention_args f;
    unsigned n_seqs;
    bool all_single; /* no sequence brings more than one token */
    bool converts;   /* the result, for the linear behind */
    ln_act_view to;
} stream_args;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A slice of a KV head of a sequence: tiles from key `first` to key `stop`. */
typedef struct stream_item {
    unsigned seq, kv_head, slice, first, stop;
} stream_item;

/* Finds the slices of all sequences; by the block. seqs [n_seqs + 1] */
static __device__ void find_seqs(const stream_args &p, stream_seq *seqs) {
    for (unsigned seq = threadIdx.x; seq <= p.n_seqs; seq += blockDim.x) {
        stream_seq s = {0, -1, 0, 0};
        int token = (int)seq, n_tokens = seq < p.n_seqs ? 1 : 0;
        if (seq < p.n_seqs && !p.all_single) {
            token = p.f.a.seq_starts[seq];
            n_tokens = p.f.a.seq_starts[seq + 1] - token;
        }
        if (n_tokens == 1) {
            size_t begin, end;
            ln_key_range(p.f.a, seq, (size_t)p.f.a.positions[token], &begin, &end);
            s.token = token;
            s.begin = (unsigned)begin;
            s.end = (unsigned)end;
            s.first = (s.end - 1) / LN_ATTENTION_SLICE - s.begin / LN_ATTENTION_SLICE;
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

/* Item `number`; false where its sequence is not to be seen to. */
static __device__ __forceinline__ bool find_item(const stream_args &p, const stream_seq *seqs,
                                                 unsigned number, stream_item &item) {
    unsigned n_heads = (unsigned)p.f.a.kv.n_heads, n_early = seqs[p.n_seqs].first;
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
        item.slice = seqs[low].begin / LN_ATTENTION_SLICE + (place - seqs[low].first);
    } else {
        item.seq = place - n_early;
        if (seqs[item.seq].token < 0)
            return false;
        item.slice = (seqs[item.seq].end - 1) / LN_ATTENTION_SLICE;
    }
    unsigned begin = item.slice * LN_ATTENTION_SLICE;
    item.first = max(begin, seqs[item.seq].begin / LN_KV_TILE * LN_KV_TILE);
    item.stop = min(begin + LN_ATTENTION_SLICE, seqs[item.seq].end);
    return true;
}

/* The items, and how warps share them: a warp's first one is known, others go to whoever comes, as
 * some multiprocessors are slower. The last to come leaves the count at 0 for the next kernel. */
typedef struct stream_work {
    const stream_seq *seqs;
    unsigned n_items, n_warps; /* n_items: calls of take_item by all warps, too */
    unsigned *count;
    unsigned *queue; /* [QUEUE] numbers of items that the warp has taken */
} stream_work;

/* Takes an item that is to be seen to, and returns its number; n_items or more: there is none. */
static __device__ unsigned take_item(const stream_args &p, const stream_work &work,
                                     stream_item &item) {
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

/* A warp's ring: places of a tile each. */
typedef struct stream_ring {
    char *tiles;
    float *scales;
} stream_ring;

template <typename SHAPE> static __device__ __forceinline__ void advance(unsigned &slot) {
    slot = slot + 1 == SHAPE::SLOTS ? 0 : slot + 1;
}

/* What is to be brought next. */
typedef struct stream_loads {
    stream_item item;
    unsigned number, first, slot, n_taken;
    bool is_value;
    unsigned block; /* number `lane` of those that the next tile is in */
} stream_loads;

/* Byte `byte` of a row of a tile. */
template <typename SHAPE>
static __device__ __forceinline__ char *find(char *tile, unsigned row, unsigned byte) {
    unsigned chunk = byte / 16 ^ (SHAPE::ROW_BYTES == 64 ? row / 2 % 4 : row % 8);
    return tile + row * SHAPE::ROW_BYTES + chunk * 16 + byte % 16;
}

/* Takes the next item of a warp, for which it works later. */
static __device__ __forceinline__ void begin_loads(const stream_work &work, unsigned number,
                                                   stream_loads &next) {
    next.number = number;
    next.first = next.item.first;
    if (threadIdx.x % LN_WARP == 0)
        work.queue[next.n_taken % QUEUE] = number;
    next.n_taken++;
    __syncwarp();
}

/* Looks up the blocks of the next tile. */
static __device__ __forceinline__ void find_blocks(const stream_args &p, const stream_work &work,
                                                   stream_loads &next) {
    if (next.number >= work.n_items)
        return;
    unsigned block = (next.first >> p.f.block_shift) + threadIdx.x % LN_WARP;
    unsigned last = (work.seqs[next.item.seq].end - 1) >> p.f.block_shift;
    next.block = (unsigned)p.f.a.block_tables[next.item.seq * p.f.a.max_blocks + min(block, last)];
}

/* Queues the copies of a tile of K or V as one group. Rows that are not to be seen stand for others
 * that are. */
template <typename SHAPE>
static __device__ __forceinline__ void copy_tile(const stream_args &p, const stream_seq &seq,
                                                 const stream_ring &ring,
                                                 const stream_loads &next) {
    constexpr unsigned CHUNKS = SHAPE::ROW_BYTES / 16, ROWS = LN_WARP / CHUNKS; /* at once */
    const ln_kv_array &array = next.is_value ? p.f.a.values : p.f.a.keys;
    unsigned lane = threadIdx.x % LN_WARP, shift = p.f.block_shift, mask = (1u << shift) - 1;
    unsigned n_heads = (unsigned)p.f.a.kv.n_heads, chunk = lane % CHUNKS;
    unsigned low = seq.begin, last = seq.end - 1, first_block = next.first >> shift;
    char *tile = ring.tiles + next.slot * SHAPE::TILE_BYTES;
#pragma unroll
    for (unsigned i = 0; i < LN_KV_TILE / ROWS; i++) {
        unsigned row = i * ROWS + lane / CHUNKS, key = min(max(next.first + row, low), last);
        unsigned block = __shfl_sync(0xffffffffu, next.block, (key >> shift) - first_block);
        const char *head =
            array.data + (size_t)(block * n_heads + next.item.kv_head) * array.head_bytes;
        ln_cp_async_16(find<SHAPE>(tile, row, chunk * 16),
                      head + (key & mask) * SHAPE::ROW_BYTES + chunk * 16);
    }
#pragma unroll
    for (unsigned i = 0; i < LN_KV_TILE / LN_WARP; i++) {
        unsigned row = i * LN_WARP + lane, key = min(max(next.first + row, low), last);
        unsigned block = __shfl_sync(0xffffffffu, next.block, (key >> shift) - first_block);
        const char *head =
            array.data + (size_t)(block * n_heads + next.item.kv_head) * array.head_bytes;
        ln_cp_async_4(ring.scales + next.slot * LN_KV_TILE + row,
                           head + array.scales_offset + (key & mask) * 4);
    }
}

/* Queues the next tile, if there is one: K, then V of the same keys. */
template <typename SHAPE>
static __device__ __forceinline__ void bring(const stream_args &p, const stream_work &work,
                                             const stream_ring &ring, stream_loads &next) {
    if (next.number < work.n_items) {
        copy_tile<SHAPE>(p, work.seqs[next.item.seq], ring, next);
        advance<SHAPE>(next.slot);
        next.is_value = !next.is_value;
        if (!next.is_value) {
            next.first += LN_KV_TILE;
            if (next.first >= next.item.stop)
                begin_loads(work, take_item(p, work, next.item), next);
            find_blocks(p, work, next);
        }
    }
    ln_cp_async_commit();
}

/* Waits for the tile that was queued SLOTS calls of `bring` ago. */
template <typename SHAPE> static __device__ __forceinline__ void await(void) {
    ln_cp_async_wait<SHAPE::SLOTS - 1>();
    __syncwarp();
}

/* ---- products -------------------------------------------------------------------------------- */

/* As ln_mma_qk. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void score(const uint32_t q[D / 16][4], char *keys,
                                             float s[LN_KV_TILE_N8][4]) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int n = 0; n < LN_KV_TILE_N8; n++)
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        const char *row = find<SHAPE>(keys, lane / 4, 16 * k + lane % 4 * 4);
#pragma unroll
        for (int n = 0; n < LN_KV_TILE_N8; n++) {
            uint32_t word = *(const uint32_t *)(row + n * 8 * SHAPE::ROW_BYTES);
            word = ln_dequantize_bias<SHAPE::TYPE>(word);
            ln_mma<false>(s[n], q[k], ln_dequantize_x2<SHAPE::TYPE>(word, 0),
                          ln_dequantize_x2<SHAPE::TYPE>(word, 2));
        }
    }
}

/* What a slice gives. Eight heads at most: turned sums, of which product 2 j + i has columns
 * 32 j + 4 g + 2 i and the next ones. Else sum 4 j + i has columns 32 j + 4 g + i. */
template <int D, int ROWS> struct stream_sums {
    ln_softmax_state<ROWS == 1 ? 8 : D> slice;
    ln_transposed_acc<ROWS == 1 ? D : 16> turned;
};

template <int D, int ROWS>
static __device__ __forceinline__ void add_scores(float s[LN_KV_TILE_N8][4], float factor,
                                                  stream_sums<D, ROWS> *sums) {
    if constexpr (ROWS == 1)
        ln_online_softmax<D, true>(s, factor, &sums->slice, &sums->turned);
    else
        ln_online_softmax<D, true>(s, factor, &sums->slice);
}

/* As ln_mma_pv. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void add_values(const float s[LN_KV_TILE_N8][4], char *values,
                                                  stream_sums<D, SHAPE::HEAD_ROWS> *sums) {
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int k = 0; k < LN_KV_TILE / 16; k++) {
        const uint32_t a[4] = {ln_pack_x2<false>(s[2 * k][0], s[2 * k][1]),
                               ln_pack_x2<false>(s[2 * k][2], s[2 * k][3]),
                               ln_pack_x2<false>(s[2 * k + 1][0], s[2 * k + 1][1]),
                               ln_pack_x2<false>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int j = 0; j < D / 32; j++) {
            uint32_t words[4], pairs[2][2]; /* [keys 2 t and 2 t + 8][columns 0 and 2] */
#pragma unroll
            for (int i = 0; i < 4; i++)
                words[i] = ln_dequantize_bias<SHAPE::TYPE>(*(const uint32_t *)find<SHAPE>(
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
                    ln_mma<false>(sums->turned.of[2 * j + i], v, a[0], a[2]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    ln_mma<false>(sums->slice.sum[4 * j + i], a, b[i][0], b[i][1]);
            }
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* Sums to memory: of row i of a lane, or of row 2 t + i where they are turned. */
template <int D>
static __device__ __forceinline__ void leave_row(const stream_sums<D, 1> &sums, int i, float *to) {
    const float(*of)[4] = sums.turned.of;
#pragma unroll
    for (int j = 0; j < D / 32; j++)
        __stcg((float4 *)(to + 32 * j + threadIdx.x % LN_WARP / 4 * 4),
               make_float4(of[2 * j][i], of[2 * j][2 + i], of[2 * j + 1][i], of[2 * j + 1][2 + i]));
}

template <int D>
static __device__ __forceinline__ void leave_row(const stream_sums<D, 2> &sums, int i, float *to) {
    unsigned t = threadIdx.x % 4;
    const ln_softmax_state<D> &slice = sums.slice;
#pragma unroll
    for (int j = 0; j < D / 32; j++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            __stcg((float4 *)(to + 32 * j + 8 * t + 4 * k),
                   make_float4(slice.sum[4 * j][2 * i + k], slice.sum[4 * j + 1][2 * i + k],
                               slice.sum[4 * j + 2][2 * i + k], slice.sum[4 * j + 3][2 * i + k]));
}

/* Merges the slices of a KV head's query heads, four columns to a lane at a time, in the order of
 * ln_merge_splits. */
template <int D>
static __device__ void merge(const stream_args &m, const stream_seq &s, unsigned seq,
                             unsigned kv_head) {
    enum { AT_ONCE = 4, STEP = 4 * LN_WARP };
    const ln_mma_attention_args &p = m.f;
    unsigned n_cols = p.heads_per_kv * D, last = (s.end - 1) / LN_ATTENTION_SLICE;
    for (unsigned done = 0; done < n_cols; done += AT_ONCE * STEP) {
        float whole[AT_ONCE][4] = {}, reference[AT_ONCE], total[AT_ONCE];
        unsigned col[AT_ONCE], head[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            col[i] = done + i * STEP + threadIdx.x % LN_WARP * 4;
            head[i] = kv_head * p.heads_per_kv + min(col[i], n_cols - 1) / D;
            ln_merge_init(p, head[i], &reference[i], &total[i]);
        }
#pragma unroll 2
        for (unsigned slice = s.begin / LN_ATTENTION_SLICE; slice <= last; slice++) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                size_t at = ((size_t)seq * p.a.n_heads + head[i]) * p.n_splits + slice;
                float2 stats = __ldcg(p.stats + at);
                float4 sum = __ldcg((const float4 *)(p.sums + at * D + col[i] % D));
                float keep, add;
                ln_merge_scales(&reference[i], stats.x, &keep, &add);
                total[i] = ln_merge(total[i], keep, stats.y, add);
                whole[i][0] = ln_merge(whole[i][0], keep, sum.x, add);
                whole[i][1] = ln_merge(whole[i][1], keep, sum.y, add);
                whole[i][2] = ln_merge(whole[i][2], keep, sum.z, add);
                whole[i][3] = ln_merge(whole[i][3], keep, sum.w, add);
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (col[i] >= n_cols)
                continue;
            size_t column = (size_t)kv_head * n_cols + col[i];
            float share = ln_normalizer(total[i]);
            for (int k = 0; k < 4; k++)
                whole[i][k] *= share;
            *(float4 *)(p.a.out + (size_t)s.token * p.a.n_heads * D + column) =
                make_float4(whole[i][0], whole[i][1], whole[i][2], whole[i][3]);
            if (m.converts)
                ln_act_store(m.to, (size_t)s.token, column, whole[i]);
        }
    }
}

/* Leaves an item's sums; whether all slices of its sequence and KV head are there now. */
template <int D, int ROWS>
static __device__ __forceinline__ bool leave(const stream_args &m, const stream_seq &s,
                                             const stream_item &item,
                                             const stream_sums<D, ROWS> &sums) {
    const ln_mma_attention_args &p = m.f;
    unsigned lane = threadIdx.x % LN_WARP;
    size_t first_head = (size_t)item.seq * p.a.n_heads + item.kv_head * p.heads_per_kv;
    for (unsigned i = 0; i < ROWS; i++) {
        float total = ln_reduce_row_sum(sums.slice.total[i]);
        unsigned row = lane / 4 + 8 * i;
        if (row < p.heads_per_kv && lane % 4 == 0)
            __stcg(p.stats + (first_head + row) * p.n_splits + item.slice,
                   make_float2(sums.slice.reference[i], total));
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned row = ROWS == 1 ? lane % 4 * 2 + i : lane / 4 + 8 * i;
        if (row < p.heads_per_kv)
            leave_row<D>(sums, (int)i,
                         p.sums + ((first_head + row) * p.n_splits + item.slice) * D);
    }
    unsigned n = (s.end - 1) / LN_ATTENTION_SLICE - s.begin / LN_ATTENTION_SLICE, before = 0;
    unsigned *word = p.left + item.seq * p.a.kv.n_heads + item.kv_head;
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

/* What of the query heads of an item a lane has. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void begin_item(const stream_args &m, const stream_seq &s,
                                                  const stream_item &item, ln_query_rows &rows,
                                                  uint32_t q[D / 16][4]) {
    const ln_mma_attention_args &p = m.f;
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
}

/* All items of a warp. */
template <int D, typename SHAPE>
static __device__ __forceinline__ void attend(const stream_args &p, const stream_work &work,
                                              const stream_ring &ring, stream_loads &next) {
    const float factor = ln_score_factor(p.f.a);
    unsigned slot = 0, number;
    stream_item item;
    for (unsigned n = 0; (number = work.queue[n % QUEUE]) < work.n_items; n++) {
        find_item(p, work.seqs, number, item);
        const stream_seq &seq = work.seqs[item.seq];
        ln_query_rows rows;
        uint32_t q[D / 16][4];
        stream_sums<D, SHAPE::HEAD_ROWS> sums = {};
        begin_item<D, SHAPE>(p, seq, item, rows, q);
        ln_softmax_init(&sums.slice);
#pragma unroll 1
        for (unsigned first = item.first; first < item.stop; first += LN_KV_TILE) {
            float s[LN_KV_TILE_N8][4];
            await<SHAPE>();
            score<D, SHAPE>(q, ring.tiles + slot * SHAPE::TILE_BYTES, s);
            ln_scale_scores<SHAPE::HEAD_ROWS>(ring.scales + slot * LN_KV_TILE, 1,
                                              LN_KV_DEQUANT_SCALE(SHAPE::TYPE), s);
            __syncwarp();
            bring<SHAPE>(p, work, ring, next);
            advance<SHAPE>(slot);
            ln_finish_scores(p.f.a, rows, first, s);
            add_scores<D>(s, factor, &sums);
            await<SHAPE>();
            ln_scale_scores<SHAPE::HEAD_ROWS>(ring.scales + slot * LN_KV_TILE, 1,
                                              LN_KV_DEQUANT_SCALE(SHAPE::TYPE), s);
            add_values<D, SHAPE>(s, ring.tiles + slot * SHAPE::TILE_BYTES, &sums);
            __syncwarp();
            bring<SHAPE>(p, work, ring, next);
            advance<SHAPE>(slot);
        }
        if (leave<D>(p, seq, item, sums))
            merge<D>(p, seq, item.seq, item.kv_head);
    }
}

#endif

template <int D, int DTYPE, int ROWS>
static __global__ void __launch_bounds__(stream_shape<D, DTYPE, ROWS>::THREADS, 1)
    attend_stream(const __grid_constant__ stream_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef stream_shape<D, DTYPE, ROWS> shape;
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned queues[shape::WARPS][QUEUE];
    unsigned warp = threadIdx.x / LN_WARP;
    stream_seq *seqs = (stream_seq *)(memory + shape::RING_BYTES);
    ln_pdl_launch_dependents();
    find_seqs(p, seqs);
    stream_ring ring;
    ring.tiles = memory + warp * shape::SLOTS * shape::TILE_BYTES;
    ring.scales = (float *)(memory + shape::WARPS * shape::SLOTS * shape::TILE_BYTES) +
                  warp * shape::SLOTS * LN_KV_TILE;
    stream_work work;
    work.seqs = seqs;
    work.n_items = (seqs[p.n_seqs].first + p.n_seqs) * (unsigned)p.f.a.kv.n_heads;
    work.n_warps = gridDim.x * shape::WARPS;
    work.count = p.f.left + LN_ATTENTION_COUNTERS - 1;
    work.queue = queues[warp];
    stream_loads next = {};
    unsigned number = warp * gridDim.x + blockIdx.x, n = 0;
    if (number >= work.n_items)
        return;
    bool is_there = find_item(p, seqs, number, next.item);
    if (is_there) {
        begin_loads(work, number, next);
        find_blocks(p, work, next);
    }
    bool reads_past_only = is_there && p.f.reads_past_only && !p.f.a.sees_all;
    for (; n < shape::SLOTS && reads_past_only && next.first + LN_KV_TILE < next.item.stop; n++)
        bring<shape>(p, work, ring, next);
    ln_pdl_wait();
    if (!is_there) {
        begin_loads(work, take_item(p, work, next.item), next);
        find_blocks(p, work, next);
    }
    for (; n < shape::SLOTS; n++)
        bring<shape>(p, work, ring, next);
    attend<D, shape>(p, work, ring, next);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE, int ROWS>
static int launch(const ln_mma_attention_args *args, const ln_cuda_step *step, const ln_act_view *to,
                  cudaStream_t stream) {
    typedef stream_shape<D, DTYPE, ROWS> shape;
    stream_args p = {};
    p.f = *args;
    p.n_seqs = (unsigned)step->batch.n_seqs;
    p.all_single = step->least_tokens == 1 && step->most_tokens == 1;
    p.converts = to != NULL;
    if (to != NULL)
        p.to = *to;
    size_t shared = shape::RING_BYTES + (p.n_seqs + 1) * sizeof(stream_seq);
    /* whatever n_seqs is, as graphs of other steps keep their launches */
    size_t most_shared = shape::RING_BYTES + (MAX_SEQS + 1) * sizeof(stream_seq);
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code == 0)
        code = cudaFuncSetAttribute(attend_stream<D, DTYPE, ROWS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most_shared);
    if (code != 0)
        return code;
    return ln_pdl_launch(attend_stream<D, DTYPE, ROWS>, dim3(n_sms), shape::THREADS, shared, stream,
                     p);
}

template <int D, int DTYPE>
static int launch_rows(const ln_mma_attention_args *args, const ln_cuda_step *step,
                       const ln_act_view *to, cudaStream_t stream) {
    return args->heads_per_kv <= 8 ? launch<D, DTYPE, 1>(args, step, to, stream)
                                   : launch<D, DTYPE, 2>(args, step, to, stream);
}

static_assert((int)MAX_SEQS == (int)LN_SM90_DECODE_Q8_MAX_SEQS, "as attention/select.c has it");

bool ln_takes_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step) {
    const ln_attention_args *a = &args->a;
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    return ln_plan_takes_decode_q8(&a->kv, &split, step->batch.n_seqs, ln_has_sm90a_code());
}

int ln_attention_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step,
                        const ln_act_view *to, cudaStream_t stream) {
    bool is_small = args->a.kv.k_dim == 64;
    if (args->a.kv.dtype == LN_KV_FP8)
        return is_small ? launch_rows<64, LN_KV_FP8>(args, step, to, stream)
                        : launch_rows<128, LN_KV_FP8>(args, step, to, stream);
    return is_small ? launch_rows<64, LN_KV_Q8_0>(args, step, to, stream)
                    : launch_rows<128, LN_KV_Q8_0>(args, step, to, stream);
}
