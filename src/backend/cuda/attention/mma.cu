/* Attention for `fast`, on tensor cores: caches of 16-bit numbers, int8 or E4M3, heads of 16 to
 * 256.
 *
 * Sequences that bring one token (decode) are split over their slices: a warp takes one slice of
 * one KV head, with the query heads that share it as the rows of a tile; another kernel merges the
 * slices in order. On Hopper sm90_decode_q8.cu does this where blocks that stay are faster, and
 * sm90_decode_f16.cu the first part of it for heads of 64 and 128 in 16 bits.
 * Sequences that bring more (prefill) are cut into tiles of 128 rows (tokens times query heads of a
 * KV head), which walk their slices one after another. */
#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/attention/sm90_decode_f16.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/activations/convert.cuh"

enum { MERGE_THREADS = 128 };

/* Warps of a tile of rows: fewer where the sums of a row are many. */
#define MANY_WARPS(D) ((D) > 128 ? 4 : 8)

/* A tile of one array. */
template <int D, int DTYPE, bool KEYS>
static __device__ __forceinline__ void load(const ln_mma_attention_args &p, const ln_kv_tile_source &from,
                                            unsigned first, uint16_t *tile) {
    const ln_kv_array &array = KEYS ? p.a.keys : p.a.values;
    ln_load_kv_tile<D, LN_KV_QUANT_OF(DTYPE), false, KEYS>(from, first, array, tile, array, NULL);
}

/* Scores of a tile, and what becomes of them. */
template <int D, int DTYPE>
static __device__ __forceinline__ void score(const uint32_t q[D / 16][4], const uint16_t *keys,
                                             float s[LN_KV_TILE_N8][4]) {
    ln_mma_qk<D, LN_KV_IS_BF16(DTYPE)>(q, keys, s);
    if (LN_KV_QUANT_OF(DTYPE))
        ln_scale_scores(LN_KV_TILE_SCALES(D, keys), LN_KV_SCALE_STRIDE(D), LN_KV_DEQUANT_SCALE(DTYPE), s);
}

template <int D, int DTYPE>
static __device__ __forceinline__ void add_values(float s[LN_KV_TILE_N8][4], const uint16_t *values,
                                                  ln_softmax_state<D> *slice) {
    if (LN_KV_QUANT_OF(DTYPE))
        ln_scale_scores(LN_KV_TILE_SCALES(D, values), LN_KV_SCALE_STRIDE(D), LN_KV_DEQUANT_SCALE(DTYPE), s);
    ln_mma_pv<D, LN_KV_IS_BF16(DTYPE)>(s, values, slice);
}

/* A tile of K, and behind it one of V. */
template <int D, int DTYPE>
static __device__ __forceinline__ void load_both(const ln_mma_attention_args &p, const ln_kv_tile_source &from,
                                                 unsigned first, uint16_t *tiles) {
    ln_load_kv_tile<D, LN_KV_QUANT_OF(DTYPE), true>(from, first, p.a.keys, tiles, p.a.values,
                                              tiles + LN_KV_TILE_ELEMENTS(D));
}

/* ---- decode ---------------------------------------------------------------------------------- */

/* Queues the first keys and values of a slice. */
template <int D, int DTYPE>
static __device__ __forceinline__ void begin_walk(const ln_mma_attention_args &p, const ln_kv_tile_source &from,
                                                  unsigned first, uint16_t *keys,
                                                  uint16_t *values) {
    load<D, DTYPE, true>(p, from, first, keys);
    ln_cp_async_commit();
    load<D, DTYPE, false>(p, from, first, values);
    ln_cp_async_commit();
}

/* The tiles of one slice by one warp, the first of which are queued: while a tile is scored its
 * values arrive, and while it is weighed the next keys do. */
