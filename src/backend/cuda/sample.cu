/* The choice of tokens from rows of logits: ln_draw, with the bits of the host's sampler.
 *
 * A block takes a row. Each thread finds the best of its share of the logits. As many of these as
 * candidates are wanted are among the best of the row, so the least of them bounds what is read
 * again: a list a little longer than wanted, which is sorted. Weights are integers, multiples of
 * 2^-32: their sums are exact. */
#include "backend/cuda/common.cuh"
#include "backend/cuda/launch.cuh"

enum { THREADS = LN_DRAW_MOST, MOST = 2 * THREADS };

/* A candidate: a greater key is a better logit, among equals a lower id; NaN comes before all.
 * Zeros of both signs are equal. No candidate has the key 0 or the
 * greatest of all. */
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

/* The greatest key below `bound` of the thread's share of logits[n]. */
static __device__ sample_key greatest_below(const float *logits, unsigned n, sample_key bound) {
    sample_key best = 0;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        sample_key key = key_of(logits[i], i);
        if (key < bound)
            best = greater(best, key);
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
            last = block_greatest(greatest_below(logits, n, last), shared);
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
    const double factors[] = {1.0,
                              1.0,
                              1.0 / 2,
                              1.0 / 6,
                              1.0 / 24,
                              1.0 / 120,
                              1.0 / 720,
                              1.0 / 5040,
                              1.0 / 40320,
                              1.0 / 362880,
                              1.0 / 3628800,
                              1.0 / 39916800,
                              1.0 / 479001600,
                              1.0 / 6227020800};
    if (!(x > -700.0))
        return 0;
    double shifted = x * 1.4426950408889634 + 0x1.8p52;
    double n = shifted - 0x1.8p52;
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double sum = factors[13];
#pragma unroll
    for (int k = 12; k >= 0; k--)
        sum = factors[k] + sum * r;
    return sum * __longlong_as_double((__double_as_longlong(shifted) + 1023) << 52);
}

/* In units of 2^-32. */
static __device__ unsigned long long weight_of(float logit, float best, float temperature) {
    double x = logit == best ? 0 : ((double)logit - (double)best) / (double)temperature;
    return (unsigned long long)((exp_nonpositive(x) + 0x1.8p20 - 0x1.8p20) * 0x1p32);
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

typedef struct sample_args {
    ln_op_sample op;
    const ln_draw *draws; /* [n_rows] or NULL */
} sample_args;

/* Grid: a block per row; 25 KB of shared memory. */
static __global__ void __launch_bounds__(THREADS) sample(sample_args args) {
    __shared__ sample_key list[MOST];
    __shared__ unsigned long long weights[THREADS], shared[LN_MAX_WARPS];
    __shared__ unsigned n_listed, chosen;
    ln_follow_last();
    const ln_op_sample &p = args.op;
    const float *logits = p.logits + blockIdx.x * p.n_vocab;
    unsigned n = (unsigned)p.n_vocab;
    sample_key own = greatest_below(logits, n, ~0ull);
    unsigned id = id_of(block_greatest(own, shared));
    float best = logits[id];
    if (args.draws != NULL && args.draws[blockIdx.x].temperature > 0 && best > -INFINITY) {
        ln_draw d = args.draws[blockIdx.x];
        unsigned count = d.top_k < n ? d.top_k : n;
        select(logits, n, count, own, list, &n_listed, shared);
        id = draw(d, logits, count, list, weights, &chosen, shared);
    }
    if (threadIdx.x != 0)
        return;
    p.ids[blockIdx.x] = (int)id;
    p.best[blockIdx.x] = best;
}

int ln_cuda_sample(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    if (op->sample.n_rows == 0)
        return 0;
    sample_args args = {op->sample, step->batch.draws};
    return ln_launch(sample, dim3((unsigned)op->sample.n_rows), THREADS, 0, stream, args);
}
