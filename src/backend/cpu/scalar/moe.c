/* Mixture of experts: choosing them, sorting the rows by expert, summing what they gave. The
 * experts themselves are linears over row groups. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"

/* scores[n] from logits[n] */
static void score_experts(const ln_op_route *p, const float *logits, float *scores) {
    size_t n = p->n_experts + p->n_shared;
    if (p->router == LN_ROUTER_SOFTMAX_CHOSEN || p->router == LN_ROUTER_SIGMOID_CHOSEN ||
        p->router == LN_ROUTER_SPARSEMIXER) {
        memcpy(scores, logits, n * sizeof *scores);
        return;
    }
    if (p->router == LN_ROUTER_ROOT_SOFTPLUS) {
        for (size_t i = 0; i < n; i++)
            scores[i] = sqrtf(fmaxf(logits[i], 0.0f) + log1pf(expf(-fabsf(logits[i]))));
        return;
    }
    if (p->router == LN_ROUTER_SIGMOID) {
        for (size_t i = 0; i < n; i++)
            scores[i] = 1.0f / (1.0f + expf(-logits[i]));
        return;
    }
    float largest = -INFINITY, total = 0.0f;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, logits[i]);
    for (size_t i = 0; i < n; i++)
        total += scores[i] = expf(logits[i] - largest);
    for (size_t i = 0; i < n; i++)
        scores[i] /= total;
}

