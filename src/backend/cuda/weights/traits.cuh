/* What kernels know of a weight layout (layout.h) at compile time, and where its elements lie. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_TRAITS_CUH
#define LN_BACKEND_CUDA_WEIGHTS_TRAITS_CUH

#include "backend/cuda/ptx/float16.cuh"
#include "backend/cuda/weights/layout.h"

/* Where an element lies in its tile: the byte, and for INT4 the half of it. */
typedef struct ln_weight_tile_place {
    size_t byte;
    unsigned shift;
} ln_weight_tile_place;

/* row and col: within the tile. */
static __host__ __device__ inline ln_weight_tile_place ln_weight_tile_find(int layout, unsigned row,
                                                                           unsigned col) {
    unsigned lane = row % 8 * 4 + col % 32 / 8, upper = row / 8, block = col / 32;
    ln_weight_tile_place place = {0, 0};
    if (ln_weight_tile_dequantizes_to_f16(layout) && !ln_weight_tile_bytes_to_f16(layout)) {
        place.byte = lane * 16 + block * 8 + col % 8 / 4 * 4 + col % 2 * 2 + col % 4 / 2;
        place.shift = upper * 4;
    } else if (layout == LN_LAYOUT_BF16) {
        unsigned step = block * 2 + col % 8 / 4, word = col % 4 / 2 * 2 + upper;
        place.byte = (step * 32 + lane) * 16 + word * 4 + col % 2 * 2;
    } else if (layout == LN_LAYOUT_F8_ROW) {
        place.byte =
            upper * 1024 + (block * 2 + col % 8 / 4) * 128 + row % 8 * 16 + lane % 4 * 4 + col % 4;
    } else if (layout == LN_LAYOUT_INT8 || ln_weight_tile_has_row_scales(layout)) {
        place.byte = (block * 32 + lane) * 16 + (col % 8 / 4 * 2 + upper) * 4 + col % 4;
    } else {
        place.byte = (block / 2 * 32 + lane) * 16 + block % 2 * 8 + col % 8 / 4 * 4 + col % 4;
        place.shift = upper * 4;
    }
    return place;
}

/* Where the high bits of an element lie. */
static __host__ __device__ inline ln_weight_tile_place ln_weight_tile_find_high_bits(unsigned row,
                                                                                     unsigned col) {
    unsigned lane = row % 8 * 4 + col % 32 / 8;
    unsigned step = col % 8 / 4, bit = (4 + 8 * step + 4 * (row / 8) + 2 * (col % 4 / 2)) % 16;
    ln_weight_tile_place place = {512 + lane * 8 + col / 32 * 4 + col % 2 * 2 + bit / 8, bit % 8};
    return place;
}

/* Where the scale of a row and a block of 32 columns lies in a tile, or the pair of f16. */
static __host__ __device__ constexpr size_t ln_weight_tile_scale_at(int layout, unsigned row,
                                                                    unsigned block) {
    if (ln_weight_tile_dequantizes_to_f16(layout))
        return ln_weight_tile_bytes(layout) - 128 + (row * 2 + block) * 4;
    return ln_weight_tile_bytes(layout) - 256 + (row * 8 + block) * 2;
}

/* The scales behind a row of n tiles. */
static __device__ __forceinline__ const float *
ln_weight_tile_row_scales(int layout, const uint8_t *tile_row, size_t n) {
    return (const float *)(tile_row + n * ln_weight_tile_bytes(layout));
}

/* An element of a tile of what is dequantised to f16, before it is rounded. */
static __device__ inline float ln_weight_tile_dequantized_value(int layout, const uint8_t *tile,
                                                                unsigned row, unsigned col) {
    ln_weight_tile_place place = ln_weight_tile_find(layout, row, col),
                         high = ln_weight_tile_find_high_bits(row, col);
    const uint8_t *ratio = tile + ln_weight_tile_scale_at(layout, row, col / LN_SCALE_BLOCK);
    if (layout == LN_LAYOUT_F8)
        return __low2float(ln_two_f8(tile[place.byte])) * ln_f16(*(const uint16_t *)ratio);
    if (layout == LN_LAYOUT_I8)
        return (float)(int8_t)tile[place.byte] * ln_f16(*(const uint16_t *)ratio);
    int q = tile[place.byte] >> place.shift & 15;
    if (layout == LN_LAYOUT_MXFP4) /* E2M1 as f16 is 2^-14 times as large */
        return ln_f16((uint16_t)((q & 8) << 12 | (q & 7) << 9)) * ln_f16(*(const uint16_t *)ratio);
    if (ln_weight_tile_has_high_bits(layout))
        q |= (tile[high.byte] >> high.shift & 3) << 4;
    uint32_t pair =
        *(const uint32_t *)(tile + ln_weight_tile_scale_at(layout, row, col / LN_SCALE_BLOCK));
    float first = ln_f16((uint16_t)pair), second = ln_f16((uint16_t)(pair >> 16));
    float value = (float)(q - ln_weight_tile_zero_point(layout));
    if (layout == LN_LAYOUT_Q6)
        return value * (col % LN_SCALE_BLOCK < 16 ? first : second);
    return fmaf(value, first, second);
}

/* An element of a matrix of tiles. */
static __device__ inline float ln_weight_tile_value(int layout, const uint8_t *tiles, size_t n_cols,
                                                    size_t row, size_t col) {
    size_t cols = ln_weight_tile_cols(layout),
           n_tiles = ln_weight_tile_padded_cols(layout, n_cols) / cols;
    const uint8_t *tile_row =
        tiles + row / LN_WEIGHT_TILE_ROWS * ln_weight_tile_row_bytes(layout, n_tiles);
    const uint8_t *tile = tile_row + col / cols * ln_weight_tile_bytes(layout);
    unsigned r = (unsigned)(row % LN_WEIGHT_TILE_ROWS), c = (unsigned)(col % cols);
    ln_weight_tile_place place = ln_weight_tile_find(layout, r, c);
    float row_scale = 1.0f;
    if (ln_weight_tile_has_row_scales(layout))
        row_scale = ln_weight_tile_row_scales(layout, tile_row, n_tiles)[r];
    if (ln_weight_tile_dequantizes_to_f16(layout))
        return ln_weight_tile_dequantized_value(layout, tile, r, c) * row_scale;
    if (layout == LN_LAYOUT_BF16)
        return ln_bf16(*(const uint16_t *)(tile + place.byte));
    if (layout == LN_LAYOUT_INT8_ROW)
        return row_scale * (float)(int8_t)tile[place.byte];
    if (layout == LN_LAYOUT_F8_ROW)
        return row_scale * __low2float(ln_two_f8(tile[place.byte]));
    float scale =
        ln_f16(*(const uint16_t *)(tile + ln_weight_tile_scale_at(layout, r, c / LN_SCALE_BLOCK)));
    int8_t value = (int8_t)tile[place.byte];
    if (layout == LN_LAYOUT_INT4)
        value = (int8_t)((uint8_t)value >> place.shift << 4);
    return scale * (float)value;
}

#endif
