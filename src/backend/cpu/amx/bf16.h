/* What backend/cpu/simd/bf16.h does, on the matrix unit: 32 rows of x against two panels at once,
 * in four tiles of sums, so that each tile of x and of W serves two products (Intel SDM volume 1,
 * chapter 18).
 *
 * x goes as the sum of two bf16, since the unit has products to spare: a sum takes 32 columns at a
 * time, x's low parts after its high ones. Tiles of 16 rows serve any number of rows, one included,
 * so that this order is the same for all.
 *
 * Bytes moved: 2 per weight, once per 32 rows of x, from the caches; x lies tile after tile, as
 * rows that are a power of two apart would share few sets of a cache. */
#ifndef LN_BACKEND_CPU_AMX_BF16_H
#define LN_BACKEND_CPU_AMX_BF16_H

#include "backend/cpu/simd/int8.h"
#include "base/half.h"

enum {
    BF16_ROWS = 16,
    BF16_COLS = 32,
    BF16_PARTS = 2,
    TILE_STRIDE = BF16_COLS * 2,
    TILE_BYTES = BF16_ROWS * TILE_STRIDE,
    ROUNDS_F32 = 1 /* as simd/bf16.h */
};

typedef struct tile_palette {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
} tile_palette;

typedef struct bf16_rows {
    size_t n_steps; /* tiles along the columns, the last filled up with 0 */
    uint8_t *x;     /* [n / 16][n_steps][high, low][16][32] of bf16 */
} bf16_rows;

/* Bytes of a row. */
LN_INLINE size_t bf16_row_bytes(size_t k) {
    return (k + BF16_COLS - 1) / BF16_COLS * BF16_PARTS * TILE_STRIDE;
}

static bf16_rows bf16_place(void *memory, size_t k, bool precise) {
    (void)precise; /* both parts are always there */
    return (bf16_rows){.n_steps = (k + BF16_COLS - 1) / BF16_COLS, .x = memory};
}

/* The rows from `row` on, a group's first. */
LN_INLINE bf16_rows bf16_rows_from(bf16_rows rows, size_t row) {
    rows.x += row / BF16_ROWS * rows.n_steps * BF16_PARTS * TILE_BYTES;
    return rows;
}

static void bf16_put(const bf16_rows *rows, size_t row, size_t k, const float *x) {
    uint8_t *group = rows->x + row / BF16_ROWS * rows->n_steps * BF16_PARTS * TILE_BYTES;
    for (size_t i = 0; i < rows->n_steps * BF16_COLS; i += LANES) {
        uint8_t *tile = group + i / BF16_COLS * BF16_PARTS * TILE_BYTES;
        uint16_t *high = (uint16_t *)(void *)(tile + row % BF16_ROWS * TILE_STRIDE) + i % BF16_COLS;
        size_t left = i < k ? k - i : 0;
        vf value = left < LANES ? vf_load_n(x + i, left) : vf_load(x + i);
        vf_to_bf16(high, value);
        vf_to_bf16(high + TILE_BYTES / sizeof *high, vf_sub(value, vf_from_bf16(high)));
    }
}

LN_INLINE void bf16_begin(void) {
    tile_palette palette = {.palette = 1};
    for (size_t tile = 0; tile < 8; tile++) {
        palette.row_bytes[tile] = TILE_STRIDE;
        palette.n_rows[tile] = BF16_ROWS;
    }
    _tile_loadconfig(&palette);
}

LN_INLINE void bf16_end(void) {
    _tile_release();
}

/* n_groups groups of 16 rows from `row` on against n_panels panels, both 1 or 2. */
LN_INLINE void bf16_tiles(size_t n_groups, size_t n_panels, const uint8_t *panels,
                          size_t panel_bytes, const bf16_rows *rows, bf16_range range, size_t row,
                          float *y) {
    enum { Y_STRIDE = UNIT * sizeof *y };
    uint8_t last[TILE_PANELS][TILE_BYTES] __attribute__((aligned(64)));
    size_t group_bytes = rows->n_steps * BF16_PARTS * TILE_BYTES;
    const uint8_t *x =
        rows->x + row / BF16_ROWS * group_bytes + range.first / BF16_COLS * BF16_PARTS * TILE_BYTES;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t col = 0; col < range.n; col += BF16_COLS) {
        const uint8_t *w = panels + col / BF16_COLS * TILE_BYTES;
        size_t stride = panel_bytes, left = range.n - col;
        if (left < BF16_COLS) {
            memset(last, 0, sizeof last);
            for (size_t p = 0; p < n_panels; p++)
                memcpy(last[p], w + p * panel_bytes, (left + 1) / 2 * TILE_STRIDE);
            w = last[0];
            stride = TILE_BYTES;
        }
        _tile_loadd(6, w, TILE_STRIDE);
        if (n_panels == 2)
            _tile_loadd(7, w + stride, TILE_STRIDE);
        for (size_t part = 0; part < BF16_PARTS; part++, x += TILE_BYTES) {
            _tile_loadd(4, x, TILE_STRIDE);
            _tile_dpbf16ps(0, 4, 6);
            if (n_panels == 2)
                _tile_dpbf16ps(1, 4, 7);
            if (n_groups == 2) {
                _tile_loadd(5, x + group_bytes, TILE_STRIDE);
                _tile_dpbf16ps(2, 5, 6);
                if (n_panels == 2)
                    _tile_dpbf16ps(3, 5, 7);
            }
        }
    }
    _tile_stored(0, y, Y_STRIDE);
    if (n_panels == 2)
        _tile_stored(1, y + LANES, Y_STRIDE);
    if (n_groups == 2) {
        _tile_stored(2, y + BF16_ROWS * UNIT, Y_STRIDE);
        if (n_panels == 2)
            _tile_stored(3, y + BF16_ROWS * UNIT + LANES, Y_STRIDE);
    }
}

LN_INLINE void bf16_panels(size_t n_panels, const uint8_t *panels, size_t panel_bytes,
                           const bf16_rows *rows, bf16_range range, size_t n_rows, float *y) {
    size_t row = 0;
    for (; row + BF16_ROWS < n_rows; row += 2 * BF16_ROWS)
        bf16_tiles(2, n_panels, panels, panel_bytes, rows, range, row, y + row * UNIT);
    if (row < n_rows)
        bf16_tiles(1, n_panels, panels, panel_bytes, rows, range, row, y + row * UNIT);
}

/* y [n_rows, filled up to 16s][UNIT] = a range of rows of x against n_panels panels of it,
 * panel_bytes apart. Fetching `ahead` was not tried here. */
static void bf16_multiply(size_t n_panels, const uint8_t *panels, size_t panel_bytes,
                          const bf16_rows *rows, bf16_range range, size_t n_rows, size_t ahead,
                          float *y) {
    (void)ahead;
    if (n_panels == TILE_PANELS)
        bf16_panels(TILE_PANELS, panels, panel_bytes, rows, range, n_rows, y);
    else
        bf16_panels(1, panels, panel_bytes, rows, range, n_rows, y);
}

#endif
