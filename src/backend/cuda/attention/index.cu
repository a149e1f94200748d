/* LN_OP_INDEX: which positions sparse attention reads, in two kernels for up to INDEX_AT_ONCE
 * tokens.
 *
 * Scores: grid (tiles of INDEX_KEYS positions, tokens), a thread for each position of a tile. Keys
 * of the tile lie in shared memory as float32 [n_keys][fours of k_dim, made odd]; queries are read
 * by all threads alike. Bytes moved: a tile's keys once for each token, a score written.
 *
 * Choice: grid tokens, block CHOOSE_THREADS. A radix select over the bits of the scores, in the
 * order of floats, finds the least score that is chosen; then positions that reach it are written
 * in ascending order, of equal ones the first. Scores are read five times.
 *
 * Where the cache holds compressed entries, keys and scores are those of entries, and numbers of
 * entries are in place of positions. */
#include "backend/cuda/attention/select.h"
#include "backend/cuda/ops/entries.cuh"
#include "backend/cuda/ops/kv_cache.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/runtime/shared_bytes.cuh"

enum { INDEX_AT_ONCE = 64, INDEX_KEYS = 64, CHOOSE_THREADS = 256, RADIX_BITS = 8 };
enum { CHOOSE_WARPS = CHOOSE_THREADS / LN_WARP, RADIX = 1 << RADIX_BITS };
static_assert((int)RADIX == (int)CHOOSE_THREADS, "a thread for each digit");

typedef struct index_args {
    ln_op_index p;
    ln_kv_layer kv;
    ln_kv_array keys;
    const int32_t *block_tables, *positions, *token_seqs;
    size_t max_blocks;
    size_t first_token;
    size_t stride;            /* of the scores of a token */
    float *scores;            /* [INDEX_AT_ONCE][stride] */
    size_t run_tokens, width; /* of a choice, 1 or an entry's; of a token's choices */
    unsigned n_keys, row_fours;
} index_args;

static size_t counter_bytes(void) {
    return LN_ATTENTION_COUNTERS * sizeof(unsigned);
}

size_t ln_cuda_index_bytes(size_t max_tokens, size_t max_indexed) {
    static const size_t at_once = INDEX_AT_ONCE;
    size_t n = max_tokens < at_once ? max_tokens : at_once;
    return max_indexed == 0 ? 0 : counter_bytes() + n * max_indexed * sizeof(float);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Keys of the tile as float32, filled up with zeros to whole fours. */
static __device__ void load_keys(const index_args &args, const int32_t *table, size_t begin,
                                 size_t n, float4 *tile) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned n_warps = (blockDim.x + LN_WARP - 1) / LN_WARP;
    unsigned width = (unsigned)args.kv.k_dim;
    for (size_t i = warp; i < n; i += n_warps) {
        size_t row = ln_single_row(args.kv, table, begin + i);
        float *key = (float *)(tile + i * args.row_fours);
        for (unsigned k = lane; k < 4 * args.row_fours; k += LN_WARP)
            key[k] = k < width ? ln_kv_load(args.keys, row, k) : 0.0f;
    }
}

