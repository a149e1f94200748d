/* A second copy of a matrix of LN_LAYOUT_BF16, behind its tiles, for cuBLASLt: rows of bf16, [N][K
 * padded with zeros to whole tiles]. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_PLAIN_ROWS_H
#define LN_BACKEND_CUDA_WEIGHTS_PLAIN_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/cuda/runtime/device.h"
#include "backend/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of a row. */
size_t ln_plain_row_cols(size_t n_cols);
/* Bytes of a matrix's tiles and plain rows; false when they overflow. */
bool ln_plain_rows_matrix_bytes(size_t n_rows, size_t n_cols, size_t *bytes);
/* Where the plain rows of a prepared matrix lie. */
const void *ln_plain_rows_of(const ln_weight *weight);
/* Makes some of them, of `rows` as for ln_cuda_pack_weight_tiles; matrix: where its tiles go. */
int ln_cuda_pack_plain_rows(const ln_weight *weight, const void *rows, size_t row_begin,
                            size_t n_rows, void *matrix, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