template <int D, int DTYPE>
static __device__ __forceinline__ void walk_slice(const ln_mma_attention_args &p, const ln_kv_tile_source &from,
                                                  const ln_query_rows &rows, const uint32_t q[D / 16][4],
                                                  unsigned first, unsigned end, uint16_t *keys,
                                                  uint16_t *values, ln_softmax_state<D> *slice) {
    const float factor = ln_score_factor(p.a);
    ln_softmax_init(slice);
    for (; first < end; first += LN_KV_TILE) {
        float s[LN_KV_TILE_N8][4];
        ln_cp_async_wait<1>();
        __syncwarp();
        score<D, DTYPE>(q, keys, s);
        __syncwarp();
        if (first + LN_KV_TILE < end)
            load<D, DTYPE, true>(p, from, first + LN_KV_TILE, keys);
        ln_cp_async_commit();
        ln_finish_scores(p.a, rows, first, s);
        ln_online_softmax<D, LN_KV_QUANT_OF(DTYPE) != 0>(s, factor, slice);
        ln_cp_async_wait<1>();
        __syncwarp();
        add_values<D, DTYPE>(s, values, slice);
        __syncwarp();
        if (first + LN_KV_TILE < end)
            load<D, DTYPE, false>(p, from, first + LN_KV_TILE, values);
        ln_cp_async_commit();
    }
}

/* The result for row i of a lane where there is one slice, by the same sums as merge_slices. */
template <int D>
static __device__ __forceinline__ void write_only_slice(const ln_mma_attention_args &p, size_t item,
                                                        size_t head, const ln_softmax_state<D> &slice,
                                                        int i, float slice_total) {
    float reference, total, keep, add;
    ln_merge_init(p, head, &reference, &total);
    ln_merge_scales(&reference, slice.reference[i], &keep, &add);
    float share = ln_normalizer(ln_merge(total, keep, slice_total, add));
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        *(float2 *)(p.a.out + item * D + 8 * d + threadIdx.x % 4 * 2) =
            make_float2(ln_merge(0.0f, keep, slice.sum[d][2 * i], add) * share,
                        ln_merge(0.0f, keep, slice.sum[d][2 * i + 1], add) * share);
}

/* Grid: (KV heads, sequences, slices), a warp each: so the last slices, which are short, come last
 * and fill what others leave. Shared memory: a tile of K and one of V. Reads K and V once. What
 * other steps have cached is under way before the kernel in front, which writes this step's rows,
 * has ended. */
template <int D, int DTYPE>
static __global__ void __launch_bounds__(LN_WARP)
    attend_split(const __grid_constant__ ln_mma_attention_args p) {
    extern __shared__ __align__(16) uint16_t tiles[];
    ln_pdl_launch_dependents();
    unsigned lane = threadIdx.x, kv_head = blockIdx.x, seq = blockIdx.y, s = blockIdx.z;
    size_t token = (size_t)p.a.seq_starts[seq], begin, end;
    if (p.a.seq_starts[seq + 1] - (int32_t)token != 1)
        return;
    size_t position = (size_t)p.a.positions[token];
    ln_key_range(p.a, seq, position, &begin, &end);
    unsigned slice_begin = s * LN_ATTENTION_SLICE, slice_end = slice_begin + LN_ATTENTION_SLICE;
    if (slice_begin >= end || slice_end <= begin)
        return;
    uint16_t *keys = tiles, *values = tiles + LN_KV_TILE_ELEMENTS(D);
    ln_kv_tile_source from = ln_make_kv_tile_source(p, seq, kv_head, begin, end, lane, LN_WARP);
    unsigned first = slice_begin > begin ? slice_begin : (unsigned)begin / LN_KV_TILE * LN_KV_TILE;
    bool is_cached = p.reads_past_only && !p.a.sees_all && first + LN_KV_TILE <= position;
    if (is_cached)
        begin_walk<D, DTYPE>(p, from, first, keys, values);
    ln_pdl_wait();
    if (!is_cached)
        begin_walk<D, DTYPE>(p, from, first, keys, values);
    ln_query_rows rows;
    const float *q_rows[2];
    for (int i = 0; i < 2; i++) {
        unsigned row = lane / 4 + 8 * i, head = kv_head * p.heads_per_kv + row;
        bool is_there = row < p.heads_per_kv;
        rows.head[i] = is_there ? head : kv_head * p.heads_per_kv;
        rows.position[i] = position;
        rows.begin[i] = begin;
        rows.end[i] = end;
        q_rows[i] = is_there ? p.a.q + (token * p.a.n_heads + head) * D : NULL;
    }
    uint32_t q[D / 16][4];
    ln_load_query<D, LN_KV_IS_BF16(DTYPE), LN_KV_QUANT_OF(DTYPE) != 0>(q_rows[0], q_rows[1], q);
    ln_softmax_state<D> slice;
    walk_slice<D, DTYPE>(p, from, rows, q, first, slice_end < end ? slice_end : (unsigned)end, keys,
                         values, &slice);
    for (int i = 0; i < 2; i++) {
        float total = ln_reduce_row_sum(slice.total[i]);
        if (q_rows[i] == NULL)
            continue;
        if (p.n_splits == 1) { /* nothing else is to be merged */
            write_only_slice<D>(p, token * p.a.n_heads + rows.head[i], rows.head[i], slice, i,
                                total);
            continue;
        }
        size_t at = (seq * p.a.n_heads + rows.head[i]) * p.n_splits + s;
        if (lane % 4 == 0)
            p.stats[at] = make_float2(slice.reference[i], total);
        for (int d = 0; d < D / 8; d++)
            *(float2 *)(p.sums + at * D + 8 * d + lane % 4 * 2) =
                make_float2(slice.sum[d][2 * i], slice.sum[d][2 * i + 1]);
    }
}

