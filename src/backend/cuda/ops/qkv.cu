/* LN_OP_QKV: q/k norms, RoPE, k and v to the cache. LN_OP_LATENT: the same for latent attention
 * (MLA), whose cache row all heads share. */
#include "backend/cuda/ops/qkv.cuh"

#include "backend/cuda/ops/qkv_lanes.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/traits.cuh"

/* cos, then sin of each pair's angle: [n_dims / 2] each; by a block */
static __device__ void fill_angles(const ln_rope &rope, int32_t position, float *cos_sin) {
    unsigned half = (unsigned)rope.n_dims / 2;
    for (unsigned i = threadIdx.x; i < half; i += blockDim.x) {
        float angle = (float)(position + rope.first) * rope.inv_freq[i];
        cos_sin[i] = cosf(angle) * rope.magnitude;
        cos_sin[half + i] = sinf(angle) * rope.magnitude;
    }
}

/* Pair i of a head: from x to out, which may be x. */
static __device__ __forceinline__ void rotate_pair(const ln_rope &rope, const float *cos_sin,
                                                   unsigned i, const float *x, float *out) {
    unsigned half = (unsigned)rope.n_dims / 2, first, second;
    ln_rope_pair(rope, i, &first, &second);
    float a = x[first], b = x[second];
    ln_rotate_pair(cos_sin[i], cos_sin[half + i], &a, &b);
    out[first] = a;
    out[second] = b;
}

/* ---- q, k and v ------------------------------------------------------------------------------ */

enum { QKV_WARPS = 8 };

/* Rotation of a head, then its norm, by a warp. */
static __device__ void rotate_and_norm_head(const ln_qkv_args &p, const ln_norm &norm,
                                            unsigned head, int32_t position, float *x) {
    ln_qkv_args part = p;
    part.normalizes = false;
    ln_finish_head(part, norm, head, position, (unsigned)p.kv.k_dim, x, x);
    part.normalizes = true;
    part.has_rope = false;
    ln_finish_head(part, norm, head, position, (unsigned)p.kv.k_dim, x, x);
}

/* Norm and rotation of a head in place. */
static __device__ __forceinline__ void finish_head(const ln_qkv_args &p, const ln_norm &norm,
                                                   unsigned head, int32_t position,
                                                   const ln_rope_angles &angles, float *x) {
    if (angles.are_valid)
        ln_rotate_head(p.rope, angles, x);
    else if (p.normalizes && p.norm_after_rope)
        rotate_and_norm_head(p, norm, head, position, x);
    else
        ln_finish_head(p, norm, head, position, (unsigned)p.kv.k_dim, x, x);
}

/* A query grows with its position; by a warp. */
static __device__ __forceinline__ void scale_query(const ln_qkv_args &p, int32_t position,
                                                   float *q) {
    if (p.q_scale.beta == 0.0f)
        return;
    float periods = floorf(((float)position + p.q_scale.offset) / p.q_scale.period);
    float scale = 1.0f + p.q_scale.beta * logf(1.0f + periods);
    for (unsigned i = threadIdx.x % LN_WARP; i < (unsigned)p.kv.k_dim; i += LN_WARP)
        q[i] *= scale;
}

/* Grid (n_tokens, heads of q, k and v / 8), block 256: a warp per head. Bytes moved: q and k read
 * and written, v read. Angles are computed ahead of the PDL wait. */
