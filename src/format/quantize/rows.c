/* From float32: the front of all types, plain values, and blocks of 32 with evenly spaced
 * values. The latter equal those of the public `gguf` Python package bit for bit. */
#include <stdbool.h>

#include "base/error.h"
#include "format/quantize/block.h"
#include "format/quants.h"

static bool is_plain(ln_dtype dtype) {
    return dtype == LN_DTYPE_F32 || dtype == LN_DTYPE_F16 || dtype == LN_DTYPE_BF16;
}

/* A row at once, of which the compiler makes vectors. */
static void convert_plain(ln_dtype dtype, const float *src, uint8_t *dst, size_t n) {
    if (dtype == LN_DTYPE_F32)
        memcpy(dst, src, n * sizeof *src);
    for (size_t i = 0; i < n && dtype == LN_DTYPE_F16; i++)
        ln_store_f16(dst + 2 * i, src[i]);
    for (size_t i = 0; i < n && dtype == LN_DTYPE_BF16; i++) {
        uint16_t half = ln_bf16_from_f32(src[i]);
        memcpy(dst + 2 * i, &half, sizeof half);
    }
}

/* The nearest whole number, away from zero in the middle: roundf, which is not inlined, of numbers
 * up to 2^22. */
static int round_away(float value) {
    float magnitude = fabsf(value);
    int whole = (int)magnitude;
    whole += magnitude - (float)whole >= 0.5f;
    return value < 0 ? -whole : whole;
}

/* A value that is not finite, or overflows once it is scaled, becomes 0. */
static void quantize_q8_0(const float *src, uint8_t *block) {
    float max = 0;
    for (int i = 0; i < 32; i++)
        max = fabsf(src[i]) > max ? fabsf(src[i]) : max;
    float scale = max / 127;
    float inverse = scale == 0 ? 0 : 1 / scale;
    ln_store_f16(block, scale);
    for (int i = 0; i < 32; i++) {
        float scaled = src[i] * inverse;
        block[2 + i] = (uint8_t)round_away(fabsf(scaled) < 127.5f ? scaled : 0);
    }
}

/* The value that is largest in magnitude, the first of equals. */
static float extreme_of(const float *src) {
    float extreme = src[0];
    for (int i = 1; i < 32; i++)
        if (fabsf(src[i]) > fabsf(extreme))
            extreme = src[i];
    return extreme;
}

/* Whole part of a number that is meant to lie from 0 to max. */
static uint8_t truncate_level(float value, int max) {
    return value >= 0 ? (uint8_t)(value < (float)max ? value : (float)max) : 0;
}

/* (src - offset) * inverse + rounding, cut to levels from 0 to max. */
static void round_levels(const float *src, float offset, float inverse, float rounding, int max,
                         uint8_t levels[32]) {
    for (int i = 0; i < 32; i++)
        levels[i] = truncate_level((src[i] - offset) * inverse + rounding, max);
}

/* The low four bits of the first half of levels, then of the second, in nibbles. */
static void pack_nibbles(const uint8_t levels[32], uint8_t *bytes) {
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)((levels[i] & 15) | levels[16 + i] << 4);
}

static void pack_fifth_bits(const uint8_t levels[32], uint8_t *bytes) {
    memset(bytes, 0, 4);
    for (int i = 0; i < 32; i++)
        bytes[i / 8] |= (uint8_t)(levels[i] >> 4 << i % 8);
}

/* Q4_0 and Q5_0: the extreme becomes the lowest level. */
static float round_signed(const float *src, int max, uint8_t levels[32]) {
    int half = (max + 1) / 2;
    float scale = extreme_of(src) / (float)-half;
    round_levels(src, 0, scale == 0 ? 0 : 1 / scale, (float)half + 0.5f, max, levels);
    return scale;
}

/* Q4_1 and Q5_1: from the lowest value to the highest. */
static float round_unsigned(const float *src, int max, float *min, uint8_t levels[32]) {
    float low = src[0], high = src[0];
    for (int i = 1; i < 32; i++) {
        low = src[i] < low ? src[i] : low;
        high = src[i] > high ? src[i] : high;
    }
    float scale = (high - low) / (float)max;
    round_levels(src, low, scale == 0 ? 0 : 1 / scale, 0.5f, max, levels);
    *min = low;
    return scale;
}

