/* y = x W^T for weights packed as bf16 (backend/cpu/pack.h). Where there are dot products of bf16,
 * x is rounded to bf16, or goes as the sum of two bf16, which keeps 16 of its 24 bits, when what
 * follows magnifies errors (ln_op_linear.precise). Elsewhere x stays float32.
 *
 * Float32 sums of pairs of products in two accumulators, of even and odd pairs. After every
 * K_STEP_PAIRS pairs both are added to y. A sum depends on its row of x and its row of W alone.
 *
 * Bytes moved: 2 per weight from memory, once for all rows of x, which meet a K step of the panels
 * while it is in the first-level cache. */
#ifndef LN_BACKEND_CPU_SIMD_BF16_H
#define LN_BACKEND_CPU_SIMD_BF16_H

#include "backend/cpu/simd/int8.h"
#include "base/half.h"

enum {
    K_STEP_PAIRS = 128,
    PAIR_BYTES = 64,          /* of a panel */
    ROUNDS_F32 = HAS_DOT_BF16 /* float32 weights are faster as bf16 */
};

/* How x lies: pairs of columns as bf16, as high and low bf16, or as float32. */
typedef enum bf16_form { BF16_ONE, BF16_TWO, BF16_FLOAT } bf16_form;

typedef struct bf16_rows {
    bf16_form form;
    size_t n_pairs;    /* of columns; an odd last one is filled up with 0 */
    size_t pair_bytes; /* 4, or 8 */
    uint8_t *x;        /* [n][n_pairs][pair_bytes] */
} bf16_rows;

/* Bytes of a row, in any form. */
LN_INLINE size_t bf16_row_bytes(size_t k) {
    return (k + k % 2) * 4;
}

static bf16_rows bf16_place(void *memory, size_t k, bool precise) {
    bf16_form form = !HAS_DOT_BF16 ? BF16_FLOAT : precise ? BF16_TWO : BF16_ONE;
    return (bf16_rows){
        .form = form, .n_pairs = (k + 1) / 2, .pair_bytes = form == BF16_ONE ? 4 : 8, .x = memory};
}

/* The rows from `row` on. */
LN_INLINE bf16_rows bf16_rows_from(bf16_rows rows, size_t row) {
    rows.x += row * rows.n_pairs * rows.pair_bytes;
    return rows;
}

static void bf16_put_one(const bf16_rows *rows, uint8_t *row, size_t i, float value) {
    uint8_t *pair = row + i / 2 * rows->pair_bytes;
    if (rows->form == BF16_FLOAT) {
        memcpy(pair + i % 2 * 4, &value, 4);
        return;
    }
    uint16_t high = ln_bf16_from_f32(value);
    uint16_t low = ln_bf16_from_f32(value - ln_f32_from_bf16(high));
    memcpy(pair + i % 2 * 2, &high, 2);
    if (rows->form == BF16_TWO)
        memcpy(pair + 4 + i % 2 * 2, &low, 2);
}

static void bf16_put(const bf16_rows *rows, size_t row, size_t k, const float *x) {
    uint8_t *out = rows->x + row * rows->n_pairs * rows->pair_bytes;
    size_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        uint8_t *pairs = out + i / 2 * rows->pair_bytes;
        uint16_t high[LANES], low[LANES];
        if (rows->form == BF16_FLOAT) {
            vf_store((float *)(void *)pairs, vf_load(x + i));
            continue;
        }
        vf_to_bf16(high, vf_load(x + i));
        if (rows->form == BF16_ONE) {
            memcpy(pairs, high, sizeof high);
            continue;
        }
        vf_to_bf16(low, vf_sub(vf_load(x + i), vf_from_bf16(high)));
        for (size_t j = 0; j < LANES; j += 2) {
            memcpy(pairs + j * 4, high + j, 2 * sizeof *high);
            memcpy(pairs + j * 4 + 4, low + j, 2 * sizeof *low);
        }
    }
    for (; i < k + k % 2; i++)
        bf16_put_one(rows, out, i, i < k ? x[i] : 0.0f);
}

LN_INLINE vf pair_dot(bf16_form form, vf acc, vi w, const uint8_t *x) {
    const int8_t *pair = (const int8_t *)x;
    if (form == BF16_FLOAT)
        return dot_pair(acc, w, (const float *)(const void *)x);
    acc = dot_bf16(acc, w, vi_spread(pair));
    return form == BF16_TWO ? dot_bf16(acc, w, vi_spread(pair + 4)) : acc;
}

/* Pairs of n_rows rows of x, row_bytes apart, against n_panels panels, panel_bytes apart: added to
 * y [n_rows][UNIT], or put there when these are the first pairs. `ahead`: bytes of each panel that
 * are fetched in front, 0 for none. */
