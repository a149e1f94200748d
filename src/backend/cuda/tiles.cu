/* Packing rows of blocks into tiles, at load. */
#include "backend/cuda/dequantize.cuh"
#include "backend/cuda/tiles.cuh"

enum { PACK_THREADS = 256 };

ln_tile_kind ln_tile_kind_of(ln_dtype dtype) {
    switch (dtype) {
    case LN_DTYPE_BF16:
    case LN_DTYPE_F16: return LN_TILE_BF16;
    case LN_DTYPE_Q8_0: return LN_TILE_INT8;
    case LN_DTYPE_Q4_0: return LN_TILE_INT4;
    default: return LN_TILE_NONE;
    }
}

bool ln_tile_matrix_bytes(ln_tile_kind kind, size_t n_rows, size_t n_cols, size_t *bytes) {
    if (n_rows > SIZE_MAX - LN_TILE_ROWS || n_cols > SIZE_MAX - LN_TILE_MAX_COLS)
        return false;
    size_t tiles_down = (n_rows + LN_TILE_ROWS - 1) / LN_TILE_ROWS;
    size_t tiles_across = ln_tile_padded_cols(kind, n_cols) / ln_tile_cols(kind), n_tiles;
    return !__builtin_mul_overflow(tiles_down, tiles_across, &n_tiles) &&
           !__builtin_mul_overflow(n_tiles, ln_tile_bytes(kind), bytes);
}

/* A signed element of a block of Q8_0 (34 bytes) or Q4_0 (18 bytes), and the block's scale. */
static __device__ int block_value(ln_dtype dtype, const uint8_t *row, size_t col) {
    unsigned i = (unsigned)(col % 32);
    if (dtype == LN_DTYPE_Q8_0)
        return (int8_t)row[col / 32 * 34 + 2 + i];
    return ln_nibble(row + col / 32 * 18 + 2, (int)i) - 8;
}

static __device__ float block_scale(ln_dtype dtype, const uint8_t *row, size_t col) {
    return dtype == LN_DTYPE_Q8_0 ? ln_half_at(row + col / 32 * 34)
                                  : ln_half_at(row + col / 32 * 18) / 16.0f;
}

typedef struct pack_args {
    ln_dtype dtype;
    const uint8_t *rows;
    size_t pitch, n_rows, n_cols, n_tiles;
    uint8_t *tiles;
} pack_args;

/* Writes one element, and with the first column of a block its scale. */
template <int KIND>
static __device__ void pack_element(const pack_args &p, uint8_t *tile, size_t row, size_t col) {
    unsigned r = (unsigned)(row % LN_TILE_ROWS), c = (unsigned)(col % ln_tile_cols(KIND));
    ln_tile_place place = ln_tile_find(KIND, r, c);
    bool inside = row < p.n_rows && col < p.n_cols;
    const uint8_t *from = p.rows + row * p.pitch;
    if (KIND == LN_TILE_BF16) {
        uint16_t bits = inside ? ((const uint16_t *)from)[col] : 0;
        if (p.dtype == LN_DTYPE_F16)
            bits = __bfloat16_as_ushort(__float2bfloat16_rn(ln_f16(bits)));
        *(uint16_t *)(tile + place.byte) = bits;
        return;
    }
    int value = inside ? block_value(p.dtype, from, col) : 0;
    if (KIND == LN_TILE_INT8) {
        tile[place.byte] = (uint8_t)value;
    } else if (r < 8) { /* this thread writes both halves of the byte */
        bool below = row + 8 < p.n_rows && col < p.n_cols;
        int other = below ? block_value(p.dtype, from + 8 * p.pitch, col) : 0;
        tile[place.byte] = (uint8_t)((value & 15) | other << 4);
    }
    if (c % LN_TILE_BLOCK == 0)
        *(uint16_t *)(tile + ln_tile_scale_at(KIND, r, c / LN_TILE_BLOCK)) =
            __half_as_ushort(__float2half_rn(inside ? block_scale(p.dtype, from, col) : 0.0f));
}

/* Grid: (tiles across, tiles down). */
template <int KIND> static __global__ void pack(const pack_args p) {
    size_t first_row = (size_t)blockIdx.y * LN_TILE_ROWS;
    size_t first_col = (size_t)blockIdx.x * ln_tile_cols(KIND);
    uint8_t *tile = p.tiles + ((size_t)blockIdx.y * p.n_tiles + blockIdx.x) * ln_tile_bytes(KIND);
    for (size_t i = threadIdx.x; i < LN_TILE_ROWS * ln_tile_cols(KIND); i += PACK_THREADS)
        pack_element<KIND>(p, tile, first_row + i / ln_tile_cols(KIND),
                           first_col + i % ln_tile_cols(KIND));
}

int ln_cuda_pack_tiles(ln_dtype dtype, const void *rows, size_t pitch, size_t row_begin,
                       size_t n_rows, size_t n_cols, void *tiles, ln_cuda_stream stream) {
    ln_tile_kind kind = ln_tile_kind_of(dtype);
    size_t n_tiles = ln_tile_padded_cols(kind, n_cols) / ln_tile_cols(kind);
    pack_args args = {dtype,  (const uint8_t *)rows, pitch, n_rows, n_cols, n_tiles,
                      (uint8_t *)tiles + row_begin / LN_TILE_ROWS * n_tiles * ln_tile_bytes(kind)};
    dim3 grid((unsigned)n_tiles, ln_ceil_div(n_rows, LN_TILE_ROWS));
    if (kind == LN_TILE_BF16)
        pack<LN_TILE_BF16><<<grid, PACK_THREADS, 0, stream>>>(args);
    else if (kind == LN_TILE_INT8)
        pack<LN_TILE_INT8><<<grid, PACK_THREADS, 0, stream>>>(args);
    else
        pack<LN_TILE_INT4><<<grid, PACK_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
