/* Weights as the GPU's kernels read them. Tiles (layout.h) unless `exact`, for matrices that
 * multiply, alone or one for each group of rows, and types that have a kind of tiles. Else rows of
 * the checkpoint's blocks; plain numbers padded with zeros to whole groups of eight, so that loads
 * are aligned. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_PREPARE_H
#define LN_BACKEND_CUDA_WEIGHTS_PREPARE_H

#include "backend/backend.h"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/runtime/weight_upload.h"

/* What matrices are prepared for. */
typedef struct ln_cuda_use {
    bool exact;
    ln_cublaslt *blas; /* what else reads them and hears of their shapes, or NULL */
} ln_cuda_use;

ln_status ln_cuda_plan_weight(const ln_weight_request *request, const ln_cuda_use *use,
                              size_t *bytes, ln_error *err);
ln_status ln_cuda_prepare_weight(const ln_weight_request *request, const ln_cuda_use *use,
                                 ln_cuda_upload *upload, ln_cuda_stream stream, void *memory,
                                 ln_weight *weight, ln_error *err);

#endif
