#include "format/quants.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "format/quants_block.h"

/* ---- single values to float32 ----------------------------------------------------------- */

static bool is_plain(ln_dtype dtype) {
    return dtype == LN_DTYPE_F32 || dtype == LN_DTYPE_F64 || dtype == LN_DTYPE_F16 ||
           dtype == LN_DTYPE_BF16;
}

/* A row at once, of which the compiler makes vectors. */
static void convert_plain(ln_dtype dtype, const uint8_t *src, float *out, size_t n) {
    double value;
    if (dtype == LN_DTYPE_F32)
        memcpy(out, src, n * sizeof *out);
    for (size_t i = 0; i < n && dtype == LN_DTYPE_F64; i++) {
        memcpy(&value, src + i * sizeof value, sizeof value);
        out[i] = (float)value;
    }
    for (size_t i = 0; i < n && dtype == LN_DTYPE_F16; i++)
        out[i] = ln_block_f16(src + 2 * i);
    for (size_t i = 0; i < n && dtype == LN_DTYPE_BF16; i++)
        out[i] = ln_f32_from_bf16(ln_block_u16(src + 2 * i));
}

/* ---- blocks of 32 to float32 ------------------------------------------------------------ */

/* scale f16; 16 bytes whose low nibbles are the first half and high nibbles the second */
static void block_q4_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)((block[2 + i % 16] >> 4 * (i / 16) & 15) - 8);
}

/* scale and minimum f16; nibbles as in Q4_0 */
static void block_q4_1(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block), min = ln_block_f16(block + 2);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(block[4 + i % 16] >> 4 * (i / 16) & 15) + min;
}

/* scale f16; u32 of fifth bits; nibbles */
static void block_q5_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    uint32_t high = ln_block_u32(block + 2);
    for (int i = 0; i < 32; i++) {
        int low = block[6 + i % 16] >> 4 * (i / 16) & 15;
        out[i] = scale * (float)((low | (int)(high >> i & 1) << 4) - 16);
    }
}

/* scale and minimum f16; u32 of fifth bits; nibbles */
static void block_q5_1(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block), min = ln_block_f16(block + 2);
    uint32_t high = ln_block_u32(block + 4);
    for (int i = 0; i < 32; i++) {
        int low = block[8 + i % 16] >> 4 * (i / 16) & 15;
        out[i] = scale * (float)(low | (int)(high >> i & 1) << 4) + min;
    }
}

/* scale f16; 32 int8 */
static void block_q8_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)block[2 + i] * scale;
}

/* exponent E8M0 of a scale that is halved, since the E2M1 values are doubled; nibbles */
static void block_mxfp4(const uint8_t *block, float *out) {
    uint32_t exponent = block[0];
    uint32_t bits = exponent < 2 ? 0x200000u << exponent : (exponent - 1) << 23;
    float scale = ln_f32_from_bits(bits);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)ln_e2m1_doubled[block[1 + i % 16] >> 4 * (i / 16) & 15];
}

/* 4 scales, E4M3 without a sign (its NaN counts as 0), of 16 elements each; nibbles of E2M1, the
 * low ones of 8 bytes the first half of 16 elements */
static void block_nvfp4(const uint8_t *block, float *out) {
    for (int i = 0; i < 64; i++) {
        uint8_t bits = block[i / 16] & 0x7f;
        float scale = bits == 0x7f ? 0.0f : 0.5f * ln_f32_from_e4m3(bits);
        uint8_t both = block[4 + i / 16 * 8 + i % 8];
        out[i] = scale * (float)ln_e2m1_doubled[both >> 4 * (i % 16 / 8) & 15];
    }
}

/* scale f16; 128 bits: 1 is the scale, 0 minus the scale */
static void block_q1_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 128; i++)
        out[i] = block[2 + i / 8] >> i % 8 & 1 ? scale : -scale;
}

