/* Prefill attention on Hopper (sm90_prefill.cu), with the bits of ln_attention_mma_prefill. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_CUH

#include "backend/cuda/attention/args.cuh"

bool ln_takes_sm90_prefill(const ln_mma_attention_args *args);
int ln_attention_sm90_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                              cudaStream_t stream);

#endif
