/* LN_OP_SAMPLE: tokens from rows of logits by temperature, top-k, top-p and min-p (ln_draw), with
 * the bits of the host's sampler; and reports for logprobs.
 *
 * Grid n_rows, on Hopper for few rows clusters of PARTS blocks, of which the first does all but a
 * part of the first read; block 1024; 25 KB of shared memory. Top-k in two reads: each thread finds
 * the best of its share of the logits; the k-th best of these bounds what the second read keeps, a
 * list a little longer than k, which a bitonic sort orders. Weights are integers, multiples of
 * 2^-32 (2^-40 in reports), so their sums are exact in any order. */
#include "backend/cuda/ops.h"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/ptx/shared_address.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "base/portable_math.h"

enum { THREADS = LN_DRAW_MOST, MOST = 2 * THREADS, PARTS = 4 };

/* A candidate: a greater key is a better logit, among equals a lower id; NaN comes before all.
 * Zeros of both signs are equal. No candidate has the key 0 or the greatest of all. */
typedef unsigned long long sample_key;

static __device__ __forceinline__ sample_key key_of(float logit, unsigned id) {
    unsigned bits = __float_as_uint(logit + 0.0f);
    unsigned order = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (isnan(logit))
        order = 0xfffffffeu;
    return (sample_key)order << 32 | (unsigned)~id;
}

static __device__ __forceinline__ unsigned id_of(sample_key key) {
    return ~(unsigned)key;
}

static __device__ __forceinline__ sample_key greater(sample_key a, sample_key b) {
    return a > b ? a : b;
}

/* The greatest of all threads of the block, in all of them. `shared` [LN_MAX_WARPS] may be used
 * again after the call. */
static __device__ sample_key block_greatest(sample_key key, sample_key *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        key = greater(key, __shfl_xor_sync(0xffffffffu, key, step));
    if (lane == 0)
        shared[warp] = key;
    __syncthreads();
    key = shared[lane];
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        key = greater(key, __shfl_xor_sync(0xffffffffu, key, step));
    __syncthreads();
    return key;
}

/* The greatest key below `bound` of what part number `part` of n_parts has of the thread's share of
 * logits[n]. */
static __device__ sample_key greatest_below(const float *logits, unsigned n, sample_key bound,
                                            unsigned part, unsigned n_parts) {
    enum { AT_ONCE = 16 };
    sample_key best = 0;
    for (unsigned first = threadIdx.x + part * AT_ONCE * THREADS; first < n;
         first += n_parts * AT_ONCE * THREADS) {
        float held[AT_ONCE];
#pragma unroll
        for (unsigned j = 0; j < AT_ONCE; j++)
            held[j] = first + j * THREADS < n ? logits[first + j * THREADS] : 0.0f;
#pragma unroll
        for (unsigned j = 0; j < AT_ONCE; j++) {
            unsigned i = first + j * THREADS;
            sample_key key = key_of(held[j], i);
            if (i < n && key < bound)
                best = greater(best, key);
        }
    }
    return best;
}

/* Sorts list[n], n a power of two and at most MOST, the greatest first (Batcher's bitonic sort). */
static __device__ void sort(sample_key *list, unsigned n) {
    for (unsigned size = 2; size <= n; size *= 2)
        for (unsigned stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < n / 2; i += THREADS) {
                unsigned low = 2 * i - i % stride, high = low + stride;
                sample_key a = list[low], b = list[high];
                if ((a < b) == ((low & size) == 0)) {
                    list[low] = b;
                    list[high] = a;
                }
            }
        }
    __syncthreads();
}

/* The `count` greatest keys of logits[n] to the front of list[MOST], in order; `own` is the
 * greatest of the thread's share. count <= n. */
