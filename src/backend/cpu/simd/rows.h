/* y = x W^T for weights as they lie in the checkpoint, all in float32: each row of W becomes
 * float32 (once for all rows of x), then dot products run along K in 16 lanes that are added in a
 * fixed tree at the end. A sum depends on its row of x and its row of W alone. */
#ifndef LN_BACKEND_CPU_SIMD_ROWS_H
#define LN_BACKEND_CPU_SIMD_ROWS_H

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd/int8.h"
#include "base/half.h"
#include "format/quants.h"

/* Row `row` of a weight as float32: where it lies, or in scratch [n_cols]. */
static const float *rows_load(const ln_weight *weight, size_t row, float *scratch) {
    const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;
    const uint16_t *half = (const uint16_t *)(const void *)data;
    size_t n = weight->n_cols, i = 0;
    switch (weight->dtype) {
    case LN_DTYPE_F32: return (const float *)(const void *)data;
    case LN_DTYPE_F16:
        for (; i + LANES <= n; i += LANES)
            vf_store(scratch + i, vf_from_f16(half + i));
        for (; i < n; i++)
            scratch[i] = ln_f32_from_f16(half[i]);
        return scratch;
    case LN_DTYPE_BF16:
        for (; i + LANES <= n; i += LANES)
            vf_store(scratch + i, vf_from_bf16(half + i));
        for (; i < n; i++)
            scratch[i] = ln_f32_from_bf16(half[i]);
        return scratch;
    default: ln_dequantize_row(weight->dtype, data, scratch, n); return scratch;
    }
}

/* y[i][j] = x[i] . w[j], rows of y `stride` floats apart */
LN_INLINE void rows_tile(size_t n_x, const float *const *x, const float *const *w, size_t k,
                         float *y, size_t stride) {
    vf sums[DOT_ROWS][TILE_DOT];
    for (size_t i = 0; i < n_x; i++)
        for (size_t j = 0; j < TILE_DOT; j++)
            sums[i][j] = vf_set(0.0f);
    size_t at = 0;
    for (; at + LANES <= k; at += LANES) {
        vf v[TILE_DOT];
        for (size_t j = 0; j < TILE_DOT; j++)
            v[j] = vf_load(w[j] + at);
        for (size_t i = 0; i < n_x; i++) {
            vf u = vf_load(x[i] + at);
            for (size_t j = 0; j < TILE_DOT; j++)
                sums[i][j] = vf_fma(u, v[j], sums[i][j]);
        }
    }
    if (at < k)
        for (size_t i = 0; i < n_x; i++)
            for (size_t j = 0; j < TILE_DOT; j++)
                sums[i][j] =
                    vf_fma(vf_load_n(x[i] + at, k - at), vf_load_n(w[j] + at, k - at), sums[i][j]);
    for (size_t i = 0; i < n_x; i++)
        vf_sum_tile(sums[i], y + i * stride);
}

/* n_rows of x against 16 rows of W: y [n_rows][UNIT]. */
static void rows_multiply(size_t n_rows, const float *const *x, const float *const w[LANES],
                          size_t k, float *y) {
    for (size_t i = 0, n; i < n_rows; i += n) {
        n = i + DOT_ROWS <= n_rows ? DOT_ROWS : i + TILE_DOT <= n_rows ? TILE_DOT : 1;
        for (size_t j = 0; j < LANES; j += TILE_DOT) {
            if (n == DOT_ROWS)
                rows_tile(DOT_ROWS, x + i, w + j, k, y + i * UNIT + j, UNIT);
            else if (n == TILE_DOT)
                rows_tile(TILE_DOT, x + i, w + j, k, y + i * UNIT + j, UNIT);
            else
                rows_tile(1, x + i, w + j, k, y + i * UNIT + j, UNIT);
        }
    }
}

#endif
