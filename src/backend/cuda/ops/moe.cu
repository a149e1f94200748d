/* Mixture of experts: LN_OP_ROUTE chooses experts, LN_OP_GROUP sorts rows by expert (permute),
 * LN_OP_COMBINE sums what experts gave (unpermute). All of it is small beside their linears. */
#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/route.h"
#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

/* ---- route ----------------------------------------------------------------------------------- */

/* Argmax of x[n], ties to the lower index; NaN never wins over a number. One warp. */
static __device__ size_t best_of(const float *x, size_t n) {
    unsigned lane = threadIdx.x;
    float best = NAN;
    size_t at = n;
    for (size_t i = lane; i < n; i += LN_WARP)
        if (at == n || x[i] > best || (isnan(best) && !isnan(x[i]))) {
            best = x[i];
            at = i;
        }
    for (int step = LN_WARP / 2; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, best, step);
        size_t other_at = __shfl_xor_sync(0xffffffffu, (unsigned long long)at, step);
        bool wins = other > best || (isnan(best) && !isnan(other));
        bool ties = (other == best || (isnan(best) && isnan(other))) && other_at < at;
        if (other_at < n && (at == n || wins || ties)) {
            best = other;
            at = other_at;
        }
    }
    return at;
}

/* A lane's logits to where its scores will be, so many loads under way at once. */
static __device__ void load_logits(const ln_op_route &p, const float *logits, float *to) {
    enum { AT_ONCE = 8 };
    size_t n = p.n_experts + p.n_shared;
    for (size_t first = threadIdx.x; first < n; first += AT_ONCE * LN_WARP) {
        float held[AT_ONCE];
#pragma unroll
        for (size_t j = 0; j < AT_ONCE; j++)
            held[j] = first + j * LN_WARP < n ? logits[first + j * LN_WARP] : 0.0f;
#pragma unroll
        for (size_t j = 0; j < AT_ONCE; j++)
            if (first + j * LN_WARP < n)
                to[first + j * LN_WARP] = held[j];
    }
}

/* scores[n] from logits[n] */
static __device__ void score_experts(const ln_op_route &p, const float *logits, float *scores) {
    size_t n = p.n_experts + p.n_shared;
    unsigned lane = threadIdx.x;
    float largest = -INFINITY, total = 0.0f;
    load_logits(p, logits, scores);
    for (size_t i = lane; i < n; i += LN_WARP) {
        largest = fmaxf(largest, scores[i]);
        if (p.router == LN_ROUTER_SIGMOID)
            scores[i] = 1.0f / (1.0f + expf(-scores[i]));
        if (p.router == LN_ROUTER_ROOT_SOFTPLUS)
            scores[i] = sqrtf(fmaxf(scores[i], 0.0f) + log1pf(expf(-fabsf(scores[i]))));
    }
    if (p.router != LN_ROUTER_SOFTMAX)
        return;
    largest = ln_warp_max(largest);
    for (size_t i = lane; i < n; i += LN_WARP)
        total += scores[i] = expf(scores[i] - largest);
    total = ln_warp_sum(total);
    for (size_t i = lane; i < n; i += LN_WARP)
        scores[i] /= total;
}

/* Limits the choice to the best groups of experts: -infinity, or 0, for experts of the others.
 * group_scores [n_groups] */
static __device__ void drop_groups(const ln_op_route &p, float *contest, float *group_scores) {
    size_t size = p.n_experts / p.n_groups;
    for (size_t group = 0; group < p.n_groups; group++) {
        float *x = contest + group * size;
        size_t first = best_of(x, size);
        float second = -INFINITY;
        for (size_t i = threadIdx.x; i < size; i += LN_WARP)
            if (i != first)
                second = fmaxf(second, x[i]);
        second = ln_warp_max(second);
        if (threadIdx.x == 0)
            group_scores[group] = x[first] + (p.group_by_two && size >= 2 ? second : 0.0f);
    }
    __syncwarp();
    for (size_t i = 0; i < p.n_groups_used; i++) {
        size_t best = best_of(group_scores, p.n_groups);
        __syncwarp();
        if (threadIdx.x == 0)
            group_scores[best] = -INFINITY;
        __syncwarp();
    }
    for (size_t i = threadIdx.x; i < size * p.n_groups; i += LN_WARP)
        if (group_scores[i / size] != -INFINITY)
            contest[i] = p.zero_other_groups ? 0.0f : -INFINITY;
    __syncwarp();
}