static __device__ void select(const float *logits, unsigned n, unsigned count, sample_key own,
                              sample_key *list, unsigned *n_listed, sample_key *shared) {
    list[threadIdx.x] = own;
    if (threadIdx.x == 0)
        *n_listed = 0;
    sort(list, THREADS);
    sample_key bound = list[count - 1]; /* 0: fewer threads than that have a share */
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        sample_key key = key_of(logits[i], i);
        if (key < bound)
            continue;
        unsigned at = atomicAdd(n_listed, 1);
        if (at < MOST)
            list[at] = key;
    }
    __syncthreads();
    unsigned n_found = *n_listed, n_sorted = 2;
    if (n_found > MOST) { /* the best lie unevenly: one after another */
        sample_key last = ~0ull;
        for (unsigned i = 0; i < count; i++) {
            last = block_greatest(greatest_below(logits, n, last, 0, 1), shared);
            if (threadIdx.x == 0)
                list[i] = last;
        }
        __syncthreads();
        return;
    }
    while (n_sorted < n_found)
        n_sorted *= 2;
    for (unsigned i = n_found + threadIdx.x; i < n_sorted; i += THREADS)
        list[i] = 0;
    sort(list, n_sorted);
}

/* ln_exp_nonpositive of base/portable_math.h: the same operations, without contraction. */
static __device__ double exp_nonpositive(double x) {
    const double factors[LN_EXP_TERMS] = LN_EXP_FACTORS;
    if (!(x > LN_EXP_LEAST))
        return 0;
    double shifted = x * LN_LOG2_E + LN_EXP_ROUND;
    double n = shifted - LN_EXP_ROUND;
    double r = (x - n * LN_LN2_HIGH) - n * LN_LN2_LOW;
    double sum = factors[LN_EXP_TERMS - 1];
#pragma unroll
    for (int k = LN_EXP_TERMS - 2; k >= 0; k--)
        sum = factors[k] + sum * r;
    return sum * __longlong_as_double((__double_as_longlong(shifted) + 1023) << 52);
}

/* In units of 2^-32. */
static __device__ unsigned long long weight_of(float logit, float best, float temperature) {
    double x = logit == best ? 0 : ((double)logit - (double)best) / (double)temperature;
    return (unsigned long long)((exp_nonpositive(x) + LN_WEIGHT_ROUND - LN_WEIGHT_ROUND) * 0x1p32);
}

/* The sum of the weights of threads up to this one; `shared` as above. */
static __device__ unsigned long long block_prefix(unsigned long long weight,
                                                  unsigned long long *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    for (unsigned step = 1; step < LN_WARP; step *= 2) {
        unsigned long long before = __shfl_up_sync(0xffffffffu, weight, step);
        weight += lane >= step ? before : 0;
    }
    if (lane == LN_WARP - 1)
        shared[warp] = weight;
    __syncthreads();
    for (unsigned i = 0; i < warp; i++)
        weight += shared[i];
    __syncthreads();
    return weight;
}

/* The token of list[count], candidates in order; thread i has candidate i. */
static __device__ unsigned draw(const ln_draw &d, const float *logits, unsigned count,
                                const sample_key *list, unsigned long long *weights,
                                unsigned *chosen, unsigned long long *shared) {
    unsigned i = threadIdx.x, id = i < count ? id_of(list[i]) : 0;
    float best = logits[id_of(list[0])];
    unsigned long long weight = i < count ? weight_of(logits[id], best, d.temperature) : 0;
    unsigned long long sum = block_prefix(weight, shared);
    weights[i] = sum;
    __syncthreads();
    double mass = (double)d.top_p * ((double)weights[THREADS - 1] * 0x1p-32);
    bool stays = i < count;
    if (d.top_p < 1)
        stays = stays && (i == 0 || (double)(sum - weight) * 0x1p-32 < mass);
    if (d.min_p > 0)
        stays = stays && (double)weight * 0x1p-32 >= (double)d.min_p;
    __syncthreads();
    weights[i] = stays ? weight : 0;
    if (i == 0)
        *chosen = ~0u;
    __syncthreads();
    unsigned long long total = 0, up_to = 0;
    for (unsigned j = 0; j < count; j++) {
        total += weights[j];
        up_to += id_of(list[j]) <= id ? weights[j] : 0;
    }
    double least = (double)d.uniform * ((double)total * 0x1p-32);
    if (stays && weight > 0 && (double)up_to * 0x1p-32 > least)
        atomicMin(chosen, id);
    __syncthreads();
    return *chosen;
}

/* ---- edits and reports ----------------------------------------------------------------------- */

typedef struct sample_args {
    ln_op_sample op;
    const ln_draw *draws;      /* [n_rows] or NULL */
    const int32_t *edits;      /* [..][LN_DRAW_WORDS] */
    const int32_t *tokens;     /* of the batch */
    const int32_t *logit_rows; /* [n_rows] */
    unsigned n_parts;          /* blocks of a row */
} sample_args;

