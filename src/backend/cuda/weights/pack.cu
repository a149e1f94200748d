/* Packs rows of checkpoint blocks into weight tiles, at load. A block of 32 columns is read as its
 * integers and scales where a layout keeps these, else as float32 that is quantised again to the
 * same integers. Grid: (tiles along K, rows of tiles), 256 threads. Bytes: the matrix once each
 * way. */
#include "backend/cuda/weights/pack.h"

#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/dequantize_iq.cuh"
#include "backend/cuda/weights/dispatch.cuh"

enum { PACK_THREADS = 256, ROW_THREADS = LN_WEIGHT_TILE_ROWS * LN_WARP };

ln_weight_layout ln_weight_layout_of(ln_dtype dtype, bool for_many) {
    switch (dtype) {
    case LN_DTYPE_BF16:
    case LN_DTYPE_F16: return LN_LAYOUT_BF16;
    case LN_DTYPE_Q8_0: return for_many ? LN_LAYOUT_I8 : LN_LAYOUT_INT8;
    case LN_DTYPE_Q4_0: return for_many ? LN_LAYOUT_Q4 : LN_LAYOUT_INT4;
    case LN_DTYPE_Q4_1:
    case LN_DTYPE_Q4_K:
    case LN_DTYPE_I4_G32: return LN_LAYOUT_Q4;
    case LN_DTYPE_Q5_0:
    case LN_DTYPE_Q5_1:
    case LN_DTYPE_Q5_K: return LN_LAYOUT_Q5;
    case LN_DTYPE_Q3_K:
    case LN_DTYPE_Q6_K: return LN_LAYOUT_Q6;
    case LN_DTYPE_F8_G32: return LN_LAYOUT_F8;
    case LN_DTYPE_MXFP4: return LN_LAYOUT_MXFP4;
    case LN_DTYPE_I8_G32: return LN_LAYOUT_I8;
    default: return LN_LAYOUT_NONE;
    }
}

bool ln_has_fp8_row_kernels(void) {
    return ln_has_sm90a_code();
}

bool ln_weight_tiles_bytes(ln_weight_layout layout, size_t n_rows, size_t n_cols, size_t *bytes) {
    if (n_rows > SIZE_MAX - LN_WEIGHT_TILE_ROWS || n_cols > SIZE_MAX - LN_WEIGHT_TILE_MAX_COLS)
        return false;
    size_t tiles_down = (n_rows + LN_WEIGHT_TILE_ROWS - 1) / LN_WEIGHT_TILE_ROWS;
    size_t tiles_across = ln_weight_tile_padded_cols(layout, n_cols) / ln_weight_tile_cols(layout),
           row_bytes;
    size_t tail = ln_weight_tile_row_bytes(layout, 0);
    return !__builtin_mul_overflow(tiles_across, ln_weight_tile_bytes(layout), &row_bytes) &&
           !__builtin_add_overflow(row_bytes, tail, &row_bytes) &&
           !__builtin_mul_overflow(tiles_down, row_bytes, bytes);
}

/* A signed element, or its bits, of a block of Q8_0 (34 bytes), I8_G32 and F8_G32 (36) or Q4_0
 * (18), and the block's scale.
 */
static __device__ int block_value(ln_dtype dtype, const uint8_t *row, size_t col) {
    unsigned i = (unsigned)(col % 32);
    if (dtype == LN_DTYPE_I8_G32 || dtype == LN_DTYPE_F8_G32)
        return (int8_t)row[col / 32 * 36 + 4 + i];
    if (dtype == LN_DTYPE_Q8_0)
        return (int8_t)row[col / 32 * 34 + 2 + i];
    return ln_nibble(row + col / 32 * 18 + 2, (int)i) - 8;
}

static __device__ float block_scale(ln_dtype dtype, const uint8_t *row, size_t col) {
    return dtype == LN_DTYPE_Q8_0 ? ln_half_at(row + col / 32 * 34)
                                  : ln_half_at(row + col / 32 * 18) / 16.0f;
}

/* The scale of a block of what becomes F8 or I8. */
static __device__ float float_scale(ln_dtype dtype, const uint8_t *row, size_t block) {
    return dtype == LN_DTYPE_Q8_0 ? ln_half_at(row + block * 34) : ln_float_at(row + block * 36);
}

typedef struct pack_args {
    ln_dtype dtype;
    const uint8_t *rows;
    size_t pitch, n_rows, n_cols, n_tiles;
    uint8_t *tiles;
} pack_args;

