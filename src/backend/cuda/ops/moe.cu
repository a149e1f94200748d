/* Mixture of experts: LN_OP_ROUTE chooses experts, LN_OP_GROUP sorts rows by expert (permute),
 * LN_OP_COMBINE sums what experts gave (unpermute). All of it is small beside their linears. */
#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/route.cuh"
#include "backend/cuda/ops/route.h"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

/* ---- route ----------------------------------------------------------------------------------- */

typedef struct route_args {
    ln_op_route op;
    const int32_t *tokens; /* [n_tokens] ids */
} route_args;

/* A token's experts, by a warp; scores [ln_route_floats]: of the warp. */
static __device__ __forceinline__ void route_token(const route_args &args, size_t token,
                                                   float *scores) {
    const ln_op_route &p = args.op;
    ln_route_result to = {p.experts + token * p.n_used, p.weights + token * p.n_used, NULL};
    if (p.n_shared > 0)
        to.shared = p.shared_weights + token * p.n_shared;
    ln_route_token(p, p.logits + token * (p.n_experts + p.n_shared), args.tokens + token, scores,
                   to);
}

/* Grid: a warp per token. Shared memory: ln_route_floats. */
static __global__ void route(const __grid_constant__ route_args p) {
    extern __shared__ float scores[];
    ln_pdl_launch_and_wait();
    route_token(p, blockIdx.x, scores);
}

int ln_cuda_route(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    size_t shared = ln_route_floats(op->route) * sizeof(float);
    route_args args = {op->route, step->batch.tokens};
    return ln_pdl_launch(route, dim3((unsigned)step->batch.n_tokens), LN_WARP, shared, stream,
                         args);
}

/* ---- group ----------------------------------------------------------------------------------- */

enum { MAX_GROUP_WARPS = 16, GROUP_SHARED = 48 * 1024 };

/* Counts one warp's rows begin .. end - 1 by expert. */
static __device__ void count_rows(const ln_op_group &p, size_t begin, size_t end, int *counts) {
    for (size_t row = begin + threadIdx.x % LN_WARP; row < end; row += LN_WARP)
        if (expert_of(p, row) >= 0)
            atomicAdd(&counts[expert_of(p, row)], 1);
}

/* Prefix sum: counts [n_warps][n_experts] become where each warp's rows of each expert begin; by
 * one warp. */
static __device__ void place_rows(const ln_op_group &p, int *counts, unsigned n_warps) {
    unsigned lane = threadIdx.x % LN_WARP;
    int total = 0;
    for (size_t first = 0; first < p.n_experts; first += LN_WARP) {
        size_t expert = first + lane;
        bool is_there = expert < p.n_experts;
        int own = 0;
        for (unsigned warp = 0; warp < n_warps && is_there; warp++)
            own += counts[warp * p.n_experts + expert];
        int inclusive = own;
        for (int step = 1; step < LN_WARP; step *= 2) {
            int before = __shfl_up_sync(0xffffffffu, inclusive, step);
            inclusive += (int)lane >= step ? before : 0;
        }
        int next = total + inclusive - own;
        if (is_there)
            p.starts[expert] = next;
        for (unsigned warp = 0; warp < n_warps && is_there; warp++) {
            int count = counts[warp * p.n_experts + expert];
            counts[warp * p.n_experts + expert] = next;
            next += count;
        }
        total += __shfl_sync(0xffffffffu, inclusive, LN_WARP - 1);
    }
    if (lane == 0)
        p.starts[p.n_experts] = total;
}

/* Writes one warp's rows to their places, in order; next [n_experts] */
static __device__ void sort_rows(const ln_op_group &p, size_t begin, size_t end, int *next) {
    unsigned lane = threadIdx.x % LN_WARP;
    for (size_t first = begin; first < end; first += LN_WARP) {
        size_t row = first + lane;
        int expert = row < end ? expert_of(p, row) : -1;
        unsigned alike = __match_any_sync(0xffffffffu, expert);
        unsigned before = __popc(alike & ((1u << lane) - 1));
        int at = expert >= 0 ? next[expert] + (int)before : 0;
        __syncwarp();
        if (expert >= 0 && before == 0)
            next[expert] += __popc(alike);
        __syncwarp();
        if (expert >= 0)
            p.order[at] = (int32_t)row;
    }
}

