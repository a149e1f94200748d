/* Attention of wide heads, of 512 elements, on any GPU's tensor cores (mma_wide.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_WIDE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_WIDE_CUH

#include "backend/cuda/attention/args.cuh"

/* As ln_attention_mma_decode. */
int ln_attention_mma_wide_decode(const ln_mma_attention_args *args, size_t n_seqs,
                                 cudaStream_t stream);

/* As ln_attention_mma_prefill. */
int ln_attention_mma_wide_prefill(const ln_mma_attention_args *args, size_t n_seqs,
                                  size_t most_tokens, cudaStream_t stream);

#endif
