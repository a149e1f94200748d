/* A mixture of experts as a task of the fused decode kernel, of one row: the norm in front of it,
 * if it has one, the router and the shared expert's gate, the choice, and all that
 * mixture_experts.cuh has.
 *
 * A block converts x for itself, as for a linear, and computes a few columns of the router, whose
 * logits it hands off. Every block waits for all logits and chooses for itself. The weight pipeline
 * stands still in front of a mixture until its experts are chosen: all stages are empty then, as
 * the warp has multiplied what they held. From there on it goes on with what is behind the mixture.
 *
 * Work memory: ln_mixture_memory, with a router. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_MIXTURE_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_MIXTURE_CUH

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/fused/decode_pieces.cuh"
#include "backend/cuda/fused/mixture_experts.cuh"
#include "backend/cuda/weights/dequantize.cuh"

/* A float32, f16 or bf16 matrix that reads x in float32. */
typedef struct ln_decode_router {
    const uint8_t *weight; /* NULL: none */
    size_t row_bytes;
    ln_dtype dtype;
    ln_epilogue epilogue; /* out: where others read the result, or NULL */
    float *handoff;
} ln_decode_router;

typedef struct ln_decode_mixture {
    ln_decode_linear x; /* what is read, and the norm in front of it */
    ln_decode_router router, shared_gate;
    ln_mixture mixture;
} ln_decode_mixture;

/* The weight pipeline has two entries for a mixture: gate and up, and down. */
enum { LN_DECODE_MIXED_MAX_WEIGHTS = LN_DECODE_MIXED_MAX_LINEARS + 2 * LN_DECODE_MAX_MIXTURES };

/* The kernel's argument: tasks of which some are mixtures. */
typedef struct ln_decode_mixed_list {
    ln_decode_args p; /* n_linears: of `weights` */
    uint8_t is_mixture[LN_DECODE_MAX_TASKS];
    ln_decode_weight_tiles weights[LN_DECODE_MIXED_MAX_WEIGHTS]; /* in order of the tasks */
    ln_decode_linear linears[LN_DECODE_MIXED_MAX_LINEARS];
    ln_decode_attention attentions[LN_DECODE_MIXED_MAX_ATTENTIONS];
    ln_decode_mixture mixtures[LN_DECODE_MAX_MIXTURES];
} ln_decode_mixed_list;

static_assert(sizeof(ln_decode_mixed_list) < 32700, "kernels take so many bytes");

/* What the pipeline keeps in shared memory. */
typedef struct ln_decode_mixed_state {
    ln_mixture_choice chosen;
    uint16_t n_rounds[LN_DECODE_GROUPS][LN_DECODE_MIXED_MAX_WEIGHTS];
} ln_decode_mixed_state;

/* By all threads, which wait for each other. */
static __device__ __forceinline__ void
ln_decode_init_mixtures(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                        ln_decode_mixed_state *state, ln_decode_mixed_pipeline *r) {
    for (unsigned i = threadIdx.x; i < p.n_linears * LN_DECODE_GROUPS; i += LN_DECODE_THREADS)
        state->n_rounds[i % LN_DECODE_GROUPS][i / LN_DECODE_GROUPS] =
            (uint16_t)ln_decode_count_rounds(weights[i / LN_DECODE_GROUPS], i % LN_DECODE_GROUPS);
    r->p = &p;
    r->weights = weights;
    r->n_rounds = state->n_rounds[ln_mixture_group_of_warp()];
    r->chosen = &state->chosen;
    r->n_chosen = 0;
    __syncthreads();
}

template <int KIND>
static __device__ __forceinline__ void ln_mixture_release_stage(bool is_last,
                                                                ln_decode_mixed_pipeline *r) {
    ln_decode_release_stage<KIND>(*r->p, r->weights, is_last, r);
}

/* ---- the router ------------------------------------------------------------------------------ */

/* A warp's column, in the order of sums of gemm/simt.cu. x [n_cols], in shared memory */
template <int T>
static __device__ __forceinline__ float ln_decode_router_sum(const uint8_t *row, const float *x,
                                                             unsigned n_cols) {
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned k = threadIdx.x % LN_WARP * LN_GROUP; k < n_cols; k += LN_WARP * LN_GROUP) {
        float w[LN_GROUP], v[LN_GROUP];
        if (T == LN_DTYPE_F32)
            ln_load_f32(row, k, w);
        else if (T == LN_DTYPE_F16)
            ln_load_f16(row, k, w);
        else
            ln_load_bf16(row, k, w);
        ln_load_f32((const uint8_t *)x, k, v);
#pragma unroll
        for (int i = 0; i < LN_GROUP; i++)
            sum = fmaf(w[i], v[i], sum);
    }
    return ln_warp_sum(sum);
}

/* A warp's number among those of the grid, of which a block's are far apart. The first warps, which
 * choose experts, come last. */
static __device__ __forceinline__ unsigned ln_decode_warp_of_grid(void) {
    return blockIdx.x + (LN_DECODE_WARPS - 1 - threadIdx.x / LN_WARP) * gridDim.x;
}

