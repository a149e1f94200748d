#include "sampling/sampler.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "sampling/select.h"

typedef struct sampler_layout {
    size_t candidates, marks;
} sampler_layout;

static sampler_layout lay_out(size_t n_vocab, ln_layout *layout) {
    sampler_layout s;
    s.candidates = ln_layout_add(layout, n_vocab, sizeof(ln_candidate));
    s.marks = ln_layout_add(layout, n_vocab, sizeof(uint32_t));
    return s;
}

void ln_sampler_plan(size_t n_vocab, ln_layout *layout) {
    lay_out(n_vocab, layout);
}

void ln_sampler_init(ln_sampler *sampler, size_t n_vocab, void *memory) {
    ln_layout layout = {0};
    sampler_layout s = lay_out(n_vocab, &layout);
    *sampler = (ln_sampler){
        .n_vocab = n_vocab,
        .candidates = (ln_candidate *)(void *)((char *)memory + s.candidates),
        .marks = (uint32_t *)(void *)((char *)memory + s.marks),
    };
}

static ln_status check_range(const char *name, float value, float min, float max, ln_error *err) {
    if (value >= min && value <= max) /* false for NaN */
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is %g; it must be from %g to %g", name,
                   (double)value, (double)min, (double)max);
}

static ln_status check_count(const char *name, int32_t value, ln_error *err) {
    if (value >= 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is %d; it must be 0 or more", name, (int)value);
}

ln_status ln_sampling_check(const linnet_sampling *sampling, ln_error *err) {
    const linnet_sampling *s = sampling;
    LN_TRY(check_range("temperature", s->temperature, 0, 1e6f, err));
    LN_TRY(check_count("top_k", s->top_k, err));
    LN_TRY(check_range("top_p", s->top_p, 0, 1, err));
    LN_TRY(check_range("min_p", s->min_p, 0, 1, err));
    LN_TRY(check_range("repeat_penalty", s->repeat_penalty, 1e-3f, 1e3f, err));
    LN_TRY(check_count("repeat_last_n", s->repeat_last_n, err));
    LN_TRY(check_range("frequency_penalty", s->frequency_penalty, -100, 100, err));
    return check_range("presence_penalty", s->presence_penalty, -100, 100, err);
}

static void penalize(ln_sampler *sampler, const linnet_sampling *s, const ln_sample_place *place,
                     float *logits) {
    size_t n = place->n_tokens;
    if (s->repeat_penalty == 1 && s->frequency_penalty == 0 && s->presence_penalty == 0)
        return;
    if (n > (size_t)s->repeat_last_n)
        n = (size_t)s->repeat_last_n;
    const int32_t *window = place->tokens + place->n_tokens - n;
    for (size_t i = 0; i < n; i++)
        sampler->marks[window[i]]++; /* occurrences */
    for (size_t i = 0; i < n; i++) {
        int32_t id = window[i];
        uint32_t count = sampler->marks[id];
        if (count == 0)
            continue; /* done at an earlier occurrence */
        float logit = logits[id];
        logit = logit > 0 ? logit / s->repeat_penalty : logit * s->repeat_penalty;
        logits[id] = logit - s->frequency_penalty * (float)count - s->presence_penalty;
        sampler->marks[id] = 0;
    }
}

/* The first in order. */
static ln_status find_best(const float *logits, size_t n_vocab, int32_t *best, ln_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (isnan(logits[i]))
            return ln_fail(err, LINNET_ERR_COMPUTE, "the logit of token %zu is not a number", i);
        if (logits[i] > logits[at])
            at = i;
    }
    if (logits[at] == -INFINITY)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the logits of all tokens are minus infinity");
    *best = (int32_t)at;
    return LINNET_OK;
}

/* e^x for x <= 0, by IEEE additions and multiplications only: x = n ln 2 + r with |r| <= ln 2 / 2,
 * and the Taylor series of e^r, whose error is below 1e-15 relative. */