/* What an expert's score becomes beside the total of all that a token has. */
static __device__ __forceinline__ float scale_weight(const ln_op_route &p, float weight,
                                                     float total) {
    bool normalize = p.normalize || p.router == LN_ROUTER_SOFTMAX_CHOSEN;
    return (normalize ? weight / total : weight) * p.scale;
}

/* The scores of experts that all tokens have, and then what the total must not be without. */
static __device__ __forceinline__ float add_shared(const ln_op_route &p, const float *scores,
                                                   float total) {
    for (size_t i = 0; i < p.n_shared; i++)
        total += scores[p.n_experts + i];
    if (p.router == LN_ROUTER_SIGMOID || p.router == LN_ROUTER_ROOT_SOFTPLUS)
        total += 1e-20f;
    return total;
}

/* Weights of the chosen experts, by one thread. */
static __device__ void expert_weights(const ln_op_route &p, const float *scores,
                                      const int32_t *experts, float *weights, float *shared) {
    float total = 0.0f;
    if (p.router == LN_ROUTER_SOFTMAX_CHOSEN) {
        float largest = weights[0]; /* best first */
        for (size_t i = 0; i < p.n_used; i++)
            weights[i] = expf(weights[i] - largest);
    }
    if (p.router == LN_ROUTER_SIGMOID_CHOSEN)
        for (size_t i = 0; i < p.n_used; i++)
            weights[i] = 1.0f / (1.0f + expf(-weights[i]));
    for (size_t i = 0; i < p.n_used; i++)
        total += weights[i];
    total = add_shared(p, scores, total);
    for (size_t i = 0; i < p.n_used; i++)
        weights[i] = scale_weight(p, weights[i], total);
    for (size_t i = 0; i < p.n_shared; i++)
        shared[i] = scale_weight(p, scores[p.n_experts + i], total);
    for (size_t i = 0; i < p.n_used && p.expert_scale != NULL; i++)
        weights[i] *= p.expert_scale[experts[i]];
}

/* The weight of the best of those that are `left`, as ln_scalar_route's sparse mixer; by a warp. */
static __device__ float mix_sparsely(const ln_op_route &p, const float *logits, const float *left,
                                     size_t best) {
    float total = 0.0f, largest = left[best];
    for (size_t i = threadIdx.x; i < p.n_experts; i += LN_WARP) {
        float behind = (largest - logits[i]) / fmaxf(fabsf(logits[i]), largest);
        if (!(behind > 2.0f * p.jitter))
            total += expf(left[i] - largest);
    }
    return 1.0f / ln_warp_sum(total);
}

/* A number by which floats compare as unsigned integers, NaN below all. */
static __device__ __forceinline__ unsigned ordered(float x) {
    unsigned bits = __float_as_uint(x + 0.0f); /* -0 becomes 0 */
    return isnan(x) ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The n_used best of contest, as best_of finds one after the other, with a lane's experts in
 * registers; lane i gets choice number i, and its score. */
template <int PER_LANE>
static __device__ __forceinline__ void choose(const ln_op_route &p, const float *contest,
                                              const float *scores, int *expert, float *weight) {
    const unsigned all = 0xffffffffu, none = ordered(-INFINITY);
    unsigned lane = threadIdx.x, keys[PER_LANE];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        size_t at = lane + (size_t)i * LN_WARP;
        keys[i] = at < p.n_experts ? ordered(contest[at]) : 0;
    }
    for (size_t choice = 0; choice < p.n_used; choice++) {
        unsigned most = 0, at = all;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (keys[i] > most || (i == 0 && lane < p.n_experts))
                most = keys[i], at = lane + (unsigned)i * LN_WARP;
        unsigned largest = __reduce_max_sync(all, most);
        unsigned best = __reduce_min_sync(all, most == largest ? at : all);
        if (lane == choice)
            *expert = (int)best, *weight = scores[best];
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            if (best == lane + (unsigned)i * LN_WARP)
                keys[i] = none;
    }
}

