/* Packed weight tiles: matrices in the order in which tensor cores take them, for `fast`.
 *
 * A weight tile holds 16 rows (output columns N) by the K of its layout; tiles follow one another
 * along K, then row of tiles after row of tiles along N. Padding up to whole tiles is zero. Within
 * a tile lane 4 g + t of a warp owns rows g and g + 8 and, of each block of 32 columns, the columns
 * 8 t .. 8 t + 7:
 *
 *   BF16  [4 K steps][32 lanes] 16 bytes: (row g, columns c, c + 1), (g + 8, the same), (g, c + 2,
 *         c + 3), (g + 8, the same), with c = 32 (step / 2) + 8 t + 4 (step % 2)
 *   INT8  [8 blocks][32 lanes] 16 bytes: (g, 8 t .. 8 t + 3), (g + 8, the same), (g, 8 t + 4 ..),
 *         (g + 8, the same); then [16 rows][8 blocks] f16 scales
 *   INT4  as INT8 with rows g and g + 8 in the low and high halves of a byte, two blocks in 16
 *         bytes; signed nibbles, read as 16 times their value, and scales / 16
 *   Q4    [32 lanes] 16 bytes: word s has the values of K step s of BF16, of its word w bits 4 w ..
 *         4 w + 3 of the lower and of the upper half; then [16 rows][2 blocks] of f16 (a, b). The
 *         value is a (q - 8) + b, which kernels round to f16
 *   Q5    as Q4, with [32 lanes] 8 bytes of two high bits behind the values: of K steps 2 i and
 *         2 i + 1 in word i, from bit (4 + 8 (s % 2) + 4 (w % 2) + 2 (w / 2)) % 16 of each half on,
 *         from where few shifts bring them above the low bits; the value is a (q - 16) + b
 *   Q6    as Q5; [16 rows][4] f16 scales of 16 columns each; the value is scale (q - 32)
 *   MXFP4 E2M1 in the order of Q4; [16 rows][2 blocks] of f16 and two bytes of padding: 2^14 times
 *         a block's scale over the largest of its row; the largest as of F8
 *   F8    [2 blocks][32 lanes] E4M3 as INT8; then [16 rows][2 blocks] of f16 and two bytes of
 *         padding: a block's scale over the largest of its row. Behind a row of tiles 16 float32,
 *         the largest scale of each row, and 64 bytes of padding
 *   I8    values of int8, else as F8
 *   INT8_ROW  (W8A8) [4 blocks][32 lanes] as INT8; behind a row of tiles 16 float32 scales, one for
 *         each row, and 64 bytes of padding
 *   F8_ROW  E4M3 as WGMMA takes it from shared memory: [2 halves of the rows][4 blocks][2][8 rows]
 *         16 bytes: of lane t = 0 .. 3 the columns 8 t .. 8 t + 3, then 8 t + 4 .. 8 t + 7; scales
 *         as of INT8_ROW
 *
 * Sums of INT8_ROW are int32, exact in any order, and become float32 at their end. Of the others K
 * is split into LN_K_SPLITS ranges of whole tiles. A range is accumulated tile after tile, and
 * ranges are added in order: the bits of a result depend on K alone. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_LAYOUT_H
#define LN_BACKEND_CUDA_WEIGHTS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/host_device.h"

/* clang-format off */
/* One row for each layout, from which its traits and dispatch.cuh are made:
 *
 *   K       columns of a tile
 *   bytes   of a tile, block scales included
 *   bits    of a value; above 4 and below 8 with the high bits apart
 *   acts    the activations that it is multiplied with: BF16; F16, with a power of two for each row
 *           of activations; INT8_BLOCK, with a scale for each 32 columns; INT8_ROW and FP8_ROW
 *           (E4M3), with a scale for each row
 *   scales  BLOCK: f16, in the tile; ROW: float32, behind the row of tiles; BOTH */
#define LN_WEIGHT_LAYOUTS(X)                                                                       \
    /* layout     K  bytes bits acts        scales */                                              \
    X(BF16,      64, 2048, 16,  BF16,      NONE)                                                   \
    X(INT8,     256, 4352,  8,  INT8_BLOCK, BLOCK)                                                 \
    X(INT4,     256, 2304,  4,  INT8_BLOCK, BLOCK)                                                 \
    X(INT8_ROW, 128, 2048,  8,  INT8_ROW,  ROW)                                                    \
    X(Q4,        64,  640,  4,  F16,       BLOCK)                                                  \
    X(Q5,        64,  896,  5,  F16,       BLOCK)                                                  \
    X(Q6,        64,  896,  6,  F16,       BLOCK)                                                  \
    X(F8,        64, 1152,  8,  F16,       BOTH)                                                   \
    X(F8_ROW,   128, 2048,  8,  FP8_ROW,   ROW) /* on Hopper alone */                              \
    X(MXFP4,     64,  640,  4,  F16,       BOTH)                                                   \
    X(I8,        64, 1152,  8,  F16,       BOTH)
/* clang-format on */

/* In ln_weight.layout. */
typedef enum ln_weight_layout {
    LN_LAYOUT_NONE = 0, /* rows of the checkpoint's blocks */
#define LN_LAYOUT_ENUM(NAME, K, BYTES, BITS, ACTS, SCALES) LN_LAYOUT_##NAME,
    LN_WEIGHT_LAYOUTS(LN_LAYOUT_ENUM)
#undef LN_LAYOUT_ENUM
} ln_weight_layout;

