/* Rows of x in the form that tiles meet. With tiles of BF16: rows of bf16, and
 * for precise linears what rounding left, in bf16 too. With INT8 and INT4: rows
 * of int8 in which two blocks of 32 columns are interleaved by eight, so that what lane t needs of
 * both is 16 bytes, [n_cols / 64][4 t][2 blocks][8]; and a float32 scale for each block. Columns
 * are filled up with zeros to whole tiles. */
#ifndef LN_BACKEND_CUDA_TILE_X_CUH
#define LN_BACKEND_CUDA_TILE_X_CUH

#include "backend/cuda/tiles.cuh"

/* The parts of ln_tile_x.memory for rows of n_cols columns. */
typedef struct ln_tile_x_parts {
    size_t cols; /* filled up */
    __nv_bfloat16 *bf16, *rest; /* rest: NULL unless precise */
    int8_t *int8;
    float *scales; /* [n_rows][cols / 32] */
} ln_tile_x_parts;

static inline ln_tile_x_parts ln_tile_x_divide(void *memory, bool is_int8, bool precise,
                                               size_t n_rows, size_t n_cols) {
    ln_tile_x_parts parts = {};
    parts.cols = ln_tile_padded_cols(is_int8 ? LN_TILE_INT8 : LN_TILE_BF16, n_cols);
    parts.bf16 = (__nv_bfloat16 *)memory;
    parts.rest = precise ? parts.bf16 + n_rows * parts.cols : NULL;
    parts.int8 = (int8_t *)memory;
    parts.scales = (float *)((char *)memory + n_rows * parts.cols);
    return parts;
}

/* Converts x into memory. */
int ln_tile_x_convert(const float *x, size_t stride, bool is_int8, bool precise, size_t n_rows,
                      size_t n_cols, void *memory, cudaStream_t stream);

#endif
