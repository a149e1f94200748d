#include "sampling/penalties.h"

#include <math.h>
#include <string.h>

#include "base/portable_math.h"

void ln_rules_apply(const ln_sample_context *context, float *logits) {
    const ln_token_rules *rules = context->rules;
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->n_biases; i++)
        logits[rules->biases[i].id] += rules->biases[i].bias;
    size_t begin = 0;
    for (size_t i = 0; i < rules->n_bad_words; i++) {
        const int32_t *word = rules->bad_ids + begin;
        size_t n_before = rules->bad_ends[i] - begin - 1;
        begin = rules->bad_ends[i];
        if (n_before <= context->n_tokens &&
            memcmp(word, context->tokens + context->n_tokens - n_before, n_before * sizeof *word) ==
                0)
            logits[word[n_before]] = -INFINITY;
    }
    if (context->n_tokens < rules->min_tokens)
        for (size_t i = 0; i < rules->n_stop_ids; i++)
            logits[rules->stop_ids[i]] = -INFINITY;
}

void ln_penalties_apply(const linnet_sampling *s, const ln_sample_context *context,
                        uint32_t *counts, float *logits) {
    size_t n = context->n_tokens;
    if (s->repeat_penalty == 1 && s->frequency_penalty == 0 && s->presence_penalty == 0)
        return;
    if (n > (size_t)s->repeat_last_n)
        n = (size_t)s->repeat_last_n;
    const int32_t *window = context->tokens + context->n_tokens - n;
    for (size_t i = 0; i < n; i++)
        counts[window[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t id = window[i];
        uint32_t count = counts[id];
        if (count == 0)
            continue; /* done at an earlier occurrence */
        float logit = logits[id];
        logit = logit > 0 ? logit / s->repeat_penalty : logit * s->repeat_penalty;
        logits[id] = logit - s->frequency_penalty * (float)count - s->presence_penalty;
        counts[id] = 0;
    }
}

/* Tokens at the end of the text before which a breaker stands. */
static size_t unbroken(const ln_token_rules *rules, const int32_t *tokens, size_t n_tokens) {
    for (size_t n = 0; rules != NULL && n < n_tokens; n++)
        for (size_t i = 0; i < rules->n_dry_breakers; i++)
            if (tokens[n_tokens - 1 - n] == rules->dry_breakers[i])
                return n;
    return n_tokens;
}

/* lengths[i] = how many tokens before the last i equal the last ones (the Z algorithm of Gusfield,
 * 1997, on the tokens read backwards). */
static void match_ends(const int32_t *last, size_t n, uint32_t *lengths) {
    size_t begin = 0, end = 0; /* the match that reaches furthest back */
    for (size_t i = 1; i < n; i++) {
        size_t length = 0;
        if (i < end)
            length = lengths[i - begin] < end - i ? lengths[i - begin] : end - i;
        while (i + length < n && *(last - length) == *(last - i - length))
            length++;
        if (i + length > end) {
            begin = i;
            end = i + length;
        }
        lengths[i] = (uint32_t)length;
    }
}

void ln_dry_apply(const linnet_sampling *s, const ln_sample_context *context, uint32_t *counts,
                  uint32_t *lengths, float *logits) {
    size_t n = context->n_tokens;
    if (s->dry_multiplier == 0 || n < 2)
        return;
    if (n > (size_t)s->dry_last_n)
        n = (size_t)s->dry_last_n;
    const int32_t *end = context->tokens + context->n_tokens;
    size_t most = unbroken(context->rules, end - n, n);
    size_t allowed = (size_t)s->dry_allowed_length;
    if (most < allowed || n < 2)
        return;
    match_ends(end - 1, n, lengths);
    for (size_t i = 1; i < n; i++) {
        size_t length = lengths[i] < most ? lengths[i] : most;
        uint32_t *longest = &counts[*(end - i)]; /* of repetitions that this id prolongs */
        if (length > *longest)
            *longest = (uint32_t)length;
    }
    for (size_t i = 1; i < n; i++) {
        int32_t id = *(end - i);
        uint32_t length = counts[id];
        counts[id] = 0;
        if (length == 0 || length < allowed)
            continue;
        double penalty =
            (double)s->dry_multiplier * ln_power((double)s->dry_base, length - (uint32_t)allowed);
        logits[id] = penalty < 1e30 ? logits[id] - (float)penalty : -INFINITY;
    }
}
