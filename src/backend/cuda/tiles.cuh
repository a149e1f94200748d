/* How kernels read tiles (tiles.h). */
#ifndef LN_BACKEND_CUDA_TILES_CUH
#define LN_BACKEND_CUDA_TILES_CUH

#include "backend/cuda/common.cuh"
#include "backend/cuda/tiles.h"

enum { LN_TILE_BLOCK = 32 };

/* Columns and bytes of a tile, of the kinds that are there. */
static __host__ __device__ constexpr size_t ln_tile_cols(int kind) {
    return kind == LN_TILE_BF16 ? 64 : 256;
}

static __host__ __device__ constexpr size_t ln_tile_bytes(int kind) {
    return kind == LN_TILE_BF16 ? 2048 : (kind == LN_TILE_INT8 ? 4096 : 2048) + 256;
}

static __host__ __device__ inline size_t ln_tile_padded_cols(int kind, size_t n_cols) {
    size_t cols = ln_tile_cols(kind);
    return (n_cols + cols - 1) / cols * cols;
}

/* Where an element lies in its tile: the byte, and for INT4 the half of it. */
typedef struct ln_tile_place {
    size_t byte;
    unsigned shift;
} ln_tile_place;

/* row and col: within the tile. */
static __host__ __device__ inline ln_tile_place ln_tile_find(int kind, unsigned row, unsigned col) {
    unsigned lane = row % 8 * 4 + col % 32 / 8, upper = row / 8, block = col / 32;
    ln_tile_place place = {0, 0};
    if (kind == LN_TILE_BF16) {
        unsigned step = block * 2 + col % 8 / 4, word = col % 4 / 2 * 2 + upper;
        place.byte = (step * 32 + lane) * 16 + word * 4 + col % 2 * 2;
    } else if (kind == LN_TILE_INT8) {
        place.byte = (block * 32 + lane) * 16 + (col % 8 / 4 * 2 + upper) * 4 + col % 4;
    } else {
        place.byte = (block / 2 * 32 + lane) * 16 + block % 2 * 8 + col % 8 / 4 * 4 + col % 4;
        place.shift = upper * 4;
    }
    return place;
}

/* Where the scale of a row and a block of 32 columns lies in a tile of INT8 or INT4. */
static __host__ __device__ inline size_t ln_tile_scale_at(int kind, unsigned row, unsigned block) {
    return ln_tile_bytes(kind) - 256 + (row * 8 + block) * 2;
}

/* An element of a matrix of tiles. */
static __device__ inline float ln_tile_value(int kind, const uint8_t *tiles, size_t n_cols,
                                             size_t row, size_t col) {
    size_t cols = ln_tile_cols(kind), n_tiles = ln_tile_padded_cols(kind, n_cols) / cols;
    const uint8_t *tile =
        tiles + (row / LN_TILE_ROWS * n_tiles + col / cols) * ln_tile_bytes(kind);
    unsigned r = (unsigned)(row % LN_TILE_ROWS), c = (unsigned)(col % cols);
    ln_tile_place place = ln_tile_find(kind, r, c);
    if (kind == LN_TILE_BF16)
        return ln_bf16(*(const uint16_t *)(tile + place.byte));
    float scale = ln_f16(*(const uint16_t *)(tile + ln_tile_scale_at(kind, r, c / LN_TILE_BLOCK)));
    int8_t value = (int8_t)tile[place.byte];
    if (kind == LN_TILE_INT4)
        value = (int8_t)((uint8_t)value >> place.shift << 4);
    return scale * (float)value;
}

#endif
