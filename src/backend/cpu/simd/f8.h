/* Panels of E4M3 (backend/cpu/pack.h) as panels of bf16, which holds them exactly, for the products
 * of bf16 weights. Scales multiply the sums of as many columns as share them. */
#ifndef LN_BACKEND_CPU_SIMD_F8_H
#define LN_BACKEND_CPU_SIMD_F8_H

#include "backend/cpu/simd/int8.h"

/* E4M3 (4 bits of exponent with bias 7, 3 of mantissa) in the low byte of each lane. Below 2^-6,
 * where numbers have no leading one, it would count as half of the first number that has one: twice
 * the number less 2^-6 undoes that, and is never the lesser for the others. */
LN_INLINE vf f8_values(vi bytes) {
    vi magnitude = vi_and(bytes, vi_set(0x7f)), sign = vi_shl(vi_and(bytes, vi_set(0x80)), 24);
    vf x = vf_of_bits(vi_add(vi_shl(magnitude, 20), vi_set((127 - 7) << 23)));
    x = vf_min(x, vf_fma(x, vf_set(2.0f), vf_set(-0x1p-6f)));
    return vf_of_bits(vi_or(vi_of_bits(x), sign));
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
            vi even = vi_of_bits(f8_values(vi_from_u8(panel)));
            vi odd = vi_of_bits(f8_values(vi_from_u8(panel + LANES)));
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