/* Writes one element, and with the first column of a block its scale. */
template <int LAYOUT>
static __device__ void pack_element(const pack_args &p, uint8_t *tile, size_t row, size_t col) {
    unsigned r = (unsigned)(row % LN_WEIGHT_TILE_ROWS),
             c = (unsigned)(col % ln_weight_tile_cols(LAYOUT));
    ln_weight_tile_place place = ln_weight_tile_find(LAYOUT, r, c);
    bool inside = row < p.n_rows && col < p.n_cols;
    const uint8_t *from = p.rows + row * p.pitch;
    if (LAYOUT == LN_LAYOUT_BF16) {
        uint16_t bits = inside ? ((const uint16_t *)from)[col] : 0;
        if (p.dtype == LN_DTYPE_F16)
            bits = __bfloat16_as_ushort(__float2bfloat16_rn(ln_f16(bits)));
        *(uint16_t *)(tile + place.byte) = bits;
        return;
    }
    int value = inside ? block_value(p.dtype, from, col) : 0;
    if (ln_weight_tile_has_row_scales(LAYOUT)) {
        tile[place.byte] = (uint8_t)value;
        return;
    }
    if (LAYOUT == LN_LAYOUT_INT8) {
        tile[place.byte] = (uint8_t)value;
    } else if (r < 8) { /* this thread writes both halves of the byte */
        bool below = row + 8 < p.n_rows && col < p.n_cols;
        int other = below ? block_value(p.dtype, from + 8 * p.pitch, col) : 0;
        tile[place.byte] = (uint8_t)((value & 15) | other << 4);
    }
    if (c % LN_SCALE_BLOCK == 0)
        *(uint16_t *)(tile + ln_weight_tile_scale_at(LAYOUT, r, c / LN_SCALE_BLOCK)) =
            __half_as_ushort(__float2half_rn(inside ? block_scale(p.dtype, from, col) : 0.0f));
}

/* The scale of each row, of F8, I8 and MXFP4 the largest, behind the row's tiles. Grid: a warp for
 * each row of whole tiles. */
template <int LAYOUT> static __global__ void pack_row_scales(const pack_args p) {
    size_t row = (size_t)blockIdx.x * LN_WEIGHT_TILE_ROWS + threadIdx.x / LN_WARP;
    size_t n_blocks = row < p.n_rows ? p.n_cols / LN_SCALE_BLOCK : 0;
    float most = 0.0f;
    if (ln_weight_tile_bytes_to_f16(LAYOUT)) {
        for (size_t block = threadIdx.x % LN_WARP; block < n_blocks; block += LN_WARP)
            most = fmaxf(most, fabsf(float_scale(p.dtype, p.rows + row * p.pitch, block)));
        most = ln_warp_max(most);
    } else if (LAYOUT == LN_LAYOUT_MXFP4) {
        for (size_t block = threadIdx.x % LN_WARP; block < n_blocks; block += LN_WARP)
            most = fmaxf(most, 2.0f * ln_half_e8m0(p.rows[row * p.pitch + block * 17]));
        most = ln_warp_max(most);
    } else if (n_blocks > 0) {
        most = ln_float_at(p.rows + row * p.pitch);
    }
    float *scales =
        (float *)(p.tiles + (blockIdx.x + 1) * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles)) - 32;
    if (threadIdx.x % LN_WARP < 2) /* and what fills the row up */
        scales[threadIdx.x % LN_WARP * LN_WEIGHT_TILE_ROWS + threadIdx.x / LN_WARP] =
            threadIdx.x % LN_WARP == 0 ? most : 0.0f;
}

/* Grid: (tiles across, tiles down). */
template <int LAYOUT> static __global__ void pack(const pack_args p) {
    size_t first_row = (size_t)blockIdx.y * LN_WEIGHT_TILE_ROWS;
    size_t first_col = (size_t)blockIdx.x * ln_weight_tile_cols(LAYOUT);
    uint8_t *tile_row = p.tiles + blockIdx.y * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles);
    uint8_t *tile = tile_row + blockIdx.x * ln_weight_tile_bytes(LAYOUT);
    for (size_t i = threadIdx.x; i < LN_WEIGHT_TILE_ROWS * ln_weight_tile_cols(LAYOUT);
         i += PACK_THREADS)
        pack_element<LAYOUT>(p, tile, first_row + i / ln_weight_tile_cols(LAYOUT),
                             first_col + i % ln_weight_tile_cols(LAYOUT));
    if (ln_weight_tile_bytes_to_f16(LAYOUT) && threadIdx.x < 2 * LN_WEIGHT_TILE_ROWS) {
        unsigned r = threadIdx.x / 2, block = threadIdx.x % 2;
        size_t row = first_row + r, at = first_col / LN_SCALE_BLOCK + block;
        float most = ln_weight_tile_row_scales(LAYOUT, tile_row, p.n_tiles)[r];
        bool inside = row < p.n_rows && at * LN_SCALE_BLOCK < p.n_cols && most > 0.0f;
        float scale = inside ? float_scale(p.dtype, p.rows + row * p.pitch, at) / most : 0.0f;
        *(uint32_t *)(tile + ln_weight_tile_scale_at(LAYOUT, r, block)) = ln_pack_f16(scale, 0.0f);
    }
}

