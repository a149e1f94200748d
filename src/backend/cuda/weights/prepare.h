/* Weights as the GPU's kernels read them. Packed tiles (layout.h) unless `exact`, for matrices of
 * linears, alone or one for each group of rows, and types that have a layout. Else rows of the
 * checkpoint's blocks; unquantised values padded with zeros to whole groups of eight, so that loads
 * are aligned. */
#ifndef LN_BACKEND_CUDA_WEIGHTS_PREPARE_H
#define LN_BACKEND_CUDA_WEIGHTS_PREPARE_H

#include "backend/cuda/runtime/weight_upload.h"
#include "backend/weight_source.h"

/* Up to so many sequences of a step Q4_0 and Q8_0 are fastest with activations of int8, whose block
 * scales cost a product of each sum. More of them are faster with weights that become f16. */
enum { LN_SMALL_BATCH_SEQS = 32 };

/* What matrices are prepared for. */
typedef struct ln_cuda_use {
    bool exact;
    bool many_seqs;  /* a step may have more than LN_SMALL_BATCH_SEQS sequences */
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
