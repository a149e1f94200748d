/* LN_OP_ROWWISE: AltUp's streams, streams that mix and their coefficients, rows brought to the size
 * of others, gates of which few elements stay, products of two rows, and weights by product keys,
 * of which a warp chooses a row's. Grid n_rows, block 256: a block has a row. Bytes moved: rows
 * with sums are read twice, others once; one is written, or one for each stream. Of product keys,
 * what they weigh is read where it is chosen alone. */
#include "backend/cuda/activations/function.cuh"
#include "backend/cuda/ops.h"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { ROWWISE_THREADS = LN_MAX_MIXED * LN_MAX_MIXED };

/* The mean of (x[i] - middle)^2, in every thread. */
static __device__ float mean_square(const float *x, size_t n, float middle, float *shared) {
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += (x[i] - middle) * (x[i] - middle);
    return ln_block_sum(sum, shared) / (float)n;
}

static __device__ void gate_sparsely(const ln_op_rowwise &p, size_t row, float *shared) {
    const float *x = p.x + row * p.dim, *y = p.y + row * p.dim;
    float sum = 0.0f, *out = p.out + row * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        sum += x[i];
    float mean = ln_block_sum(sum, shared) / (float)p.dim;
    float cutoff = mean + sqrtf(mean_square(x, p.dim, mean, shared)) * p.deviations;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        out[i] = ln_activate(p.activation, fmaxf(x[i] - cutoff, 0.0f)) * y[i];
}

static __device__ void match_size(const ln_op_rowwise &p, size_t row, float *shared) {
    const float *x = p.x + row * p.dim, *y = p.y + row / p.n_streams * p.dim;
    float *out = p.out + row * p.dim;
    float size = sqrtf(mean_square(y, p.dim, 0.0f, shared));
    float own = sqrtf(fmaxf(mean_square(x, p.dim, 0.0f, shared), LN_ROWWISE_LEAST_SQUARE));
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        out[i] = x[i] * size / own;
}

static __device__ void predict(const ln_op_rowwise &p, size_t row) {
    size_t n = p.n_streams + 1;
    const float *x = p.x + row * p.dim, *coefs = p.coefs + row * n * n;
    float *streams = p.streams + row * p.n_streams * p.dim, *out = p.out + row * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x) {
        float old[LN_MAX_STREAMS + 1] = {x[i]};
        for (size_t k = 1; k < n; k++)
            old[k] = streams[(k - 1) * p.dim + i];
        for (size_t to = 0; to < n; to++) {
            float sum = 0.0f;
            for (size_t k = 0; k < n; k++)
                sum += coefs[to * n + k] * old[k];
            *(to == 0 ? &out[i] : &streams[(to - 1) * p.dim + i]) = sum + old[to];
        }
    }
}

static __device__ void correct(const ln_op_rowwise &p, size_t row) {
    const float *x = p.x + row * p.dim, *y = p.y + row * p.dim;
    const float *coefs = p.coefs + row * (p.n_streams + 1);
    float *streams = p.streams + row * p.n_streams * p.dim, *out = p.out + row * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x) {
        float change = x[i] - y[i];
        for (size_t k = 0; k < p.n_streams; k++)
            streams[k * p.dim + i] += change * (coefs[k + 1] + 1.0f);
        out[i] = y[i] + change * (coefs[0] + 1.0f);
    }
}

/* A thread has a coefficient; coefs [n_streams][n_streams] is shared. */
static __device__ void balance(const ln_op_rowwise &p, size_t row, float *coefs) {
    size_t n = p.n_streams, from = threadIdx.x / n, to = threadIdx.x % n;
    const float *x = p.x + (row + 1) * p.dim - n * n + from * n;
    float largest = -INFINITY, total = 0.0f, own = 0.0f;
    if (from < n) {
        for (size_t i = 0; i < n; i++)
            largest = fmaxf(largest, x[i]);
        for (size_t i = 0; i < n; i++)
            total += expf(x[i] - largest);
        own = expf(x[to] - largest) / total + p.eps;
    }
    for (size_t pass = 0; pass + 1 < 2 * p.n_rounds; pass++) { /* columns first, and last */
        coefs[threadIdx.x] = own;
        __syncthreads();
        float sum = p.eps;
        for (size_t i = 0; i < n && from < n; i++)
            sum += pass % 2 == 0 ? coefs[i * n + to] : coefs[from * n + i];
        own /= sum;
        __syncthreads();
    }
    if (from < n)
        p.out[row * n * n + threadIdx.x] = own;
}

