/* Attention in float32 for every head dim, cache type and variant (reference.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_REFERENCE_CUH
#define LN_BACKEND_CUDA_ATTENTION_REFERENCE_CUH

#include "backend/cuda/attention/args.cuh"

int ln_attention_reference(const ln_op_attention *op, const ln_attention_args *args,
                           const ln_cuda_step *step, cudaStream_t stream);

#endif
