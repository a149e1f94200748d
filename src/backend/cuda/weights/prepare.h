/* Weights as the GPU's kernels read them. Packed tiles (layout.h) unless `exact`, for matrices of
 * linears, alone or one for each group of rows, and types that have a layout. Else rows of the
 * checkpoint's blocks; unquantised values padded with zeros to whole groups of eight, so that loads
 * are aligned. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_PREPARE_H
#define LN_BACKEND_CUDA_WEIGHTS_PREPARE_H

#include "backend/cuda/runtime/weight_upload.h"
#include "backend/weight_source.h"

/* What matrices are prepared for. */
typedef struct ln_cuda_use {
    bool exact;
    bool plain_rows; /* where linears have them, too (plain_rows.h) */
} ln_cuda_use;

/* Whether a matrix gets plain rows. */
bool ln_cuda_has_plain_rows(const ln_weight_request *request, const ln_cuda_use *use);

ln_status ln_cuda_plan_weight(const ln_weight_request *request, const ln_cuda_use *use,
                              size_t *bytes, ln_error *err);
ln_status ln_cuda_prepare_weight(const ln_weight_request *request, const ln_cuda_use *use,
                                 ln_cuda_upload *upload, ln_cuda_stream stream, void *memory,
                                 ln_weight *weight, ln_error *err);

#endif
