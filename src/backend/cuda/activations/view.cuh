/* Activations in the form that a weight layout is multiplied with, K padded with zeros to whole
 * weight tiles.
 *
 * For small M row after row: of bf16, or of f16 with a scale for each row, a power of two, and for
 * precise linears the residual of bf16 rounding, in bf16 too; or of int8 in which two blocks of 32
 * columns are interleaved by eight, so that lane t's part of both is 16 bytes, [K / 64][4 t][2
 * blocks][8], with a float32 scale for each block, or for each row where INT8_ROW wants it. E4M3
 * for F8_ROW stands as WGMMA takes it, without padding of rows: [16 columns][rows][16 bytes].
 *
 * For large M in activation tiles, the B operand of WGMMA in shared memory with SWIZZLE_128B: for
 * each 128 bytes of K [rows][128 bytes], the 16 bytes at i of row r being at i ^ r % 8; scales as
 * [tile][block][rows]. A tile has ln_act_tile_rows rows, 64 where there are no more; of 16-bit
 * values and E4M3 all rows are one tile, of which kernels take as many as they like, unless they
 * are those of row groups. Columns stand in the order of the weight tiles: the 32 of a block as
 * [K step of 16 bytes or 16 elements][lane t]. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_VIEW_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_VIEW_CUH

#include <cuda_bf16.h>

#include "backend/cuda/activations/form.h"
#include "backend/cuda/weights/traits.cuh"

/* The parts of ln_converted_act.memory. */
typedef struct ln_act_view {
    size_t cols;            /* K, padded to whole weight tiles */
    unsigned rows_per_tile; /* rows of an activation tile; 0: row after row */
    bool is_int8, is_f8, by_row;
    unsigned n_untiled; /* rows of F8_ROW that lie in no tile */
    __nv_bfloat16 *bf16,
        *lo; /* lo: the residual of bf16 rounding (hi/lo split); NULL unless precise */
    int8_t *int8;
    float *scales; /* [n_rows][cols / 32], by_row [n_rows] */
} ln_act_view;

static inline ln_act_view ln_act_view_of(const ln_converted_act *x) {
    ln_act_view parts = {};
    int layout = x->is_f8      ? LN_LAYOUT_F8_ROW
                 : !x->is_int8 ? LN_LAYOUT_BF16
                 : x->by_row   ? LN_LAYOUT_INT8_ROW
                               : LN_LAYOUT_INT8;
    parts.cols = ln_weight_tile_padded_cols(layout, x->n_cols);
    parts.by_row = x->by_row;
    parts.is_f8 = x->is_f8;
    parts.n_untiled = (unsigned)x->n_rows;
    size_t n_rows = x->n_rows;
    bool is_one = !x->by_group && (!x->is_int8 || x->is_f8);
    if (x->in_tiles && n_rows <= LN_SMALL_M_ROWS && !x->is_f8)
        parts.rows_per_tile = LN_SMALL_M_ROWS;
    else if (x->in_tiles)
        parts.rows_per_tile = is_one ? (unsigned)n_rows : ln_act_tile_rows(layout);
    parts.is_int8 = x->is_int8;
    if (x->in_tiles)
        n_rows = (n_rows + parts.rows_per_tile - 1) / parts.rows_per_tile * parts.rows_per_tile;
    char *memory = (char *)x->memory;
    if (x->is_behind)
        memory += ln_act_half(x);
    parts.bf16 = (__nv_bfloat16 *)memory;
    parts.lo = x->precise ? parts.bf16 + n_rows * parts.cols : NULL;
    parts.int8 = (int8_t *)memory;
    parts.scales = (float *)(memory + n_rows * parts.cols * (x->is_int8 ? 1 : 2));
    return parts;
}

/* Where the 16 bytes `chunk` of a row of 128 bytes lie, `lane` words behind their start; `part`:
 * which 128 bytes of the row. */
static __device__ __forceinline__ size_t ln_act_tile_byte(const ln_act_view &x, size_t row,
                                                          size_t parts_across, size_t part,
                                                          unsigned chunk, unsigned lane) {
    if (row >= x.rows_per_tile) { /* rarely, and divisions take long */
        part += (unsigned)row / x.rows_per_tile * parts_across;
        row = (unsigned)row % x.rows_per_tile;
    }
    return (part * x.rows_per_tile + row) * 128 + (chunk ^ (unsigned)row % 8) * 16 + lane * 4;
}

#endif
