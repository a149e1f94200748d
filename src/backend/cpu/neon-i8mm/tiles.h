/* Matrix products of I8MM: USMMLA multiplies 2 rows of W by 2 rows of x, 8 columns at once.
 *
 * 4 rows of x meet a panel of 16 rows of W. A block's sums are exact integers, so they are those of
 * the dot products, and so are the bits of the result, which folds them in the same way. */
#ifndef LN_BACKEND_CPU_NEON_I8MM_TILES_H
#define LN_BACKEND_CPU_NEON_I8MM_TILES_H

#include "backend/cpu/simd/bf16.h"
#include "backend/cpu/simd/int8.h"

enum { MATRIX_ROWS = 4, X_PAIRS = MATRIX_ROWS / 2, W_PAIRS = LANES / 2 };

LN_INLINE void matrix_begin(void) {}
LN_INLINE void matrix_end(void) {}

/* The sums of rows of x and W, 2 x 2 to a register: w0 x0, w0 x1, w1 x0, w1 x1. */
typedef struct pair_sums {
    int32x4_t q[X_PAIRS][W_PAIRS];
} pair_sums;

/* 8 columns of two rows of x. */
LN_INLINE int8x16_t x_pair(const int8_block *b, size_t lane, size_t column) {
    return vcombine_s8(vld1_s8(b->q[lane] + column), vld1_s8(b->q[lane + 1] + column));
}

/* Adds the products of two steps, 8 columns. */
LN_INLINE void add_steps(pair_sums *acc, const uint8_t *panel, size_t step, const int8_block *b,
                         size_t lane) {
    vi even = vi_load(panel + step * STEP_BYTES), odd = vi_load(panel + (step + 1) * STEP_BYTES);
    int8x16_t x[X_PAIRS];
    for (size_t i = 0; i < X_PAIRS; i++)
        x[i] = x_pair(b, lane + 2 * i, step * 4);
    for (size_t j = 0; j < W_PAIRS; j++) {
        int32x4_t e = even.q[j / 2], o = odd.q[j / 2];
        uint8x16_t w = vreinterpretq_u8_s32(j % 2 == 0 ? vzip1q_s32(e, o) : vzip2q_s32(e, o));
        for (size_t i = 0; i < X_PAIRS; i++)
            acc->q[i][j] = vusmmlaq_s32(acc->q[i][j], w, x[i]);
    }
}

/* The sums of one row of x. */
LN_INLINE vi row_of(const pair_sums *acc, size_t i) {
    vi y;
    for (size_t j = 0; j < QUADS; j++) {
        int32x4_t a = acc->q[i / 2][2 * j], b = acc->q[i / 2][2 * j + 1];
        y.q[j] = i % 2 == 0 ? vuzp1q_s32(a, b) : vuzp2q_s32(a, b);
    }
    return y;
}

/* Blocks of 4 rows of x, from `lane` of their group on, against as many of an unpacked panel: added
 * to y [4][UNIT], or put there when these are the first blocks. */
LN_INLINE void int8_matrix_of(int8_kind kind, const uint8_t *panel, const int8_block *b,
                              size_t lane, size_t n_blocks, bool first, float *y) {
    const size_t steps = STEPS / kind.n_scales;
    vf sums[MATRIX_ROWS];
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        sums[i] = first ? vf_set(0.0f) : vf_load(y + i * UNIT);
    for (const int8_block *end = b + n_blocks; b < end; b++, panel += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(panel + STEPS * STEP_BYTES);
#pragma GCC unroll 2
        for (size_t part = 0; part < kind.n_scales; part++) {
            pair_sums acc = {{{vdupq_n_s32(0)}}};
#pragma GCC unroll 4
            for (size_t step = part * steps; step < (part + 1) * steps; step += 2)
                add_steps(&acc, panel, step, b, lane);
            vf factor = vf_load(factors + part * LANES);
            for (size_t i = 0; i < MATRIX_ROWS; i++)
                sums[i] = fold(sums[i], vi_add(row_of(&acc, i), vi_set(b->start[part][lane + i])),
                               factor, b->scale[lane + i]);
        }
        if (kind.has_min)
            for (size_t i = 0; i < MATRIX_ROWS; i++)
                sums[i] = vf_fma(vf_load(factors + LANES), vf_set(b->min_sum[lane + i]), sums[i]);
    }
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        vf_store(y + i * UNIT, sums[i]);
}

/* n_rows of x, filled up to whole groups of 16, against n blocks, from number `first` on, of
 * unpacked panels: added to y [n_rows][UNIT], or put there when these are the first blocks. */
static void int8_matrix(ln_pack pack, size_t n_panels, const uint8_t *w, const int8_rows *x,
                        size_t n_rows, size_t first, size_t n, float *y) {
    int8_kind kind = int8_kind_of(pack);
    for (size_t p = 0; p < n_panels; p++, w += UNPACKED_PANEL, y += LANES)
        for (size_t row = 0; row < n_rows; row += MATRIX_ROWS) {
            const int8_block *b = x->blocks + row / GROUP_ROWS * x->n_blocks + first;
            size_t lane = row % GROUP_ROWS;
            float *out = y + row * UNIT;
            if (kind.has_min)
                int8_matrix_of((int8_kind){0, 1, true}, w, b, lane, n, first == 0, out);
            else if (kind.n_scales == 2)
                int8_matrix_of((int8_kind){0, 2, false}, w, b, lane, n, first == 0, out);
            else
                int8_matrix_of((int8_kind){0, 1, false}, w, b, lane, n, first == 0, out);
        }
}

#endif