static __global__ void write_qkv(const __grid_constant__ ln_qkv_args p) {
    ln_pdl_launch_dependents();
    const ln_kv_layer &kv = p.kv;
    unsigned kv_heads = (unsigned)kv.n_heads, k_dim = (unsigned)kv.k_dim;
    unsigned item = blockIdx.y * QKV_WARPS + threadIdx.x / LN_WARP;
    size_t token = blockIdx.x;
    int32_t position = p.has_rope || p.q_scale.beta != 0.0f ? p.positions[token] : 0;
    ln_rope_angles angles = {};
    if (item < p.n_heads + kv_heads)
        ln_load_rope_angles(p, position, angles);
    ln_pdl_wait();
    if (item < p.n_heads) {
        float *q = p.q + (token * p.n_heads + item) * k_dim;
        if (p.q != NULL && (p.normalizes || p.has_rope))
            finish_head(p, p.q_norm, item, position, angles, q);
        if (p.q != NULL)
            scale_query(p, position, q);
        return;
    }
    item -= p.n_heads;
    if (item >= 2 * kv_heads || p.k == NULL)
        return;
    unsigned head = item % kv_heads;
    size_t row = ln_kv_row(kv, (size_t)p.slots[token], head);
    if (item >= kv_heads && p.v == NULL)
        return;
    if (item >= kv_heads) {
        ln_kv_store(p.values, row, p.v + (token * kv_heads + head) * kv.v_dim, kv.v_dim);
        return;
    }
    float *k = p.k + (token * kv_heads + head) * k_dim;
    finish_head(p, p.k_norm, head, position, angles, k);
    ln_kv_store(p.keys, row, k, k_dim);
}

/* ---- RoPE alone ------------------------------------------------------------------------------ */

/* A piece is eight elements of a head, two float4: n_dims / PIECE threads of a head have pieces
 * that rotate, the others copy. A thread has the same piece of several heads, and so the same
 * angles, which the block computes once. */
enum { PIECE = 8, PIECE_THREADS = 128, PIECES_AHEAD = 3 };

typedef struct piece {
    float4 a, b;
} piece;

/* Where a thread's piece lies in a head, and its rotation. */
typedef struct piece_angles {
    unsigned a, b; /* where the two fours are in a head */
    bool rotates;
    float cos[4], sin[4];
} piece_angles;

template <ln_rope_style STYLE>
static __device__ __forceinline__ void find_place(const ln_rope &rope, unsigned number,
                                                  piece_angles &t) {
    t.rotates = number < (unsigned)rope.n_dims / PIECE;
    t.a = PIECE * number, t.b = t.a + 4;
    if (STYLE == LN_ROPE_HALF && t.rotates)
        t.a = 4 * number, t.b = t.a + (unsigned)rope.n_dims / 2;
}

/* cos_sin: as fill_angles has left it. */
static __device__ __forceinline__ void take_angles(const ln_rope &rope, const float4 *cos_sin,
                                                   unsigned number, piece_angles &t) {
    if (!t.rotates)
        return;
    float4 cos = cos_sin[number], sin = cos_sin[(unsigned)rope.n_dims / PIECE + number];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        t.cos[i] = ln_part(cos, i);
        t.sin[i] = ln_part(sin, i);
    }
}

template <ln_rope_style STYLE>
static __device__ __forceinline__ void rotate_piece(const piece_angles &t, piece &x) {
    if (!t.rotates)
        return;
    if (STYLE == LN_ROPE_HALF) {
        ln_rotate_pair(t.cos[0], t.sin[0], &x.a.x, &x.b.x);
        ln_rotate_pair(t.cos[1], t.sin[1], &x.a.y, &x.b.y);
        ln_rotate_pair(t.cos[2], t.sin[2], &x.a.z, &x.b.z);
        ln_rotate_pair(t.cos[3], t.sin[3], &x.a.w, &x.b.w);
    } else {
        ln_rotate_pair(t.cos[0], t.sin[0], &x.a.x, &x.a.y);
        ln_rotate_pair(t.cos[1], t.sin[1], &x.a.z, &x.a.w);
        ln_rotate_pair(t.cos[2], t.sin[2], &x.b.x, &x.b.y);
        ln_rotate_pair(t.cos[3], t.sin[3], &x.b.z, &x.b.w);
    }
}

static __device__ __forceinline__ ln_plain_rows queries_of(const ln_qkv_args &p) {
    return {p.q_dtype, p.q};
}

/* Four elements from `at` on. */
static __device__ __forceinline__ void store_four(const ln_plain_rows &to, size_t at,
                                                  const float4 &x) {
    if (to.dtype == LN_KV_F32) {
        *(float4 *)((float *)to.data + at) = x;
    } else if (to.dtype == LN_KV_F16) {
        __half2 low = __floats2half2_rn(x.x, x.y), high = __floats2half2_rn(x.z, x.w);
        *(uint2 *)((__half *)to.data + at) = make_uint2(*(uint32_t *)&low, *(uint32_t *)&high);
    } else {
        *(uint2 *)((__nv_bfloat16 *)to.data + at) =
            make_uint2(ln_pack_bf16(x.x, x.y), ln_pack_bf16(x.z, x.w));
    }
}