LN_INLINE void bf16_tile(bf16_form form, size_t n_rows, size_t n_panels, const uint8_t *panels,
                         size_t panel_bytes, const uint8_t *x, size_t row_bytes, size_t n_pairs,
                         bool first, size_t ahead, float *y) {
    const size_t pair_bytes = form == BF16_ONE ? 4 : 8;
    vf sums[2][TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 2
    for (size_t acc = 0; acc < 2; acc++)
#pragma GCC unroll 8
        for (size_t i = 0; i < n_rows; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                sums[acc][i][p] = vf_set(0.0f);
    for (size_t pair = 0; pair + 2 <= n_pairs; pair += 2) {
#pragma GCC unroll 2
        for (size_t acc = 0; acc < 2; acc++) {
            vi w[TILE_PANELS];
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                w[p] = vi_load(panels + p * panel_bytes + (pair + acc) * PAIR_BYTES);
            if (ahead > 0)
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    fetch_far(panels + p * panel_bytes + (pair + acc) * PAIR_BYTES + ahead,
                              PAIR_BYTES);
#pragma GCC unroll 8
            for (size_t i = 0; i < n_rows; i++)
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    sums[acc][i][p] = pair_dot(form, sums[acc][i][p], w[p],
                                               x + i * row_bytes + (pair + acc) * pair_bytes);
        }
    }
    if (n_pairs % 2 != 0)
#pragma GCC unroll 8
        for (size_t i = 0; i < n_rows; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                sums[0][i][p] =
                    pair_dot(form, sums[0][i][p],
                             vi_load(panels + p * panel_bytes + (n_pairs - 1) * PAIR_BYTES),
                             x + i * row_bytes + (n_pairs - 1) * pair_bytes);
#pragma GCC unroll 8
    for (size_t i = 0; i < n_rows; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            float *out = y + i * UNIT + p * LANES;
            vf sum = vf_add(sums[0][i][p], sums[1][i][p]);
            vf_store(out, first ? sum : vf_add(vf_load(out), sum));
        }
}

/* Weights come from memory once, for the first tile: so that one fetches. */
LN_INLINE void bf16_rows_of(bf16_form form, size_t n_panels, const uint8_t *panels,
                            size_t panel_bytes, const bf16_rows *rows, bf16_range range,
                            size_t n_rows, size_t ahead, float *y) {
    size_t row_bytes = rows->n_pairs * rows->pair_bytes, n_pairs = (range.n + 1) / 2;
    for (size_t pair = 0; pair < n_pairs; pair += K_STEP_PAIRS) {
        size_t left = n_pairs - pair, n = left < K_STEP_PAIRS ? left : K_STEP_PAIRS;
        const uint8_t *w = panels + pair * PAIR_BYTES;
        const uint8_t *x = rows->x + (range.first / 2 + pair) * rows->pair_bytes;
        size_t i = 0;
        for (; i + TILE_ROWS <= n_rows; i += TILE_ROWS)
            bf16_tile(form, TILE_ROWS, n_panels, w, panel_bytes, x + i * row_bytes, row_bytes, n,
                      pair == 0, i == 0 ? ahead : 0, y + i * UNIT);
        for (; i < n_rows; i++)
            bf16_tile(form, 1, n_panels, w, panel_bytes, x + i * row_bytes, row_bytes, n, pair == 0,
                      i == 0 ? ahead : 0, y + i * UNIT);
    }
}

/* Around all products of a linear, for processors that must make ready. */
LN_INLINE void bf16_begin(void) {}
LN_INLINE void bf16_end(void) {}

/* y [n_rows][UNIT] = a range of rows of x against n_panels panels of it, panel_bytes apart.
 * `ahead`: as bf16_tile's. */
static void bf16_multiply(size_t n_panels, const uint8_t *panels, size_t panel_bytes,
                          const bf16_rows *rows, bf16_range range, size_t n_rows, size_t ahead,
                          float *y) {
    bool whole = n_panels == TILE_PANELS;
    if (rows->form == BF16_FLOAT && whole)
        bf16_rows_of(BF16_FLOAT, TILE_PANELS, panels, panel_bytes, rows, range, n_rows, ahead, y);
    else if (rows->form == BF16_FLOAT)
        bf16_rows_of(BF16_FLOAT, 1, panels, panel_bytes, rows, range, n_rows, ahead, y);
    else if (rows->form == BF16_TWO && whole)
        bf16_rows_of(BF16_TWO, TILE_PANELS, panels, panel_bytes, rows, range, n_rows, ahead, y);
    else if (rows->form == BF16_TWO)
        bf16_rows_of(BF16_TWO, 1, panels, panel_bytes, rows, range, n_rows, ahead, y);
    else if (whole)
        bf16_rows_of(BF16_ONE, TILE_PANELS, panels, panel_bytes, rows, range, n_rows, ahead, y);
    else
        bf16_rows_of(BF16_ONE, 1, panels, panel_bytes, rows, range, n_rows, ahead, y);
}

#endif
