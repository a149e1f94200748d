/* Merge of the KV splits of decode rows, in order of positions: out = sum of partial O * add, times
 * keep wherever the running max moves (split_kv.cuh has the same for one column).
 *
 * merge_serial: a thread takes four columns and walks through the splits. Grid (columns / 512,
 * sequences), block 128.
 *
 * merge_staged: long contexts of few sequences, where that walk would wait for memory at every step
 * and few threads have one. A block takes 32 columns of a head, and 128 splits at a time: it loads
 * all their partial sums at once, finds their factors side by side (a prefix max), and eight
 * threads walk through shared memory. Max is exact in any order, and sums are added in the same
 * one, so the bits are those of merge_serial. Grid (columns / 32, sequences), block 128, 18 KiB of
 * shared memory. Bytes moved: partial O once. */
#include "backend/cuda/attention/merge.cuh"

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/attention/split_kv.cuh"
#include "backend/cuda/ptx/cp_async.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum {
    THREADS = 128,
    WARPS = THREADS / LN_WARP,
    COLUMNS = 32, /* of a block of merge_staged */
    FOURS = COLUMNS / 4,
    MANY_SPLITS = 16,
    MOST_BLOCKS = 2048 /* of merge_staged; more columns keep the GPU busy in merge_serial */
};

typedef struct merge_args {
    ln_mma_attention_args mma;
    bool converts; /* for the next linear */
    ln_act_view to;
} merge_args;

/* A token that is a sequence's only one, and the splits of it: first .. last. */
typedef struct merged_token {
    size_t token;
    bool is_single;
    unsigned first, last;
} merged_token;

static __device__ __forceinline__ merged_token find_token(const ln_mma_attention_args &p,
                                                          unsigned seq) {
    merged_token at;
    size_t begin, end;
    at.token = (size_t)p.a.seq_starts[seq];
    at.is_single = p.a.seq_starts[seq + 1] - (int32_t)at.token == 1;
    ln_key_range(p.a, seq, (size_t)p.a.positions[at.token], &begin, &end);
    at.first = (unsigned)begin / p.split_keys;
    at.last = (unsigned)(end - 1) / p.split_keys;
    return at;
}

/* merged = merged * keep + split * add */
static __device__ __forceinline__ void add_split(float merged[4], float keep, const float4 &split,
                                                 float add) {
    merged[0] = ln_merge(merged[0], keep, split.x, add);
    merged[1] = ln_merge(merged[1], keep, split.y, add);
    merged[2] = ln_merge(merged[2], keep, split.z, add);
    merged[3] = ln_merge(merged[3], keep, split.w, add);
}

/* Four columns of the result, from `col` of all heads on. */
static __device__ __forceinline__ void store_four(const merge_args &m, size_t token, size_t n_cols,
                                                  unsigned col, float merged[4], float row_sum) {
    float normalizer = ln_normalizer(row_sum);
    for (int i = 0; i < 4; i++)
        merged[i] *= normalizer;
    *(float4 *)(m.mma.a.out + token * n_cols + col) =
        make_float4(merged[0], merged[1], merged[2], merged[3]);
    if (m.converts)
        ln_act_store(m.to, token, col, merged);
}

/* ---- few splits ------------------------------------------------------------------------------ */

template <int D>
static __global__ void __launch_bounds__(THREADS)
    merge_serial(const __grid_constant__ merge_args m) {
    const ln_mma_attention_args &p = m.mma;
    unsigned seq = blockIdx.y, col = 4 * (blockIdx.x * THREADS + threadIdx.x);
    ln_pdl_launch_dependents();
    size_t n_cols = p.a.n_heads * D, head = col / D;
    merged_token at = find_token(p, seq);
    ln_pdl_wait();
    if (!at.is_single || col >= n_cols)
        return;
    float row_max, row_sum, merged[4] = {};
    ln_merge_init(p, head, &row_max, &row_sum);
#pragma unroll 4
    for (unsigned split = at.first; split <= at.last; split++) {
        size_t from = (seq * p.a.n_heads + head) * p.n_splits + split;
        float2 stats = p.partial_stats[from];
        float4 partial = *(const float4 *)(p.partial_out + from * D + col % D);
        float keep, add;
        ln_merge_scales(&row_max, stats.x, &keep, &add);
        row_sum = ln_merge(row_sum, keep, stats.y, add);
        add_split(merged, keep, partial, add);
    }
    store_four(m, at.token, n_cols, col, merged, row_sum);
}

/* ---- many splits ----------------------------------------------------------------------------- */

typedef struct split_factors {
    float keep, add, row_sum;
} split_factors;

/* THREADS splits of a head. */
typedef struct merge_memory {
    float4 partials[THREADS][FOURS];
    split_factors factors[THREADS];
    float warp_max[WARPS];
} merge_memory;