/* The ids that a thread edits, of the pairs and of what came, with their logits before; -1: none.
 */
typedef struct share {
    int bias_id, said_id;
    float bias_logit, said_logit;
} share;

/* Token i of those that came: the row's own is the last. */
static __device__ __forceinline__ int said_at(const ln_draw &d, const int32_t *words, int own,
                                              unsigned i) {
    return i < d.n_said ? words[2 * d.n_biases + i] : own;
}

static __device__ share find_share(const ln_draw &d, const int32_t *words, int own,
                                   const float *logits) {
    unsigned i = threadIdx.x;
    share s = {-1, -1, 0.0f, 0.0f};
    if (i < d.n_biases) {
        s.bias_id = words[2 * i];
        s.bias_logit = logits[s.bias_id];
    }
    if (d.penalizes && i <= d.n_said) {
        s.said_id = said_at(d, words, own, i);
        s.said_logit = logits[s.said_id];
    }
    __syncthreads();
    return s;
}

/* Each id is edited by the thread that has it first. */
static __device__ void edit(const ln_draw &d, const int32_t *words, int own, const share &s,
                            float *logits) {
    unsigned i = threadIdx.x, count = 0;
    bool is_first = s.bias_id >= 0;
    for (unsigned j = 0; j < i && is_first; j++)
        is_first = words[2 * j] != s.bias_id;
    if (is_first) {
        float logit = s.bias_logit;
        for (unsigned j = i; j < d.n_biases; j++) {
            float bias = __int_as_float(words[2 * j + 1]);
            if (words[2 * j] == s.bias_id)
                logit = isnan(bias) ? -INFINITY : logit + bias;
        }
        logits[s.bias_id] = logit;
    }
    __syncthreads();
    is_first = s.said_id >= 0;
    for (unsigned j = 0; j <= d.n_said && is_first; j++) {
        bool is_same = said_at(d, words, own, j) == s.said_id;
        is_first = !is_same || j >= i;
        count += is_same;
    }
    if (is_first) {
        float logit = logits[s.said_id];
        logit = logit > 0 ? logit / d.repeat : logit * d.repeat;
        logits[s.said_id] = logit - d.frequency * (float)count - d.presence;
    }
    __syncthreads();
}

/* All of a report but the chosen token's logit; `own` as in select. */
static __device__ void report(const ln_draw &d, const float *logits, unsigned n, sample_key own,
                              sample_key *list, unsigned *n_listed, sample_key *shared,
                              ln_draw_report *out) {
    float best = logits[id_of(block_greatest(own, shared))];
    unsigned long long total = 0;
    unsigned n_top = d.reports - 1;
    for (unsigned i = threadIdx.x; i < n && best > -INFINITY; i += THREADS) {
        double x = logits[i] == best ? 0 : (double)logits[i] - (double)best;
        total +=
            (unsigned long long)((exp_nonpositive(x) + LN_FINE_ROUND - LN_FINE_ROUND) * 0x1p40);
    }
    total = block_prefix(total, shared);
    if (threadIdx.x == THREADS - 1) {
        out->total = total;
        out->best = best;
    }
    if (n_top == 0)
        return;
    select(logits, n, n_top, own, list, n_listed, shared);
    if (threadIdx.x < n_top) {
        unsigned id = id_of(list[threadIdx.x]);
        out->top[threadIdx.x] = (int)id;
        out->logits[threadIdx.x] = logits[id];
    }
    __syncthreads();
}

/* What `id`'s logit was before edits; `plain` is shared. */
static __device__ void report_chosen(const share &s, int id, float logit, float *plain,
                                     ln_draw_report *out) {
    if (threadIdx.x == 0)
        *plain = logit;
    __syncthreads();
    if (s.bias_id == id)
        *plain = s.bias_logit;
    if (s.said_id == id)
        *plain = s.said_logit;
    __syncthreads();
    if (threadIdx.x == 0)
        out->chosen = *plain;
}

/* The greatest key of the thread's share, for the first of the blocks of a cluster, which have read
 * a part each; slots [PARTS - 1][THREADS], in two pieces. */
