/* The scans of Mamba 1 and of RG-LRU, whose state's elements decay by themselves. */
#ifndef LN_BACKEND_CUDA_OPS_SELECTIVE_CUH
#define LN_BACKEND_CUDA_OPS_SELECTIVE_CUH

#include "backend/cuda/ops.h"

int ln_cuda_selective_scan(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#endif