/* The heads of a token: q, then k, then v. Elements: where head 0 of q, of k and v, and of its row
 * of the cache begins, and from one head of the cache to the next. */
typedef struct token_heads {
    size_t q, kv, cached;
    unsigned n_q, n_kv, dim, cached_step;
} token_heads;

static __device__ __forceinline__ const float *find_head(const ln_qkv_args &p, const token_heads &h,
                                                         unsigned head) {
    if (head < h.n_q)
        return p.q + h.q + head * h.dim;
    head -= h.n_q;
    return head < h.n_kv ? p.k + h.kv + head * h.dim : p.v + h.kv + (head - h.n_kv) * h.dim;
}

/* Where a head of q is written: 16 bits begin where its float32 did. */
static __device__ __forceinline__ size_t find_query(const ln_qkv_args &p, const token_heads &h,
                                                    unsigned head) {
    return (h.q + head * h.dim) * (p.q_dtype == LN_KV_F32 ? 1 : 2);
}

/* Where a head of k, or behind those of v, is written: its row of the cache. */
static __device__ __forceinline__ size_t find_cached(const token_heads &h, unsigned head) {
    return h.cached + (size_t)(head < h.n_kv ? head : head - h.n_kv) * h.cached_step;
}

/* All but `cached`. */
static __device__ __forceinline__ token_heads find_heads(const ln_qkv_args &p) {
    const ln_kv_layer &kv = p.kv;
    unsigned n_kv = (unsigned)kv.n_heads, dim = (unsigned)kv.k_dim;
    size_t token = blockIdx.x;
    return {token * p.n_heads * dim,        token * n_kv * dim, 0, p.n_heads, n_kv, dim,
            (unsigned)kv.block_tokens * dim};
}

static __device__ __forceinline__ size_t find_slot(const ln_kv_layer &kv, unsigned slot) {
    unsigned block_tokens = (unsigned)kv.block_tokens;
    return (slot / block_tokens * kv.n_heads * block_tokens + slot % block_tokens) * kv.k_dim;
}

template <ln_rope_style STYLE>
static __device__ __forceinline__ void finish_piece(const ln_qkv_args &p, const token_heads &h,
                                                    unsigned head, const piece_angles &t,
                                                    piece &x) {
    if (head < h.n_q + h.n_kv)
        rotate_piece<STYLE>(t, x);
    if (head < h.n_q) {
        size_t at = find_query(p, h, head);
        store_four(queries_of(p), at + t.a, x.a);
        store_four(queries_of(p), at + t.b, x.b);
        return;
    }
    head -= h.n_q;
    ln_plain_rows to = ln_plain_rows_of(head < h.n_kv ? p.keys : p.values);
    size_t at = find_cached(h, head);
    store_four(to, at + t.a, x.a);
    store_four(to, at + t.b, x.b);
}

/* Loads pieces of the heads from `head` on, `step` apart. */
static __device__ __forceinline__ void load_pieces(const ln_qkv_args &p, const token_heads &h,
                                                   unsigned head, unsigned step,
                                                   const piece_angles &t,
                                                   piece (&x)[PIECES_AHEAD]) {
#pragma unroll
    for (unsigned i = 0; i < PIECES_AHEAD; i++)
        if (head + i * step < h.n_q + 2 * h.n_kv) {
            const float *from = find_head(p, h, head + i * step);
            x[i].a = *(const float4 *)(from + t.a);
            x[i].b = *(const float4 *)(from + t.b);
        }
}

/* Grid (n_tokens, parts of its heads), block 128. k is written to the cache alone. Few tokens
 * compute their angles ahead of the PDL wait, many while their loads are under way. */
