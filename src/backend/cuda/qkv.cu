/* q/k norm, RoPE and the KV write.
 *
 * Grid: a block of 256 threads per token, which walks through its heads. Shared memory: cos and
 * sin of the token's angles, n_dims floats. Moves q and k once or twice each way, v once. */
#include "backend/cuda/norm.cuh"

/* One head by one warp. */
static __device__ void normalize_head(const ln_norm &norm, float *x) {
    unsigned lane = threadIdx.x % LN_WARP;
    float mean = 0.0f, sum = 0.0f, squares = 0.0f;
    if (norm.kind == LN_NORM_LAYER) {
        for (size_t i = lane; i < norm.dim; i += LN_WARP)
            sum += x[i];
        mean = ln_warp_sum(sum) / (float)norm.dim;
    }
    for (size_t i = lane; i < norm.dim; i += LN_WARP)
        squares = fmaf(x[i] - mean, x[i] - mean, squares);
    float inverse = 1.0f / sqrtf(ln_warp_sum(squares) / (float)norm.dim + norm.eps);
    for (size_t i = lane; i < norm.dim; i += LN_WARP)
        x[i] = ln_norm_apply(norm, x[i], i, mean, inverse);
}

static __device__ void normalize_row(ln_qk_norm kind, const ln_norm &norm, float *row,
                                     size_t n_heads, size_t dim, float *shared) {
    if (kind == LN_QK_NORM_FULL) {
        float mean, inverse;
        ln_norm_statistics(norm, row, shared, &mean, &inverse);
        for (size_t i = threadIdx.x; i < norm.dim; i += blockDim.x)
            row[i] = ln_norm_apply(norm, row[i], i, mean, inverse);
        return;
    }
    for (size_t head = threadIdx.x / LN_WARP; head < n_heads; head += blockDim.x / LN_WARP)
        normalize_head(norm, row + head * dim);
}

/* cos then sin of each angle: [n_dims / 2] each */
static __device__ void fill_angles(const ln_rope &rope, int32_t position, float *cos_sin) {
    size_t half = rope.n_dims / 2;
    for (size_t i = threadIdx.x; i < half; i += blockDim.x) {
        float angle = (float)position * rope.inv_freq[i];
        cos_sin[i] = cosf(angle) * rope.magnitude;
        cos_sin[half + i] = sinf(angle) * rope.magnitude;
    }
}

/* Pair i of a head: from x to out, which may be x. */
static __device__ __forceinline__ void rotate_pair(const ln_rope &rope, const float *cos_sin,
                                                   size_t i, const float *x, float *out) {
    size_t half = rope.n_dims / 2;
    size_t first = rope.style == LN_ROPE_HALF ? i : 2 * i;
    size_t second = rope.style == LN_ROPE_HALF ? i + half : 2 * i + 1;
    float a = x[first], b = x[second];
    out[first] = a * cos_sin[i] - b * cos_sin[half + i];
    out[second] = b * cos_sin[i] + a * cos_sin[half + i];
}

static __device__ void rotate_heads(const ln_rope &rope, const float *cos_sin, float *row,
                                    size_t n_heads, size_t dim) {
    size_t half = rope.n_dims / 2;
    for (size_t at = threadIdx.x; at < n_heads * half; at += blockDim.x) {
        float *head = row + at / half * dim;
        rotate_pair(rope, cos_sin, at % half, head, head);
    }
}

typedef struct qkv_args {
    float *q, *k;
    const float *v;
    size_t n_heads;
    ln_qk_norm qk_norm;
    ln_norm q_norm, k_norm;
    bool has_rope;
    ln_rope rope;
    ln_kv_layer kv;
    ln_kv_array keys, values;
    const int32_t *positions, *slots;
} qkv_args;

