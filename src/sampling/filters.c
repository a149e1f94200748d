#include "sampling/filters.h"

#include <float.h>
#include <math.h>

#include "sampling/select.h"

double ln_total_weight(const ln_candidate *candidates, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += candidates[i].weight;
    return sum;
}

size_t ln_filter_weight(ln_candidate *candidates, size_t n, double least) {
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight >= least)
            candidates[n_kept++] = candidates[i];
    return n_kept;
}

size_t ln_filter_min(ln_candidate *candidates, size_t n, double share) {
    double greatest = 0;
    for (size_t i = 0; i < n; i++)
        greatest = candidates[i].weight > greatest ? candidates[i].weight : greatest;
    return ln_filter_weight(candidates, n, share * greatest);
}

/* Not suppressed: suppressed tokens have -INFINITY, or -FLT_MAX from the model. */
static bool is_possible(double logit) {
    return isfinite(logit) && logit > -FLT_MAX;
}

size_t ln_filter_sigma(ln_candidate *candidates, size_t n, double n_sigma) {
    double best = -INFINITY, sum = 0, squares = 0;
    size_t n_possible = 0;
    for (size_t i = 0; i < n; i++) {
        double logit = (double)candidates[i].logit;
        best = logit > best ? logit : best;
        sum += is_possible(logit) ? logit : 0;
        n_possible += is_possible(logit) ? 1 : 0;
    }
    double mean = n_possible > 0 ? sum / (double)n_possible : 0;
    for (size_t i = 0; i < n; i++) {
        double logit = (double)candidates[i].logit, below = logit - mean;
        squares += is_possible(logit) ? below * below : 0;
    }
    double sigma = n_possible > 0 ? sqrt(squares / (double)n_possible) : 0;
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)candidates[i].logit >= best - n_sigma * sigma)
            candidates[n_kept++] = candidates[i];
    return n_kept;
}

/* The logarithm of a weight. */
static double log_weight(float logit, float best, float temperature) {
    return logit == best ? 0 : ((double)logit - (double)best) / (double)temperature;
}

/* With x the logarithm of a weight, surprise minus entropy is (log total - x) - (log total - mean
 * of x): the total falls out. */
size_t ln_filter_typical(ln_candidate *candidates, size_t n, double mass, const float *logits,
                         int32_t best, float temperature) {
    double total = ln_total_weight(candidates, n), mean = 0;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight > 0)
            mean += candidates[i].weight / total *
                    log_weight(candidates[i].logit, logits[best], temperature);
    for (size_t i = 0; i < n; i++) { /* the selection puts the highest first */
        double x = log_weight(candidates[i].logit, logits[best], temperature);
        candidates[i].logit = candidates[i].weight > 0 ? (float)-fabs(x - mean) : -INFINITY;
    }
    n = ln_select_mass(candidates, n, mass * total);
    for (size_t i = 0; i < n; i++)
        candidates[i].logit = logits[candidates[i].id];
    return n;
}

size_t ln_filter_xtc(ln_candidate *candidates, size_t n, double threshold) {
    double least = threshold * ln_total_weight(candidates, n);
    const ln_candidate *last = NULL;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight >= least &&
            (last == NULL || ln_comes_before(last, &candidates[i])))
            last = &candidates[i];
    if (last == NULL)
        return n;
    const int32_t kept = last->id;
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight < least || candidates[i].id == kept)
            candidates[n_kept++] = candidates[i];
    return n_kept;
}
