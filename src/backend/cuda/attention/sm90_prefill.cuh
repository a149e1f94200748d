/* Prefill attention on Hopper (sm90_prefill.cu), with the bits of ln_attention_mma_prefill. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_PREFILL_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/attention/args.cuh"

bool ln_takes_sm90_prefill(const ln_mma_attention_args *args);
/* to: the result is written as tiles of bf16 there, and not as float32, or NULL. */
int ln_attention_sm90_prefill(const ln_mma_attention_args *args, size_t n_seqs, size_t most_tokens,
                              const ln_act_view *to, cudaStream_t stream);

#endif
