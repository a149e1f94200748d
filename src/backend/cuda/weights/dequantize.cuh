/* Eight consecutive elements of a row of weights as float32, for each type that matrices come in.
 * The formulas and the layouts of blocks are those of format/quants.c, and so are the bits. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_DEQUANTIZE_CUH
#define LN_BACKEND_CUDA_WEIGHTS_DEQUANTIZE_CUH

#include "backend/cuda/ptx/float16.cuh"

/* A row's elements are loaded in groups of this many; no scale changes within one. */
enum { LN_GROUP = 8 };

static __device__ __forceinline__ uint32_t ln_u16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

static __device__ __forceinline__ uint32_t ln_u32(const uint8_t *bytes) {
    return ln_u16(bytes) | ln_u16(bytes + 2) << 16;
}

static __device__ __forceinline__ float ln_half_at(const uint8_t *bytes) {
    return ln_f16((uint16_t)ln_u16(bytes));
}

static __device__ __forceinline__ float ln_float_at(const uint8_t *bytes) {
    return __uint_as_float(ln_u32(bytes));
}

/* ---- unquantised values; rows are padded to whole groups ----------------------------------- */

static __device__ __forceinline__ void ln_load_f32(const uint8_t *row, size_t k, float *out) {
    const float4 *x = (const float4 *)(row + k * sizeof(float));
    float4 a = x[0], b = x[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
}

static __device__ __forceinline__ void ln_load_f64(const uint8_t *row, size_t k, float *out) {
    const double *x = (const double *)row + k;
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = (float)x[i];
}

static __device__ __forceinline__ void ln_load_f16(const uint8_t *row, size_t k, float *out) {
    uint4 x = *(const uint4 *)(row + k * 2);
    const uint32_t words[4] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < 4; i++) {
        out[2 * i] = ln_f16((uint16_t)words[i]);
        out[2 * i + 1] = ln_f16((uint16_t)(words[i] >> 16));
    }
}

static __device__ __forceinline__ void ln_load_bf16(const uint8_t *row, size_t k, float *out) {
    uint4 x = *(const uint4 *)(row + k * 2);
    const uint32_t words[4] = {x.x, x.y, x.z, x.w};
    for (int i = 0; i < 4; i++) {
        out[2 * i] = __uint_as_float(words[i] << 16);
        out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}

/* ---- blocks of 32 --------------------------------------------------------------------------- */

/* Nibbles of elements j .. j + 7 of a block whose 16 bytes hold the first half low. */
static __device__ __forceinline__ int ln_nibble(const uint8_t *bytes, int i) {
    return bytes[i % 16] >> 4 * (i / 16) & 15;
}

static __device__ __forceinline__ void ln_load_q4_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 18;
    float scale = ln_half_at(block);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = scale * (float)(ln_nibble(block + 2, j + i) - 8);
}

static __device__ __forceinline__ void ln_load_q4_1(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 20;
    float scale = ln_half_at(block), min = ln_half_at(block + 2);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = scale * (float)ln_nibble(block + 4, j + i) + min;
}

static __device__ __forceinline__ void ln_load_q5_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 22;
    float scale = ln_half_at(block);
    uint32_t high = ln_u32(block + 2);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] =
            scale * (float)((ln_nibble(block + 6, j + i) | (int)(high >> (j + i) & 1) << 4) - 16);
}

static __device__ __forceinline__ void ln_load_q5_1(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 24;
    float scale = ln_half_at(block), min = ln_half_at(block + 2);
    uint32_t high = ln_u32(block + 4);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] =
            scale * (float)(ln_nibble(block + 8, j + i) | (int)(high >> (j + i) & 1) << 4) + min;
}

static __device__ __forceinline__ void ln_load_q8_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 34;
    float scale = ln_half_at(block);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = (float)(int8_t)block[2 + j + i] * scale;
}

/* Half of 2^(exponent - 127). */
static __device__ __forceinline__ float ln_half_e8m0(uint32_t exponent) {
    return __uint_as_float(exponent < 2 ? 0x200000u << exponent : (exponent - 1) << 23);
}

/* E2M1, doubled */
static __device__ __forceinline__ float ln_e2m1_doubled(int code) {
    int e = code >> 1 & 3, m = code & 1, value = e == 0 ? m : (2 + m) << (e - 1);
    return (float)(code & 8 ? -value : value);
}

/* E2M1, doubled, behind a halved scale */
static __device__ __forceinline__ void ln_load_mxfp4(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 17;
    float scale = ln_half_e8m0(block[0]);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = scale * ln_e2m1_doubled(ln_nibble(block + 1, j + i));
}

/* The same with a scale of E4M3, without its sign, for each 16 elements; its NaN counts as 0. */
static __device__ __forceinline__ void ln_load_nvfp4(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 64 * 36;
    int sub = (int)(k % 64 / 16), bits = block[sub] & 0x7f;
    /* the bits of E4M3 are those of a half 256 times smaller; the scale is halved */
    float scale = bits == 0x7f ? 0.0f : 128.0f * ln_f16((uint16_t)(bits << 7));
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * ln_e2m1_doubled(block[4 + sub * 8 + i] >> (k % 16 / 8 * 4) & 15);
}

static __device__ __forceinline__ void ln_load_q1_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 128 * 18;
    float scale = ln_half_at(block);
    int bits = block[2 + k % 128 / 8];
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = bits >> i & 1 ? scale : -scale;
}

static __device__ __forceinline__ void ln_load_q2_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 64 * 18;
    float scale = ln_half_at(block);
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = (float)((block[2 + (k % 64 + i) / 4] >> i % 4 * 2 & 3) - 1) * scale;
}