/* Stable counting sort. Grid 1, block up to 16 warps, each with a share of the rows. Shared memory:
 * counts [n_warps][n_experts]. */
static __global__ void group_rows(const __grid_constant__ ln_op_group p) {
    extern __shared__ int counts[];
    unsigned warp = threadIdx.x / LN_WARP, n_warps = blockDim.x / LN_WARP;
    size_t share = (p.n_rows + n_warps - 1) / n_warps;
    size_t begin = min(warp * share, p.n_rows), end = min(begin + share, p.n_rows);
    ln_pdl_launch_dependents();
    for (size_t i = threadIdx.x; i < n_warps * p.n_experts; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    ln_pdl_wait();
    count_rows(p, begin, end, counts + warp * p.n_experts);
    __syncthreads();
    if (warp == 0)
        place_rows(p, counts, n_warps);
    __syncthreads();
    sort_rows(p, begin, end, counts + warp * p.n_experts);
}

enum { SMALL_BATCH_ROWS = LN_GROUP_SMALL_BATCH_ROWS, SMALL_BATCH_THREADS = 128 };
static_assert((int)SMALL_BATCH_ROWS == (int)LN_WARP, "as ln_group_in_block has it");
/* Grid 1. */
static __global__ void group_small_batch(const __grid_constant__ ln_op_group p) {
    ln_pdl_launch_and_wait();
    ln_group_in_block(p, threadIdx.x, SMALL_BATCH_THREADS);
}

int ln_cuda_group(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    enum { WORTH_A_WARP = 64 }; /* rows */
    (void)step;
    if (op->group.n_rows <= SMALL_BATCH_ROWS)
        return ln_pdl_launch(group_small_batch, dim3(1), SMALL_BATCH_THREADS, 0, stream, op->group);
    size_t bytes = op->group.n_experts * sizeof(int), most = GROUP_SHARED / bytes;
    size_t n_warps = ln_ceil_div(op->group.n_rows, WORTH_A_WARP);
    most = most < MAX_GROUP_WARPS ? most : (size_t)MAX_GROUP_WARPS;
    n_warps = n_warps < most ? n_warps : most;
    n_warps = n_warps > 0 ? n_warps : 1;
    return ln_pdl_launch(group_rows, dim3(1), (unsigned)n_warps * LN_WARP, n_warps * bytes, stream,
                         op->group);
}

/* ---- route and group ------------------------------------------------------------------------- */

typedef struct choice {
    route_args route;
    ln_op_group group;
} choice;

/* Of one token: a warp. Shared memory: ln_route_floats. */
static __global__ void route_and_group(const __grid_constant__ choice p) {
    extern __shared__ float scores[];
    ln_pdl_launch_and_wait();
    route_token(p.route, 0, scores);
    __syncwarp();
    ln_group_in_block(p.group, threadIdx.x, LN_WARP);
}

int ln_cuda_route_group(const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    choice args = {{ops[0].route, step->batch.tokens}, ops[1].group};
    return ln_pdl_launch(route_and_group, dim3(1), LN_WARP,
                         ln_route_floats(args.route.op) * sizeof(float), stream, args);
}

/* What else the launch converts: rows of float32. */
typedef struct choice_and_rows {
    choice both;
    const float *x;
    size_t stride;
    unsigned n_cols;
    ln_act_view to;
} choice_and_rows;

enum { CONVERT_COLS = 4 * LN_WARP };

/* The first CTA is route_and_group; one more for each CONVERT_COLS columns of a row. */
static __global__ void route_group_convert(const __grid_constant__ choice_and_rows p) {
    extern __shared__ float scores[];
    ln_pdl_launch_and_wait();
    if (blockIdx.x == 0) {
        route_token(p.both.route, 0, scores);
        __syncwarp();
        ln_group_in_block(p.both.group, threadIdx.x, LN_WARP);
        return;
    }
    unsigned per_row = ((unsigned)p.to.cols + CONVERT_COLS - 1) / CONVERT_COLS;
    unsigned row = (blockIdx.x - 1) / per_row;
    unsigned col = (blockIdx.x - 1) % per_row * CONVERT_COLS + 4 * threadIdx.x;
    if (col >= (unsigned)p.to.cols)
        return;
    float v[4];
    for (unsigned i = 0; i < 4; i++)
        v[i] = col + i < p.n_cols ? p.x[row * p.stride + col + i] : 0.0f;
    ln_act_store(p.to, row, col, v);
}

int ln_cuda_route_group_convert(const ln_op *ops, const ln_converted_act *x,
                                const ln_cuda_step *step, ln_cuda_stream stream) {
    choice_and_rows args = {};
    args.both.route = {ops[0].route, step->batch.tokens};
    args.both.group = ops[1].group;
    args.x = x->of;
    args.stride = x->stride;
    args.n_cols = (unsigned)x->n_cols;
    args.to = ln_act_view_of(x);
    unsigned n_blocks = 1 + (unsigned)x->n_rows * ln_ceil_div(args.to.cols, CONVERT_COLS);
    return ln_pdl_launch(route_group_convert, dim3(n_blocks), LN_WARP,
                         ln_route_floats(ops[0].route) * sizeof(float), stream, args);
}

/* ---- combine --------------------------------------------------------------------------------- */

enum { COMBINE_THREADS = 256, CHOICES_AT_ONCE = 8 };

/* The sum of column i of a token's choices from `first` on, whose loads are all under way at once,
 * on top of `sum`. */
static __device__ __forceinline__ float add_choices(const ln_op_combine &p, size_t token,
                                                    size_t first, size_t i, float sum) {
    float x[CHOICES_AT_ONCE], weights[CHOICES_AT_ONCE];
    bool counts[CHOICES_AT_ONCE];
#pragma unroll
    for (size_t j = 0; j < CHOICES_AT_ONCE; j++) {
        size_t row = token * p.n_used + first + j;
        counts[j] = first + j < p.n_used;
        if (counts[j] && p.experts != NULL)
            counts[j] = (size_t)p.experts[row] - p.first_expert < p.n_experts;
        x[j] = counts[j] ? p.x[row * p.dim + i] : 0.0f;
        weights[j] = counts[j] && p.weights != NULL ? p.weights[row] : 1.0f;
    }
#pragma unroll
    for (size_t j = 0; j < CHOICES_AT_ONCE; j++)
        if (counts[j])
            sum = fmaf(weights[j], x[j], sum);
    return sum;
}

/* Grid (dim / 256, n_tokens), block 256. Bytes moved: n_used rows of float32 (2 more with a shared
 * expert and residual) read, one written. */
static __global__ void combine(const __grid_constant__ ln_op_combine p) {
    ln_pdl_launch_and_wait();
    size_t i = (size_t)blockIdx.x * COMBINE_THREADS + threadIdx.x;
    if (i >= p.dim)
        return;
    size_t token = blockIdx.y, at = token * p.dim + i;
    float residual = p.residual != NULL ? p.residual[at] : 0.0f;
    float shared = p.shared != NULL ? p.shared[at] : 0.0f;
    float gate = p.shared_gate != NULL ? p.shared_gate[token] : 0.0f;
    float sum = 0.0f;
    for (size_t first = 0; first < p.n_used; first += CHOICES_AT_ONCE)
        sum = add_choices(p, token, first, i, sum);
    if (p.shared != NULL)
        sum = fmaf(p.shared_gate != NULL ? 1.0f / (1.0f + expf(-gate)) : 1.0f, shared, sum);
    sum *= p.scale;
    p.out[at] = p.residual != NULL ? residual + sum : sum;
}

int ln_cuda_combine(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    static const size_t max_tokens = 65535; /* of a grid */
    const ln_op_combine *p = &op->combine;
    size_t n_tokens = step->batch.n_tokens;
    for (size_t done = 0; done < n_tokens; done += max_tokens) {
        size_t n = n_tokens - done < max_tokens ? n_tokens - done : max_tokens;
        ln_op_combine part = *p;
        part.x += done * p->n_used * p->dim;
        if (p->weights != NULL)
            part.weights += done * p->n_used;
        if (p->experts != NULL)
            part.experts += done * p->n_used;
        part.out += done * p->dim;
        if (p->shared != NULL)
            part.shared += done * p->dim;
        if (p->shared_gate != NULL)
            part.shared_gate += done;
        if (p->residual != NULL)
            part.residual += done * p->dim;
        dim3 grid(ln_ceil_div(p->dim, COMBINE_THREADS), (unsigned)n);
        int code = ln_pdl_launch(combine, grid, COMBINE_THREADS, 0, stream, part);
        if (code != 0)
            return code;
    }
    return 0;
}
