/* The same as dequantize.cuh for types whose values come from codebooks, and any type by its
 * number. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_DEQUANTIZE_IQ_CUH
#define LN_BACKEND_CUDA_WEIGHTS_DEQUANTIZE_IQ_CUH

#include "backend/cuda/weights/dequantize.cuh"
#include "backend/cuda/weights/types.h"
#include "format/dtype.h"
#include "format/quants_iq.inc"

/* The codebooks, in device memory. */
#define LN_DEVICE_ENTRY(X) X,
static __device__ const uint16_t device_grid_iq2_xxs[] = {LN_GRID_IQ2_XXS(LN_DEVICE_ENTRY)};
static __device__ const uint16_t device_grid_iq2_xs[] = {LN_GRID_IQ2_XS(LN_DEVICE_ENTRY)};
static __device__ const uint16_t device_grid_iq2_s[] = {LN_GRID_IQ2_S(LN_DEVICE_ENTRY)};
static __device__ const uint16_t device_grid_iq3_xxs[] = {LN_GRID_IQ3_XXS(LN_DEVICE_ENTRY)};
static __device__ const uint16_t device_grid_iq3_s[] = {LN_GRID_IQ3_S(LN_DEVICE_ENTRY)};
static __device__ const uint16_t device_grid_iq1[] = {LN_GRID_IQ1(LN_DEVICE_ENTRY)};
#undef LN_DEVICE_ENTRY
static __device__ const float values_iq2[4] = {8, 25, 43, 0};
static __device__ const int8_t values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};

/* Seven stored sign bits; the eighth makes the number of minus signs even. */
static __device__ __forceinline__ uint32_t ln_complete_signs(uint32_t seven) {
    seven &= 127;
    return seven | (uint32_t)(__popc(seven) & 1) << 7;
}

static __device__ __forceinline__ float ln_apply_sign(float value, uint32_t signs, int bit) {
    return value * (signs >> bit & 1 ? -1.0f : 1.0f);
}

static __device__ __forceinline__ void ln_unpack_iq2(uint32_t entry, float scale, uint32_t signs,
                                                     float *out) {
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = ln_apply_sign(scale * values_iq2[entry >> 2 * i & 3], signs, i);
}

static __device__ void ln_load_iq2_xxs(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 66;
    int i = (int)(k % 256) / 8, part = i % 4;
    const uint8_t *indices = block + 2 + i / 4 * 8;
    uint32_t packed = ln_u32(indices + 4);
    float scale = ln_half_at(block) * (0.5f + (float)(packed >> 28)) * 0.25f;
    ln_unpack_iq2(device_grid_iq2_xxs[indices[part]], scale, ln_complete_signs(packed >> 7 * part),
                  out);
}

static __device__ void ln_load_iq2_xs(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 74;
    int i = (int)(k % 256) / 8;
    uint32_t packed = ln_u16(block + 2 + 2 * i);
    int nibble = block[66 + i / 4] >> i / 2 % 2 * 4 & 15;
    float scale = ln_half_at(block) * (0.5f + (float)nibble) * 0.25f;
    ln_unpack_iq2(device_grid_iq2_xs[packed & 511], scale, ln_complete_signs(packed >> 9), out);
}

static __device__ void ln_load_iq2_s(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 82;
    int i = (int)(k % 256) / 8;
    int index = block[2 + i] | (block[66 + i / 4] >> i % 4 * 2 & 3) << 8;
    int nibble = block[74 + i / 4] >> i / 2 % 2 * 4 & 15;
    float scale = ln_half_at(block) * (0.5f + (float)nibble) * 0.25f;
    ln_unpack_iq2(device_grid_iq2_s[index], scale, block[34 + i], out);
}

/* Values 4, 12, .. 52, and 62 */
static __device__ __forceinline__ float ln_value_iq3_xxs(uint32_t code) {
    return code == 7 ? 62.0f : (float)(4 + 8 * code);
}

