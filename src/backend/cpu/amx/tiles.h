/* The matrix unit: 16 rows of x against a panel of 16 rows of W at once.
 *
 * Int8: a block's sums are exact integers, so they are those of the vector kernels, and so are the
 * bits of the result, which folds them in the same way. Bf16: x goes as two bf16 (see
 * backend/cpu/simd/bf16.h); tiles of 16 rows serve any number of rows, one included, so that there
 * is one order of summation: 32 columns at a time, high and low parts apart, added at the end.
 *
 * Bytes moved: a panel once per 16 rows of x, from the caches; per block of int8 1 KiB of sums that
 * stays in the first-level cache. */
#ifndef LN_BACKEND_CPU_AMX_TILES_H
#define LN_BACKEND_CPU_AMX_TILES_H

#include "backend/cpu/simd/super.h"
#include "base/half.h"

enum { MATRIX_ROWS = 16, TILE_COLS = 32 /* of bf16 */ };

/* Tiles 0 and 1 are sums; 2 and 3 an operand pair of 32 int8 columns, 4 and 5 of 16, 6 and 7 of
 * 32 bf16 columns. Intel SDM volume 1, 18.2: the palette. */
typedef struct tile_palette {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
} tile_palette;

LN_INLINE void matrix_begin(void) {
    tile_palette palette = {.palette = 1,
                            .row_bytes = {64, 64, 32, 64, 16, 64, 64, 64},
                            .n_rows = {16, 16, 16, 8, 16, 4, 16, 16}};
    _tile_loadconfig(&palette);
}

LN_INLINE void matrix_end(void) {
    _tile_release();
}

/* sums[i] += block's int32 sums of row i, from `start`, times both scales */
LN_INLINE void fold_rows(vf sums[MATRIX_ROWS], const int32_t *tile, const int32_t *start, vf factor,
                         const float *scales) {
#pragma GCC unroll 16
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        sums[i] =
            fold(sums[i], vi_add(vi_load(tile + i * LANES), vi_set(start[i])), factor, scales[i]);
}

LN_INLINE void int8_matrix_of(int8_kind kind, const uint8_t *panel, const int8_block *b,
                              size_t n_blocks, bool first, float *y) {
    int32_t tile[MATRIX_ROWS * LANES] __attribute__((aligned(64)));
    vf sums[MATRIX_ROWS];
#pragma GCC unroll 16
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        sums[i] = first ? vf_set(0.0f) : vf_load(y + i * UNIT);
    for (size_t block = 0; block < n_blocks; block++, b++, panel += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(panel + STEPS * STEP_BYTES);
        _tile_zero(0);
        _tile_loadd(2, b->q[0], LN_PACK_COLS);
        _tile_loadd(3, panel, STEP_BYTES);
        _tile_dpbsud(0, 2, 3);
        _tile_stored(0, tile, STEP_BYTES);
        fold_rows(sums, tile, b->start, vf_load(factors), b->scale);
        if (kind.has_min)
#pragma GCC unroll 16
            for (size_t i = 0; i < MATRIX_ROWS; i++)
                sums[i] = vf_fma(vf_load(factors + LANES), vf_set(b->min_sum[i]), sums[i]);
    }
#pragma GCC unroll 16
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
            float *out = y + row * UNIT;
            if (kind.has_min)
                int8_matrix_of((int8_kind){0, true}, w, b, n, first == 0, out);
            else
                int8_matrix_of((int8_kind){0, false}, w, b, n, first == 0, out);
        }
}

/* 16 rows of x against 256 columns of an unpacked panel: the exact sums of products. */
LN_INLINE void super_matrix_totals(super_kind kind, const uint8_t *panel, const super_block *b,
                                   vi totals[MATRIX_ROWS]) {
    int32_t tile[MATRIX_ROWS * LANES] __attribute__((aligned(64)));
    for (size_t part = 0; part < SUPER_BLOCKS * kind.n_parts; part++) {
        const uint8_t *w = panel + part / kind.n_parts * UNPACKED_BYTES;
        size_t at = part % kind.n_parts, cols = LN_PACK_COLS / kind.n_parts;
        _tile_zero(0);
        if (kind.n_parts == 2) {
            _tile_loadd(4, b->q[0] + part * cols, SUPER_COLS);
            _tile_loadd(5, w + at * STEPS / 2 * STEP_BYTES, STEP_BYTES);
            _tile_dpbsud(0, 4, 5);
        } else {
            _tile_loadd(2, b->q[0] + part * cols, SUPER_COLS);
            _tile_loadd(3, w, STEP_BYTES);
            _tile_dpbsud(0, 2, 3);
        }
        _tile_stored(0, tile, STEP_BYTES);
        vi scale = vi_load(w + (STEPS + at) * STEP_BYTES);
        for (size_t i = 0; i < MATRIX_ROWS; i++) {
            vi sums = vi_load(tile + i * LANES);
            if (!kind.has_min)
                sums = vi_add(sums, vi_set(b->start[part][i]));
            totals[i] = vi_add(totals[i], vi_mul(sums, scale));
        }
    }
}