/* The largest value of this lane and those before it. */
static __device__ __forceinline__ float find_prefix_max(float x) {
#pragma unroll
    for (unsigned step = 1; step < LN_WARP; step *= 2) {
        float other = __shfl_up_sync(0xffffffffu, x, step);
        x = threadIdx.x % LN_WARP >= step ? fmaxf(x, other) : x;
    }
    return x;
}

/* Factors of the n splits from number `first` on, one to a thread, and the running max behind them.
 * By the block, which waits for itself once. */
static __device__ __forceinline__ void find_factors(const ln_mma_attention_args &p, size_t first,
                                                    unsigned n, float *row_max, merge_memory &m) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    float2 stats = make_float2(-INFINITY, 0.0f);
    if (threadIdx.x < n)
        stats = p.partial_stats[first + threadIdx.x];
    float own = find_prefix_max(stats.x), keep, add;
    if (lane == LN_WARP - 1)
        m.warp_max[warp] = own;
    float before = __shfl_up_sync(0xffffffffu, own, 1);
    before = lane > 0 ? fmaxf(*row_max, before) : *row_max;
    __syncthreads();
    for (unsigned i = 0; i < WARPS; i++) {
        *row_max = fmaxf(*row_max, m.warp_max[i]);
        before = i < warp ? fmaxf(before, m.warp_max[i]) : before;
    }
    ln_merge_scales(&before, stats.x, &keep, &add);
    m.factors[threadIdx.x] = {keep, add, stats.y};
}

template <int D>
static __global__ void __launch_bounds__(THREADS)
    merge_staged(const __grid_constant__ merge_args m) {
    __shared__ merge_memory memory;
    const ln_mma_attention_args &p = m.mma;
    unsigned seq = blockIdx.y, own = threadIdx.x % FOURS;
    unsigned col = blockIdx.x * COLUMNS + 4 * own, head = blockIdx.x * COLUMNS / D;
    ln_pdl_launch_dependents();
    merged_token at = find_token(p, seq);
    ln_pdl_wait();
    if (!at.is_single)
        return;
    float row_max, row_sum, merged[4] = {};
    ln_merge_init(p, head, &row_max, &row_sum);
    for (unsigned done = at.first; done <= at.last; done += THREADS) {
        unsigned n = min(at.last + 1 - done, (unsigned)THREADS);
        size_t first = (seq * p.a.n_heads + head) * p.n_splits + done;
#pragma unroll 8
        for (unsigned i = threadIdx.x / FOURS; i < n; i += THREADS / FOURS)
            ln_cp_async_16(&memory.partials[i][own], p.partial_out + (first + i) * D + col % D);
        ln_cp_async_commit();
        find_factors(p, first, n, &row_max, memory);
        ln_cp_async_wait<0>();
        __syncthreads();
#pragma unroll 4
        for (unsigned i = 0; i < n && threadIdx.x < FOURS; i++) {
            split_factors of = memory.factors[i];
            row_sum = ln_merge(row_sum, of.keep, of.row_sum, of.add);
            add_split(merged, of.keep, memory.partials[i][own], of.add);
        }
        __syncthreads();
    }
    if (threadIdx.x < FOURS)
        store_four(m, at.token, p.a.n_heads * D, col, merged, row_sum);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool ln_attention_merges_apart(const ln_mma_attention_args *args, size_t n_seqs) {
    size_t n_cols = args->a.n_heads * args->a.kv.v_dim;
    return args->n_splits >= MANY_SPLITS && args->a.kv.v_dim % COLUMNS == 0 &&
           n_seqs * n_cols / COLUMNS <= MOST_BLOCKS;
}

template <int D> static int launch(const merge_args &merge, size_t n_seqs, cudaStream_t stream) {
    size_t n_cols = merge.mma.a.n_heads * D;
    dim3 grid(ln_ceil_div(n_cols, 4 * THREADS), (unsigned)n_seqs);
    if constexpr (D % COLUMNS == 0)
        if (ln_attention_merges_apart(&merge.mma, n_seqs)) {
            grid.x = (unsigned)(n_cols / COLUMNS);
            return ln_pdl_launch(merge_staged<D>, grid, THREADS, 0, stream, merge);
        }
    return ln_pdl_launch(merge_serial<D>, grid, THREADS, 0, stream, merge);
}

int ln_attention_merge(const ln_mma_attention_args *args, size_t n_seqs, const ln_act_view *to,
                       cudaStream_t stream) {
    merge_args merge = {*args, to != NULL, {}};
    if (to != NULL)
        merge.to = *to;
    switch (args->a.kv.v_dim) {
    case 16: return launch<16>(merge, n_seqs, stream);
    case 32: return launch<32>(merge, n_seqs, stream);
    case 64: return launch<64>(merge, n_seqs, stream);
    case 80: return launch<80>(merge, n_seqs, stream);
    case 96: return launch<96>(merge, n_seqs, stream);
    case 128: return launch<128>(merge, n_seqs, stream);
    case 256: return launch<256>(merge, n_seqs, stream);
    default: return launch<512>(merge, n_seqs, stream);
    }
}
