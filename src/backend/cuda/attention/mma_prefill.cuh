/* Prefill attention on any GPU's tensor cores (mma_prefill.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_PREFILL_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_PREFILL_CUH

#include "backend/cuda/attention/args.cuh"

/* Of all sequences, or where decode kernels take those of one token (uses_split_kv), of the others.
 * most_tokens: of one sequence in the step. */
int ln_attention_mma_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                             cudaStream_t stream);

#endif
