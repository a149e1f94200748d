/* The usual way from logits to a token, as host and devices share it. */
#ifndef LN_BASE_DRAW_H
#define LN_BASE_DRAW_H

#include <stdint.h>

/* Most candidates of a draw; words of its edits; and tokens of its report. */
enum { LN_DRAW_MOST = 1024, LN_DRAW_WORDS = 1024, LN_DRAW_TOP = 20 };

/* How a row of logits becomes a token.
 *
 * First come edits, which lie at words[LN_DRAW_WORDS * edits_at]: n_biases pairs of an id and the
 * bits of a float, which is added to the id's logit, or, where it is NaN, makes it minus infinity;
 * then n_said ids that came before, as often as they came. With `penalizes` these and the row's own
 * token, the last that came, are made less likely: a positive logit is divided by `repeat`, another
 * one multiplied; then `frequency` is taken off for each time that the token came, and `presence`
 * once.
 *
 * Then the best one is taken at temperature 0; else the top_k best (0 < top_k <= LN_DRAW_MOST) are
 * weighted by e^((logit - best) / temperature), rounded to a multiple of 2^-32, so that sums are
 * exact in any order. Of these the shortest front part stays that has the share top_p of all
 * weights, at 1 all, then what weighs at least min_p. The token is the first by id up to which more
 * than the share `uniform` of what stayed lies. */
typedef struct ln_draw {
    float temperature, top_p, min_p, uniform;
    uint32_t top_k;
    float repeat, frequency, presence;
    uint32_t penalizes;
    uint32_t edits_at, n_biases, n_said;
    uint32_t reports; /* 0: nobody asks for a report, else one more than the tokens of its top */
} ln_draw;

/* What logprobs are made of, from the logits before edits. */
typedef struct ln_draw_report {
    uint64_t total; /* of e^(logit - best) of all tokens, each rounded to a multiple of 2^-40, in
                       units of that */
    float best, chosen;        /* logits: the best, and that of the token which was taken */
    int32_t top[LN_DRAW_TOP];  /* the first in order: by logits, equal ones by their ids */
    float logits[LN_DRAW_TOP]; /* theirs */
} ln_draw_report;

#endif