enum { LN_WEIGHT_TILE_ROWS = 16, LN_K_SPLITS = 8, LN_WEIGHT_TILE_MAX_COLS = 256 };
enum { LN_SCALE_BLOCK = 32 }; /* columns of a block scale */

/* ---- what a layout is, for the host's C and for kernels ---------------------------------------
 */

#ifdef __CUDACC__
#define LN_TRAITS(...)                                                                             \
    ln_layout_traits {                                                                             \
        __VA_ARGS__                                                                                \
    }
#else
#define LN_TRAITS(...)                                                                             \
    (ln_layout_traits) {                                                                           \
        __VA_ARGS__                                                                                \
    }
#endif

/* Linears that read the same activations in one launch. */
enum { LN_GEMM_MAX_PARTS = 3 };

typedef enum ln_act_type {
    LN_ACT_TYPE_BF16,
    LN_ACT_TYPE_F16,
    LN_ACT_TYPE_INT8_BLOCK,
    LN_ACT_TYPE_INT8_ROW,
    LN_ACT_TYPE_FP8_ROW
} ln_act_type;

typedef enum ln_weight_scales {
    LN_SCALES_NONE,
    LN_SCALES_BLOCK,
    LN_SCALES_ROW,
    LN_SCALES_BOTH
} ln_weight_scales;

/* A row of LN_WEIGHT_LAYOUTS. */
typedef struct ln_layout_traits {
    unsigned cols, bytes, bits;
    ln_act_type acts;
    ln_weight_scales scales;
} ln_layout_traits;

LN_HOST_DEVICE ln_layout_traits ln_traits_of(int layout) {
    switch (layout) {
#define LN_TRAITS_CASE(NAME, K, BYTES, BITS, ACTS, SCALES)                                         \
    case LN_LAYOUT_##NAME: return LN_TRAITS(K, BYTES, BITS, LN_ACT_TYPE_##ACTS, LN_SCALES_##SCALES);
        LN_WEIGHT_LAYOUTS(LN_TRAITS_CASE)
#undef LN_TRAITS_CASE
    default: return LN_TRAITS(1, 0, 1, LN_ACT_TYPE_BF16, LN_SCALES_NONE);
    }
}

/* Whether values are dequantised to f16 on their way to the tensor cores. */
LN_HOST_DEVICE bool ln_weight_tile_dequantizes_to_f16(int layout) {
    return ln_traits_of(layout).acts == LN_ACT_TYPE_F16;
}

/* The same of values of 8 bits. */
LN_HOST_DEVICE bool ln_weight_tile_bytes_to_f16(int layout) {
    return ln_weight_tile_dequantizes_to_f16(layout) && ln_traits_of(layout).bits == 8;
}

/* Whether activations have 16 bits, and whether they have a scale for each row. */
LN_HOST_DEVICE bool ln_weight_tile_has_16_bit_act(int layout) {
    return ln_traits_of(layout).acts == LN_ACT_TYPE_BF16 ||
           ln_traits_of(layout).acts == LN_ACT_TYPE_F16;
}

LN_HOST_DEVICE bool ln_weight_tile_has_act_row_scales(int layout) {
    return ln_traits_of(layout).acts != LN_ACT_TYPE_BF16 &&
           ln_traits_of(layout).acts != LN_ACT_TYPE_INT8_BLOCK;
}

/* Whether float32 scales lie behind a row of tiles. */
LN_HOST_DEVICE bool ln_weight_tile_has_row_scales(int layout) {
    return ln_traits_of(layout).scales == LN_SCALES_ROW ||
           ln_traits_of(layout).scales == LN_SCALES_BOTH;
}

/* Whether the high bits of a value lie apart from the other four. */
LN_HOST_DEVICE bool ln_weight_tile_has_high_bits(int layout) {
    return ln_traits_of(layout).bits == 5 || ln_traits_of(layout).bits == 6;
}

/* What is subtracted from the values of Q4, Q5 or Q6. */
LN_HOST_DEVICE int ln_weight_tile_zero_point(int layout) {
    return 1 << (ln_traits_of(layout).bits - 1);
}

/* Columns and bytes of a tile. */
LN_HOST_DEVICE size_t ln_weight_tile_cols(int layout) {
    return ln_traits_of(layout).cols;
}

LN_HOST_DEVICE size_t ln_weight_tile_bytes(int layout) {
    return ln_traits_of(layout).bytes;
}

/* Bytes of a row of n tiles. */
LN_HOST_DEVICE size_t ln_weight_tile_row_bytes(int layout, size_t n) {
    return n * ln_weight_tile_bytes(layout) + (ln_weight_tile_has_row_scales(layout) ? 128 : 0);
}

LN_HOST_DEVICE size_t ln_weight_tile_padded_cols(int layout, size_t n_cols) {
    return (n_cols + ln_weight_tile_cols(layout) - 1) / ln_weight_tile_cols(layout) *
           ln_weight_tile_cols(layout);
}

/* Rows of an activation tile, of many; for 16-bit activations and F8_ROW those of groups alone. */
LN_HOST_DEVICE unsigned ln_act_tile_rows(int layout) {
    return layout == LN_LAYOUT_INT8_ROW                                          ? 256
           : ln_weight_tile_has_16_bit_act(layout) || layout == LN_LAYOUT_F8_ROW ? 128
                                                                                 : 64;
}

#endif