static __device__ __forceinline__ void ln_load_i4_g32(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 21;
    float scale = ln_float_at(block);
    int zero = block[4];
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = (float)(ln_nibble(block + 5, j + i) - zero) * scale;
}

static __device__ __forceinline__ void ln_load_i8_g32(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 36;
    float scale = ln_float_at(block);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = (float)(int8_t)block[4 + j + i] * scale;
}

static __device__ __forceinline__ float ln_f8_e4m3(uint32_t byte) {
    uint32_t exponent = byte >> 3 & 15, mantissa = byte & 7;
    float value = exponent == 0 ? (float)mantissa * 0x1p-9f
                                : __uint_as_float((exponent + 120) << 23 | mantissa << 20);
    if ((byte & 0x7f) == 0x7f)
        value = __uint_as_float(0x7fc00000u);
    return byte & 0x80 ? -value : value;
}

static __device__ __forceinline__ void ln_load_f8_g32(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 36;
    float scale = ln_float_at(block);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = ln_f8_e4m3(block[4 + j + i]) * scale;
}

/* ---- super-blocks of 256 -------------------------------------------------------------------- */

/* Values of 2 bits: byte j of each 32 holds elements j, j + 32, j + 64 and j + 96 of 128. */
static __device__ __forceinline__ int ln_two_bits(const uint8_t *bytes, int i) {
    return bytes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static __device__ __forceinline__ void ln_load_q2_k(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 84;
    int j = (int)(k % 256), scales = block[j / 16];
    float scale = ln_half_at(block + 80) * (float)(scales & 15);
    float min = ln_half_at(block + 82) * (float)(scales >> 4);
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * (float)ln_two_bits(block + 16, j + i) - min;
}

static __device__ __forceinline__ void ln_load_q3_k(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 110, *scales = block + 96;
    int j = (int)(k % 256), group = j / 16;
    int low_bits = scales[group % 8] >> group / 8 * 4 & 15;
    int high_bits = scales[8 + group % 4] >> group / 4 * 2 & 3;
    float scale = ln_half_at(block + 108) * (float)((low_bits | high_bits << 4) - 32);
    for (int i = 0; i < LN_GROUP; i++) {
        int borrow = block[(j + i) % 32] >> j / 32 & 1 ? 0 : 4;
        out[i] = scale * (float)(ln_two_bits(block + 32, j + i) - borrow);
    }
}

/* Scale and minimum of a group of 32 in Q4_K and Q5_K, from 12 bytes. */
static __device__ __forceinline__ void ln_unpack_scale(const uint8_t *block, int group,
                                                       float *scale, float *min) {
    const uint8_t *scales = block + 4;
    int s, m;
    if (group < 4) {
        s = scales[group] & 63;
        m = scales[group + 4] & 63;
    } else {
        s = (scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4;
        m = scales[group + 4] >> 4 | (scales[group] >> 6) << 4;
    }
    *scale = (float)s * ln_half_at(block);
    *min = (float)m * ln_half_at(block + 2);
}

static __device__ __forceinline__ void ln_load_q4_k(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 144;
    int j = (int)(k % 256), group = j / 32;
    const uint8_t *values = block + 16 + group / 2 * 32 + j % 32;
    float scale, min;
    ln_unpack_scale(block, group, &scale, &min);
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * (float)(values[i] >> group % 2 * 4 & 15) - min;
}

static __device__ __forceinline__ void ln_load_q5_k(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 176;
    int j = (int)(k % 256), group = j / 32;
    const uint8_t *values = block + 48 + group / 2 * 32 + j % 32, *high = block + 16 + j % 32;
    float scale, min;
    ln_unpack_scale(block, group, &scale, &min);
    for (int i = 0; i < LN_GROUP; i++) {
        int value = values[i] >> group % 2 * 4 & 15;
        out[i] = scale * (float)(value | (high[i] >> group & 1) << 4) - min;
    }
}

/* Blocks have 210 bytes: two at a time can be loaded. */
static __device__ __forceinline__ void ln_load_q6_k(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 210;
    unsigned j = (unsigned)(k % 256), half = j / 128;
    const uint16_t *low = (const uint16_t *)(block + half * 64 + j % 64);
    const uint16_t *high = (const uint16_t *)(block + 128 + half * 32 + j % 32);
    unsigned low_shift = j % 128 / 64 * 4, high_shift = j % 128 / 32 * 2;
    float scale = ln_half_at(block + 208) * (float)(int8_t)block[192 + j / 16];
    for (int i = 0; i < LN_GROUP; i++) {
        int nibble = low[i / 2] >> (i % 2 * 8 + low_shift) & 15;
        int upper = high[i / 2] >> (i % 2 * 8 + high_shift) & 3;
        out[i] = scale * (float)((nibble | upper << 4) - 32);
    }
}

static __device__ __forceinline__ int ln_trit(uint32_t byte, int place) {
    uint32_t power = 1;
    for (; place > 0; place--)
        power *= 3;
    return (int)((byte * power & 255) * 3 >> 8) - 1;
}

static __device__ __forceinline__ void ln_load_tq1_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 54;
    float scale = ln_half_at(block + 52);
    for (int i = 0, at = (int)(k % 256); i < LN_GROUP; i++, at++) {
        int trit = at < 160   ? ln_trit(block[at % 32], at / 32)
                   : at < 240 ? ln_trit(block[32 + (at - 160) % 16], (at - 160) / 16)
                              : ln_trit(block[48 + (at - 240) % 4], (at - 240) / 4);
        out[i] = scale * (float)trit;
    }
}

static __device__ __forceinline__ void ln_load_tq2_0(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 66;
    float scale = ln_half_at(block + 64);
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * (float)(ln_two_bits(block, (int)(k % 256) + i) - 1);
}

#endif
