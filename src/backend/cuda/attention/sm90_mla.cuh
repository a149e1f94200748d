/* Multi-head latent attention on Hopper (sm90_mla.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_MLA_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_MLA_CUH

#include "backend/cuda/attention/args.cuh"

/* Prefill and decode; needs ln_takes_sm90_mla. */
int ln_attention_sm90_mla(const ln_attention_args *a, const ln_cuda_step *step,
                          cudaStream_t stream);

#endif