/* scale f16; 64 times 2 bits, minus 1 */
static void block_q2_0(const uint8_t *block, float *out) {
    float scale = ln_block_f16(block);
    for (int i = 0; i < 64; i++)
        out[i] = (float)((block[2 + i / 4] >> i % 4 * 2 & 3) - 1) * scale;
}

static float block_f32_scale(const uint8_t *block) {
    float scale;
    memcpy(&scale, block, sizeof scale);
    return scale;
}

static void block_i4_g32(const uint8_t *block, float *out) {
    float scale = block_f32_scale(block);
    int zero = block[4];
    for (int i = 0; i < 32; i++)
        out[i] = (float)((block[5 + i % 16] >> 4 * (i / 16) & 15) - zero) * scale;
}

static void block_i8_g32(const uint8_t *block, float *out) {
    float scale = block_f32_scale(block);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)block[4 + i] * scale;
}

static void block_f8_g32(const uint8_t *block, float *out) {
    float scale = block_f32_scale(block);
    for (int i = 0; i < 32; i++)
        out[i] = ln_f32_from_e4m3(block[4 + i]) * scale;
}

static ln_block_fn block_fn(ln_dtype dtype) {
    switch (dtype) {
    case LN_DTYPE_Q4_0: return block_q4_0;
    case LN_DTYPE_Q4_1: return block_q4_1;
    case LN_DTYPE_Q5_0: return block_q5_0;
    case LN_DTYPE_Q5_1: return block_q5_1;
    case LN_DTYPE_Q8_0: return block_q8_0;
    case LN_DTYPE_MXFP4: return block_mxfp4;
    case LN_DTYPE_NVFP4: return block_nvfp4;
    case LN_DTYPE_Q1_0: return block_q1_0;
    case LN_DTYPE_Q2_0: return block_q2_0;
    case LN_DTYPE_Q2_K: return ln_block_q2_k;
    case LN_DTYPE_Q3_K: return ln_block_q3_k;
    case LN_DTYPE_Q4_K: return ln_block_q4_k;
    case LN_DTYPE_Q5_K: return ln_block_q5_k;
    case LN_DTYPE_Q6_K: return ln_block_q6_k;
    case LN_DTYPE_IQ1_S: return ln_block_iq1_s;
    case LN_DTYPE_IQ1_M: return ln_block_iq1_m;
    case LN_DTYPE_IQ2_XXS: return ln_block_iq2_xxs;
    case LN_DTYPE_IQ2_XS: return ln_block_iq2_xs;
    case LN_DTYPE_IQ2_S: return ln_block_iq2_s;
    case LN_DTYPE_IQ3_XXS: return ln_block_iq3_xxs;
    case LN_DTYPE_IQ3_S: return ln_block_iq3_s;
    case LN_DTYPE_IQ4_NL: return ln_block_iq4_nl;
    case LN_DTYPE_IQ4_XS: return ln_block_iq4_xs;
    case LN_DTYPE_TQ1_0: return ln_block_tq1_0;
    case LN_DTYPE_TQ2_0: return ln_block_tq2_0;
    case LN_DTYPE_I4_G32: return block_i4_g32;
    case LN_DTYPE_I8_G32: return block_i8_g32;
    case LN_DTYPE_F8_G32: return block_f8_g32;
    default: return NULL;
    }
}

bool ln_can_dequantize(ln_dtype dtype) {
    return is_plain(dtype) || block_fn(dtype) != NULL;
}

void ln_dequantize_row(ln_dtype dtype, const void *src, float *out, size_t n) {
    ln_block_fn convert = block_fn(dtype);
    size_t elems = ln_dtype_block_elems(dtype), bytes = ln_dtype_block_bytes(dtype);
    LN_BUG_ON(!ln_can_dequantize(dtype) || n % elems != 0);
    if (is_plain(dtype)) {
        convert_plain(dtype, src, out, n);
        return;
    }
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += elems, block += bytes)
        convert(block, out + i);
}