/* The index of the largest, ties to the lower; NaN never wins over a number. */
static size_t best_of(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

/* Takes the experts of all but the best groups out of the contest, or lets them compete with 0. */
static void drop_groups(const ln_op_route *p, float *contest, float *group_scores) {
    size_t size = p->n_experts / p->n_groups;
    for (size_t group = 0; group < p->n_groups; group++) {
        float *x = contest + group * size;
        size_t first = best_of(x, size);
        group_scores[group] = x[first];
        if (!p->group_by_two || size < 2)
            continue;
        float second = -INFINITY;
        for (size_t i = 0; i < size; i++)
            if (i != first)
                second = fmaxf(second, x[i]);
        group_scores[group] += second;
    }
    for (size_t i = 0; i < p->n_groups_used; i++)
        group_scores[best_of(group_scores, p->n_groups)] = -INFINITY;
    for (size_t group = 0; group < p->n_groups; group++)
        for (size_t i = 0; i < size && group_scores[group] != -INFINITY; i++)
            contest[group * size + i] = p->zero_other_groups ? 0.0f : -INFINITY;
}

/* From the scores of the chosen experts, and of those that all tokens share, to their routing
 * weights. */
static void compute_weights(const ln_op_route *p, float *weights, float *shared) {
    float total = 0.0f;
    if (p->router == LN_ROUTER_SOFTMAX_CHOSEN) {
        float largest = weights[0]; /* best first */
        for (size_t i = 0; i < p->n_used; i++)
            weights[i] = expf(weights[i] - largest);
    }
    if (p->router == LN_ROUTER_SIGMOID_CHOSEN)
        for (size_t i = 0; i < p->n_used; i++)
            weights[i] = 1.0f / (1.0f + expf(-weights[i]));
    for (size_t i = 0; i < p->n_used; i++)
        total += weights[i];
    for (size_t i = 0; i < p->n_shared; i++)
        total += shared[i];
    if (p->router == LN_ROUTER_SIGMOID || p->router == LN_ROUTER_ROOT_SOFTPLUS)
        total += 1e-20f;
    bool normalize = p->normalize || p->router == LN_ROUTER_SOFTMAX_CHOSEN;
    for (size_t i = 0; i < p->n_used; i++)
        weights[i] = (normalize ? weights[i] / total : weights[i]) * p->scale;
    for (size_t i = 0; i < p->n_shared; i++)
        shared[i] = (normalize ? shared[i] / total : shared[i]) * p->scale;
}

/* The weight of the largest of the `left` logits, those taken before being minus infinity there, in
 * a softmax over what comes near it. */
static float mix_sparsely(const ln_op_route *p, const float *logits, const float *left,
                          size_t best) {
    float total = 0.0f, largest = left[best];
    for (size_t i = 0; i < p->n_experts; i++) {
        float behind = (largest - logits[i]) / fmaxf(fabsf(logits[i]), largest);
        if (!(behind > 2.0f * p->jitter))
            total += expf(left[i] - largest);
    }
    return 1.0f / total;
}

/* The best of the contest, with what makes their weights. */
static void choose(const ln_op_route *p, const float *scores, float *contest, int32_t *experts,
                   float *weights) {
    for (size_t i = 0; i < p->n_experts; i++)
        contest[i] = scores[i] + (p->bias != NULL ? p->bias[i] : 0.0f);
    if (p->n_groups > 0)
        drop_groups(p, contest, contest + p->n_experts);
    for (size_t i = 0; i < p->n_used; i++) {
        size_t best = best_of(contest, p->n_experts);
        experts[i] = (int32_t)best;
        weights[i] = p->router == LN_ROUTER_SPARSEMIXER ? mix_sparsely(p, scores, contest, best)
                                                        : scores[best];
        contest[best] = -INFINITY;
    }
}

void ln_scalar_route(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_route *p = &op->route;
    size_t n_scores = p->n_experts + p->n_shared;
    float *scores = worker->scratch, *contest = scores + n_scores;
    size_t begin, end;
    ln_cpu_share(worker, op->batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        int32_t *experts = p->experts + token * p->n_used;
        float *weights = p->weights + token * p->n_used, *shared = NULL;
        score_experts(p, p->logits + token * n_scores, scores);
        if (p->by_token == NULL)
            choose(p, scores, contest, experts, weights);
        const int32_t *own = p->by_token != NULL
                                 ? p->by_token + (size_t)op->batch->tokens[token] * p->n_used
                                 : experts;
        for (size_t i = 0; i < p->n_used && p->by_token != NULL; i++) {
            experts[i] = own[i];
            weights[i] = scores[own[i]];
        }
        if (p->n_shared > 0) {
            shared = p->shared_weights + token * p->n_shared;
            memcpy(shared, scores + p->n_experts, p->n_shared * sizeof *shared);
        }
        compute_weights(p, weights, shared);
        for (size_t i = 0; i < p->n_used && p->expert_scale != NULL; i++)
            weights[i] *= p->expert_scale[experts[i]];
    }
}

static bool is_grouped(const ln_op_group *p, size_t row) {
    size_t expert = (size_t)p->experts[row];
    return expert >= p->first_expert && expert < p->first_expert + p->n_experts;
}

/* A counting sort, which one worker does: the rows are few beside the experts' work. */
void ln_scalar_group(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_group *p = &op->group;
    if (worker->index != 0)
        return;
    memset(p->starts, 0, (p->n_experts + 1) * sizeof *p->starts);
    for (size_t row = 0; row < p->n_rows; row++)
        if (is_grouped(p, row))
            p->starts[(size_t)p->experts[row] - p->first_expert]++;
    int32_t total = 0;
    for (size_t expert = 0; expert <= p->n_experts; expert++) {
        total += p->starts[expert];
        p->starts[expert] = total; /* the end of this expert's rows */
    }
    for (size_t row = p->n_rows; row-- > 0;)
        if (is_grouped(p, row))
            p->order[--p->starts[(size_t)p->experts[row] - p->first_expert]] = (int32_t)row;
}

void ln_scalar_combine(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_combine *p = &op->combine;
    size_t begin, end;
    ln_cpu_share(worker, op->batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        const float *x = p->x + token * p->n_used * p->dim;
        const float *weights = p->weights != NULL ? p->weights + token * p->n_used : NULL;
        float shared_weight =
            p->shared_gate != NULL ? 1.0f / (1.0f + expf(-p->shared_gate[token])) : 1.0f;
        for (size_t i = 0; i < p->dim; i++) {
            float sum = 0.0f;
            for (size_t choice = 0; choice < p->n_used; choice++)
                if (ln_combine_takes(p, token, choice))
                    sum += (weights != NULL ? weights[choice] : 1.0f) * x[choice * p->dim + i];
            if (p->shared != NULL)
                sum += shared_weight * p->shared[token * p->dim + i];
            sum *= p->scale;
            size_t at = token * p->dim + i;
            p->out[at] = p->residual != NULL ? p->residual[at] + sum : sum;
        }
    }
}
