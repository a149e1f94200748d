/* The choice of tokens from rows of logits. */
#include "backend/cuda/common.cuh"
#include "backend/cuda/launch.cuh"

enum { THREADS = 1024 };

/* Orders candidates: a greater key is a better logit, among equals a lower id; NaN comes before
 * all. Zeros of both signs are equal. */
static __device__ __forceinline__ unsigned long long key_of(float logit, unsigned id) {
    unsigned bits = __float_as_uint(logit + 0.0f);
    unsigned order = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (isnan(logit))
        order = 0xffffffffu;
    return (unsigned long long)order << 32 | ~id;
}

static __device__ __forceinline__ unsigned long long greater(unsigned long long a,
                                                             unsigned long long b) {
    return a > b ? a : b;
}

/* The greatest of all threads of the block, in the first one. */
static __device__ unsigned long long block_greatest(unsigned long long key,
                                                    unsigned long long *shared) {
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP;
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        key = greater(key, __shfl_xor_sync(0xffffffffu, key, step));
    if (lane == 0)
        shared[warp] = key;
    __syncthreads();
    key = shared[lane];
    for (int step = LN_WARP / 2; step > 0; step /= 2)
        key = greater(key, __shfl_xor_sync(0xffffffffu, key, step));
    return key;
}

/* ln_op_sample. A row's logits are read once, four at a time where they lie so. Grid: a block per
 * row; shared: a key per warp. */
static __global__ void __launch_bounds__(THREADS) sample(ln_op_sample p) {
    __shared__ unsigned long long shared[THREADS / LN_WARP];
    ln_follow_last();
    const float *logits = p.logits + blockIdx.x * p.n_vocab;
    unsigned long long key = 0;
    unsigned n = (unsigned)p.n_vocab;
    if (n % 4 == 0 && (size_t)p.logits % 16 == 0) {
        const float4 *fours = (const float4 *)logits;
#pragma unroll 8
        for (unsigned i = threadIdx.x; i < n / 4; i += THREADS) {
            float4 x = fours[i];
            key = greater(key, key_of(x.x, 4 * i));
            key = greater(key, key_of(x.y, 4 * i + 1));
            key = greater(key, key_of(x.z, 4 * i + 2));
            key = greater(key, key_of(x.w, 4 * i + 3));
        }
    } else {
        for (unsigned i = threadIdx.x; i < n; i += THREADS)
            key = greater(key, key_of(logits[i], i));
    }
    key = block_greatest(key, shared);
    if (threadIdx.x != 0)
        return;
    unsigned id = ~(unsigned)key;
    p.ids[blockIdx.x] = (int)id;
    p.best[blockIdx.x] = logits[id];
}

int ln_cuda_sample(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    (void)step;
    if (op->sample.n_rows == 0)
        return 0;
    return ln_launch(sample, dim3((unsigned)op->sample.n_rows), THREADS, 0, stream, op->sample);
}
