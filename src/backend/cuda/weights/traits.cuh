/* How kernels read tiles (layout.h). */
#ifndef LN_BACKEND_CUDA_WEIGHTS_TRAITS_CUH
#define LN_BACKEND_CUDA_WEIGHTS_TRAITS_CUH

#include <cuda_fp8.h>

#include "backend/cuda/ptx/common.cuh"
#include "backend/cuda/weights/layout.h"

static __device__ __forceinline__ uint32_t ln_pack_f16(float low, float high) {
    return (uint32_t)__half_as_ushort(__float2half_rn(low)) |
           (uint32_t)__half_as_ushort(__float2half_rn(high)) << 16;
}

static __device__ __forceinline__ uint32_t ln_pack_bf16(float low, float high) {
    return (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(low)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
}

/* Where an element lies in its tile: the byte, and for INT4 the half of it. */
typedef struct ln_weight_tile_place {
    size_t byte;
    unsigned shift;
} ln_weight_tile_place;

/* row and col: within the tile. */
static __host__ __device__ inline ln_weight_tile_place ln_weight_tile_find(int kind, unsigned row, unsigned col) {
    unsigned lane = row % 8 * 4 + col % 32 / 8, upper = row / 8, block = col / 32;
    ln_weight_tile_place place = {0, 0};
    if (ln_weight_tile_dequantizes_to_f16(kind) && !ln_weight_tile_bytes_to_f16(kind)) {
        place.byte = lane * 16 + block * 8 + col % 8 / 4 * 4 + col % 2 * 2 + col % 4 / 2;
        place.shift = upper * 4;
    } else if (kind == LN_LAYOUT_BF16) {
        unsigned step = block * 2 + col % 8 / 4, word = col % 4 / 2 * 2 + upper;
        place.byte = (step * 32 + lane) * 16 + word * 4 + col % 2 * 2;
    } else if (kind == LN_LAYOUT_F8_ROW) {
        place.byte =
            upper * 1024 + (block * 2 + col % 8 / 4) * 128 + row % 8 * 16 + lane % 4 * 4 + col % 4;
    } else if (kind == LN_LAYOUT_INT8 || ln_weight_tile_has_row_scales(kind)) {
        place.byte = (block * 32 + lane) * 16 + (col % 8 / 4 * 2 + upper) * 4 + col % 4;
    } else {
        place.byte = (block / 2 * 32 + lane) * 16 + block % 2 * 8 + col % 8 / 4 * 4 + col % 4;
        place.shift = upper * 4;
    }
    return place;
}

/* Whether two bits of a number lie apart from the other four. */
static __host__ __device__ constexpr bool ln_weight_tile_has_bits_above(int kind) {
    return kind == LN_LAYOUT_Q5 || kind == LN_LAYOUT_Q6;
}

/* Where they lie. */
static __host__ __device__ inline ln_weight_tile_place ln_weight_tile_find_above(unsigned row, unsigned col) {
    unsigned lane = row % 8 * 4 + col % 32 / 8;
    unsigned step = col % 8 / 4, bit = (4 + 8 * step + 4 * (row / 8) + 2 * (col % 4 / 2)) % 16;
    ln_weight_tile_place place = {512 + lane * 8 + col / 32 * 4 + col % 2 * 2 + bit / 8, bit % 8};
    return place;
}

/* Where the scale of a row and a block of 32 columns lies in a tile, or the pair of f16. */
static __host__ __device__ constexpr size_t ln_weight_tile_scale_at(int kind, unsigned row,
                                                             unsigned block) {
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return ln_weight_tile_bytes(kind) - 128 + (row * 2 + block) * 4;
    return ln_weight_tile_bytes(kind) - 256 + (row * 8 + block) * 2;
}

/* The scales behind a row of n tiles. */
static __device__ __forceinline__ const float *ln_weight_tile_row_scales(int kind, const uint8_t *tile_row,
                                                                  size_t n) {
    return (const float *)(tile_row + n * ln_weight_tile_bytes(kind));
}

/* Two numbers of E4M3 in f16. */
static __device__ __forceinline__ __half2 ln_two_f8(uint32_t bits) {
    __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)bits, __NV_E4M3);
    return *(__half2 *)&raw;
}