/* Weights of the chosen experts, a lane for each, as expert_weights finds them. */
static __device__ float lane_weight(const ln_op_route &p, const float *scores, int expert,
                                    float weight, float *shared) {
    const unsigned all = 0xffffffffu;
    float total = 0.0f, largest = __shfl_sync(all, weight, 0);
    if (p.router == LN_ROUTER_SOFTMAX_CHOSEN)
        weight = expf(weight - largest);
    if (p.router == LN_ROUTER_SIGMOID_CHOSEN)
        weight = 1.0f / (1.0f + expf(-weight));
    for (size_t i = 0; i < p.n_used; i++)
        total += __shfl_sync(all, weight, (int)i);
    total = add_shared(p, scores, total);
    weight = scale_weight(p, weight, total);
    for (size_t i = threadIdx.x; i < p.n_shared; i += LN_WARP)
        shared[i] = scale_weight(p, scores[p.n_experts + i], total);
    return p.expert_scale != NULL && threadIdx.x < p.n_used ? weight * p.expert_scale[expert]
                                                            : weight;
}

enum { EXPERTS_OF_LANES = 16 * LN_WARP }; /* whose keys are in registers */

/* Up to 32 choices of up to EXPERTS_OF_LANES experts; `own` are the token's by a table, or NULL. */
static __device__ void route_by_lanes(const ln_op_route &p, const float *contest,
                                      const float *scores, const int32_t *own, int32_t *experts,
                                      float *weights, float *shared) {
    int expert = own != NULL && threadIdx.x < p.n_used ? own[threadIdx.x] : 0;
    float weight = scores[expert];
    if (own == NULL && p.n_experts <= 4 * LN_WARP)
        choose<4>(p, contest, scores, &expert, &weight);
    else if (own == NULL && p.n_experts <= 8 * LN_WARP)
        choose<8>(p, contest, scores, &expert, &weight);
    else if (own == NULL)
        choose<16>(p, contest, scores, &expert, &weight);
    weight = lane_weight(p, scores, expert, weight, shared);
    if (threadIdx.x < p.n_used) {
        experts[threadIdx.x] = expert;
        weights[threadIdx.x] = weight;
    }
}

typedef struct route_args {
    ln_op_route op;
    const int32_t *tokens; /* [n_tokens] ids */
} route_args;

/* Floats that a warp needs: scores of all experts, contest and group scores of those it chooses. */
static size_t route_floats(const ln_op_route *p) {
    return 3 * p->n_experts + p->n_shared;
}

/* A token's experts, by a warp; scores [route_floats]: of the warp. */
static __device__ __forceinline__ void route_token(const route_args &args, size_t token,
                                                   float *scores) {
    const ln_op_route &p = args.op;
    const int32_t *own =
        p.by_token != NULL ? p.by_token + (size_t)args.tokens[token] * p.n_used : NULL;
    size_t n_scores = p.n_experts + p.n_shared;
    float *contest = scores + n_scores;
    int32_t *experts = p.experts + token * p.n_used;
    float *weights = p.weights + token * p.n_used;
    float *shared = p.n_shared > 0 ? p.shared_weights + token * p.n_shared : NULL;
    score_experts(p, p.logits + token * n_scores, scores);
    for (size_t i = threadIdx.x; i < p.n_experts; i += LN_WARP)
        contest[i] = scores[i] + (p.bias != NULL ? p.bias[i] : 0.0f);
    __syncwarp();
    if (p.n_groups > 0)
        drop_groups(p, contest, contest + p.n_experts);
    if (p.router != LN_ROUTER_SPARSEMIXER && p.n_experts <= EXPERTS_OF_LANES &&
        p.n_used <= min((size_t)LN_WARP, p.n_experts)) {
        route_by_lanes(p, contest, scores, own, experts, weights, shared);
        return;
    }
    for (size_t i = 0; i < p.n_used; i++) {
        size_t best = own != NULL ? (size_t)own[i] : best_of(contest, p.n_experts);
        float weight = scores[best];
        if (p.router == LN_ROUTER_SPARSEMIXER)
            weight = mix_sparsely(p, scores, contest, best);
        __syncwarp();
        if (threadIdx.x == 0) {
            contest[best] = -INFINITY;
            experts[i] = (int32_t)best;
            weights[i] = weight;
        }
        __syncwarp();
    }
    if (threadIdx.x == 0)
        expert_weights(p, scores, experts, weights, shared);
}