static __device__ void ln_load_iq3_xxs(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 98;
    int i = (int)(k % 256) / 8;
    uint32_t packed = ln_u32(block + 66 + i / 4 * 4);
    float scale = ln_half_at(block) * (0.5f + (float)(packed >> 28)) * 0.5f;
    uint32_t signs = ln_complete_signs(packed >> i % 4 * 7);
    for (int j = 0; j < LN_GROUP; j++) {
        uint32_t entry = device_grid_iq3_xxs[block[2 + 2 * i + j / 4]];
        out[j] = ln_apply_sign(scale * ln_value_iq3_xxs(entry >> 4 * (j % 4) & 7), signs, j);
    }
}

static __device__ void ln_load_iq3_s(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 110, *high = block + 66;
    int i = (int)(k % 256) / 8;
    int nibble = block[106 + i / 8] >> i / 4 % 2 * 4 & 15;
    float scale = ln_half_at(block) * (float)(1 + 2 * nibble);
    for (int j = 0; j < LN_GROUP; j++) {
        int at = 2 * i + j / 4;
        uint32_t entry = device_grid_iq3_s[block[2 + at] | (high[at / 8] >> at % 8 & 1) << 8];
        float value = (float)(2 * (entry >> 4 * (j % 4) & 7) + 1);
        out[j] = ln_apply_sign(scale * value, block[74 + i], j);
    }
}

/* -1, 0 or 1, all moved by delta */
static __device__ __forceinline__ void ln_unpack_iq1(uint32_t entry, float scale, bool is_down,
                                                     float *out) {
    float delta = is_down ? -0.125f : 0.125f;
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * ((float)((int)(entry >> 2 * i & 3) - 1) + delta);
}

static __device__ void ln_load_iq1_s(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 50;
    int i = (int)(k % 256) / 8;
    uint32_t packed = ln_u16(block + 34 + i / 4 * 2);
    float scale = ln_half_at(block) * (float)(2 * (packed >> 12 & 7) + 1);
    uint32_t index = block[2 + i] | (packed >> i % 4 * 3 & 7) << 8;
    ln_unpack_iq1(device_grid_iq1[index], scale, (packed & 0x8000u) != 0, out);
}

static __device__ void ln_load_iq1_m(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 56, *scales = block + 48;
    int i = (int)(k % 256) / 8, group = i / 2;
    uint32_t half = 0;
    for (int part = 0; part < 4; part++)
        half |= (ln_u16(scales + 2 * part) >> 12) << 4 * part;
    int nibble = block[32 + i / 2] >> i % 2 * 4 & 15;
    int three = (int)(ln_u16(scales + group / 4 * 2) >> group % 4 * 3 & 7);
    float scale = ln_f16((uint16_t)half) * (float)(2 * three + 1);
    ln_unpack_iq1(device_grid_iq1[block[i] | (nibble & 7) << 8], scale, (nibble & 8) != 0, out);
}

static __device__ void ln_load_iq4_nl(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 32 * 18;
    float scale = ln_half_at(block);
    for (int i = 0, j = (int)(k % 32); i < LN_GROUP; i++)
        out[i] = scale * (float)values_iq4[ln_nibble(block + 2, j + i)];
}

static __device__ void ln_load_iq4_xs(const uint8_t *row, size_t k, float *out) {
    const uint8_t *block = row + k / 256 * 136;
    int j = (int)(k % 256), group = j / 32;
    int nibble = block[4 + group / 2] >> group % 2 * 4 & 15;
    int high = (int)(ln_u16(block + 2) >> 2 * group & 3);
    float scale = ln_half_at(block) * (float)((nibble | high << 4) - 32);
    for (int i = 0; i < LN_GROUP; i++)
        out[i] = scale * (float)values_iq4[ln_nibble(block + 8 + 16 * group, j % 32 + i)];
}

/* Any type: every thread of a warp asks for the same one. */
static __device__ __forceinline__ void ln_load_any(ln_dtype dtype, const uint8_t *row, size_t k,
                                                   float *out) {
    switch (dtype) {
#define LN_CUDA_LOAD(dtype, load)                                                                  \
    case dtype: load(row, k, out); return;
        LN_CUDA_WEIGHT_TYPES(LN_CUDA_LOAD)
#undef LN_CUDA_LOAD
    default: return;
    }
}

#endif
