/* Super-blocks of 256 values in groups of 16 or 32 that have small scales of their own, and
 * ternary blocks. Each function states its layout in the order of the bytes. */
#include "format/quants_block.h"

/* Values of 2 bits: byte j of each 32 holds elements j, j + 32, j + 64 and j + 96 of 128. */
static int two_bits(const uint8_t *bytes, int i) {
    return bytes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* scales[16] (low nibble scale, high nibble minimum, per 16), values[64], f16 scale, f16 min */
void ln_block_q2_k(const uint8_t *block, float *out) {
    const uint8_t *scales = block, *values = block + 16;
    float scale = ln_block_f16(block + 80), min = ln_block_f16(block + 82);
    for (int i = 0; i < 256; i++) {
        float group_scale = scale * (float)(scales[i / 16] & 15);
        float group_min = min * (float)(scales[i / 16] >> 4);
        out[i] = group_scale * (float)two_bits(values, i) - group_min;
    }
}

/* inverted third bits[32], values[64], scales[12] of 6 bits (per 16), f16 scale */
void ln_block_q3_k(const uint8_t *block, float *out) {
    const uint8_t *high = block, *values = block + 32, *scales = block + 96;
    float scale = ln_block_f16(block + 108);
    for (int i = 0; i < 256; i++) {
        int group = i / 16;
        int low_bits = scales[group % 8] >> group / 8 * 4 & 15;
        int high_bits = scales[8 + group % 4] >> group / 4 * 2 & 3;
        float group_scale = scale * (float)((low_bits | high_bits << 4) - 32);
        int borrow = high[i % 32] >> i / 32 & 1 ? 0 : 4;
        out[i] = group_scale * (float)(two_bits(values, i) - borrow);
    }
}

/* Scale and minimum of group 0 to 7 from 12 bytes: 6 bits each; the upper two bits of groups 4
 * to 7 sit above those of groups 0 to 3. */
static void unpack_scale(const uint8_t *scales, int group, float *scale, float *min) {
    int s, m;
    if (group < 4) {
        s = scales[group] & 63;
        m = scales[group + 4] & 63;
    } else {
        s = (scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4;
        m = scales[group + 4] >> 4 | (scales[group] >> 6) << 4;
    }
    *scale = (float)s;
    *min = (float)m;
}

/* Shared by Q4_K and Q5_K: f16 scale, f16 min, scales[12], and in Q5_K fifth bits[32] (bit g of
 * byte j belongs to group g), values[128] (bytes of two groups of 32, one in each nibble). */
static void unpack_4_or_5(const uint8_t *block, const uint8_t *high, const uint8_t *values,
                          float *out) {
    float scale = ln_block_f16(block), min = ln_block_f16(block + 2);
    for (int group = 0; group < 8; group++) {
        float group_scale, group_min;
        unpack_scale(block + 4, group, &group_scale, &group_min);
        group_scale *= scale;
        group_min *= min;
        for (int j = 0; j < 32; j++) {
            int value = values[group / 2 * 32 + j] >> group % 2 * 4 & 15;
            if (high != NULL)
                value |= (high[j] >> group & 1) << 4;
            out[group * 32 + j] = group_scale * (float)value - group_min;
        }
    }
}

void ln_block_q4_k(const uint8_t *block, float *out) {
    unpack_4_or_5(block, NULL, block + 16, out);
}

void ln_block_q5_k(const uint8_t *block, float *out) {
    unpack_4_or_5(block, block + 16, block + 48, out);
}

/* low nibbles[128], upper bits[64], int8 scales[16] (per 16), f16 scale */
void ln_block_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    float scale = ln_block_f16(block + 208);
    for (int i = 0; i < 256; i++) {
        int nibble = low[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
        float group_scale = scale * (float)(int8_t)scales[i / 16];
        out[i] = group_scale * (float)((nibble | two_bits(high, i) << 4) - 32);
    }
}

/* A byte holds trits as a fraction of 256: times 3^place, then the carry of one more times 3. */
static int trit(uint8_t byte, int place) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return ((uint8_t)(byte * powers[place]) * 3 >> 8) - 1;
}

/* values[48] of five trits (in runs of 32 and 16 bytes), values[4] of four, f16 scale */
void ln_block_tq1_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block + 52);
    for (int i = 0; i < 160; i++)
        out[i] = scale * (float)trit(block[i % 32], i / 32);
    for (int i = 0; i < 80; i++)
        out[160 + i] = scale * (float)trit(block[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++)
        out[240 + i] = scale * (float)trit(block[48 + i % 4], i / 4);
}

/* values[64], f16 scale */
void ln_block_tq2_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block + 64);
    for (int i = 0; i < 256; i++)
        out[i] = scale * (float)(two_bits(block, i) - 1);
}