static __device__ sample_key gather_parts(sample_key own, unsigned part, sample_key *list,
                                          unsigned long long *weights) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static_assert(MOST == (PARTS - 2) * THREADS, "slots of all parts but the first and the last");
    asm volatile("barrier.cluster.wait.aligned;"); /* the first block is there */
    if (part > 0) {
        const void *slot = part + 1 < PARTS
                               ? (const void *)&list[(part - 1) * THREADS + threadIdx.x]
                               : (const void *)&weights[threadIdx.x];
        asm volatile("{\n"
                     ".reg .b32 at;\n"
                     "mapa.shared::cluster.u32 at, %0, 0;\n"
                     "st.shared::cluster.u64 [at], %1;\n"
                     "}" ::"r"(ln_shared_address(slot)),
                     "l"(own)
                     : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (part == 0) {
        for (int i = 0; i < PARTS - 2; i++)
            own = greater(own, list[i * THREADS + threadIdx.x]);
        own = greater(own, weights[threadIdx.x]);
    }
#endif
    return own;
}

/* The greatest key of the thread's share of a row; all blocks but the first of a row may end. */
static __device__ sample_key greatest_of_row(const float *logits, unsigned n, unsigned part,
                                             unsigned n_parts, sample_key *list,
                                             unsigned long long *weights) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (n_parts > 1)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;");
#endif
    sample_key own = greatest_below(logits, n, ~0ull, part, n_parts);
    return n_parts > 1 ? gather_parts(own, part, list, weights) : own;
}

static __global__ void __launch_bounds__(THREADS) sample(sample_args args) {
    __shared__ sample_key list[MOST];
    __shared__ unsigned long long weights[THREADS], shared[LN_MAX_WARPS];
    __shared__ unsigned n_listed, chosen;
    __shared__ float plain;
    ln_pdl_launch_and_wait();
    const ln_op_sample &p = args.op;
    const unsigned row = blockIdx.x / args.n_parts, part = blockIdx.x % args.n_parts;
    float *logits = p.logits + row * p.n_vocab;
    unsigned n = (unsigned)p.n_vocab;
    ln_draw d = {};
    if (args.draws != NULL)
        d = args.draws[row];
    bool reports = d.reports > 0 && p.reports != NULL, edits = d.n_biases > 0 || d.penalizes;
    share s = {-1, -1, 0.0f, 0.0f};
    sample_key own = greatest_of_row(logits, n, part, args.n_parts, list, weights);
    if (part > 0)
        return;
    if (reports)
        report(d, logits, n, own, list, &n_listed, shared, &p.reports[row]);
    if (edits) {
        const int32_t *words = args.edits + (size_t)d.edits_at * LN_DRAW_WORDS;
        int token = d.penalizes ? args.tokens[args.logit_rows[row]] : 0;
        s = find_share(d, words, token, logits);
        edit(d, words, token, s, logits);
        own = greatest_below(logits, n, ~0ull, 0, 1);
    }
    unsigned id = id_of(block_greatest(own, shared));
    float best = logits[id];
    if (d.temperature > 0 && best > -INFINITY) {
        unsigned count = d.top_k < n ? d.top_k : n;
        select(logits, n, count, own, list, &n_listed, shared);
        id = draw(d, logits, count, list, weights, &chosen, shared);
    }
    if (reports)
        report_chosen(s, (int)id, logits[id], &plain, &p.reports[row]);
    if (threadIdx.x != 0)
        return;
    p.ids[row] = (int)id;
    p.best[row] = best;
}

int ln_cuda_sample(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    enum { WORTH_PARTS = 2 * 16 * THREADS, FEW_ROWS = 32 }; /* logits; rows that leave SMs idle */
    if (op->sample.n_rows == 0)
        return 0;
    const ln_batch *batch = &step->batch;
    bool has_parts = ln_has_sm90a_code() && op->sample.n_rows <= FEW_ROWS;
    unsigned n_parts = has_parts && op->sample.n_vocab >= WORTH_PARTS ? PARTS : 1;
    sample_args args = {op->sample,    batch->draws,      batch->edits,
                        batch->tokens, batch->logit_rows, n_parts};
    return ln_pdl_launch_clusters(sample, dim3((unsigned)op->sample.n_rows * n_parts), THREADS, 0,
                                  n_parts, stream, args);
}
