/* Decode on Hopper from 16-bit caches (attention_split.cu): what slices give, or the result where
 * there is one, with the bits of the kernel for every GPU. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SPLIT_CUH
#define LN_BACKEND_CUDA_ATTENTION_SPLIT_CUH

#include "backend/cuda/attention_fast.cuh"
#include "backend/cuda/qkv.cuh"

bool ln_takes_split_attention(const ln_fast_args *args, const ln_cuda_step *step);
/* Whether it can finish q, k and v, too. */
bool ln_split_attention_finishes(const ln_fast_args *args, const ln_qkv_args *qkv);
/* qkv: what it is to finish; NULL: that has been done. */
int ln_split_attention(const ln_fast_args *args, const ln_qkv_args *qkv, const ln_cuda_step *step,
                       cudaStream_t stream);

#endif