static __device__ void mix(const ln_op_rowwise &p, size_t row) {
    size_t n = p.n_streams;
    const float *x = p.x + row * p.dim, *y = p.y + row * n, *coefs = p.coefs + row * n * n;
    float *streams = p.streams + row * n * p.dim;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x) {
        float old[LN_MAX_MIXED];
        for (size_t from = 0; from < n; from++)
            old[from] = streams[from * p.dim + i];
        for (size_t to = 0; to < n; to++) {
            float sum = y[to] * x[i];
            for (size_t from = 0; from < n; from++)
                sum += coefs[from * n + to] * old[from];
            streams[to * p.dim + i] = sum;
        }
    }
}

static __device__ void clip_norm(const ln_op_rowwise &p, size_t row, float *shared) {
    const float *x = p.x + row * p.dim;
    float *out = p.out + row * p.dim;
    float length = sqrtf(mean_square(x, p.dim, 0.0f, shared) * (float)p.dim);
    float factor = fminf(p.limit / (length + p.eps), 1.0f);
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        out[i] = x[i] * factor;
}

static __device__ void attend_to_streams(const ln_op_rowwise &p, size_t row, float *shared) {
    const float *streams = p.streams + row * p.n_streams * p.dim, *x = p.x + row * p.dim;
    float weights[LN_MAX_MIXED], inverse[LN_MAX_MIXED], largest = -INFINITY, total = 0.0f;
    float *out = p.out + row * p.dim;
    size_t n = p.n_used + 1;
    float divisor = p.raw_values ? 1.0f : sqrtf((float)p.dim);
    for (size_t k = 0; k < n; k++) {
        const float *s = k < p.n_used ? streams + k * p.dim : x;
        float sum = 0.0f;
        for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
            sum = fmaf(p.query[i], s[i], sum);
        sum = ln_block_sum(sum, shared);
        inverse[k] = 1.0f / sqrtf(mean_square(s, p.dim, 0.0f, shared) + p.eps);
        weights[k] = sum * inverse[k] / divisor;
        largest = fmaxf(largest, weights[k]);
    }
    for (size_t k = 0; k < n; k++)
        total += weights[k] = expf(weights[k] - largest);
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x) {
        float sum = 0.0f;
        for (size_t k = 0; k < n; k++)
            sum = fmaf(weights[k] / total * (p.raw_values ? 1.0f : inverse[k]),
                       k < p.n_used ? streams[k * p.dim + i] : x[i], sum);
        out[i] = sum;
    }
}

static __device__ void signed_root(const ln_op_rowwise &p, size_t row, float *shared) {
    const float *x = p.x + row * p.dim, *y = p.y + row * p.dim;
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        sum = fmaf(x[i], y[i], sum);
    float dot = ln_block_sum(sum, shared) / sqrtf((float)p.dim);
    float root = sqrtf(fmaxf(fabsf(dot), LN_ROWWISE_LEAST_DOT));
    if (threadIdx.x == 0)
        p.out[row] = dot == 0.0f ? 0.0f : copysignf(root, dot);
}

/* The places of n numbers, the greatest first. Where some are NaN, places repeat, but all are less
 * than n. */
static __device__ void sort_keys(const float *x, size_t n, uint16_t *places) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        places[i] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        size_t rank = 0;
        for (size_t j = 0; j < n; j++)
            rank += x[j] > x[i] || (x[j] == x[i] && j < i);
        places[rank] = (uint16_t)i;
    }
}

/* A row in shared memory: its keys, their places in order, and what is chosen. */
typedef struct key_pairs {
    float x[2 * LN_MAX_PRODUCT_KEYS], values[LN_MAX_PRODUCT_USED];
    uint16_t first[LN_MAX_PRODUCT_KEYS], second[LN_MAX_PRODUCT_KEYS], next[LN_MAX_PRODUCT_KEYS];
    uint32_t pairs[LN_MAX_PRODUCT_USED];
} key_pairs;

/* Chooses pair k, by a warp, and returns its sum. Both halves of the keys are sorted, so the best
 * pair of a first key is that with the best second key it has not had yet, whose place is in
 * `next`; the best of these over all first keys is the next pair. A lane without any has the index
 * n_first. */
