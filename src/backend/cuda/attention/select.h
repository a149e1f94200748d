/* What the dispatch of operations asks of attention. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SELECT_H
#define LN_BACKEND_CUDA_ATTENTION_SELECT_H

#include "backend/cuda/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether kernels of attention do what the operation in front of it asks for, LN_OP_QKV, too. */
bool ln_cuda_attention_fuses_qkv(const ln_op *qkv, const ln_op *attention, const ln_cuda_step *step);

#ifdef __cplusplus
}
#endif

#endif