static void quantize_q4_0(const float *src, uint8_t *block) {
    uint8_t levels[32];
    ln_store_f16(block, round_signed(src, 15, levels));
    pack_nibbles(levels, block + 2);
}

static void quantize_q4_1(const float *src, uint8_t *block) {
    uint8_t levels[32];
    float min;
    ln_store_f16(block, round_unsigned(src, 15, &min, levels));
    ln_store_f16(block + 2, min);
    pack_nibbles(levels, block + 4);
}

static void quantize_q5_0(const float *src, uint8_t *block) {
    uint8_t levels[32];
    ln_store_f16(block, round_signed(src, 31, levels));
    pack_fifth_bits(levels, block + 2);
    pack_nibbles(levels, block + 6);
}

static void quantize_q5_1(const float *src, uint8_t *block) {
    uint8_t levels[32];
    float min;
    ln_store_f16(block, round_unsigned(src, 31, &min, levels));
    ln_store_f16(block + 2, min);
    pack_fifth_bits(levels, block + 4);
    pack_nibbles(levels, block + 8);
}

typedef struct conversion {
    ln_quantize_fn run; /* NULL: rows are not written in this type */
    size_t n_blocks;    /* at once */
} conversion;

static conversion conversion_to(ln_dtype dtype) {
    static const conversion known[LN_DTYPE_COUNT] = {
        [LN_DTYPE_Q4_0] = {quantize_q4_0, 1},         [LN_DTYPE_Q4_1] = {quantize_q4_1, 1},
        [LN_DTYPE_Q5_0] = {quantize_q5_0, 1},         [LN_DTYPE_Q5_1] = {quantize_q5_1, 1},
        [LN_DTYPE_Q8_0] = {quantize_q8_0, 1},         [LN_DTYPE_Q2_K] = {ln_quantize_q2_k, 1},
        [LN_DTYPE_Q3_K] = {ln_quantize_q3_k, 1},      [LN_DTYPE_Q4_K] = {ln_quantize_q4_k, 2},
        [LN_DTYPE_Q5_K] = {ln_quantize_q5_k, 2},      [LN_DTYPE_Q6_K] = {ln_quantize_q6_k, 1},
        [LN_DTYPE_IQ4_NL] = {ln_quantize_iq4_nl, 16}, [LN_DTYPE_IQ4_XS] = {ln_quantize_iq4_xs, 2},
        [LN_DTYPE_MXFP4] = {ln_quantize_mxfp4, 1},
    };
    return (size_t)dtype < LN_DTYPE_COUNT ? known[dtype] : (conversion){0};
}

bool ln_can_quantize(ln_dtype dtype) {
    return is_plain(dtype) || conversion_to(dtype).run != NULL;
}

/* Fewer blocks than the conversion makes at once. */
static void quantize_rest(conversion to, const float *src, size_t n, uint8_t *dst, size_t n_bytes) {
    float padded[LN_MOST_ELEMS] = {0};
    uint8_t blocks[LN_MOST_ELEMS * sizeof(float)];
    memcpy(padded, src, n * sizeof *src);
    to.run(padded, blocks);
    memcpy(dst, blocks, n_bytes);
}

void ln_quantize_row(ln_dtype dtype, const float *src, void *dst, size_t n) {
    conversion to = conversion_to(dtype);
    size_t elems = ln_dtype_block_elems(dtype), bytes = ln_dtype_block_bytes(dtype);
    LN_BUG_ON(!ln_can_quantize(dtype) || n % elems != 0);
    if (is_plain(dtype)) {
        convert_plain(dtype, src, dst, n);
        return;
    }
    uint8_t *block = dst;
    size_t n_blocks = n / elems;
    for (; n_blocks >= to.n_blocks; n_blocks -= to.n_blocks) {
        to.run(src, block);
        src += to.n_blocks * elems;
        block += to.n_blocks * bytes;
    }
    if (n_blocks > 0)
        quantize_rest(to, src, n_blocks * elems, block, n_blocks * bytes);
}
