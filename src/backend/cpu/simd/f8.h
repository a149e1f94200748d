/* Panels of E4M3 (backend/cpu/pack.h) as panels of bf16, which holds them exactly, for the products
 * of bf16 weights. Scales multiply the sums of as many columns as share them. */
#ifndef LN_BACKEND_CPU_SIMD_F8_H
#define LN_BACKEND_CPU_SIMD_F8_H

#include "backend/cpu/simd/int8.h"

/* 16 numbers as float32. */
LN_INLINE vi f8_values(const uint8_t *p) {
    return vi_of_bits(vf_mul(vf_from_e4m3(p), vf_set(256.0f)));
}

enum { F8_BLOCK_BYTES = LANES * (int)sizeof(float) + LANES * LN_PACK_COLS };

/* Blocks of n_panels panels, panel_bytes apart, that have the scales of the first, itself included:
 * all of them where a row has one scale. */
static size_t f8_run(const uint8_t *panels, size_t panel_bytes, size_t n_panels, size_t n_blocks) {
    size_t n = 1;
    for (; n < n_blocks; n++)
        for (size_t p = 0; p < n_panels; p++) {
            const uint8_t *first = panels + p * panel_bytes;
            if (memcmp(first, first + n * F8_BLOCK_BYTES, LANES * sizeof(float)) != 0)
                return n;
        }
    return n;
}

/* n blocks without their scales: out [n * 16][16 rows][2] of bf16 */
static void f8_unpack(const uint8_t *panel, size_t n, uint8_t *out) {
    for (size_t block = 0; block < n; block++) {
        panel += LANES * sizeof(float);
        for (size_t col = 0; col < LN_PACK_COLS; col += 2, panel += 2 * LANES, out += STEP_BYTES) {
            vi even = f8_values(panel), odd = f8_values(panel + LANES);
            vi_store(out, vi_or(vi_shr(even, 16), odd));
        }
    }
}

/* y [n_rows][UNIT] = sums * scales of n_panels panels, added to what is there, or put there. */
static void f8_fold(const uint8_t *panels, size_t panel_bytes, size_t n_panels, size_t n_rows,
                    const float *sums, bool first, float *y) {
    for (size_t p = 0; p < n_panels; p++) {
        vf scale = float_row(panels + p * panel_bytes);
        for (size_t at = p * LANES; at < n_rows * UNIT; at += UNIT) {
            vf sum = vf_mul(vf_load(sums + at), scale);
            vf_store(y + at, first ? sum : vf_add(vf_load(y + at), sum));
        }
    }
}

#endif
