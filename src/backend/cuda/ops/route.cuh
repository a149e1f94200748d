/* The choice of a token's experts (LN_OP_ROUTE), and the order of a few rows by expert
 * (LN_OP_GROUP), as parts of kernels. */
#ifndef LN_BACKEND_CUDA_OPS_ROUTE_CUH
#define LN_BACKEND_CUDA_OPS_ROUTE_CUH

#include "backend/cuda/ptx/reduce.cuh"
#include "backend/op.h"

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

/* A score that depends on its own logit alone: all routers' but LN_ROUTER_SOFTMAX. */
static __device__ __forceinline__ float score_alone(const ln_op_route &p, float logit) {
    if (p.router == LN_ROUTER_SIGMOID)
        return 1.0f / (1.0f + expf(-logit));
    if (p.router == LN_ROUTER_ROOT_SOFTPLUS)
        return sqrtf(fmaxf(logit, 0.0f) + log1pf(expf(-fabsf(logit))));
    return logit;
}

/* Scores of LN_ROUTER_SOFTMAX from logits; a lane has up to PER_LANE. One warp does this alone, so
 * that its chain of instructions counts: it has no branches, and one division. */
template <int PER_LANE>
static __device__ __forceinline__ void softmax_in_registers(const float *logits, unsigned n,
                                                            float *scores) {
    const unsigned lane = threadIdx.x;
    float x[PER_LANE], largest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        x[i] = lane + i * LN_WARP < n ? logits[lane + i * LN_WARP] : -INFINITY;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        largest = fmaxf(largest, x[i]);
    largest = ln_warp_max(largest);
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        x[i] = expf(x[i] - largest); /* 0 behind the last one */
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        total += x[i];
    const float inverse = 1.0f / ln_warp_sum(total);
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
        if (lane + i * LN_WARP < n)
            scores[lane + i * LN_WARP] = x[i] * inverse;
}

/* The same for any number of experts. */
static __device__ void softmax_many(const float *logits, size_t n, float *scores) {
    float largest = -INFINITY, total = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += LN_WARP)
        largest = fmaxf(largest, logits[i]);
    largest = ln_warp_max(largest);
    for (size_t i = threadIdx.x; i < n; i += LN_WARP)
        total += scores[i] = expf(logits[i] - largest);
    const float inverse = 1.0f / ln_warp_sum(total);
    for (size_t i = threadIdx.x; i < n; i += LN_WARP)
        scores[i] *= inverse;
}

/* scores[n] from logits[n] */
static __device__ void score_experts(const ln_op_route &p, const float *logits, float *scores) {
    const size_t n = p.n_experts + p.n_shared;
    if (p.router != LN_ROUTER_SOFTMAX) {
#pragma unroll 4
        for (size_t i = threadIdx.x; i < n; i += LN_WARP)
            scores[i] = score_alone(p, logits[i]);
    } else if (n <= 4 * LN_WARP) {
        softmax_in_registers<4>(logits, (unsigned)n, scores);
    } else if (n <= 8 * LN_WARP) {
        softmax_in_registers<8>(logits, (unsigned)n, scores);
    } else if (n <= 16 * LN_WARP) {
        softmax_in_registers<16>(logits, (unsigned)n, scores);
    } else {
        softmax_many(logits, n, scores);
    }
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
    const unsigned all = 0xffffffffu, none = ordered(-INFINITY), lane = threadIdx.x;
    const unsigned n_used = (unsigned)p.n_used, n_experts = (unsigned)p.n_experts;
    unsigned keys[PER_LANE];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        unsigned at = lane + (unsigned)i * LN_WARP;
        keys[i] = at < n_experts ? ordered(contest[at]) : 0;
    }
    unsigned found = 0;
    for (unsigned choice = 0; choice < n_used; choice++) {
        unsigned most[PER_LANE], at[PER_LANE]; /* a tree, whose chain is short; ties to the left */
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            most[i] = keys[i], at[i] = lane + (unsigned)i * LN_WARP;
#pragma unroll
        for (int step = 1; step < PER_LANE; step *= 2)
#pragma unroll
            for (int i = 0; i < PER_LANE; i += 2 * step)
                if (most[i + step] > most[i])
                    most[i] = most[i + step], at[i] = at[i + step];
        unsigned largest = __reduce_max_sync(all, most[0]);
        unsigned best =
            __reduce_min_sync(all, most[0] == largest && lane < n_experts ? at[0] : all);
        found = lane == choice ? best : found;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
            keys[i] = best == lane + (unsigned)i * LN_WARP ? none : keys[i];
    }
    if (lane < n_used)
        *expert = (int)found;
    *weight = scores[*expert];
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
#pragma unroll 4
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

/* Floats that a warp needs: scores of all experts, contest and group scores of those it chooses. */
static __host__ __device__ __forceinline__ size_t ln_route_floats(const ln_op_route &p) {
    return 3 * p.n_experts + p.n_shared;
}

/* Where a token's choice goes, [n_used], [n_used] and [n_shared]. */
typedef struct ln_route_result {
    int32_t *experts;
    float *weights, *shared;
} ln_route_result;

/* The experts of a token of which these are the logits, by the first warp of a block; id: the
 * token's; scores [ln_route_floats]. */
static __device__ __forceinline__ void ln_route_token(const ln_op_route &p, const float *logits,
                                                      const int32_t *id, float *scores,
                                                      const ln_route_result &to) {
    const int32_t *own = p.by_token != NULL ? p.by_token + (size_t)*id * p.n_used : NULL;
    const bool by_lanes = p.router != LN_ROUTER_SPARSEMIXER && p.n_experts <= EXPERTS_OF_LANES &&
                          p.n_used <= min((size_t)LN_WARP, p.n_experts);
    float *contest = scores;
    score_experts(p, logits, scores);
    if (p.bias != NULL || p.n_groups > 0 || !by_lanes) {
        contest = scores + p.n_experts + p.n_shared;
        for (size_t i = threadIdx.x; i < p.n_experts; i += LN_WARP)
            contest[i] = scores[i] + (p.bias != NULL ? p.bias[i] : 0.0f);
    }
    __syncwarp();
    if (p.n_groups > 0)
        drop_groups(p, contest, contest + p.n_experts);
    if (by_lanes) {
        route_by_lanes(p, contest, scores, own, to.experts, to.weights, to.shared);
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
            to.experts[i] = (int32_t)best;
            to.weights[i] = weight;
        }
        __syncwarp();
    }
    if (threadIdx.x == 0)
        expert_weights(p, scores, to.experts, to.weights, to.shared);
}

/* ---- group ----------------------------------------------------------------------------------- */

/* A row's expert among those that are sorted, or -1. */
static __device__ int expert_of(const ln_op_group &p, size_t row) {
    size_t expert = (size_t)p.experts[row] - p.first_expert;
    return expert < p.n_experts ? (int)expert : -1;
}

/* Sorts up to LN_WARP rows by expert, of which a lane of every warp has one, by n_threads of a
 * block. */
static __device__ __forceinline__ void ln_group_in_block(const ln_op_group &p, unsigned thread,
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

#endif