static __global__ void write_qkv(const __grid_constant__ qkv_args p) {
    extern __shared__ float cos_sin[];
    __shared__ float shared[LN_MAX_WARPS];
    const ln_kv_layer &kv = p.kv;
    size_t token = blockIdx.x, k_dim = kv.k_dim, v_dim = kv.v_dim;
    float *q = p.q != NULL ? p.q + token * p.n_heads * k_dim : NULL;
    float *k = p.k + token * kv.n_heads * k_dim;
    const float *v = p.v + token * kv.n_heads * v_dim;
    if (p.qk_norm != LN_QK_NORM_NONE) {
        normalize_row(p.qk_norm, p.q_norm, q, p.n_heads, k_dim, shared);
        normalize_row(p.qk_norm, p.k_norm, k, kv.n_heads, k_dim, shared);
    }
    if (p.has_rope) {
        fill_angles(p.rope, p.positions[token], cos_sin);
        __syncthreads();
        rotate_heads(p.rope, cos_sin, q, p.n_heads, k_dim);
        rotate_heads(p.rope, cos_sin, k, kv.n_heads, k_dim);
    }
    __syncthreads();
    size_t slot = (size_t)p.slots[token];
    size_t warp = threadIdx.x / LN_WARP, n_warps = blockDim.x / LN_WARP;
    for (size_t head = warp; head < kv.n_heads; head += n_warps) {
        size_t row = ln_kv_row(kv, slot, head);
        ln_kv_store(p.keys, row, k + head * k_dim, k_dim);
        ln_kv_store(p.values, row, v + head * v_dim, v_dim);
    }
}

int ln_cuda_qkv(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_qkv *p = &op->qkv;
    qkv_args args = {};
    args.q = p->q;
    args.k = p->k;
    args.v = p->v;
    args.n_heads = p->n_heads;
    args.qk_norm = p->qk_norm;
    if (p->qk_norm != LN_QK_NORM_NONE) {
        args.q_norm = *p->q_norm;
        args.k_norm = *p->k_norm;
    }
    args.has_rope = p->rope != NULL;
    if (args.has_rope)
        args.rope = *p->rope;
    args.kv = *p->kv;
    args.keys = ln_kv_keys(p->kv);
    args.values = ln_kv_values(p->kv);
    args.positions = step->batch.positions;
    args.slots = step->batch.groups[p->kv->group].slots;
    size_t shared = args.rope.n_dims * sizeof(float);
    write_qkv<<<(unsigned)step->batch.n_tokens, LN_NORM_THREADS, shared, stream>>>(args);
    return cudaGetLastError();
}

typedef struct latent_args {
    const float *q, *latent;
    ln_norm norm;
    ln_rope rope;
    size_t n_heads, n_plain;
    ln_kv_layer kv;
    ln_kv_array keys;
    float *out;
    const int32_t *positions, *slots;
} latent_args;

/* Shared memory: cos and sin, n_dims floats, and the row of the cache, k_dim floats. */
static __global__ void write_latent(const __grid_constant__ latent_args p) {
    extern __shared__ float cos_sin[];
    __shared__ float shared[LN_MAX_WARPS];
    size_t token = blockIdx.x, n_latent = p.norm.dim, n_rope = p.rope.n_dims, half = n_rope / 2;
    float *row = cos_sin + n_rope, mean, inverse;
    const float *latent = p.latent + token * p.kv.k_dim;
    fill_angles(p.rope, p.positions[token], cos_sin);
    ln_norm_statistics(p.norm, latent, shared, &mean, &inverse);
    __syncthreads();
    for (size_t i = threadIdx.x; i < half; i += blockDim.x)
        rotate_pair(p.rope, cos_sin, i, latent + n_latent, row + n_latent);
    for (size_t i = threadIdx.x; i < n_latent; i += blockDim.x)
        row[i] = ln_norm_apply(p.norm, latent[i], i, mean, inverse);
    for (size_t at = threadIdx.x; at < p.n_heads * half; at += blockDim.x) {
        size_t head = token * p.n_heads + at / half;
        rotate_pair(p.rope, cos_sin, at % half, p.q + head * (p.n_plain + n_rope) + p.n_plain,
                    p.out + head * p.kv.k_dim + n_latent);
    }
    __syncthreads();
    if (threadIdx.x < LN_WARP)
        ln_kv_store(p.keys, ln_kv_row(p.kv, (size_t)p.slots[token], 0), row, p.kv.k_dim);
}

int ln_cuda_latent(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_latent *p = &op->latent;
    latent_args args = {};
    args.q = p->q;
    args.latent = p->latent;
    args.norm = *p->norm;
    args.rope = *p->rope;
    args.n_heads = p->n_heads;
    args.n_plain = p->n_plain;
    args.kv = *p->kv;
    args.keys = ln_kv_keys(p->kv);
    args.out = p->out;
    args.positions = step->batch.positions;
    args.slots = step->batch.groups[p->kv->group].slots;
    size_t shared = (args.rope.n_dims + args.kv.k_dim) * sizeof(float);
    write_latent<<<(unsigned)step->batch.n_tokens, LN_NORM_THREADS, shared, stream>>>(args);
    return cudaGetLastError();
}