typedef struct merge_args {
    ln_mma_attention_args f;
    bool converts; /* the result, for the linear behind */
    ln_act_view to;
} merge_args;

/* Merges the slices of four columns of a token that sees keys [begin, end), in the order of
 * ln_merge_splits. */
template <int D>
static __device__ __forceinline__ void merge_four(const ln_mma_attention_args &p, size_t seq, size_t begin,
                                                  size_t end, unsigned col, float whole[4]) {
    size_t head = col / D;
    float reference, total;
    ln_merge_init(p, head, &reference, &total);
    unsigned last = (unsigned)(end - 1) / LN_ATTENTION_SLICE;
    whole[0] = whole[1] = whole[2] = whole[3] = 0.0f;
#pragma unroll 4
    for (unsigned s = (unsigned)begin / LN_ATTENTION_SLICE; s <= last; s++) {
        size_t at = (seq * p.a.n_heads + head) * p.n_splits + s;
        float2 stats = p.stats[at];
        float4 sum = *(const float4 *)(p.sums + at * D + col % D);
        float keep, add;
        ln_merge_scales(&reference, stats.x, &keep, &add);
        total = ln_merge(total, keep, stats.y, add);
        whole[0] = ln_merge(whole[0], keep, sum.x, add);
        whole[1] = ln_merge(whole[1], keep, sum.y, add);
        whole[2] = ln_merge(whole[2], keep, sum.z, add);
        whole[3] = ln_merge(whole[3], keep, sum.w, add);
    }
    float share = ln_normalizer(total);
    for (int i = 0; i < 4; i++)
        whole[i] *= share;
}

/* Grid: (blocks of columns of a token, sequences), a thread for four columns. */
template <int D>
static __global__ void __launch_bounds__(MERGE_THREADS)
    merge_slices(const __grid_constant__ merge_args m) {
    const ln_mma_attention_args &p = m.f;
    unsigned seq = blockIdx.y, col = 4 * (blockIdx.x * MERGE_THREADS + threadIdx.x);
    ln_pdl_launch_dependents();
    size_t token = (size_t)p.a.seq_starts[seq], n_cols = p.a.n_heads * D, begin, end;
    bool is_single = p.a.seq_starts[seq + 1] - (int32_t)token == 1;
    ln_key_range(p.a, seq, (size_t)p.a.positions[token], &begin, &end);
    ln_pdl_wait();
    if (!is_single || col >= n_cols)
        return;
    float whole[4];
    merge_four<D>(p, seq, begin, end, col, whole);
    *(float4 *)(p.a.out + token * n_cols + col) =
        make_float4(whole[0], whole[1], whole[2], whole[3]);
    if (m.converts)
        ln_act_store(m.to, token, col, whole);
}