/* Two of int8. */
static __device__ __forceinline__ __half2 ln_two_i8(uint32_t bits) {
    const uint32_t middle = 0x64806480u; /* 1024 + 128; 1024 + q as f16 is 0x6400 | q */
    uint32_t two = __byte_perm(bits ^ 0x8080u, 0x64u, 0x4140);
    return __hsub2(*(__half2 *)&two, *(const __half2 *)&middle);
}

/* What is taken off the numbers of Q4, Q5 or Q6. */
static __host__ __device__ constexpr int ln_weight_tile_middle(int kind) {
    return kind == LN_LAYOUT_Q4 ? 8 : kind == LN_LAYOUT_Q5 ? 16 : 32;
}

/* An element of a tile of Q4, Q5, Q6 or F8, before it is rounded. */
static __device__ inline float ln_weight_tile_dequantized_value(int kind, const uint8_t *tile, unsigned row,
                                                    unsigned col) {
    ln_weight_tile_place place = ln_weight_tile_find(kind, row, col), above = ln_weight_tile_find_above(row, col);
    const uint8_t *ratio = tile + ln_weight_tile_scale_at(kind, row, col / LN_SCALE_BLOCK);
    if (kind == LN_LAYOUT_F8)
        return __low2float(ln_two_f8(tile[place.byte])) * ln_f16(*(const uint16_t *)ratio);
    if (kind == LN_LAYOUT_I8)
        return (float)(int8_t)tile[place.byte] * ln_f16(*(const uint16_t *)ratio);
    int q = tile[place.byte] >> place.shift & 15;
    if (kind == LN_LAYOUT_MXFP4) /* E2M1 as f16 is 2^-14 times as large */
        return ln_f16((uint16_t)((q & 8) << 12 | (q & 7) << 9)) * ln_f16(*(const uint16_t *)ratio);
    if (ln_weight_tile_has_bits_above(kind))
        q |= (tile[above.byte] >> above.shift & 3) << 4;
    uint32_t pair = *(const uint32_t *)(tile + ln_weight_tile_scale_at(kind, row, col / LN_SCALE_BLOCK));
    float low = ln_f16((uint16_t)pair), high = ln_f16((uint16_t)(pair >> 16));
    float number = (float)(q - ln_weight_tile_middle(kind));
    if (kind == LN_LAYOUT_Q6)
        return number * (col % LN_SCALE_BLOCK < 16 ? low : high);
    return fmaf(number, low, high);
}

/* An element of a matrix of tiles. */
static __device__ inline float ln_weight_tile_value(int kind, const uint8_t *tiles, size_t n_cols,
                                             size_t row, size_t col) {
    size_t cols = ln_weight_tile_cols(kind), n_tiles = ln_weight_tile_padded_cols(kind, n_cols) / cols;
    const uint8_t *tile_row = tiles + row / LN_WEIGHT_TILE_ROWS * ln_weight_tile_row_bytes(kind, n_tiles);
    const uint8_t *tile = tile_row + col / cols * ln_weight_tile_bytes(kind);
    unsigned r = (unsigned)(row % LN_WEIGHT_TILE_ROWS), c = (unsigned)(col % cols);
    ln_weight_tile_place place = ln_weight_tile_find(kind, r, c);
    float row_scale = 1.0f;
    if (ln_weight_tile_has_row_scales(kind))
        row_scale = ln_weight_tile_row_scales(kind, tile_row, n_tiles)[r];
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return ln_weight_tile_dequantized_value(kind, tile, r, c) * row_scale;
    if (kind == LN_LAYOUT_BF16)
        return ln_bf16(*(const uint16_t *)(tile + place.byte));
    if (kind == LN_LAYOUT_INT8_ROW)
        return row_scale * (float)(int8_t)tile[place.byte];
    if (kind == LN_LAYOUT_F8_ROW)
        return row_scale * __low2float(ln_two_f8(tile[place.byte]));
    float scale = ln_f16(*(const uint16_t *)(tile + ln_weight_tile_scale_at(kind, r, c / LN_SCALE_BLOCK)));
    int8_t value = (int8_t)tile[place.byte];
    if (kind == LN_LAYOUT_INT4)
        value = (int8_t)((uint8_t)value >> place.shift << 4);
    return scale * (float)value;
}

#endif
