/* Split-KV decode attention on any GPU's tensor cores (mma_decode.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_DECODE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_DECODE_CUH

#include "backend/cuda/attention/args.cuh"

/* Partial results of all KV splits of decode sequences (one token in this step); the result itself
 * where there is one split. */
int ln_attention_mma_decode(const ln_mma_attention_args *args, size_t n_seqs, cudaStream_t stream);

#endif
