#include "sampling/sampler.h"

#include <math.h>
#include <string.h>

#include "base/portable_math.h"
#include "base/rng.h"
#include "sampling/filters.h"
#include "sampling/penalties.h"
#include "sampling/select.h"

/* Numbers of the draws of a position. */
enum { DRAW_TOKEN, DRAW_XTC };

typedef struct sampler_layout {
    size_t candidates, marks, raw, lengths;
} sampler_layout;

static sampler_layout lay_out(size_t n_vocab, size_t ctx_tokens, ln_layout *layout) {
    sampler_layout s;
    s.candidates = ln_layout_add(layout, n_vocab, sizeof(ln_candidate));
    s.marks = ln_layout_add(layout, n_vocab, sizeof(uint32_t));
    s.raw = ln_layout_add(layout, n_vocab, sizeof(float));
    s.lengths = ln_layout_add(layout, ctx_tokens, sizeof(uint32_t));
    return s;
}

void ln_sampler_plan(size_t n_vocab, size_t ctx_tokens, ln_layout *layout) {
    lay_out(n_vocab, ctx_tokens, layout);
}

void ln_sampler_init(ln_sampler *sampler, size_t n_vocab, size_t ctx_tokens, void *memory) {
    ln_layout layout = {0};
    sampler_layout s = lay_out(n_vocab, ctx_tokens, &layout);
    *sampler = (ln_sampler){
        .n_vocab = n_vocab,
        .candidates = (ln_candidate *)(void *)((char *)memory + s.candidates),
        .marks = (uint32_t *)(void *)((char *)memory + s.marks),
        .raw = (float *)(void *)((char *)memory + s.raw),
        .lengths = (uint32_t *)(void *)((char *)memory + s.lengths),
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
    LN_TRY(check_range("presence_penalty", s->presence_penalty, -100, 100, err));
    LN_TRY(check_range("typical_p", s->typical_p, 0, 1, err));
    LN_TRY(check_range("top_n_sigma", s->top_n_sigma, 0, 1e6f, err));
    LN_TRY(check_range("xtc_probability", s->xtc_probability, 0, 1, err));
    LN_TRY(check_range("xtc_threshold", s->xtc_threshold, 0, 1, err));
    LN_TRY(check_range("dry_multiplier", s->dry_multiplier, 0, 1e3f, err));
    if (s->dry_multiplier > 0)
        LN_TRY(check_range("dry_base", s->dry_base, 1, 1e3f, err));
    LN_TRY(check_count("dry_allowed_length", s->dry_allowed_length, err));
    LN_TRY(check_count("dry_last_n", s->dry_last_n, err));
    LN_TRY(check_range("mirostat_tau", s->mirostat_tau, 0, 100, err));
    return check_range("mirostat_eta", s->mirostat_eta, 0, 1, err);
}

/* The greatest of logits[n]; false when one of them is NaN. */
enum { LANES = 16 };
static bool greatest(const float *logits, size_t n, float *best) {
    float lanes[LANES];
    int n_nan[LANES] = {0};
    size_t i = 0;
    for (size_t lane = 0; lane < LANES; lane++)
        lanes[lane] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            float logit = logits[i + lane];
            lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];
            n_nan[lane] |= logit != logit;
        }
    for (; i < n; i++) {
        lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
        n_nan[0] |= isnan(logits[i]) != 0;
    }
    *best = lanes[0];
    for (size_t lane = 1; lane < LANES; lane++) {
        *best = lanes[lane] > *best ? lanes[lane] : *best;
        n_nan[0] |= n_nan[lane];
    }
    return n_nan[0] == 0;
}

ln_status ln_sampler_check_best(int32_t id, float logit, ln_error *err) {
    if (isnan(logit))
        return ln_fail(err, LINNET_ERR_COMPUTE, "the logit of token %d is not a number", (int)id);
    if (logit == -INFINITY)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the logits of all tokens are minus infinity");
    return LINNET_OK;
}

static void put_pair(int32_t *words, size_t at, int32_t id, float bias) {
    words[2 * at] = id;
    memcpy(&words[2 * at + 1], &bias, sizeof bias);
}

/* The rules as pairs of words; false: there are too many, or they look at the last tokens. */
static bool put_rules(const ln_sample_context *context, ln_draw *draw, int32_t *words) {
    const ln_token_rules *rules = context->rules;
    if (rules == NULL)
        return true;
    size_t n = 0, n_stops = context->n_tokens < rules->min_tokens ? rules->n_stop_ids : 0;
    if (rules->n_biases + rules->n_bad_words + n_stops > LN_DRAW_WORDS / 2)
        return false;
    for (size_t i = 0; i < rules->n_biases; i++)
        put_pair(words, n++, rules->biases[i].id, rules->biases[i].bias);
    for (size_t i = 0; i < rules->n_bad_words; i++) {
        if (rules->bad_ends[i] != i + 1) /* one of more than a token */
            return false;
        put_pair(words, n++, rules->bad_ids[i], NAN);
    }
    for (size_t i = 0; i < n_stops; i++)
        put_pair(words, n++, rules->stop_ids[i], NAN);
    draw->n_biases = (uint32_t)n;
    return true;
}

