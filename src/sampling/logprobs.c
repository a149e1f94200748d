#include "sampling/logprobs.h"

#include <math.h>
#include <string.h>

#include "base/portable_math.h"
#include "sampling/select.h"

static double log_of(uint64_t total) {
    return ln_log((double)total * 0x1p-40);
}

/* The logarithm of the sum of exponentials, less the best logit. They are rounded, so that the sum
 * has the same bits in any order, a device's too. */
static double log_total(const float *logits, size_t n, float best) {
    double some[LN_EXP_EACH] = {0};
    uint64_t total = 0;
    for (size_t begin = 0; begin < n; begin += LN_EXP_EACH) {
        size_t n_some = n - begin < LN_EXP_EACH ? n - begin : LN_EXP_EACH;
        for (size_t i = 0; i < n_some; i++) {
            float logit = logits[begin + i];
            some[i] = logit == best ? 0 : (double)logit - (double)best;
        }
        ln_exp_nonpositive_each(some);
        double sum = 0;
        for (size_t i = 0; i < n_some; i++)
            sum += ln_round_fine(some[i]);
        total += (uint64_t)(sum * 0x1p40);
    }
    return log_of(total);
}

float ln_logprobs_get(const ln_sampler *sampler, int32_t token) {
    float logit = sampler->raw[token], best = sampler->raw_best;
    if (!(best > -INFINITY))
        return -INFINITY;
    double below = logit == best ? 0 : (double)logit - (double)best;
    return (float)(below - sampler->raw_log_total);
}

void ln_logprobs_get_all(const ln_sampler *sampler, float *logprobs) {
    for (size_t i = 0; i < sampler->n_vocab; i++)
        logprobs[i] = ln_logprobs_get(sampler, (int32_t)i);
}

/* candidates[n] is short. */
static void sort(ln_candidate *candidates, size_t n) {
    for (size_t i = 1; i < n; i++) {
        ln_candidate held = candidates[i];
        size_t at = i;
        for (; at > 0 && ln_comes_before(&held, &candidates[at - 1]); at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = held;
    }
}

void ln_logprobs_select(ln_sampler *sampler, const float *values, linnet_logprob *top,
                        size_t n_top) {
    size_t n = sampler->n_vocab;
    ln_candidate *candidates = sampler->candidates;
    if (n_top == 0)
        return;
    if (n_top <= n / 2) {
        ln_select_logits(values, n, n_top, candidates);
    } else {
        for (size_t i = 0; i < n; i++)
            candidates[i] = (ln_candidate){.logit = values[i], .id = (int32_t)i};
        ln_select_count(candidates, n, n_top);
    }
    sort(candidates, n_top);
    for (size_t i = 0; i < n_top; i++)
        top[i] = (linnet_logprob){.id = candidates[i].id, .logprob = candidates[i].logit};
}

void ln_logprobs_take(ln_sampler *sampler, const float *logits, linnet_logprob *top, size_t n_top) {
    size_t n = sampler->n_vocab;
    float best = -INFINITY;
    memcpy(sampler->raw, logits, n * sizeof *logits);
    for (size_t i = 0; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    sampler->raw_best = best;
    sampler->raw_log_total = best > -INFINITY ? log_total(logits, n, best) : 0;
    ln_logprobs_select(sampler, logits, top, n_top);
    for (size_t i = 0; i < n_top; i++)
        top[i].logprob = ln_logprobs_get(sampler, top[i].id);
}

void ln_logprobs_put(ln_sampler *sampler, const ln_draw_report *report, int32_t token,
                     linnet_logprob *top, size_t n_top) {
    sampler->raw_best = report->best;
    sampler->raw_log_total = report->best > -INFINITY ? log_of(report->total) : 0;
    for (size_t i = 0; i < n_top; i++) {
        sampler->raw[report->top[i]] = report->logits[i];
        top[i].id = report->top[i];
        top[i].logprob = ln_logprobs_get(sampler, report->top[i]);
    }
    sampler->raw[token] = report->chosen;
}
