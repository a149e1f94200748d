#include "backend/cpu/pack_read.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/grid.h"
#include "base/error.h"
#include "base/half.h"

enum { LANES = LN_PANEL_ROWS, STEP_BYTES = 64 };

static float half_at(const uint8_t *p, size_t lane) {
    uint16_t bits;
    memcpy(&bits, p + lane * 2, 2);
    return ln_f32_from_f16(bits);
}

static float float_at(const uint8_t *p, size_t lane) {
    float x;
    memcpy(&x, p + lane * 4, 4);
    return x;
}

/* The 4-bit quant of column i of a block of nibbles. */
static int nibble_at(const uint8_t *p, size_t lane, size_t i) {
    return p[i % 16 / 4 * STEP_BYTES + lane * 4 + i % 4] >> i / 16 * 4 & 0xf;
}

static int bit_at(const uint8_t *p, size_t lane, size_t i) {
    return p[lane * 4 + i % 4] >> i / 4 & 1;
}

static int two_at(const uint8_t *p, size_t lane, size_t i) {
    return p[i / 4 % 2 * STEP_BYTES + lane * 4 + i % 4] >> i / 8 * 2 & 3;
}

static int six_at(const uint8_t *p, size_t lane, size_t i) {
    const uint8_t *q = p + i / 16 * 3 * STEP_BYTES + lane * 4 + i % 4;
    size_t step = i / 4 % 4;
    return step < 3 ? q[step * STEP_BYTES] & 63
                    : q[0] >> 6 | q[STEP_BYTES] >> 6 << 2 | q[2 * STEP_BYTES] >> 6 << 4;
}

/* Place `place` of the trits of a byte. */
static int trit_of(uint8_t byte, size_t place) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * powers[place]) * 3 >> 8;
}

static int trit_at(const uint8_t *p, size_t lane, size_t i) {
    size_t step = i / 4, vector = step % 8, place = step / 8;
    if (step >= 60) {
        vector = 12;
        place = step - 60;
    } else if (step >= 40) {
        vector = 8 + step % 4;
        place = (step - 40) / 4;
    }
    return trit_of(p[vector * STEP_BYTES + lane * 4 + i % 4], place);
}

/* Column i of a block of 32 columns or less. */
static float read_block(ln_pack pack, const uint8_t *p, size_t lane, size_t i) {
    switch (pack) {
    case LN_PACK_Q4_0: return half_at(p, lane) * (float)(nibble_at(p + 32, lane, i) - 8);
    case LN_PACK_Q1_0: return half_at(p, lane) * (float)(2 * bit_at(p + 32, lane, i) - 1);
    case LN_PACK_Q2_0: return half_at(p, lane) * (float)(two_at(p + 32, lane, i) - 1);
    case LN_PACK_Q8_0:
        return half_at(p, lane) * (float)(p[32 + i / 4 * STEP_BYTES + lane * 4 + i % 4] - 128);
    case LN_PACK_Q5_0:
        return half_at(p, lane) *
               (float)((nibble_at(p + 32, lane, i) | bit_at(p + 288, lane, i) << 4) - 16);
    case LN_PACK_Q4_1:
        return half_at(p, lane) * (float)nibble_at(p + 64, lane, i) + half_at(p + 32, lane);
    case LN_PACK_Q5_1:
        return half_at(p, lane) *
                   (float)(nibble_at(p + 64, lane, i) | bit_at(p + 320, lane, i) << 4) +
               half_at(p + 32, lane);
    case LN_PACK_IQ4_NL:
        return half_at(p, lane) * (float)(ln_pack_iq4[nibble_at(p + 32, lane, i)] - 128);
    case LN_PACK_I8:
        return float_at(p, lane) * (float)(p[64 + i / 4 * STEP_BYTES + lane * 4 + i % 4] - 128);
    case LN_PACK_I4: return float_at(p, lane) * (float)(nibble_at(p + 80, lane, i) - p[64 + lane]);
    case LN_PACK_MXFP4:
        return (float)(ln_pack_fp4[nibble_at(p + 16, lane, i)] - 128) * ldexpf(0.5f, p[lane] - 127);
    case LN_PACK_F8: return float_at(p, lane) * ln_f32_from_e4m3(p[64 + i * LANES + lane]);
    case LN_PACK_BF16: {
        uint16_t bits;
        memcpy(&bits, p + lane * 4 + i * 2, 2);
        return ln_f32_from_bf16(bits);
    }
    default: LN_BUG_ON(true); return 0.0f;
    }
}

/* Column i of 256. */
static float read_super(ln_pack pack, const uint8_t *p, size_t lane, size_t i) {
    size_t block = i / 32, at = i % 32;
    switch (pack) {
    case LN_PACK_Q4_K:
        return half_at(p, lane) * (float)p[64 + block * LANES + lane] *
                   (float)nibble_at(p + 320 + block * 256, lane, at) -
               half_at(p + 32, lane) * (float)p[192 + block * LANES + lane];
    case LN_PACK_Q5_K: {
        const uint8_t *q = p + 320 + block * 320;
        int quant = nibble_at(q, lane, at) | bit_at(q + 256, lane, at) << 4;
        return half_at(p, lane) * (float)p[64 + block * LANES + lane] * (float)quant -
               half_at(p + 32, lane) * (float)p[192 + block * LANES + lane];
    }
    case LN_PACK_Q3_K:
        return half_at(p, lane) * (float)(int8_t)p[32 + i / 16 * LANES + lane] *
               (float)((two_at(p + 288 + block * 192, lane, at) |
                        bit_at(p + 288 + block * 192 + 128, lane, at) << 2) -
                       4);
    case LN_PACK_Q2_K: {
        uint8_t scales = p[64 + i / 16 * LANES + lane];
        return half_at(p, lane) * (float)(scales & 15) *
                   (float)two_at(p + 320 + block * 128, lane, at) -
               half_at(p + 32, lane) * (float)(scales >> 4);
    }
    case LN_PACK_IQ4_XS:
        return half_at(p, lane) * (float)(int8_t)p[32 + block * LANES + lane] *
               (float)(ln_pack_iq4[nibble_at(p + 160 + block * 256, lane, at)] - 128);
    case LN_PACK_Q6_K:
        return half_at(p, lane) * (float)(int8_t)p[32 + i / 16 * LANES + lane] *
               (float)(six_at(p + 288 + block * 384, lane, at) - 32);
    case LN_PACK_TQ1_0: return half_at(p, lane) * (float)(trit_at(p + 32, lane, i) - 1);
    case LN_PACK_TQ2_0:
        return half_at(p, lane) * (float)(two_at(p + 32 + block * 128, lane, at) - 1);
    default: return ln_grid_read(pack, p, lane, i);
    }
}

static float read_quant(ln_pack pack, const uint8_t *p, size_t lane, size_t i) {
    return ln_pack_shapes[pack].cols == LN_PACK_SUPER ? read_super(pack, p, lane, i)
                                                      : read_block(pack, p, lane, i);
}

void ln_pack_read_row(ln_pack pack, const uint8_t *panel, size_t lane, size_t n_cols, float *out) {
    ln_pack_shape shape = ln_pack_shapes[pack];
    for (size_t i = 0; i < n_cols; i++)
        out[i] = read_quant(pack, panel + i / shape.cols * shape.bytes, lane, i % shape.cols);
}
