/* Filters of candidates beside top-k and top-p: each moves what it keeps to the front and returns
 * how many that are, at least 1. Weights are relative to that of the best token, which is 1. */
#ifndef LN_SAMPLING_FILTERS_H
#define LN_SAMPLING_FILTERS_H

#include "sampling/candidate.h"

double ln_total_weight(const ln_candidate *candidates, size_t n);

/* Those of at least this weight; the greatest weight is no less. */
size_t ln_filter_weight(ln_candidate *candidates, size_t n, double least);

/* Min-p: at least this share of the greatest weight (Nguyen et al., "Turning up the heat", 2024).
 */
size_t ln_filter_min(ln_candidate *candidates, size_t n, double share);

/* Top-n-sigma: logits within so many standard deviations, of the finite ones, of the best (Tang et
 * al., "Top-n sigma: not all logits are you need", 2024). Uses no weights. */
size_t ln_filter_sigma(ln_candidate *candidates, size_t n, double n_sigma);

/* Typical: the smallest set with the share `mass` whose surprise is nearest to the entropy, ties to
 * lower ids (Meister et al., "Locally typical sampling", 2022). logits[n_vocab], of which `best` is
 * the best, gave the weights. */
size_t ln_filter_typical(ln_candidate *candidates, size_t n, double mass, const float *logits,
                         int32_t best, float temperature);

/* XTC, "exclude top choices" (p-e-w, 2024): of those with at least the share `threshold` only the
 * last in order stays. */
size_t ln_filter_xtc(ln_candidate *candidates, size_t n, double threshold);

#endif
