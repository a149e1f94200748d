/* Selection among candidates: the front part of their order without sorting them. */
#ifndef LN_SAMPLING_SELECT_H
#define LN_SAMPLING_SELECT_H

#include "sampling/candidate.h"

/* The order: higher logit first, among equals the lower id. */
bool ln_comes_before(const ln_candidate *a, const ln_candidate *b);

/* Moves the first `count` of the order (0 < count <= n) to the front, in no particular order. */
void ln_select_count(ln_candidate *candidates, size_t n, size_t count);

/* Writes the first `count` of the order of logits[n] (0 < count, 2 * count <= n), none NaN, to
 * candidates [2 * count], in no particular order and without weights. */
void ln_select_logits(const float *logits, size_t n, size_t count, ln_candidate *candidates);

/* Moves the shortest prefix of the order whose weights sum to at least `mass` to the front, in no
 * particular order; returns its length, at least 1. */
size_t ln_select_mass(ln_candidate *candidates, size_t n, double mass);

#endif