static __device__ float take_pair(const ln_op_rowwise &p, key_pairs &m, size_t k) {
    unsigned n = (unsigned)p.n_keys, n_first = n < p.n_used ? n : (unsigned)p.n_used;
    unsigned best = n_first;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < n_first; i += LN_WARP) {
        float own = m.next[i] < n ? m.x[m.first[i]] + m.x[n + m.second[m.next[i]]] : 0.0f;
        if (m.next[i] < n && (best == n_first || own > sum))
            sum = own, best = i;
    }
    for (unsigned offset = LN_WARP / 2; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffff, sum, offset);
        unsigned index = __shfl_xor_sync(0xffffffff, best, offset);
        bool is_better = best == n_first || other > sum || (other == sum && index < best);
        if (index < n_first && is_better)
            sum = other, best = index;
    }
    /* lanes may differ where sums are NaN, and `next` must grow for one of them alone */
    sum = __shfl_sync(0xffffffff, sum, 0);
    best = __shfl_sync(0xffffffff, best, 0);
    if (threadIdx.x == 0) {
        m.pairs[k] = m.first[best] * n + m.second[m.next[best]];
        m.next[best]++;
    }
    __syncwarp();
    return sum;
}

/* Shared memory: a row's keys, their orders, and what is chosen (11 KiB). */
static __global__ void weigh_pairs(const __grid_constant__ ln_op_rowwise p) {
    __shared__ key_pairs m;
    __shared__ float total;
    ln_pdl_launch_and_wait();
    const float *x = p.x + (size_t)blockIdx.x * 2 * p.n_keys, *y = p.y + blockIdx.x * p.dim;
    float *out = p.out + blockIdx.x * p.dim;
    for (size_t i = threadIdx.x; i < 2 * p.n_keys; i += blockDim.x)
        m.x[i] = x[i];
    for (size_t i = threadIdx.x; i < p.n_keys; i += blockDim.x)
        m.next[i] = 0;
    __syncthreads();
    sort_keys(m.x, p.n_keys, m.first);
    sort_keys(m.x + p.n_keys, p.n_keys, m.second);
    __syncthreads();
    if (threadIdx.x < LN_WARP) {
        double largest = 0, sum = 0; /* a float32 difference would be off by its size */
        for (size_t k = 0; k < p.n_used; k++) {
            double own = (double)take_pair(p, m, k);
            largest = k == 0 ? own : largest;
            own = exp(own - largest);
            sum += own;
            if (threadIdx.x == 0)
                m.values[k] = (float)own;
        }
        if (threadIdx.x == 0)
            total = (float)sum;
    }
    __syncthreads();
    for (size_t k = threadIdx.x; k < p.n_used; k += blockDim.x)
        m.values[k] *= y[m.pairs[k]];
    __syncthreads();
    for (size_t i = threadIdx.x; i < p.dim; i += blockDim.x)
        out[i] = 0.0f;
    __syncthreads();
    for (size_t k = threadIdx.x; k < p.n_used; k += blockDim.x)
        out[m.pairs[k]] = m.values[k] / total;
}

static __global__ void rowwise(const __grid_constant__ ln_op_rowwise p) {
    __shared__ float shared[ROWWISE_THREADS]; /* of sums, or coefficients */
    ln_pdl_launch_and_wait();
    size_t row = blockIdx.x;
    switch (p.function) {
    case LN_ROWWISE_SPARSE_GATE: gate_sparsely(p, row, shared); return;
    case LN_ROWWISE_MATCH: match_size(p, row, shared); return;
    case LN_ROWWISE_PREDICT: predict(p, row); return;
    case LN_ROWWISE_CORRECT: correct(p, row); return;
    case LN_ROWWISE_SINKHORN: balance(p, row, shared); return;
    case LN_ROWWISE_MIX: mix(p, row); return;
    case LN_ROWWISE_CLIP_NORM: clip_norm(p, row, shared); return;
    case LN_ROWWISE_STREAM_ATTENTION: attend_to_streams(p, row, shared); return;
    case LN_ROWWISE_SIGNED_ROOT: signed_root(p, row, shared); return;
    case LN_ROWWISE_PRODUCT_KEYS: return; /* a kernel of its own */
    }
}

int ln_cuda_rowwise(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    void (*kernel)(ln_op_rowwise) =
        op->rowwise.function == LN_ROWWISE_PRODUCT_KEYS ? weigh_pairs : rowwise;
    return ln_pdl_launch(kernel, dim3((unsigned)op->rowwise.n_rows), ROWWISE_THREADS, 0, stream,
                         op->rowwise);
}
