/* Floats of 16 bits, IEEE binary16 and bfloat16, by bit-exact conversions that round to nearest
 * even; and E4M3 and E8M0 of 8 bits, likewise. */
#ifndef LN_BASE_HALF_H
#define LN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ln_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ln_bits_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* E4M3 has no infinities; NaN is all ones. */
static inline float ln_f32_from_e4m3(uint8_t byte) {
    uint32_t exponent = byte >> 3 & 15, mantissa = byte & 7;
    float value = exponent == 0 ? (float)mantissa * 0x1p-9f
                                : ln_f32_from_bits((exponent + 120) << 23 | mantissa << 20);
    if ((byte & 0x7f) == 0x7f)
        value = ln_f32_from_bits(0x7fc00000u);
    return byte & 0x80 ? -value : value;
}

/* A power of two; all ones is NaN. */
static inline float ln_f32_from_e8m0(uint8_t byte) {
    return ln_f32_from_bits(byte == 0xff ? 0x7fc00000u
                            : byte == 0  ? 0x400000u
                                         : (uint32_t)byte << 23);
}

/* What is larger than 448, and NaN, becomes 448. */
static inline uint8_t ln_e4m3_from_f32(float value) {
    uint32_t bits = ln_bits_from_f32(value), rest = bits & 0x7fffffffu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (rest > 0x43e00000u)
        return sign | 0x7e;
    if (rest < 0x3c800000u) { /* below 2^-6: adding 2^14 aligns the units of 2^-9 */
        float aligned = ln_f32_from_bits(rest) + 0x1p14f;
        return (uint8_t)(sign | (ln_bits_from_f32(aligned) - 0x46800000u));
    }
    return (uint8_t)(sign | ((rest + 0x7ffffu + (rest >> 20 & 1) - 0x3c000000u) >> 20));
}

static inline float ln_f32_from_bf16(uint16_t half) {
    return ln_f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t ln_bf16_from_f32(float value) {
    uint32_t bits = ln_bits_from_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* a quiet NaN */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float ln_f32_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, NaN */
        return ln_f32_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) /* zero, subnormal: rest * 2^-24 is exact */
        return ln_f32_from_bits(sign | ln_bits_from_f32((float)rest * 0x1p-24f));
    return ln_f32_from_bits(sign | ((rest << 13) + 0x38000000u));
}

static inline uint16_t ln_f16_from_f32(float value) {
    uint32_t bits = ln_bits_from_f32(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* below 2^-14: adding 0.5 aligns the units of 2^-24 */
        float aligned = ln_f32_from_bits(rest) + 0.5f;
        return (uint16_t)(sign | (ln_bits_from_f32(aligned) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((rest + 0xfffu + (rest >> 13 & 1) - 0x38000000u) >> 13));
}

#endif