/* The router that has a column of both, which becomes its own; the shared expert's gate is last. */
static __device__ __forceinline__ const ln_decode_router &
ln_decode_find_router(const ln_decode_mixture &m, unsigned *column) {
    const unsigned n = (unsigned)m.router.epilogue.n_out;
    if (*column < n)
        return m.router;
    *column -= n;
    return m.shared_gate;
}

static __device__ __forceinline__ unsigned ln_decode_router_columns(const ln_decode_mixture &m) {
    return (unsigned)(m.router.epilogue.n_out +
                      (m.shared_gate.weight != NULL ? m.shared_gate.epilogue.n_out : 0));
}

/* Prefetches the rows that this block's warps read to the L2 cache. */
static __device__ __forceinline__ void ln_decode_prefetch_routers(const ln_decode_mixture &m) {
    enum { LINE = 128 };
    for (unsigned i = ln_decode_warp_of_grid(); i < ln_decode_router_columns(m);
         i += LN_DECODE_WARPS * gridDim.x) {
        unsigned column = i;
        const ln_decode_router &router = ln_decode_find_router(m, &column);
        const uint8_t *row = router.weight + column * router.row_bytes;
        for (size_t at = threadIdx.x % LN_WARP * LINE; at < router.row_bytes; at += LN_WARP * LINE)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
    }
}

/* Hands off the warp's columns. x in shared memory */
static __device__ __forceinline__ void ln_decode_run_routers(const ln_decode_mixture &m,
                                                             const float *x) {
    const unsigned n_cols = m.mixture.up.n_cols;
    for (unsigned i = ln_decode_warp_of_grid(); i < ln_decode_router_columns(m);
         i += LN_DECODE_WARPS * gridDim.x) {
        unsigned column = i;
        const ln_decode_router &router = ln_decode_find_router(m, &column);
        const uint8_t *row = router.weight + column * router.row_bytes;
        float u = router.dtype == LN_DTYPE_F32 ? ln_decode_router_sum<LN_DTYPE_F32>(row, x, n_cols)
                  : router.dtype == LN_DTYPE_F16
                      ? ln_decode_router_sum<LN_DTYPE_F16>(row, x, n_cols)
                      : ln_decode_router_sum<LN_DTYPE_BF16>(row, x, n_cols);
        const ln_epilogue &e = router.epilogue;
        if (threadIdx.x % LN_WARP > 0)
            continue;
        float y = ln_epilogue_value(e, u, 0.0f, e.bias != NULL ? e.bias[column] : 0.0f, 0.0f, 0.0f);
        ln_handoff_store(router.handoff + column, y);
        if (e.out != NULL)
            e.out[column] = y;
    }
}

/* Waits for all logits, by one warp; `to` in shared memory. */
static __device__ __forceinline__ void ln_decode_await_logits(const float *from, unsigned n,
                                                              float *to) {
    enum { AT_ONCE = 8 };
    for (unsigned first = threadIdx.x % LN_WARP; first < n; first += AT_ONCE * LN_WARP) {
        float held[AT_ONCE];
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++)
            held[i] = first + i * LN_WARP < n ? ln_load_relaxed(from + first + i * LN_WARP) : 0.0f;
#pragma unroll
        for (unsigned i = 0; i < AT_ONCE; i++) {
            const unsigned at = first + i * LN_WARP;
            while (ln_handoff_is_empty(held[i])) {
                __nanosleep(LN_DECODE_POLL_NS);
                held[i] = ln_load_relaxed(from + at);
            }
            if (at < n)
                to[at] = held[i];
        }
    }
    __syncwarp();
}

/* ---- the task -------------------------------------------------------------------------------- */

/* x: the task's, as ln_decode_mixture has it. shared [LN_MAX_WARPS] */
template <int KIND>
static __device__ __forceinline__ void
ln_decode_run_mixture(const ln_decode_mixture &m, const ln_decode_linear &x, uint8_t *work,
                      float *shared, ln_decode_mixed_pipeline *r) {
    const ln_mixture_memory memory = ln_mixture_find_memory(m.mixture, work, KIND, true);
    ln_mixture_choice *const chosen = r->chosen;
    const ln_act_view act =
        ln_decode_make_act<KIND>(*r->p, r->weights, x, 1, memory.x, shared, r, memory.plain);
    __syncthreads();
    ln_decode_run_routers(m, memory.plain);
    const ln_decode_expert_piece piece = /* found while the router's logits are under way */
        ln_decode_find_pieces<KIND>(*r->p, r->weights, r->n_chosen + 1, r);
    if (threadIdx.x < LN_WARP) {
        const ln_op_route &route = m.mixture.route;
        /* The first time it chooses from whatever is there, while logits are under way: this
         * brings the instructions to the SM's cache. */
#pragma unroll 1
        for (int i = 0; i < 2; i++) {
            if (i > 0)
                ln_decode_await_logits(m.router.handoff, (unsigned)route.n_experts, memory.logits);
            ln_route_token(route, memory.logits, m.mixture.token, memory.scores,
                           {chosen->experts, chosen->weights, NULL});
        }
    }
    __syncthreads();
    ln_decode_begin_experts<KIND>(piece, r);
    ln_mixture_run<KIND>(m.mixture, *chosen, act, memory, r);
}

#endif
