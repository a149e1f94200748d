/* What the writers of packed panels (backend/cpu/pack_write.h) share: steps of 16 rows. Written for
 * vectors of 16 bytes, which every processor has. */
#ifndef LN_BACKEND_CPU_PACK_STEPS_H
#define LN_BACKEND_CPU_PACK_STEPS_H

#include <string.h>

#include "backend/cpu/pack.h"

enum { LANES = LN_PANEL_ROWS, STEP_BYTES = 64 };

/* 16 quants of one row, 4 steps of 4. */
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));

static inline bytes16 load16(const uint8_t *p) {
    bytes16 x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The first n_steps of 4 steps of 16 rows: out[step][lane] = word `step` of q[lane]. */
static inline void put_steps(const bytes16 q[LANES], size_t n_steps, uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane += 4) {
        words4 a = (words4)q[lane], b = (words4)q[lane + 1];
        words4 c = (words4)q[lane + 2], d = (words4)q[lane + 3];
        words4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        words4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        words4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        words4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        words4 steps[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                           __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                           __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                           __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
        for (size_t step = 0; step < n_steps; step++)
            memcpy(out + step * STEP_BYTES + lane * 4, &steps[step], sizeof steps[step]);
    }
}

/* The low 2 bits of steps i, i + 2, i + 4 and i + 6 share a vector. */
static inline void put_twos(uint8_t q[LANES][32], uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane++) {
        words4 low = (words4)(load16(q[lane]) & 3), high = (words4)(load16(q[lane] + 16) & 3);
        for (size_t i = 0; i < 2; i++) {
            uint32_t all = low[i] | low[i + 2] << 2 | high[i] << 4 | high[i + 2] << 6;
            memcpy(out + i * STEP_BYTES + lane * 4, &all, sizeof all);
        }
    }
}

/* Block `block` of each row, `bytes` long; of a row that is not there, zeros. */
static inline const uint8_t *block_of(const uint8_t *const rows[LANES], size_t lane, size_t block,
                                      size_t bytes) {
    static const uint8_t zeros[256];
    return rows[lane] != NULL ? rows[lane] + block * bytes : zeros;
}

#endif
