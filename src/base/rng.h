/* Counter-based random numbers: the same key and counter give the same draw, whatever was drawn
 * before. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
#ifndef LN_BASE_RNG_H
#define LN_BASE_RNG_H

#include <stdint.h>

/* Four words for (key, counter). */
void ln_rng_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* A float in [0, 1) for one draw of one sequence: keyed by (seed, index in group, position,
 * draw), so that it does not depend on what else was sampled. */
float ln_rng_uniform(uint64_t seed, uint32_t index, uint64_t position, uint32_t draw);

#endif
