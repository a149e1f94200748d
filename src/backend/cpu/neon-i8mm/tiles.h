/* Matrix products of I8MM: USMMLA multiplies 2 rows of W by 2 rows of x, 8 columns at once.
 *
 * 4 rows of x meet a panel of 16 rows of W. A block's sums are exact integers, so they are those of
 * the dot products, and so are the bits of the result, which folds them in the same way. */
#ifndef LN_BACKEND_CPU_NEON_I8MM_TILES_H
#define LN_BACKEND_CPU_NEON_I8MM_TILES_H

#include "backend/cpu/simd/super.h"

enum { MATRIX_ROWS = 4, X_PAIRS = MATRIX_ROWS / 2, W_PAIRS = LANES / 2 };

/* The sums of rows of x and W, 2 x 2 to a register: w0 x0, w0 x1, w1 x0, w1 x1. */
typedef struct pair_sums {
    int32x4_t q[X_PAIRS][W_PAIRS];
} pair_sums;

/* 8 columns of two rows of x, row_bytes apart. */
LN_INLINE int8x16_t x_pair(const int8_t *q, size_t row_bytes) {
    return vcombine_s8(vld1_s8(q), vld1_s8(q + row_bytes));
}

/* Adds the products of two steps, 8 columns, of which those of x are at q. */
LN_INLINE void add_steps(pair_sums *acc, const uint8_t *panel, size_t step, const int8_t *q,
                         size_t row_bytes) {
    vi even = vi_load(panel + step * STEP_BYTES), odd = vi_load(panel + (step + 1) * STEP_BYTES);
    int8x16_t x[X_PAIRS];
    for (size_t i = 0; i < X_PAIRS; i++)
        x[i] = x_pair(q + 2 * i * row_bytes, row_bytes);
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
    vf sums[MATRIX_ROWS];
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        sums[i] = first ? vf_set(0.0f) : vf_load(y + i * UNIT);
    for (const int8_block *end = b + n_blocks; b < end; b++, panel += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(panel + STEPS * STEP_BYTES);
        pair_sums acc = {{{vdupq_n_s32(0)}}};
#pragma GCC unroll 4
        for (size_t step = 0; step < STEPS; step += 2)
            add_steps(&acc, panel, step, b->q[lane] + step * 4, LN_PACK_COLS);
        for (size_t i = 0; i < MATRIX_ROWS; i++) {
            sums[i] = fold(sums[i], vi_add(row_of(&acc, i), vi_set(b->start[lane + i])),
                           vf_load(factors), b->scale[lane + i]);
            if (kind.has_min)
                sums[i] = vf_fma(vf_load(factors + LANES), vf_set(b->min_sum[lane + i]), sums[i]);
        }
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
            const int8_block *b = int8_at(x, row, first);
            int8_matrix_of(kind, w, b, row % GROUP_ROWS, n, first == 0, y + row * UNIT);
        }
}

/* The exact sums of 4 rows of x against 256 columns of an unpacked panel. */
LN_INLINE void super_matrix_totals(super_kind kind, const uint8_t *panel, const super_block *b,
                                   size_t lane, vi totals[MATRIX_ROWS][TILE_PANELS]) {
    size_t steps = STEPS / kind.n_parts;
    for (size_t part = 0; part < SUPER_BLOCKS * kind.n_parts; part++) {
        const uint8_t *w = panel + part / kind.n_parts * UNPACKED_BYTES;
        size_t at = part % kind.n_parts;
        const int8_t *q = b->q[lane] + part * steps * 4;
        pair_sums acc = {{{vdupq_n_s32(0)}}};
        for (size_t step = 0; step < steps; step += 2)
            add_steps(&acc, w, at * steps + step, q + step * 4, SUPER_COLS);
        for (size_t i = 0; i < MATRIX_ROWS; i++) {
            vi sums = row_of(&acc, i);
            if (!kind.has_min)
                sums = vi_add(sums, vi_set(b->start[part][lane + i]));
            vi scaled = vi_mul(sums, vi_load(w + (STEPS + at) * STEP_BYTES));
            totals[i][0] = vi_add(totals[i][0], scaled);
        }
    }
}

/* The same for layouts whose scales are integers under one for 256 columns. */
static void super_matrix(ln_pack pack, size_t n_panels, const uint8_t *w, const super_rows *x,
                         size_t n_rows, size_t first, size_t n, float *y) {
    super_kind kind = super_kind_of(pack);
    for (size_t p = 0; p < n_panels; p++, w += UNPACKED_PANEL, y += LANES)
        for (size_t row = 0; row < n_rows; row += MATRIX_ROWS)
            for (size_t super = 0; super < n; super++) {
                const super_block *b = x->supers + row / GROUP_ROWS * x->n_supers + first + super;
                const uint8_t *panel = w + super * UNPACKED_SUPER;
                const uint8_t *mins = panel + SUPER_BLOCKS * UNPACKED_BYTES;
                const float *factors = (const float *)(const void *)(mins + MIN_BYTES);
                size_t lane = row % GROUP_ROWS;
                vi totals[MATRIX_ROWS][TILE_PANELS] = {{vi_set(0)}};
                super_matrix_totals(kind, panel, b, lane, totals);
                super_tile_fold(1, factors, b->scale + lane, totals, first + super == 0,
                                y + row * UNIT);
                if (!kind.has_min)
                    continue;
                super_tile_mins(kind, 1, mins, b, lane, totals);
                super_tile_fold(1, factors + LANES, b->scale + lane, totals, false, y + row * UNIT);
            }
}

#endif
