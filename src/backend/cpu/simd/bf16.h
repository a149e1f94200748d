/* y = x W^T for weights packed as bf16 (backend/cpu/pack.h). x goes as the sum of two bf16, which
 * keeps 16 of its 24 bits: rounded to one, a layer's error would be near 1%. Float32 sums of pairs
 * of products, even and odd pairs apart, added at the end. A sum depends on its row of x and its
 * row of W alone. Bytes moved: 2 per weight, once for each TILE_ROWS rows of x from the caches. */
#ifndef LN_BACKEND_CPU_SIMD_BF16_H
#define LN_BACKEND_CPU_SIMD_BF16_H

#include "base/half.h"

typedef struct bf16_rows {
    size_t n_pairs; /* of columns; an odd last one is filled up with 0 */
    uint16_t *x;    /* [n][n_pairs][2 of the high parts, 2 of the low parts] */
} bf16_rows;

LN_INLINE size_t bf16_row_bytes(size_t k) {
    return (k + k % 2) * 4;
}

static bf16_rows bf16_place(void *memory, size_t k) {
    return (bf16_rows){.n_pairs = (k + 1) / 2, .x = memory};
}

static void bf16_split(const bf16_rows *rows, size_t row, size_t k, const float *x) {
    uint16_t *out = rows->x + row * rows->n_pairs * 4;
    size_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        uint16_t high[LANES], low[LANES];
        vf_to_bf16(high, vf_load(x + i));
        vf_to_bf16(low, vf_sub(vf_load(x + i), vf_from_bf16(high)));
        for (size_t j = 0; j < LANES; j += 2) {
            memcpy(out + (i + j) * 2, high + j, 2 * sizeof *high);
            memcpy(out + (i + j) * 2 + 2, low + j, 2 * sizeof *low);
        }
    }
    for (; i < k + k % 2; i++) {
        float value = i < k ? x[i] : 0.0f;
        uint16_t *pair = out + i / 2 * 4 + i % 2;
        pair[0] = ln_bf16_from_f32(value);
        pair[2] = ln_bf16_from_f32(value - ln_f32_from_bf16(pair[0]));
    }
}

/* acc + a pair of columns of x, 8 bytes at x */
LN_INLINE vf dot_split(vf acc, vi w, const int8_t *x) {
    return dot_bf16(dot_bf16(acc, w, vi_spread(x)), w, vi_spread(x + 4));
}

LN_INLINE void bf16_tile(size_t n_rows, const uint8_t *panel, const bf16_rows *rows, size_t row,
                         float *y) {
    size_t n_pairs = rows->n_pairs;
    const int8_t *x = (const int8_t *)(rows->x + row * n_pairs * 4);
    vf even[TILE_ROWS], odd[TILE_ROWS];
    for (size_t i = 0; i < n_rows; i++)
        even[i] = odd[i] = vf_set(0.0f);
    for (size_t pair = 0; pair + 2 <= n_pairs; pair += 2) {
        vi first = vi_load(panel + pair * 64), second = vi_load(panel + pair * 64 + 64);
        for (size_t i = 0; i < n_rows; i++) {
            even[i] = dot_split(even[i], first, x + (i * n_pairs + pair) * 8);
            odd[i] = dot_split(odd[i], second, x + (i * n_pairs + pair) * 8 + 8);
        }
    }
    if (n_pairs % 2 != 0) {
        vi last = vi_load(panel + (n_pairs - 1) * 64);
        for (size_t i = 0; i < n_rows; i++)
            even[i] = dot_split(even[i], last, x + (i * n_pairs + n_pairs - 1) * 8);
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES, vf_add(even[i], odd[i]));
}

/* One row, TILE_ROWS, or a smaller multiple of TILE_STEP. */
static void bf16_multiply(size_t n_rows, const uint8_t *panel, const bf16_rows *rows, size_t row,
                          float *y) {
    switch (n_rows) {
    case 1: bf16_tile(1, panel, rows, row, y); return;
    case TILE_STEP: bf16_tile(TILE_STEP, panel, rows, row, y); return;
    case TILE_STEP * 2:
        if (TILE_ROWS > 2 * TILE_STEP)
            bf16_tile(TILE_STEP * 2, panel, rows, row, y);
        return;
    default: bf16_tile(TILE_ROWS, panel, rows, row, y); return;
    }
}

#endif
