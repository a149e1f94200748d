/* Super-blocks of 256 values that are looked up, 8 or 4 at a time, in codebooks (grids). A grid
 * entry of 16 bits holds 8 values of 2 bits or 4 values of 4 bits, the first lowest. Each
 * function states its layout in the order of the bytes. */
#include "format/quants_block.h"

#include "format/quants_iq.inc"

static const float values_iq2[4] = {8, 25, 43, 0};
static const float values_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const int8_t values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const float delta_iq1 = 0.125f;

/* Seven stored sign bits; the eighth makes the number of minus signs even. */
static uint8_t complete_signs(uint32_t seven) {
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

static float apply_sign(float value, uint8_t signs, int bit) {
    return value * (signs >> bit & 1 ? -1.0f : 1.0f);
}

/* 8 values of an IQ2 grid */
static void unpack_iq2(uint16_t entry, float scale, uint8_t signs, float *out) {
    for (int i = 0; i < 8; i++)
        out[i] = apply_sign(scale * values_iq2[entry >> 2 * i & 3], signs, i);
}

/* f16 scale; per 32 values: grid indices[4], then u32 of 4 x 7 signs and 4 bits of scale */
void ln_block_iq2_xxs(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int group = 0; group < 8; group++) {
        const uint8_t *indices = block + 2 + 8 * group;
        uint32_t packed = ln_block_u32(indices + 4);
        float group_scale = scale * (0.5f + (float)(packed >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++)
            unpack_iq2(grid_iq2_xxs[indices[k]], group_scale, complete_signs(packed >> 7 * k),
                       out + 32 * group + 8 * k);
    }
}

/* f16 scale; u16[32] of 9 bits index and 7 signs; nibble scales[8] (per 16) */
void ln_block_iq2_xs(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++) {
        uint16_t packed = ln_block_u16(block + 2 + 2 * i);
        int nibble = block[66 + i / 4] >> i / 2 % 2 * 4 & 15;
        float group_scale = scale * (0.5f + (float)nibble) * 0.25f;
        unpack_iq2(grid_iq2_xs[packed & 511], group_scale, complete_signs(packed >> 9),
                   out + 8 * i);
    }
}

/* f16 scale; low indices[32]; signs[32]; upper index bits[8]; nibble scales[8] (per 16) */
void ln_block_iq2_s(const uint8_t *block, float *out) {
    const uint8_t *low = block + 2, *signs = block + 34, *high = block + 66, *scales = block + 74;
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++) {
        int index = low[i] | (high[i / 4] >> i % 4 * 2 & 3) << 8;
        int nibble = scales[i / 4] >> i / 2 % 2 * 4 & 15;
        float group_scale = scale * (0.5f + (float)nibble) * 0.25f;
        unpack_iq2(grid_iq2_s[index], group_scale, signs[i], out + 8 * i);
    }
}

/* f16 scale; indices[64]; per 32 values u32 of 4 x 7 signs and 4 bits of scale */
void ln_block_iq3_xxs(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 64; i++) {
        uint32_t packed = ln_block_u32(block + 66 + i / 8 * 4);
        float group_scale = scale * (0.5f + (float)(packed >> 28)) * 0.5f;
        uint8_t signs = complete_signs(packed >> i / 2 % 4 * 7);
        uint16_t entry = grid_iq3_xxs[block[2 + i]];
        for (int j = 0; j < 4; j++)
            out[4 * i + j] =
                apply_sign(group_scale * values_iq3_xxs[entry >> 4 * j & 7], signs, i % 2 * 4 + j);
    }
}

/* f16 scale; low indices[64]; ninth index bits[8]; signs[32]; nibble scales[4] (per 32) */
void ln_block_iq3_s(const uint8_t *block, float *out) {
    const uint8_t *low = block + 2, *high = block + 66, *signs = block + 74, *scales = block + 106;
    float scale = ln_block_f16(block);
    for (int i = 0; i < 64; i++) {
        int nibble = scales[i / 16] >> i / 8 % 2 * 4 & 15;
        float group_scale = scale * (float)(1 + 2 * nibble);
        uint16_t entry = grid_iq3_s[low[i] | (high[i / 8] >> i % 8 & 1) << 8];
        for (int j = 0; j < 4; j++) {
            float value = (float)(2 * (entry >> 4 * j & 7) + 1);
            out[4 * i + j] = apply_sign(group_scale * value, signs[i / 2], i % 2 * 4 + j);
        }
    }
}

/* 8 values of the IQ1 grid: -1, 0 or 1, all moved by delta */
static void unpack_iq1(uint16_t entry, float scale, float delta, float *out) {
    for (int i = 0; i < 8; i++)
        out[i] = scale * ((float)((entry >> 2 * i & 3) - 1) + delta);
}

/* f16 scale; low indices[32]; u16 per 32 values: 4 x 3 upper index bits, 3 bits of scale, sign of
 * delta */
void ln_block_iq1_s(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++) {
        uint16_t packed = ln_block_u16(block + 34 + i / 4 * 2);
        float group_scale = scale * (float)(2 * (packed >> 12 & 7) + 1);
        float delta = packed & 0x8000 ? -delta_iq1 : delta_iq1;
        int index = block[2 + i] | (packed >> i % 4 * 3 & 7) << 8;
        unpack_iq1(grid_iq1[index], group_scale, delta, out + 8 * i);
    }
}

/* low indices[32]; nibbles[16] of 3 upper index bits and the sign of delta; u16 scales[4] of 4 x 3
 * bits (per 16 values), whose upper nibbles together are the f16 scale */
void ln_block_iq1_m(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 32, *scales = block + 48;
    uint32_t half = 0;
    for (int k = 0; k < 4; k++)
        half |= (uint32_t)(ln_block_u16(scales + 2 * k) >> 12) << 4 * k;
    float scale = ln_f32_from_f16((uint16_t)half);
    for (int i = 0; i < 32; i++) {
        int nibble = high[i / 2] >> i % 2 * 4 & 15;
        int group = i / 2;
        int three = ln_block_u16(scales + group / 4 * 2) >> group % 4 * 3 & 7;
        float group_scale = scale * (float)(2 * three + 1);
        float delta = nibble & 8 ? -delta_iq1 : delta_iq1;
        unpack_iq1(grid_iq1[low[i] | (nibble & 7) << 8], group_scale, delta, out + 8 * i);
    }
}

/* f16 scale; 16 bytes of nibbles, low ones first; a block of 32 */
void ln_block_iq4_nl(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)values_iq4[block[2 + i % 16] >> i / 16 * 4 & 15];
}

/* f16 scale; u16 of upper scale bits; nibble scales[4] (per 32); values[128], 32 as in IQ4_NL */
void ln_block_iq4_xs(const uint8_t *block, float *out) {
    const uint8_t *scales = block + 4, *values = block + 8;
    float scale = ln_block_f16(block);
    uint16_t high = ln_block_u16(block + 2);
    for (int group = 0; group < 8; group++) {
        int nibble = scales[group / 2] >> group % 2 * 4 & 15;
        float group_scale = scale * (float)((nibble | (high >> 2 * group & 3) << 4) - 32);
        for (int i = 0; i < 32; i++) {
            int value = values[16 * group + i % 16] >> i / 16 * 4 & 15;
            out[32 * group + i] = group_scale * (float)values_iq4[value];
        }
    }
}