/* ---- values of fewer than 8 bits --------------------------------------------------------------
 */

/* A block's values are scale * q + offset, q from 0 to 15, 31 or 63. */
typedef struct line {
    float scale, offset;
} line;

static __device__ line line_of(ln_dtype dtype, const uint8_t *row, size_t col) {
    line l = {0.0f, 0.0f};
    size_t block = col / 32, super = col / 256;
    int group = (int)(col % 256 / 32), part = (int)(col % 256 / 16);
    const uint8_t *at = row;
    switch (dtype) {
    case LN_DTYPE_Q4_0: at += block * 18; break;
    case LN_DTYPE_Q4_1: at += block * 20; break;
    case LN_DTYPE_Q5_1: at += block * 24; break;
    case LN_DTYPE_Q5_0: at += block * 22; break;
    case LN_DTYPE_I4_G32: at += block * 21; break;
    case LN_DTYPE_Q4_K: at += super * 144; break;
    case LN_DTYPE_Q5_K: at += super * 176; break;
    case LN_DTYPE_Q3_K: at += super * 110; break;
    default: at += super * 210; /* Q6_K */
    }
    switch (dtype) {
    case LN_DTYPE_Q4_1:
    case LN_DTYPE_Q5_1: l.scale = ln_half_at(at), l.offset = ln_half_at(at + 2); break;
    case LN_DTYPE_Q4_0: l.scale = ln_half_at(at), l.offset = -8.0f * l.scale; break;
    case LN_DTYPE_Q5_0: l.scale = ln_half_at(at), l.offset = -16.0f * l.scale; break;
    case LN_DTYPE_I4_G32: l.scale = ln_float_at(at), l.offset = -(float)at[4] * l.scale; break;
    case LN_DTYPE_Q4_K:
    case LN_DTYPE_Q5_K:
        ln_unpack_scale(at, group, &l.scale, &l.offset);
        l.offset = -l.offset;
        break;
    case LN_DTYPE_Q3_K: {
        int low = at[96 + part % 8] >> part / 8 * 4 & 15, high = at[104 + part % 4];
        l.scale = ln_half_at(at + 108) * (float)((low | (high >> part / 4 * 2 & 3) << 4) - 32);
        l.offset = -32.0f * l.scale;
        break;
    }
    default:
        l.scale = ln_half_at(at + 208) * (float)(int8_t)at[192 + part];
        l.offset = -32.0f * l.scale;
    }
    return l;
}

/* The integer of an element: 0 where there is none. */
template <int LAYOUT>
static __device__ uint32_t quantized_value(const pack_args &p, size_t row, size_t col) {
    if (row >= p.n_rows || col >= p.n_cols)
        return 0;
    const uint8_t *from = p.rows + row * p.pitch;
    if (LAYOUT == LN_LAYOUT_MXFP4)
        return (uint32_t)ln_nibble(from + col / 32 * 17 + 1, (int)(col % 32));
    float values[LN_GROUP];
    ln_load_any(p.dtype, from, col / LN_GROUP * LN_GROUP, values);
    line l = line_of(p.dtype, from, col);
    float q = l.scale != 0.0f ? rintf((values[col % LN_GROUP] - l.offset) / l.scale) : 0.0f;
    return (uint32_t)fminf(fmaxf(q, 0.0f), (float)(2 * ln_weight_tile_zero_point(LAYOUT) - 1));
}

/* The pair of f16 of 32 columns of a row; most: its scale behind the row of tiles, if any. */
template <int LAYOUT>
static __device__ uint32_t scale_pair(const pack_args &p, size_t row, size_t col, float most) {
    if (row >= p.n_rows || col >= p.n_cols)
        return 0;
    const uint8_t *from = p.rows + row * p.pitch;
    if (LAYOUT == LN_LAYOUT_MXFP4)
        return ln_pack_f16(2.0f * ln_half_e8m0(from[col / 32 * 17]) / most * 0x1p14f, 0.0f);
    line l = line_of(p.dtype, from, col);
    float second = fmaf((float)ln_weight_tile_zero_point(LAYOUT), l.scale, l.offset);
    if (LAYOUT == LN_LAYOUT_Q6)
        second = line_of(p.dtype, from, col + 16).scale;
    return ln_pack_f16(l.scale, second);
}