template <ln_rope_style STYLE>
static __global__ void __launch_bounds__(PIECE_THREADS)
    write_pieces(const __grid_constant__ ln_qkv_args p) {
    __shared__ float4 cos_sin[PIECE * PIECE_THREADS / 4];
    ln_pdl_launch_dependents();
    token_heads h = find_heads(p);
    unsigned per_head = h.dim / PIECE, at_once = PIECE_THREADS / per_head;
    unsigned of_head = 0xffffffffu >> (LN_WARP - min(per_head, (unsigned)LN_WARP))
                                          << threadIdx.x % LN_WARP / per_head * per_head;
    unsigned number = threadIdx.x % per_head, n_heads = h.n_q + 2 * h.n_kv;
    unsigned head = blockIdx.y * at_once + threadIdx.x / per_head, step = gridDim.y * at_once;
    if (threadIdx.x >= at_once * per_head)
        head = n_heads; /* has none */
    int32_t position = p.positions[blockIdx.x];
    bool is_few = gridDim.y > 1;
    piece_angles t;
    piece x[PIECES_AHEAD];
    find_place<STYLE>(p.rope, number, t);
    if (is_few)
        fill_angles(p.rope, position, (float *)cos_sin);
    ln_pdl_wait();
    load_pieces(p, h, head, step, t, x);
    h.cached = find_slot(p.kv, (unsigned)p.slots[blockIdx.x]); /* a load that others hide */
    if (!is_few)
        fill_angles(p.rope, position, (float *)cos_sin);
    __syncthreads();
    take_angles(p.rope, cos_sin, number, t);
    while (head < n_heads) {
        if (p.q_dtype != LN_KV_F32) /* lies where others of the head have read */
            __syncwarp(of_head);
#pragma unroll
        for (unsigned i = 0; i < PIECES_AHEAD; i++)
            if (head + i * step < n_heads)
                finish_piece<STYLE>(p, h, head + i * step, t, x[i]);
        head += step * PIECES_AHEAD;
        load_pieces(p, h, head, step, t, x);
    }
}

/* Whether q, k and v are all there, in a cache of plain rows, and take no more than norm and RoPE.
 */
static bool has_plain_heads(const ln_qkv_args &p) {
    const ln_kv_layer &kv = p.kv;
    size_t at = (size_t)p.q | (size_t)p.k | (size_t)p.v | (size_t)kv.k | (size_t)kv.v;
    bool rotates_last = p.has_rope && p.rope.last;
    return p.q != NULL && p.k != NULL && p.v != NULL && p.q_scale.beta == 0.0f && !rotates_last &&
           !ln_kv_has_scales(kv.dtype) && at % 16 == 0 && kv.k_dim == kv.v_dim &&
           kv.v_dim == kv.v_stride;
}

static bool takes_pieces(const ln_qkv_args &p) {
    const ln_kv_layer &kv = p.kv;
    return has_plain_heads(p) && p.has_rope && !p.normalizes && kv.k_dim % PIECE == 0 &&
           kv.k_dim <= PIECE * PIECE_THREADS && p.rope.n_dims % PIECE == 0;
}

/* Up to so many tokens are divided among several blocks each. */
enum { FEW_TOKENS = 256 };

static int launch_pieces(const ln_qkv_args &args, size_t n_tokens, ln_cuda_stream stream) {
    unsigned at_once = PIECE_THREADS / (unsigned)(args.kv.k_dim / PIECE);
    unsigned n_parts = ln_ceil_div(args.n_heads + 2 * args.kv.n_heads, at_once);
    dim3 grid((unsigned)n_tokens, n_tokens <= FEW_TOKENS ? n_parts : 1);
    return args.rope.style == LN_ROPE_HALF
               ? ln_pdl_launch(write_pieces<LN_ROPE_HALF>, grid, PIECE_THREADS, 0, stream, args)
               : ln_pdl_launch(write_pieces<LN_ROPE_INTERLEAVED>, grid, PIECE_THREADS, 0, stream,
                               args);
}

/* ---- norm and RoPE --------------------------------------------------------------------------- */

/* Heads of whole multiples of 32 elements, all of which rotate by halves, or none, behind a norm: a
 * warp per head, of which lane t has the elements t, t + 32 .., and so both of a pair. Sums are
 * those of ln_finish_head. */
