/* Packs rows of checkpoint blocks into weight tiles (layout.h), at load. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_PACK_H
#define LN_BACKEND_CUDA_WEIGHTS_PACK_H

#include <stdbool.h>

#include "backend/cuda/runtime/device.h"
#include "backend/cuda/weights/layout.h"
#include "backend/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layout that weights of a type get; LN_LAYOUT_NONE: there is none. for_many: rows of
 * activations, mostly. */
ln_weight_layout ln_weight_layout_of(ln_dtype dtype, bool for_many);
/* Whether the device has kernels for F8_ROW. */
bool ln_has_fp8_row_kernels(void);
/* Bytes of a matrix in tiles; false when they overflow. */
bool ln_weight_tiles_bytes(ln_weight_layout layout, size_t n_rows, size_t n_cols, size_t *bytes);

/* Packs rows row_begin .. row_begin + n_rows - 1 of a matrix, of which `rows` (device memory,
 * weight->row_bytes apart) holds just these, into `tiles` of the layout weight->layout. row_begin
 * is a multiple of 16, and so is n_rows unless these are the last rows. */
int ln_cuda_pack_weight_tiles(const ln_weight *weight, const void *rows, size_t row_begin,
                              size_t n_rows, void *tiles, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