/* 16 rows of x against 256 columns of an unpacked panel: added to y [16][UNIT], or put there. */
LN_INLINE void super_matrix_of(super_kind kind, const uint8_t *panel, const super_block *b,
                               bool first, float *y) {
    const uint8_t *mins = panel + SUPER_BLOCKS * UNPACKED_BYTES;
    const float *factors = (const float *)(const void *)(mins + MIN_BYTES);
    vi totals[MATRIX_ROWS];
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        totals[i] = vi_set(0);
    super_matrix_totals(kind, panel, b, totals);
    for (size_t i = 0; i < MATRIX_ROWS; i++) {
        vf sum = first ? vf_set(0.0f) : vf_load(y + i * UNIT);
        sum = super_fold(sum, totals[i], vf_load(factors), b->scale[i]);
        vi total = vi_set(0);
        for (size_t pair = 0; kind.has_min && pair < SUPER_BLOCKS * kind.n_parts / 2; pair++)
            total = dot_words(total, vi_load(mins + pair * STEP_BYTES),
                              vi_spread((const int8_t *)&b->sums[i][pair * 2]));
        if (kind.has_min)
            sum = super_fold(sum, total, vf_load(factors + LANES), b->scale[i]);
        vf_store(y + i * UNIT, sum);
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
                super_matrix_of(kind, w + super * UNPACKED_SUPER, b, first + super == 0,
                                y + row * UNIT);
            }
}

/* ---- bf16 --------------------------------------------------------------------------------- */

typedef struct bf16_rows {
    size_t k, width; /* columns, and these filled up to whole tiles */
    uint16_t *x;     /* [n][2][width] high parts, low parts */
} bf16_rows;

LN_INLINE size_t bf16_row_bytes(size_t k) {
    return (k + TILE_COLS - 1) / TILE_COLS * TILE_COLS * 4;
}

static bf16_rows bf16_place(void *memory, size_t k, bool precise) {
    (void)precise; /* both parts are always there */
    return (bf16_rows){.k = k, .width = bf16_row_bytes(k) / 4, .x = memory};
}

static void bf16_put(const bf16_rows *rows, size_t row, size_t k, const float *x) {
    uint16_t *high = rows->x + row * rows->width * 2, *low = high + rows->width;
    for (size_t i = 0; i < rows->width; i += LANES) {
        size_t left = i < k ? k - i : 0;
        vf value = left < LANES ? vf_load_n(x + i, left) : vf_load(x + i);
        vf_to_bf16(high + i, value);
        vf_to_bf16(low + i, vf_sub(value, vf_from_bf16(high + i)));
    }
}

/* The group of 16 rows at `row` against a packed panel: y [16][UNIT]. */
static void bf16_group(const uint8_t *panel, const bf16_rows *rows, size_t row, float *y) {
    float parts[2][MATRIX_ROWS * LANES] __attribute__((aligned(64)));
    uint8_t last[TILE_COLS / 2 * STEP_BYTES] __attribute__((aligned(64))) = {0};
    const uint16_t *x = rows->x + row * rows->width * 2;
    size_t stride = rows->width * 4;
    _tile_zero(0);
    _tile_zero(1);
    for (size_t col = 0; col < rows->width; col += TILE_COLS) {
        const uint8_t *w = panel + col / 2 * STEP_BYTES;
        if (col + TILE_COLS > rows->k) {
            memcpy(last, w, (rows->k - col + 1) / 2 * STEP_BYTES);
            w = last;
        }
        _tile_loadd(7, w, STEP_BYTES);
        _tile_loadd(6, x + col, stride);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(6, x + rows->width + col, stride);
        _tile_dpbf16ps(1, 6, 7);
    }
    _tile_stored(0, parts[0], STEP_BYTES);
    _tile_stored(1, parts[1], STEP_BYTES);
    for (size_t i = 0; i < MATRIX_ROWS; i++)
        vf_store(y + i * UNIT,
                 vf_add(vf_load(parts[0] + i * LANES), vf_load(parts[1] + i * LANES)));
}

/* y [n_rows][UNIT] = rows of x against n_panels panels, panel_bytes apart. */
static void bf16_multiply(size_t n_panels, const uint8_t *panels, size_t panel_bytes,
                          const bf16_rows *rows, size_t n_rows, float *y) {
    for (size_t p = 0; p < n_panels; p++)
        for (size_t row = 0; row < n_rows; row += MATRIX_ROWS)
            bf16_group(panels + p * panel_bytes, rows, row, y + row * UNIT + p * LANES);
}

#endif
