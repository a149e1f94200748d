/* Super-blocks of 256 values in groups that have small scales of their own, from float32. The
 * layouts stand beside their readers in quants_k.c. */
#include "format/quantize/block.h"
#include "format/quantize/fit.h"

_Static_assert(LN_FIT_GROUPS == 16, "a fit has one super-block of 16 groups or two of 8");

/* Values of 2 bits: byte j of each 32 holds elements j, j + 32, j + 64 and j + 96 of 128. */
static void put_two_bits(uint8_t *bytes, int i, int value) {
    bytes[i / 128 * 32 + i % 32] |= (uint8_t)(value << i % 128 / 32 * 2);
}

void ln_quantize_q2_k(const float *src, uint8_t *block) {
    static const ln_affine_shape shape = {.n_groups = 16, .max_level = 3, .max_scale = 15};
    ln_affine_block fit;
    ln_fit_affine(&shape, src, &fit);
    memset(block, 0, 80);
    for (int group = 0; group < 16; group++)
        block[group] = (uint8_t)(fit.scales[group] | fit.mins[group] << 4);
    for (int i = 0; i < 256; i++)
        put_two_bits(block + 16, i, fit.levels[i]);
    ln_store_f16(block + 80, fit.d);
    ln_store_f16(block + 82, fit.min_d);
}

void ln_quantize_q3_k(const float *src, uint8_t *block) {
    static const ln_scaled_shape shape = {
        .n_groups = 16, .codes = {.low = -4, .high = 3}, .scale_low = -32, .scale_high = 31};
    uint8_t *high = block, *values = block + 32, *scales = block + 96;
    ln_scaled_block fit;
    ln_fit_scaled(&shape, src, &fit);
    memset(block, 0, 108);
    for (int group = 0; group < 16; group++) {
        int scale = fit.scales[group] + 32;
        scales[group % 8] |= (uint8_t)((scale & 15) << group / 8 * 4);
        scales[8 + group % 4] |= (uint8_t)(scale >> 4 << group / 4 * 2);
    }
    for (int i = 0; i < 256; i++) {
        int value = fit.codes[i] + 4;
        put_two_bits(values, i, value & 3);
        high[i % 32] |= (uint8_t)(value >> 2 << i / 32);
    }
    ln_store_f16(block + 108, fit.d);
}

/* Scales and minimums of 8 groups in 12 bytes, 6 bits each. */
static void pack_scales(const ln_affine_block *fit, uint8_t *scales) {
    for (int group = 0; group < 4; group++) {
        int scale = fit->scales[group + 4], min = fit->mins[group + 4];
        scales[group] = (uint8_t)(fit->scales[group] | scale >> 4 << 6);
        scales[group + 4] = (uint8_t)(fit->mins[group] | min >> 4 << 6);
        scales[group + 8] = (uint8_t)((scale & 15) | (min & 15) << 4);
    }
}

/* Shared by Q4_K and Q5_K; `high` is NULL or receives the fifth bits. */
static void put_4_or_5(const ln_affine_block *fit, uint8_t *block, uint8_t *high, uint8_t *values) {
    ln_store_f16(block, fit->d);
    ln_store_f16(block + 2, fit->min_d);
    pack_scales(fit, block + 4);
    memset(values, 0, 128);
    if (high != NULL)
        memset(high, 0, 32);
    for (int i = 0; i < 256; i++) {
        int group = i / 32, level = fit->levels[i];
        values[group / 2 * 32 + i % 32] |= (uint8_t)((level & 15) << group % 2 * 4);
        if (high != NULL)
            high[i % 32] |= (uint8_t)(level >> 4 << group);
    }
}

void ln_quantize_q4_k(const float *src, uint8_t *block) {
    static const ln_affine_shape shape = {.n_groups = 8, .max_level = 15, .max_scale = 63};
    ln_affine_block fits[2];
    ln_fit_affine(&shape, src, fits);
    for (int i = 0; i < 2; i++, block += 144)
        put_4_or_5(&fits[i], block, NULL, block + 16);
}

void ln_quantize_q5_k(const float *src, uint8_t *block) {
    static const ln_affine_shape shape = {.n_groups = 8, .max_level = 31, .max_scale = 63};
    ln_affine_block fits[2];
    ln_fit_affine(&shape, src, fits);
    for (int i = 0; i < 2; i++, block += 176)
        put_4_or_5(&fits[i], block, block + 16, block + 48);
}

void ln_quantize_q6_k(const float *src, uint8_t *block) {
    static const ln_scaled_shape shape = {
        .n_groups = 16, .codes = {.low = -32, .high = 31}, .scale_low = -128, .scale_high = 127};
    uint8_t *low = block, *high = block + 128, *scales = block + 192;
    ln_scaled_block fit;
    ln_fit_scaled(&shape, src, &fit);
    memset(block, 0, 192);
    for (int group = 0; group < 16; group++)
        scales[group] = (uint8_t)(int8_t)fit.scales[group];
    for (int i = 0; i < 256; i++) {
        int value = fit.codes[i] + 32;
        low[i / 128 * 64 + i % 64] |= (uint8_t)((value & 15) << i % 128 / 64 * 4);
        put_two_bits(high, i, value >> 4);
    }
    ln_store_f16(block + 208, fit.d);
}