/* The tokens that are penalised but for the last, behind the rules. */
static bool put_penalties(const linnet_sampling *s, const ln_sample_context *context, ln_draw *draw,
                          int32_t *words) {
    size_t n = context->n_tokens, last_n = (size_t)s->repeat_last_n;
    bool has_penalties =
        s->repeat_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
    if (!has_penalties || last_n == 0 || n == 0)
        return true;
    n = n < last_n ? n : last_n;
    if (2 * (size_t)draw->n_biases + n > LN_DRAW_WORDS)
        return false;
    memcpy(words + 2 * (size_t)draw->n_biases, context->tokens + context->n_tokens - n,
           (n - 1) * sizeof *words);
    draw->n_said = (uint32_t)(n - 1);
    draw->penalizes = 1;
    draw->repeat = s->repeat_penalty;
    draw->frequency = s->frequency_penalty;
    draw->presence = s->presence_penalty;
    return true;
}

bool ln_sampler_is_draw(const linnet_sampling *s, const ln_sample_context *context, ln_draw *draw,
                        int32_t *words) {
    bool is_typical = s->typical_p > 0 && s->typical_p < 1;
    bool is_usual = s->top_k > 0 && s->top_k <= LN_DRAW_MOST && s->top_n_sigma == 0 &&
                    !is_typical && s->xtc_probability == 0 && s->mirostat_tau == 0;
    *draw = (ln_draw){.temperature = s->temperature,
                      .top_p = s->top_p,
                      .min_p = s->min_p,
                      .top_k = (uint32_t)s->top_k};
    if (s->dry_multiplier != 0 || (s->temperature > 0 && !is_usual) ||
        !put_rules(context, draw, words) || !put_penalties(s, context, draw, words))
        return false;
    if (s->temperature > 0)
        draw->uniform = ln_rng_uniform(s->seed, context->index, context->n_tokens, DRAW_TOKEN);
    return true;
}

/* The first in order. */
static ln_status find_best(const float *logits, size_t n_vocab, int32_t *best, ln_error *err) {
    float value;
    size_t at = 0;
    bool is_number = greatest(logits, n_vocab, &value);
    while (is_number ? logits[at] != value : !isnan(logits[at]))
        at++;
    *best = (int32_t)at;
    return ln_sampler_check_best(*best, logits[at], err);
}

/* Gives candidates[n] their weights. Logits of plus infinity share everything. */
static void exponentiate(ln_candidate *candidates, size_t n, float best, float temperature) {
    double some[LN_EXP_EACH] = {0};
    for (size_t begin = 0; begin < n; begin += LN_EXP_EACH) {
        size_t n_some = n - begin < LN_EXP_EACH ? n - begin : LN_EXP_EACH;
        for (size_t i = 0; i < n_some; i++) {
            float logit = candidates[begin + i].logit;
            some[i] = logit == best ? 0 : ((double)logit - (double)best) / (double)temperature;
        }
        ln_exp_nonpositive_each(some);
        for (size_t i = 0; i < n_some; i++)
            candidates[begin + i].weight = ln_round_weight(some[i]);
    }
}

static bool ids_ascend(const ln_candidate *candidates, size_t n) {
    size_t i = 1;
    while (i < n && candidates[i - 1].id < candidates[i].id)
        i++;
    return i >= n;
}

/* Few are sorted where they are; for many, marks say where an id's candidate is. */
static void sort_by_id(ln_sampler *sampler, size_t n) {
    enum { FEW = 256 };
    ln_candidate *candidates = sampler->candidates;
    if (ids_ascend(candidates, n))
        return;
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            ln_candidate held = candidates[i];
            size_t at = i;
            for (; at > 0 && candidates[at - 1].id > held.id; at--)
                candidates[at] = candidates[at - 1];
            candidates[at] = held;
        }
        return;
    }
    uint32_t *places = sampler->marks; /* index + 1 of an id's candidate; 0: dropped */
    for (size_t i = 0; i < n; i++)
        places[candidates[i].id] = (uint32_t)(i + 1);
    size_t n_sorted = 0;
    for (size_t id = 0; id < sampler->n_vocab; id++) {
        size_t from = places[id];
        places[id] = 0;
        if (from == 0)
            continue;
        ln_candidate held = candidates[n_sorted];
        candidates[n_sorted] = candidates[from - 1];
        candidates[from - 1] = held;
        n_sorted++;
        if (from != n_sorted && places[held.id] > 0) /* it waits where the other one was */
            places[held.id] = (uint32_t)from;
    }
}