static __device__ __forceinline__ float dot_four(const float4 &a, const float4 &b, float sum) {
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

/* q . k of one head; the query has whole fours, or is read one by one. */
static __device__ __forceinline__ float dot_key(const float *q, const float4 *key, unsigned k_dim) {
    float sum = 0.0f;
    if (k_dim % 4 == 0) {
#pragma unroll 4
        for (unsigned i = 0; i < k_dim / 4; i++)
            sum = dot_four(((const float4 *)q)[i], key[i], sum);
        return sum;
    }
    const float *k = (const float *)key;
    for (unsigned i = 0; i < k_dim; i++)
        sum = fmaf(q[i], k[i], sum);
    return sum;
}

static __global__ void score_keys(const __grid_constant__ index_args args) {
    extern __shared__ float4 tile[];
    const ln_op_index &p = args.p;
    ln_pdl_launch_and_wait();
    size_t token = args.first_token + blockIdx.y;
    size_t n = ln_count_keys(args.kv, (size_t)args.positions[token]);
    size_t begin = (size_t)blockIdx.x * args.n_keys;
    if (n <= p.top_k || begin >= n)
        return;
    size_t n_here = n - begin < args.n_keys ? n - begin : args.n_keys;
    const int32_t *table = args.block_tables + (size_t)args.token_seqs[token] * args.max_blocks;
    load_keys(args, table, begin, n_here, tile);
    __syncthreads();
    if (threadIdx.x >= n_here)
        return;
    unsigned k_dim = (unsigned)args.kv.k_dim;
    const float *q = p.q + token * p.n_heads * k_dim, *weights = p.weights + token * p.n_heads;
    float sum = 0.0f;
    for (size_t head = 0; head < p.n_heads; head++) {
        float score = dot_key(q + head * k_dim, tile + threadIdx.x * args.row_fours, k_dim);
        sum = fmaf(weights[head], fmaxf(score, 0.0f), sum);
    }
    args.scores[blockIdx.y * args.stride + begin + threadIdx.x] = sum;
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* Unsigned numbers in the order of floats. */
static __device__ __forceinline__ unsigned order_of(float x) {
    unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* The least of the top_k greatest, and how many that equal it have room. */
typedef struct cutoff {
    unsigned least, n_equal;
} cutoff;

static __device__ cutoff find_cutoff(const float *scores, size_t n, unsigned top_k) {
    __shared__ unsigned counts[RADIX], digit, n_above;
    cutoff c = {0, top_k};
    for (int shift = 32 - RADIX_BITS; shift >= 0; shift -= RADIX_BITS) {
        counts[threadIdx.x] = 0;
        __syncthreads();
        unsigned known = shift + RADIX_BITS < 32 ? ~0u << (shift + RADIX_BITS) : 0;
        for (size_t i = threadIdx.x; i < n; i += CHOOSE_THREADS) {
            unsigned order = order_of(scores[i]);
            if (((order ^ c.least) & known) == 0)
                atomicAdd(&counts[order >> shift & (RADIX - 1)], 1u);
        }
        __syncthreads();
        unsigned above = 0;
        for (unsigned i = threadIdx.x + 1; i < RADIX; i++)
            above += counts[i];
        if (above < c.n_equal && above + counts[threadIdx.x] >= c.n_equal) {
            digit = threadIdx.x;
            n_above = above;
        }
        __syncthreads();
        c.least |= digit << shift;
        c.n_equal -= n_above;
    }
    return c;
}

/* How many threads before this one say yes, and at *total how many do; counts [CHOOSE_WARPS]. */
static __device__ __forceinline__ unsigned rank_of(bool yes, unsigned *counts, unsigned *total) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    unsigned votes = __ballot_sync(0xffffffffu, yes), rank = __popc(votes & ((1u << lane) - 1));
    __syncthreads();
    if (lane == 0)
        counts[warp] = __popc(votes);
    __syncthreads();
    *total = 0;
    for (unsigned i = 0; i < CHOOSE_WARPS; i++) {
        rank += i < warp ? counts[i] : 0;
        *total += counts[i];
    }
    return rank;
}

/* Choice number `at`, of key i: its tokens, where they are asked for in place of entries. */
static __device__ __forceinline__ void write_choice(const index_args &args, size_t at, size_t i,
                                                    int32_t *positions) {
    for (size_t j = 0; j < args.run_tokens; j++)
        positions[at * args.run_tokens + j] = (int32_t)(i * args.run_tokens + j);
}

/* Tokens behind the last entry, which follow those of n choices. */
static __device__ void write_rest(const index_args &args, size_t position, size_t n,
                                  int32_t *positions) {
    size_t n_behind = (position + 1) % args.run_tokens;
    for (size_t j = threadIdx.x; j < n_behind; j += CHOOSE_THREADS)
        positions[n * args.run_tokens + j] = (int32_t)(position + 1 - n_behind + j);
}

static __global__ void __launch_bounds__(CHOOSE_THREADS)
    choose_positions(const __grid_constant__ index_args args) {
    __shared__ unsigned counts[CHOOSE_WARPS];
    const ln_op_index &p = args.p;
    ln_pdl_launch_and_wait();
    size_t token = args.first_token + blockIdx.x, position = (size_t)args.positions[token];
    size_t n = ln_count_keys(args.kv, position);
    int32_t *positions = p.positions + token * args.width;
    if (args.run_tokens > 1)
        write_rest(args, position, n < p.top_k ? n : p.top_k, positions);
    if (n <= p.top_k) {
        for (size_t i = threadIdx.x; i < n; i += CHOOSE_THREADS)
            write_choice(args, i, i, positions);
        return;
    }
    const float *scores = args.scores + blockIdx.x * args.stride;
    cutoff c = find_cutoff(scores, n, (unsigned)p.top_k);
    unsigned n_chosen = 0, n_equal = 0, n_new;
    for (size_t begin = 0; begin < n && n_chosen < p.top_k; begin += CHOOSE_THREADS) {
        size_t i = begin + threadIdx.x;
        unsigned order = i < n ? order_of(scores[i]) : 0;
        bool is_equal = i < n && order == c.least;
        bool is_chosen = i < n && order > c.least;
        unsigned rank = n_equal + rank_of(is_equal, counts, &n_new);
        is_chosen = is_chosen || (is_equal && rank < c.n_equal);
        n_equal += n_new;
        unsigned at = n_chosen + rank_of(is_chosen, counts, &n_new);
        n_chosen += n_new;
        if (is_chosen)
            write_choice(args, at, i, positions);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static int launch(const index_args &args, size_t n_tokens, ln_cuda_stream stream) {
    dim3 tiles(ln_ceil_div(args.stride, args.n_keys), (unsigned)n_tokens);
    size_t bytes = (size_t)args.n_keys * args.row_fours * sizeof(float4);
    int code = ln_pdl_launch(score_keys, tiles, args.n_keys, bytes, stream, args);
    return code != 0 ? code
                     : ln_pdl_launch(choose_positions, dim3((unsigned)n_tokens), CHOOSE_THREADS, 0,
                                     stream, args);
}

/* As many keys to a tile as shared memory has room for. */
static int size_tiles(index_args *args) {
    unsigned most;
    int code = ln_max_shared_bytes(&most);
    size_t row_bytes = args->row_fours * sizeof(float4);
    args->n_keys = INDEX_KEYS;
    while (args->n_keys > 1 && args->n_keys * row_bytes > most)
        args->n_keys /= 2;
    if (code != 0 || args->n_keys * row_bytes > most)
        return code != 0 ? code : (int)cudaErrorInvalidConfiguration;
    return cudaFuncSetAttribute(score_keys, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)(args->n_keys * row_bytes));
}

int ln_cuda_index(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_index *p = &op->index;
    const ln_batch_group *group = &step->batch.groups[p->kv->group];
    size_t n_tokens = step->batch.n_tokens, at_once = INDEX_AT_ONCE;
    at_once = n_tokens < at_once ? n_tokens : at_once;
    index_args args = {};
    args.p = *p;
    args.kv = *p->kv;
    args.keys = ln_kv_keys(p->kv);
    args.run_tokens = p->in_tokens ? p->kv->entry_tokens : 1;
    args.width = ln_index_width(p->top_k, p->in_tokens ? p->kv->entry_tokens : 0);
    args.block_tables = group->block_tables;
    args.max_blocks = group->max_blocks;
    args.positions = step->batch.positions;
    args.token_seqs = step->token_seqs;
    args.scores = (float *)((char *)step->scratch + counter_bytes());
    args.row_fours = (unsigned)((p->kv->k_dim + 3) / 4) | 1;
    size_t room = (step->scratch_bytes - counter_bytes()) / sizeof(float) / at_once;
    args.stride = group->max_blocks * p->kv->block_tokens;
    args.stride = args.stride < room ? args.stride : room;
    int code = size_tiles(&args);
    for (size_t done = 0; done < n_tokens && code == 0; done += at_once) {
        args.first_token = done;
        code = launch(args, n_tokens - done < at_once ? n_tokens - done : at_once, stream);
    }
    return code;
}