/* ---- prefill --------------------------------------------------------------------------------- */

/* What is merged of a warp's rows: sums in shared memory, in the order of fragments. */
typedef struct whole_rows {
    float reference[2], total[2];
    float4 *sums; /* [D / 8][32] */
} whole_rows;

template <int D>
static __device__ __forceinline__ void merge_slice(whole_rows *whole, const ln_softmax_state<D> &slice) {
    unsigned lane = threadIdx.x % LN_WARP;
    float keep[2], add[2];
    for (int i = 0; i < 2; i++) {
        ln_merge_scales(&whole->reference[i], slice.reference[i], &keep[i], &add[i]);
        whole->total[i] = ln_merge(whole->total[i], keep[i], ln_reduce_row_sum(slice.total[i]), add[i]);
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        float4 sum = whole->sums[d * LN_WARP + lane];
        sum.x = ln_merge(sum.x, keep[0], slice.sum[d][0], add[0]);
        sum.y = ln_merge(sum.y, keep[0], slice.sum[d][1], add[0]);
        sum.z = ln_merge(sum.z, keep[1], slice.sum[d][2], add[1]);
        sum.w = ln_merge(sum.w, keep[1], slice.sum[d][3], add[1]);
        whole->sums[d * LN_WARP + lane] = sum;
    }
}

/* Grid: (tiles of rows, the last first; KV heads; sequences), eight warps of 16 rows. Shared
 * memory: two tiles of K and of V, and the sums of all rows. Every tile of K and V is read once for
 * 128 rows. */
