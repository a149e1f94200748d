/* LN_OP_COMPRESS: entries of runs of tokens (compress.cu). */
#ifndef LN_BACKEND_CUDA_OPS_COMPRESS_H
#define LN_BACKEND_CUDA_OPS_COMPRESS_H

#include "backend/cuda/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

int ln_cuda_compress(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
