/* Types whose values are not evenly spaced, from float32: IQ4_NL, IQ4_XS and MXFP4. The layouts
 * stand beside their readers in quants_iq.c and quants.c. */
#include "format/quantize/block.h"
#include "format/quantize/fit.h"

static const int8_t values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const ln_codes codes_iq4 = {.low = -127, .high = 113, .table = values_iq4, .n_table = 16};

/* 32 codes as nibbles, low ones first. */
static void pack_nibbles(const int8_t *codes, uint8_t *bytes) {
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)(codes[i] | codes[16 + i] << 4);
}

void ln_quantize_iq4_nl(const float *src, uint8_t *block) {
    ln_group_fit fit;
    ln_fit_groups(&codes_iq4, src, 32, &fit);
    for (int i = 0; i < LN_FIT_GROUPS; i++, block += 18) {
        ln_store_f16(block, fit.scales[i]);
        pack_nibbles(fit.codes + 32 * i, block + 2);
    }
}

static void put_iq4_xs(const ln_scaled_block *fit, uint8_t *block) {
    uint8_t *scales = block + 4, *values = block + 8;
    uint16_t high = 0;
    memset(scales, 0, 4);
    for (int group = 0; group < 8; group++) {
        int scale = fit->scales[group] + 32;
        scales[group / 2] |= (uint8_t)((scale & 15) << group % 2 * 4);
        high = (uint16_t)(high | scale >> 4 << 2 * group);
        pack_nibbles(fit->codes + 32 * group, values + 16 * group);
    }
    ln_store_f16(block, fit->d);
    memcpy(block + 2, &high, sizeof high);
}

void ln_quantize_iq4_xs(const float *src, uint8_t *block) {
    const ln_scaled_shape shape = {
        .n_groups = 8, .codes = codes_iq4, .scale_low = -32, .scale_high = 31};
    ln_scaled_block fits[2];
    ln_fit_scaled(&shape, src, fits);
    put_iq4_xs(&fits[0], block);
    put_iq4_xs(&fits[1], block + 136);
}

/* E2M1 numbers are 0, 0.5, 1, 1.5, 2, 3, 4, 6; the fourth bit is the sign. Returns the squared
 * error at the scale 2^exponent. */
static float round_mxfp4(const float *src, int exponent, uint8_t *codes) {
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float scale = ldexpf(1, exponent), inverse = ldexpf(1, -exponent);
    float error = 0;
    for (int i = 0; i < 32; i++) {
        float magnitude = fabsf(src[i]) * inverse;
        int code = 0;
        for (int j = 0; j < 7; j++)
            code += magnitude > 0.5f * (values[j] + values[j + 1]);
        float distance = (magnitude - values[code]) * scale;
        codes[i] = (uint8_t)(code | (src[i] < 0 && code > 0 ? 8 : 0));
        error += distance * distance;
    }
    return error;
}

void ln_quantize_mxfp4(const float *src, uint8_t *block) {
    float max = 0, best = INFINITY;
    uint8_t codes[32], tried[32];
    for (int i = 0; i < 32; i++)
        max = fabsf(src[i]) > max ? fabsf(src[i]) : max;
    int spanning = max > 0 ? ilogbf(max) - 2 : -127, chosen = -127;
    memset(codes, 0, sizeof codes);
    for (int exponent = spanning; exponent <= spanning + 1; exponent++) {
        if (exponent < -127 || exponent > 127)
            continue;
        float error = round_mxfp4(src, exponent, tried);
        if (error < best) {
            best = error;
            chosen = exponent;
            memcpy(codes, tried, sizeof codes);
        }
    }
    block[0] = (uint8_t)(chosen + 127);
    for (int i = 0; i < 16; i++)
        block[1 + i] = (uint8_t)(codes[i] | codes[16 + i] << 4);
}