template <int D, int DTYPE>
static __global__ void __launch_bounds__(MANY_WARPS(D) * LN_WARP, 1)
    attend_many(const __grid_constant__ ln_mma_attention_args p) {
    extern __shared__ __align__(16) uint16_t tiles[];
    ln_pdl_launch_and_wait();
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    size_t kv_head = blockIdx.y, seq = blockIdx.z;
    unsigned n_tokens = (unsigned)(p.a.seq_starts[seq + 1] - p.a.seq_starts[seq]);
    unsigned n_rows = n_tokens * p.heads_per_kv;
    unsigned first_row = (gridDim.x - 1 - blockIdx.x) * MANY_WARPS(D) * 16;
    if (first_row >= n_rows || (p.uses_split_kv && n_tokens == 1))
        return;
    ln_query_rows rows;
    size_t items[2], begin, end, last_begin, last_end;
    ln_find_query_rows(p, seq, kv_head, first_row + 16 * warp, n_rows, &rows, items);
    unsigned last_row = min(first_row + MANY_WARPS(D) * 16, n_rows) - 1;
    size_t token0 = (size_t)p.a.seq_starts[seq];
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + first_row / p.heads_per_kv], &begin,
                 &end);
    ln_key_range(p.a, seq, (size_t)p.a.positions[token0 + last_row / p.heads_per_kv], &last_begin,
                 &last_end);
    uint32_t q[D / 16][4];
    ln_load_query<D, LN_KV_IS_BF16(DTYPE), LN_KV_QUANT_OF(DTYPE) != 0>(
        items[0] != SIZE_MAX ? p.a.q + items[0] * D : NULL,
        items[1] != SIZE_MAX ? p.a.q + items[1] * D : NULL, q);
    whole_rows whole;
    whole.sums = (float4 *)(tiles + 4 * LN_KV_TILE_ELEMENTS(D)) + warp * (D / 8) * LN_WARP;
    for (int d = 0; d < D / 8; d++)
        whole.sums[d * LN_WARP + lane] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < 2; i++)
        ln_merge_init(p, rows.head[i], &whole.reference[i], &whole.total[i]);
    /* keys that any row of this warp sees */
    unsigned warp_begin = (unsigned)min(rows.begin[0], rows.begin[1]);
    unsigned warp_end = (unsigned)max(rows.end[0], rows.end[1]);
    warp_begin = __reduce_min_sync(0xffffffffu, warp_begin);
    warp_end = __reduce_max_sync(0xffffffffu, warp_end);

    ln_kv_tile_source from =
        ln_make_kv_tile_source(p, seq, kv_head, begin, last_end, threadIdx.x, MANY_WARPS(D) * LN_WARP);
    unsigned first = (unsigned)begin / LN_KV_TILE * LN_KV_TILE, stop = (unsigned)last_end;
    const float factor = ln_score_factor(p.a);
    ln_softmax_state<D> slice;
    ln_softmax_init(&slice);
    load_both<D, DTYPE>(p, from, first, tiles);
    ln_cp_async_commit();
    for (unsigned n = 0; first < stop; first += LN_KV_TILE, n++) {
        uint16_t *keys = tiles + n % 2 * 2 * LN_KV_TILE_ELEMENTS(D), *values = keys + LN_KV_TILE_ELEMENTS(D);
        uint16_t *next = tiles + (n + 1) % 2 * 2 * LN_KV_TILE_ELEMENTS(D);
        if (first + LN_KV_TILE < stop)
            load_both<D, DTYPE>(p, from, first + LN_KV_TILE, next);
        ln_cp_async_commit();
        ln_cp_async_wait<1>();
        __syncthreads();
        if (first < warp_end && first + LN_KV_TILE > warp_begin) {
            float s[LN_KV_TILE_N8][4];
            score<D, DTYPE>(q, keys, s);
            ln_finish_scores(p.a, rows, first, s);
            ln_online_softmax<D, LN_KV_QUANT_OF(DTYPE) != 0>(s, factor, &slice);
            add_values<D, DTYPE>(s, values, &slice);
        }
        if ((first + LN_KV_TILE) % LN_ATTENTION_SLICE == 0 || first + LN_KV_TILE >= stop) {
            merge_slice<D>(&whole, slice);
            ln_softmax_init(&slice);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) {
        float share = ln_normalizer(whole.total[i]);
        for (int d = 0; d < D / 8 && items[i] != SIZE_MAX; d++) {
            float4 sum = whole.sums[d * LN_WARP + lane];
            *(float2 *)(p.a.out + items[i] * D + 8 * d + lane % 4 * 2) = make_float2(
                (i == 0 ? sum.x : sum.z) * share, (i == 0 ? sum.y : sum.w) * share);
        }
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

template <int D, int DTYPE>
static int launch_slices(const ln_mma_attention_args &args, size_t n_seqs, cudaStream_t stream) {
    size_t shared = 2 * LN_KV_TILE_ELEMENTS(D) * sizeof(uint16_t);
    cudaError_t code = cudaFuncSetAttribute(
        attend_split<D, DTYPE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess)
        return code;
    dim3 grid((unsigned)args.a.kv.n_heads, (unsigned)n_seqs, args.n_splits);
    return ln_pdl_launch(attend_split<D, DTYPE>, grid, LN_WARP, shared, stream, args);
}

template <int D, int DTYPE>
static int launch_split(const ln_mma_attention_args &args, const ln_qkv_args *qkv, const ln_cuda_step *step,
                        const ln_act_view *to, cudaStream_t stream) {
    size_t n_seqs = step->batch.n_seqs;
    int queued = ln_takes_sm90_decode_f16(&args, step)
                     ? ln_attention_sm90_decode_f16(&args, qkv, step, stream)
                     : launch_slices<D, DTYPE>(args, n_seqs, stream);
    if (queued != 0 || args.n_splits == 1)
        return queued;
    merge_args merge = {args, to != NULL, {}};
    if (to != NULL)
        merge.to = *to;
    dim3 blocks(ln_ceil_div(args.a.n_heads * D, 4 * MERGE_THREADS), (unsigned)n_seqs);
    return ln_pdl_launch(merge_slices<D>, blocks, MERGE_THREADS, 0, stream, merge);
}

template <int D, int DTYPE>
static int launch_many(const ln_mma_attention_args &args, size_t n_seqs, size_t most_tokens,
                       cudaStream_t stream) {
    size_t shared =
        4 * LN_KV_TILE_ELEMENTS(D) * sizeof(uint16_t) + (size_t)MANY_WARPS(D) * 16 * D * sizeof(float);
    cudaError_t code = cudaFuncSetAttribute(
        attend_many<D, DTYPE>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess)
        return code;
    dim3 grid(ln_ceil_div(most_tokens * args.heads_per_kv, MANY_WARPS(D) * 16),
              (unsigned)args.a.kv.n_heads, (unsigned)n_seqs);
    return ln_pdl_launch(attend_many<D, DTYPE>, grid, MANY_WARPS(D) * LN_WARP, shared, stream, args);
}

template <int D, int DTYPE>
static int launch(const ln_mma_attention_args &args, const ln_qkv_args *qkv, const ln_cuda_step *step,
                  const ln_act_view *to, cudaStream_t stream) {
    int code = 0;
    if (args.uses_split_kv && step->least_tokens == 1)
        code = ln_takes_sm90_decode_q8(&args, step)
                   ? ln_attention_sm90_decode_q8(&args, step, to, stream)
                   : launch_split<D, DTYPE>(args, qkv, step, to, stream);
    if (code == 0 && (!args.uses_split_kv || step->most_tokens > 1))
        code = ln_takes_sm90_prefill(&args)
                   ? ln_attention_sm90_prefill(&args, step->batch.n_seqs, step->most_tokens, stream)
                   : launch_many<D, DTYPE>(args, step->batch.n_seqs, step->most_tokens, stream);
    return code;
}

template <int D>
static int launch_dtype(const ln_mma_attention_args &args, const ln_qkv_args *qkv,
                        const ln_cuda_step *step, const ln_act_view *to, cudaStream_t stream) {
    switch (args.a.kv.dtype) {
    case LN_KV_F16: return launch<D, LN_KV_F16>(args, qkv, step, to, stream);
    case LN_KV_BF16: return launch<D, LN_KV_BF16>(args, qkv, step, to, stream);
    case LN_KV_FP8: return launch<D, LN_KV_FP8>(args, qkv, step, to, stream);
    default: return launch<D, LN_KV_Q8_0>(args, qkv, step, to, stream);
    }
}

static size_t splits_of(size_t n_tokens) {
    return (n_tokens + LN_ATTENTION_SLICE - 1) / LN_ATTENTION_SLICE;
}

size_t ln_cuda_attention_bytes(size_t max_seqs, size_t max_heads, size_t max_tokens,
                               size_t head_dim) {
    return LN_ATTENTION_COUNTERS * sizeof(unsigned) +
           max_seqs * max_heads * splits_of(max_tokens) * (head_dim + 2) * sizeof(float);
}

ln_mma_attention_args ln_make_mma_attention_args(const ln_attention_args *a,
                                                 const ln_cuda_step *step) {
    ln_mma_attention_args args;
    ln_attention_split split = ln_attention_find_split(&a->kv, a->n_heads, step);
    args.a = *a;
    args.heads_per_kv = split.heads_per_kv;
    args.block_shift = split.block_shift;
    args.n_splits = split.n_splits;
    args.uses_split_kv = split.uses_split_kv;
    args.reads_past_only = split.reads_past_only;
    args.left = (unsigned *)step->scratch;
    args.sums = (float *)((char *)step->scratch + LN_ATTENTION_COUNTERS * sizeof(unsigned));
    args.stats = (float2 *)(args.sums + split.n_items * a->kv.k_dim);
    return args;
}

int ln_mma_attention(const ln_attention_args *a, const ln_qkv_args *qkv, const ln_cuda_step *step,
                      const ln_act_view *to, cudaStream_t stream) {
    ln_mma_attention_args args = ln_make_mma_attention_args(a, step);
    switch (a->kv.k_dim) {
    case 16: return launch_dtype<16>(args, qkv, step, to, stream);
    case 32: return launch_dtype<32>(args, qkv, step, to, stream);
    case 64: return launch_dtype<64>(args, qkv, step, to, stream);
    case 80: return launch_dtype<80>(args, qkv, step, to, stream);
    case 96: return launch_dtype<96>(args, qkv, step, to, stream);
    case 128: return launch_dtype<128>(args, qkv, step, to, stream);
    default: return launch_dtype<256>(args, qkv, step, to, stream);
    }
}
