/* Merge of what split-KV decode kernels leave (merge.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_MERGE_CUH
#define LN_BACKEND_CUDA_ATTENTION_MERGE_CUH

#include "backend/cuda/attention/args.cuh"

typedef struct ln_act_view ln_act_view;

/* Whether a sequence has so many KV splits, and so few sequences have, that a kernel merges them
 * faster than one warp behind the last split. */
bool ln_attention_merges_apart(const ln_mma_attention_args *args, size_t n_seqs);

/* Merges the KV splits of decode sequences (one token in this step). With `to` the result is
 * converted for the next linear, too. */
int ln_attention_merge(const ln_mma_attention_args *args, size_t n_seqs, const ln_act_view *to,
                       cudaStream_t stream);

#endif
