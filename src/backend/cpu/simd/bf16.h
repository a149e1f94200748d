/* y = x W^T for weights packed as bf16 (backend/cpu/pack.h). x goes as the sum of two bf16, which
 * keeps 16 of its 24 bits: rounded to one, a layer's error would be near 1%. Float32 sums of pairs
 * of products in four chains (high and low parts, even and odd pairs), added at the end. A sum
 * depends on its row of x and its row of W alone. Bytes moved: 2 per weight, once for each
 * TILE_ROWS rows of x from the caches. */
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

enum { CHAINS = 4 }; /* high and low parts of even pairs, then of odd pairs */

LN_INLINE vi pair_of(const bf16_rows *rows, size_t row, size_t pair, size_t part) {
    return vi_spread((const int8_t *)(rows->x + (row * rows->n_pairs + pair) * 4 + part * 2));
}

LN_INLINE void bf16_tile(size_t n_rows, const uint8_t *panel, const bf16_rows *rows, size_t row,
                         float *y) {
    size_t n_pairs = rows->n_pairs;
    vf sums[TILE_STEP][CHAINS];
    for (size_t i = 0; i < n_rows; i++)
        for (size_t chain = 0; chain < CHAINS; chain++)
            sums[i][chain] = vf_set(0.0f);
    for (size_t pair = 0; pair + 2 <= n_pairs; pair += 2) {
#pragma GCC unroll 4
        for (size_t chain = 0; chain < CHAINS; chain++) {
            vi w = vi_load(panel + (pair + chain / 2) * 64);
            for (size_t i = 0; i < n_rows; i++)
                sums[i][chain] = dot_bf16(sums[i][chain], w,
                                          pair_of(rows, row + i, pair + chain / 2, chain % 2));
        }
    }
#pragma GCC unroll 2
    for (size_t chain = 0; chain < 2; chain++) {
        if (n_pairs % 2 == 0)
            break;
        vi w = vi_load(panel + (n_pairs - 1) * 64);
        for (size_t i = 0; i < n_rows; i++)
            sums[i][chain] =
                dot_bf16(sums[i][chain], w, pair_of(rows, row + i, n_pairs - 1, chain));
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES,
                 vf_add(vf_add(sums[i][0], sums[i][1]), vf_add(sums[i][2], sums[i][3])));
}

/* One row, or a multiple of TILE_STEP. */
static void bf16_multiply(size_t n_rows, const uint8_t *panel, const bf16_rows *rows, size_t row,
                          float *y) {
    if (n_rows == 1)
        bf16_tile(1, panel, rows, row, y);
    for (size_t i = 0; n_rows > 1 && i < n_rows; i += TILE_STEP)
        bf16_tile(TILE_STEP, panel, rows, row + i, y + i * LANES);
}

#endif
