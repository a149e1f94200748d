/* Sizes of weight tiles and the activations that they meet (layout.h), for the host's C and for
 * kernels. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_SHAPE_H
#define LN_BACKEND_CUDA_WEIGHTS_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __CUDACC__
#define LN_HOST_DEVICE static __host__ __device__ constexpr
#else
#define LN_HOST_DEVICE static inline
#endif

/* In ln_weight.layout. */
typedef enum ln_weight_layout {
    LN_LAYOUT_NONE = 0, /* rows of the checkpoint's blocks */
    LN_LAYOUT_BF16,
    LN_LAYOUT_INT8,
    LN_LAYOUT_INT4,
    LN_LAYOUT_INT8_ROW,
    LN_LAYOUT_Q4,
    LN_LAYOUT_Q5,
    LN_LAYOUT_Q6,
    LN_LAYOUT_F8,
    LN_LAYOUT_F8_ROW, /* on Hopper alone */
    LN_LAYOUT_MXFP4,
    LN_LAYOUT_I8
} ln_weight_layout;

enum { LN_WEIGHT_TILE_ROWS = 16, LN_K_SPLITS = 8, LN_WEIGHT_TILE_MAX_COLS = 256 };
/* Linears that read the same x in one launch. */
enum { LN_GEMM_MAX_PARTS = 3 };

enum { LN_SCALE_BLOCK = 32 };

/* Whether numbers of a byte become f16 on their way to the tensor cores. */
LN_HOST_DEVICE bool ln_weight_tile_bytes_to_f16(int kind) {
    return kind == LN_LAYOUT_F8 || kind == LN_LAYOUT_I8;
}

/* Whether numbers of few bits become f16 on their way to the tensor cores. */
LN_HOST_DEVICE bool ln_weight_tile_dequantizes_to_f16(int kind) {
    return kind == LN_LAYOUT_Q4 || kind == LN_LAYOUT_Q5 || kind == LN_LAYOUT_Q6 ||
           kind == LN_LAYOUT_MXFP4 || ln_weight_tile_bytes_to_f16(kind);
}

/* Whether x has 16 bits, and whether it has a scale for each row. */
LN_HOST_DEVICE bool ln_weight_tile_has_16_bit_act(int kind) {
    return kind == LN_LAYOUT_BF16 || ln_weight_tile_dequantizes_to_f16(kind);
}

LN_HOST_DEVICE bool ln_weight_tile_has_act_row_scales(int kind) {
    return kind == LN_LAYOUT_INT8_ROW || kind == LN_LAYOUT_F8_ROW ||
           ln_weight_tile_dequantizes_to_f16(kind);
}

/* Whether float32 scales lie behind a row of tiles. */
LN_HOST_DEVICE bool ln_weight_tile_has_row_scales(int kind) {
    return kind == LN_LAYOUT_INT8_ROW || kind == LN_LAYOUT_F8_ROW || kind == LN_LAYOUT_MXFP4 ||
           ln_weight_tile_bytes_to_f16(kind);
}

/* Columns and bytes of a tile, of the kinds that are there. */
LN_HOST_DEVICE size_t ln_weight_tile_cols(int kind) {
    return ln_weight_tile_has_16_bit_act(kind)       ? 64
           : ln_weight_tile_has_act_row_scales(kind) ? 128
                                                     : 256;
}

LN_HOST_DEVICE size_t ln_weight_tile_bytes(int kind) {
    switch (kind) {
    case LN_LAYOUT_Q4:
    case LN_LAYOUT_MXFP4: return 640;
    case LN_LAYOUT_Q5:
    case LN_LAYOUT_Q6: return 896;
    case LN_LAYOUT_F8:
    case LN_LAYOUT_I8: return 1024 + 128;
    case LN_LAYOUT_INT8: return 4096 + 256;
    case LN_LAYOUT_INT4: return 2048 + 256;
    default: return 2048;
    }
}

/* Bytes of a row of n tiles. */
LN_HOST_DEVICE size_t ln_weight_tile_row_bytes(int kind, size_t n) {
    return n * ln_weight_tile_bytes(kind) + (ln_weight_tile_has_row_scales(kind) ? 128 : 0);
}

LN_HOST_DEVICE size_t ln_weight_tile_padded_cols(int kind, size_t n_cols) {
    return (n_cols + ln_weight_tile_cols(kind) - 1) / ln_weight_tile_cols(kind) *
           ln_weight_tile_cols(kind);
}

/* Rows of x in a panel, of many; for kinds of 16 bits and F8_ROW those of groups alone. */
LN_HOST_DEVICE unsigned ln_act_tile_rows(int kind) {
    return kind == LN_LAYOUT_INT8_ROW                                        ? 256
           : ln_weight_tile_has_16_bit_act(kind) || kind == LN_LAYOUT_F8_ROW ? 128
                                                                             : 64;
}

#endif
