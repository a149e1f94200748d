/* The usual way from logits to a token, as host and devices share it. */
#ifndef LN_BASE_DRAW_H
#define LN_BASE_DRAW_H

#include <stdint.h>

/* How a row of logits becomes a token: the best one at temperature 0; else the top_k best (0 <
 * top_k
 * <= LN_DRAW_MOST) are weighed by e^((logit - best) / temperature), rounded to a multiple of 2^-32,
 * so that sums are exact in any order. Of these the shortest front part stays that has the share
 * top_p of all weights, at 1 all, then what weighs at least min_p. The token is the first by id up
 * to which more than the share `uniform` of what stayed lies. */
enum { LN_DRAW_MOST = 1024 };
typedef struct ln_draw {
    float temperature, top_p, min_p, uniform;
    uint32_t top_k;
} ln_draw;

#endif