enum { HEAD_WARPS = 8, HEADS_AHEAD = 4 };

/* What a lane's elements are multiplied with, of all heads. */
template <int N> struct head_constants { float q_weight[N], k_weight[N], cos[N / 2], sin[N / 2]; };

template <int N>
static __device__ __forceinline__ void load_constants(const ln_qkv_args &p, size_t token,
                                                      head_constants<N> &c) {
    ln_load_lane_weights(p.q_norm, c.q_weight);
    ln_load_lane_weights(p.k_norm, c.k_weight);
    unsigned lane = threadIdx.x % LN_WARP;
#pragma unroll
    for (int k = 0; k < N / 2 && p.has_rope; k++)
        ln_find_angle(p.rope, p.positions[token], lane + LN_WARP * k, &c.cos[k], &c.sin[k]);
}

/* Grid (n_tokens, parts of its heads), block 256. k is written to the cache alone. */
template <int N>
static __global__ void __launch_bounds__(HEAD_WARPS *LN_WARP)
    write_heads(const __grid_constant__ ln_qkv_args p) {
    ln_pdl_launch_dependents();
    token_heads h = find_heads(p);
    h.cached = find_slot(p.kv, (unsigned)p.slots[blockIdx.x]);
    unsigned warp = threadIdx.x / LN_WARP, lane = threadIdx.x % LN_WARP;
    unsigned n_heads = h.n_q + 2 * h.n_kv, step = gridDim.y * HEAD_WARPS;
    head_constants<N> c;
    load_constants(p, blockIdx.x, c);
    ln_pdl_wait();
    for (unsigned head = blockIdx.y * HEAD_WARPS + warp; head < n_heads;
         head += step * HEADS_AHEAD) {
        float x[HEADS_AHEAD][N];
#pragma unroll
        for (unsigned i = 0; i < HEADS_AHEAD; i++)
#pragma unroll
            for (int k = 0; k < N; k++)
                x[i][k] = head + i * step < n_heads
                              ? find_head(p, h, head + i * step)[lane + LN_WARP * k]
                              : 0.0f;
#pragma unroll
        for (unsigned i = 0; i < HEADS_AHEAD; i++) {
            unsigned at = head + i * step;
            if (at >= n_heads)
                break;
            bool is_q = at < h.n_q, is_v = at >= h.n_q + h.n_kv;
            if (is_q)
                ln_norm_lanes(p.q_norm, c.q_weight, x[i]);
            else if (!is_v)
                ln_norm_lanes(p.k_norm, c.k_weight, x[i]);
            if (!is_v && p.has_rope)
                ln_rotate_lanes(c.cos, c.sin, x[i]);
            if (is_q)
                ln_store_lanes(queries_of(p), find_query(p, h, at), x[i]);
            else
                ln_store_lanes(ln_plain_rows_of(is_v ? p.values : p.keys),
                               find_cached(h, at - h.n_q), x[i]);
        }
    }
}

static int launch_heads(const ln_qkv_args &args, size_t n_tokens, ln_cuda_stream stream) {
    unsigned n_parts = ln_ceil_div(args.n_heads + 2 * args.kv.n_heads, HEAD_WARPS);
    dim3 grid((unsigned)n_tokens, n_tokens <= FEW_TOKENS ? n_parts : 1);
    unsigned n_threads = HEAD_WARPS * LN_WARP;
    switch (args.kv.k_dim) {
    case 64: return ln_pdl_launch(write_heads<2>, grid, n_threads, 0, stream, args);
    case 128: return ln_pdl_launch(write_heads<4>, grid, n_threads, 0, stream, args);
    default: return ln_pdl_launch(write_heads<8>, grid, n_threads, 0, stream, args);
    }
}

static bool is_rms(const ln_norm &norm) {
    return (norm.kind == LN_NORM_RMS || norm.kind == LN_NORM_RMS_PLUS_ONE) && norm.bias == NULL;
}