/* Inverts the distribution function over ascending ids. */
static ln_candidate draw(ln_sampler *sampler, size_t n, float uniform) {
    const ln_candidate *candidates = sampler->candidates;
    sort_by_id(sampler, n);
    double left = (double)uniform * ln_total_weight(candidates, n);
    size_t last = 0; /* the last with a weight, lest rounding leaves none */
    for (size_t i = 0; i < n && left >= 0; i++) {
        if (!(candidates[i].weight > 0))
            continue;
        last = i;
        left -= candidates[i].weight;
    }
    return candidates[last];
}

/* All of logits[n], as candidates. */
static void take_all(ln_candidate *candidates, const float *logits, size_t n) {
    for (size_t i = 0; i < n; i++)
        candidates[i] = (ln_candidate){.logit = logits[i], .id = (int32_t)i};
}

/* Top-n-sigma and top-k of logits[n]; returns how many candidates they leave. */
static size_t choose(ln_candidate *candidates, const float *logits, size_t n,
                     const linnet_sampling *s) {
    size_t top_k = s->top_k > 0 ? (size_t)s->top_k : n;
    if (s->top_n_sigma == 0 && top_k <= n / 2) {
        ln_select_logits(logits, n, top_k, candidates);
        return top_k;
    }
    take_all(candidates, logits, n);
    if (s->top_n_sigma > 0)
        n = ln_filter_sigma(candidates, n, (double)s->top_n_sigma);
    if (top_k < n)
        ln_select_count(candidates, n, top_k);
    return top_k < n ? top_k : n;
}

/* Top-p. What together weighs less than the rest of the mass cannot be part of it, and goes first:
 * most of a vocabulary. Half of that leaves room for rounding. */
static size_t filter_mass(ln_candidate *candidates, size_t n, double share) {
    double total = ln_total_weight(candidates, n);
    n = ln_filter_weight(candidates, n, (1 - share) * total / (2 * (double)n));
    return ln_select_mass(candidates, n, share * total);
}

/* The filters of linnet_sampling, in its order; returns how many candidates they leave. */
static size_t filter(ln_candidate *candidates, const linnet_sampling *s,
                     const ln_sample_context *context, const float *logits, size_t n,
                     int32_t best) {
    n = choose(candidates, logits, n, s);
    exponentiate(candidates, n, logits[best], s->temperature);
    if (s->typical_p > 0 && s->typical_p < 1)
        n = ln_filter_typical(candidates, n, (double)s->typical_p, logits, best, s->temperature);
    if (s->top_p < 1)
        n = filter_mass(candidates, n, (double)s->top_p);
    if (s->min_p > 0)
        n = ln_filter_min(candidates, n, (double)s->min_p);
    if (s->xtc_probability > 0 &&
        ln_rng_uniform(s->seed, context->index, context->n_tokens, DRAW_XTC) < s->xtc_probability)
        n = ln_filter_xtc(candidates, n, (double)s->xtc_threshold);
    return n;
}

static double log2_of(double x) {
    return ln_log(x) * 1.4426950408889634;
}

/* Mirostat 2 (Basu et al., "Mirostat: a neural text decoding algorithm that directly controls
 * perplexity", 2021): keeps what surprises by at most mu bits, and moves mu by what was drawn. */
static int32_t draw_mirostat(ln_sampler *sampler, size_t n, const linnet_sampling *s,
                             const ln_sample_context *context, float uniform) {
    double tau = (double)s->mirostat_tau;
    double mu = 2 * tau - (double)s->mirostat_eta * *context->mirostat_excess;
    ln_candidate *candidates = sampler->candidates;
    double least = 1; /* the weight of the best, which always stays */
    if (mu > 0)
        least = ln_total_weight(candidates, n) * ln_exp_nonpositive(-mu * 0.6931471805599453);
    n = ln_filter_weight(candidates, n, least < 1 ? least : 1);
    ln_candidate drawn = draw(sampler, n, uniform);
    *context->mirostat_excess += log2_of(ln_total_weight(candidates, n) / drawn.weight) - tau;
    return drawn.id;
}

ln_status ln_sampler_sample(ln_sampler *sampler, const linnet_sampling *sampling,
                            const ln_sample_context *context, float *logits, int32_t *token,
                            ln_error *err) {
    const linnet_sampling *s = sampling;
    ln_candidate *candidates = sampler->candidates;
    size_t n = sampler->n_vocab;
    int32_t best = 0;
    ln_rules_apply(context, logits);
    ln_penalties_apply(s, context, sampler->marks, logits);
    ln_dry_apply(s, context, sampler->marks, sampler->lengths, logits);
    LN_TRY(find_best(logits, n, &best, err));
    *token = best;
    if (s->temperature == 0)
        return LINNET_OK;
    float uniform = ln_rng_uniform(s->seed, context->index, context->n_tokens, DRAW_TOKEN);
    if (s->mirostat_tau > 0) {
        take_all(candidates, logits, n);
        exponentiate(candidates, n, logits[best], s->temperature);
        *token = draw_mirostat(sampler, n, s, context, uniform);
        return LINNET_OK;
    }
    n = filter(candidates, s, context, logits, n, best);
    *token = draw(sampler, n, uniform).id;
    return LINNET_OK;
}
