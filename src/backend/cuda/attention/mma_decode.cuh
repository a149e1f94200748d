/* Decode attention on any GPU's tensor cores: split-KV kernel and merge (mma_decode.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_MMA_DECODE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MMA_DECODE_CUH

#include "backend/cuda/attention/args.cuh"

typedef struct ln_act_view ln_act_view;

/* Partial results of all KV splits of the sequences that bring one token; the result itself where
 * there is one split. */
int ln_attention_mma_decode(const ln_mma_attention_args *args, size_t n_seqs, cudaStream_t stream);
/* Merges what a split-KV kernel left. With `to` the result is converted for the next linear, too.
 */
int ln_attention_merge(const ln_mma_attention_args *args, size_t n_seqs, const ln_act_view *to,
                       cudaStream_t stream);

#endif