static bool takes_heads(const ln_qkv_args &p) {
    size_t dim = p.kv.k_dim;
    bool rotates = p.has_rope && p.rope.style == LN_ROPE_HALF && p.rope.n_dims == dim;
    return has_plain_heads(p) && p.normalizes && !p.own_norms && !p.norm_after_rope &&
           (rotates || !p.has_rope) && (dim == 64 || dim == 128 || dim == 256) &&
           is_rms(p.q_norm) && is_rms(p.k_norm);
}

/* ---- launches -------------------------------------------------------------------------------- */

ln_qkv_args ln_make_qkv_args(const ln_op_qkv *p, const ln_cuda_step *step) {
    ln_qkv_args args = {};
    args.q = p->q;
    args.k = p->k;
    args.v = p->v;
    args.n_heads = (unsigned)p->n_heads;
    args.own_norms = p->qk_norm == LN_QK_NORM_OWN;
    args.normalizes = p->qk_norm == LN_QK_NORM_HEAD || args.own_norms;
    if (args.normalizes) {
        args.q_norm = *p->q_norm;
        args.k_norm = *p->k_norm;
    }
    args.norm_after_rope = p->norm_after_rope;
    args.q_scale = p->q_scale;
    args.has_rope = p->rope != NULL;
    if (args.has_rope)
        args.rope = *p->rope;
    args.kv = *p->kv;
    args.keys = ln_kv_keys(p->kv);
    args.values = ln_kv_values(p->kv);
    args.q_dtype = LN_KV_F32;
    args.positions = step->batch.positions;
    args.slots = step->batch.groups[p->kv->group].slots;
    return args;
}

/* The pieces of a head must be those of one warp: 16 bits lie where others read float32. */
bool ln_qkv_narrows(const ln_qkv_args *args) {
    return takes_heads(*args) ||
           (takes_pieces(*args) && PIECE * LN_WARP % (unsigned)args->kv.k_dim == 0);
}

int ln_qkv_launch(const ln_qkv_args *args, size_t n_tokens, ln_cuda_stream stream) {
    if (takes_pieces(*args))
        return launch_pieces(*args, n_tokens, stream);
    if (takes_heads(*args))
        return launch_heads(*args, n_tokens, stream);
    dim3 grid((unsigned)n_tokens, ln_ceil_div(args->n_heads + 2 * args->kv.n_heads, QKV_WARPS));
    return ln_pdl_launch(write_qkv, grid, QKV_WARPS * LN_WARP, 0, stream, *args);
}

int ln_cuda_qkv(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_qkv *p = &op->qkv;
    size_t n_tokens = step->batch.n_tokens;
    if (p->qk_norm == LN_QK_NORM_FULL) {
        ln_norm_launch(p->q_norm, n_tokens, NULL, p->q, NULL, 1.0f, p->q, NULL, stream);
        if (p->k != NULL)
            ln_norm_launch(p->k_norm, n_tokens, NULL, p->k, NULL, 1.0f, p->k, NULL, stream);
    }
    ln_qkv_args args = ln_make_qkv_args(p, step);
    return ln_qkv_launch(&args, n_tokens, stream);
}

/* ---- latent attention ------------------------------------------------------------------------ */

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

/* Grid n_tokens, block 256. Shared memory: cos and sin, n_dims floats, and the cache row, k_dim
 * floats. */
static __global__ void write_latent(const __grid_constant__ latent_args p) {
    extern __shared__ float cos_sin[];
    __shared__ float shared[LN_MAX_WARPS];
    size_t token = blockIdx.x;
    unsigned n_latent = (unsigned)p.norm.dim, n_rope = (unsigned)p.rope.n_dims, half = n_rope / 2;
    float *row = cos_sin + n_rope, mean, inverse;
    const float *latent = p.latent + token * p.kv.k_dim;
    fill_angles(p.rope, p.positions[token], cos_sin);
    ln_norm_statistics(p.norm, latent, shared, &mean, &inverse);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < half; i += blockDim.x)
        rotate_pair(p.rope, cos_sin, i, latent + n_latent, row + n_latent);
    for (unsigned i = threadIdx.x; i < n_latent; i += blockDim.x)
        row[i] = ln_norm_apply(p.norm, latent[i], i, mean, inverse);
    for (unsigned at = threadIdx.x; at < (unsigned)p.n_heads * half; at += blockDim.x) {
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