static const double inverse_factorials[] = {1.0,
                                            1.0,
                                            1.0 / 2,
                                            1.0 / 6,
                                            1.0 / 24,
                                            1.0 / 120,
                                            1.0 / 720,
                                            1.0 / 5040,
                                            1.0 / 40320,
                                            1.0 / 362880,
                                            1.0 / 3628800,
                                            1.0 / 39916800,
                                            1.0 / 479001600,
                                            1.0 / 6227020800};

static double exp_nonpositive(double x) {
    if (!(x > -700))
        return 0;
    double n = floor(x * 1.4426950408889634 + 0.5);
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double sum = inverse_factorials[13];
    for (int k = 12; k >= 0; k--)
        sum = inverse_factorials[k] + sum * r;
    uint64_t bits = (uint64_t)(1023 + (int64_t)n) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

/* Gives candidates[n] their weights. Logits of plus infinity share everything. */
static void weigh(ln_candidate *candidates, size_t n, float best, float temperature) {
    for (size_t i = 0; i < n; i++) {
        float logit = candidates[i].logit;
        double below = logit == best ? 0 : (double)logit - (double)best;
        candidates[i].weight = exp_nonpositive(below / (double)temperature);
    }
}

static double total_weight(const ln_candidate *candidates, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += candidates[i].weight;
    return sum;
}

/* The weight that min_p asks for is a share of the best one's, which is 1. */
static size_t drop_below(ln_candidate *candidates, size_t n, double min_weight) {
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight >= min_weight)
            candidates[n_kept++] = candidates[i];
    return n_kept;
}

/* Inverts the distribution function over ascending ids, in whatever order the selection left the
 * candidates. */
static int32_t draw(ln_sampler *sampler, size_t n, float uniform) {
    const ln_candidate *candidates = sampler->candidates;
    uint32_t *places = sampler->marks; /* index + 1 of an id's candidate; 0: dropped */
    for (size_t i = 0; i < n; i++)
        places[candidates[i].id] = (uint32_t)(i + 1);
    double total = 0;
    for (size_t id = 0; id < sampler->n_vocab; id++)
        if (places[id] > 0)
            total += candidates[places[id] - 1].weight;
    double left = (double)uniform * total;
    int32_t drawn = -1;
    for (size_t id = 0; id < sampler->n_vocab; id++) {
        double weight = places[id] > 0 ? candidates[places[id] - 1].weight : 0;
        places[id] = 0;
        if (weight > 0 && left >= 0) {
            drawn = (int32_t)id;
            left -= weight;
        }
    }
    return drawn;
}

ln_status ln_sampler_sample(ln_sampler *sampler, const linnet_sampling *sampling,
                            const ln_sample_place *place, float *logits, int32_t *token,
                            ln_error *err) {
    const linnet_sampling *s = sampling;
    ln_candidate *candidates = sampler->candidates;
    size_t n = sampler->n_vocab;
    int32_t best = 0;
    penalize(sampler, s, place, logits);
    LN_TRY(find_best(logits, n, &best, err));
    *token = best;
    if (s->temperature == 0)
        return LINNET_OK;
    for (size_t i = 0; i < n; i++)
        candidates[i] = (ln_candidate){.logit = logits[i], .id = (int32_t)i};
    if (s->top_k > 0 && (size_t)s->top_k < n) {
        ln_select_count(candidates, n, (size_t)s->top_k);
        n = (size_t)s->top_k;
    }
    weigh(candidates, n, logits[best], s->temperature);
    if (s->top_p < 1)
        n = ln_select_mass(candidates, n, (double)s->top_p * total_weight(candidates, n));
    if (s->min_p > 0)
        n = drop_below(candidates, n, (double)s->min_p);
    *token = draw(sampler, n, ln_rng_uniform(s->seed, place->index, place->n_tokens, 0));
    return LINNET_OK;
}