/* Grid: a warp per token. Shared memory: route_floats. */
static __global__ void route(const __grid_constant__ route_args p) {
    extern __shared__ float scores[];
    ln_pdl_launch_and_wait();
    route_token(p, blockIdx.x, scores);
}

int ln_cuda_route(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    size_t shared = route_floats(&op->route) * sizeof(float);
    route_args args = {op->route, step->batch.tokens};
    return ln_pdl_launch(route, dim3((unsigned)step->batch.n_tokens), LN_WARP, shared, stream,
                         args);
}

/* ---- group ----------------------------------------------------------------------------------- */

enum { MAX_GROUP_WARPS = 16, GROUP_SHARED = 48 * 1024 };

/* A row's expert among those that are sorted, or -1. */
static __device__ int expert_of(const ln_op_group &p, size_t row) {
    size_t expert = (size_t)p.experts[row] - p.first_expert;
    return expert < p.n_experts ? (int)expert : -1;
}

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
static_assert((int)SMALL_BATCH_ROWS == (int)LN_WARP, "a lane of every warp has a row");

/* The same of up to SMALL_BATCH_ROWS rows, by a block of n_threads. */
static __device__ __forceinline__ void group_in_block(const ln_op_group &p, unsigned thread,
                                                      unsigned n_threads) {
    const unsigned all = 0xffffffffu;
    unsigned lane = thread % LN_WARP, n_rows = (unsigned)p.n_rows, n_less = 0, n_before = 0;
    int own = lane < n_rows ? expert_of(p, lane) : -1;
    own = own >= 0 ? own : INT32_MAX;
    for (unsigned first = 0; first <= p.n_experts; first += n_threads) {
        unsigned expert = first + thread;
        int start = 0;
        for (unsigned row = 0; row < n_rows; row++)
            start += __shfl_sync(all, own, (int)row) < (int)expert;
        if (expert <= p.n_experts)
            p.starts[expert] = start;
    }
    for (unsigned row = 0; row < n_rows; row++) {
        int other = __shfl_sync(all, own, (int)row);
        n_less += other < own;
        n_before += other == own && row < lane;
    }
    if (thread < LN_WARP && own != INT32_MAX)
        p.order[n_less + n_before] = (int32_t)lane;
}

/* Grid 1. */
static __global__ void group_small_batch(const __grid_constant__ ln_op_group p) {
    ln_pdl_launch_and_wait();
    group_in_block(p, threadIdx.x, SMALL_BATCH_THREADS);
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

/* Of one token: a warp. Shared memory: route_floats. */
static __global__ void route_and_group(const __grid_constant__ choice p) {
    extern __shared__ float scores[];
    ln_pdl_launch_and_wait();
    route_token(p.route, 0, scores);
    __syncwarp();
    group_in_block(p.group, threadIdx.x, LN_WARP);
}

int ln_cuda_route_group(const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream) {
    choice args = {{ops[0].route, step->batch.tokens}, ops[1].group};
    return ln_pdl_launch(route_and_group, dim3(1), LN_WARP,
                         route_floats(&args.route.op) * sizeof(float), stream, args);
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
        group_in_block(p.both.group, threadIdx.x, LN_WARP);
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
                         route_floats(&ops[0].route) * sizeof(float), stream, args);
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