/* The high bits of a value, where they lie in a pair of bytes. */
static __device__ uint32_t high_bits_of(unsigned r, unsigned c, uint32_t value) {
    ln_weight_tile_place place = ln_weight_tile_find_high_bits(r, c);
    return value >> 4 << (place.byte % 2 * 8 + place.shift);
}

/* Grid: (tiles across, tiles down). A thread packs columns c and c + 2 of rows r and r + 8, whose
 * low bits share a byte; the high bits share one with those of columns c ^ 4. */
template <int LAYOUT> static __global__ void pack_bits(const pack_args p) {
    static_assert(PACK_THREADS == 8 * 32, "a thread for each four elements");
    unsigned i = threadIdx.x, r = i / 32, c = i % 32 / 2 * 4 + i % 2;
    size_t row = (size_t)blockIdx.y * LN_WEIGHT_TILE_ROWS,
           col = (size_t)blockIdx.x * ln_weight_tile_cols(LAYOUT);
    uint8_t *tile_row = p.tiles + blockIdx.y * ln_weight_tile_row_bytes(LAYOUT, p.n_tiles);
    uint8_t *tile = tile_row + blockIdx.x * ln_weight_tile_bytes(LAYOUT);
    uint32_t high = 0;
    for (unsigned pair = 0; pair < 2; pair++) {
        uint32_t first = quantized_value<LAYOUT>(p, row + r, col + c + 2 * pair);
        uint32_t second = quantized_value<LAYOUT>(p, row + r + 8, col + c + 2 * pair);
        tile[ln_weight_tile_find(LAYOUT, r, c + 2 * pair).byte] =
            (uint8_t)((first & 15) | (second & 15) << 4);
        high |= high_bits_of(r, c + 2 * pair, first) | high_bits_of(r + 8, c + 2 * pair, second);
    }
    high |= __shfl_xor_sync(0xffffffffu, high, 2);
    if (ln_weight_tile_has_high_bits(LAYOUT) && c % 8 < 4)
        *(uint16_t *)(tile + (ln_weight_tile_find_high_bits(r, c).byte & ~(size_t)1)) =
            (uint16_t)high;
    if (i < 2 * LN_WEIGHT_TILE_ROWS) {
        float most = 0.0f;
        if (ln_weight_tile_has_row_scales(LAYOUT))
            most = ln_weight_tile_row_scales(LAYOUT, tile_row, p.n_tiles)[i / 2];
        *(uint32_t *)(tile + ln_weight_tile_scale_at(LAYOUT, i / 2, i % 2)) =
            scale_pair<LAYOUT>(p, row + i / 2, col + i % 2 * LN_SCALE_BLOCK, most);
    }
}

template <int LAYOUT>
static int pack_layout(const pack_args &args, dim3 grid, ln_cuda_stream stream) {
    /* F8 and I8, and the layouts with one scale for each row, have the same row scales */
    constexpr int SCALES = ln_weight_tile_bytes_to_f16(LAYOUT) ? (int)LN_LAYOUT_F8
                           : LAYOUT == LN_LAYOUT_MXFP4         ? (int)LN_LAYOUT_MXFP4
                                                               : (int)LN_LAYOUT_F8_ROW;
    if constexpr (ln_weight_tile_has_row_scales(LAYOUT))
        pack_row_scales<SCALES><<<grid.y, ROW_THREADS, 0, stream>>>(args);
    if constexpr (ln_weight_tile_dequantizes_to_f16(LAYOUT) && !ln_weight_tile_bytes_to_f16(LAYOUT))
        pack_bits<LAYOUT><<<grid, PACK_THREADS, 0, stream>>>(args);
    else
        pack<LAYOUT><<<grid, PACK_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

static constexpr bool is_layout(int) {
    return true;
}

int ln_cuda_pack_weight_tiles(const ln_weight *weight, const void *rows, size_t row_begin,
                              size_t n_rows, void *tiles, ln_cuda_stream stream) {
    int layout = (int)weight->layout;
    size_t n_cols = weight->n_cols;
    size_t n_tiles = ln_weight_tile_padded_cols(layout, n_cols) / ln_weight_tile_cols(layout);
    pack_args args = {weight->dtype,
                      (const uint8_t *)rows,
                      weight->row_bytes,
                      n_rows,
                      n_cols,
                      n_tiles,
                      (uint8_t *)tiles + row_begin / LN_WEIGHT_TILE_ROWS *
                                             ln_weight_tile_row_bytes(layout, n_tiles)};
    dim3 grid((unsigned)n_tiles, ln_ceil_div(n_rows, LN_WEIGHT_TILE_ROWS));
    return ln_dispatch_layout<is_layout>(
        layout, [&](auto l) { return pack_layout<decltype(l)::LAYOUT>(args, grid, stream); });
}
