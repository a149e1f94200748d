/* Decode on Hopper from 16-bit caches (sm90_decode_f16.cu): what slices give, or the result where
 * there is one, with the bits of the kernel for every GPU. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_F16_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_F16_CUH

#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/ops/qkv.cuh"

bool ln_takes_sm90_decode_f16(const ln_mma_attention_args *args, const ln_cuda_step *step);
/* qkv: what it is to finish; NULL: that has been done. */
int ln_attention_sm90_decode_f16(const ln_mma_attention_args *args, const ln_qkv_args *qkv, const ln_cuda_step *step,
                       cudaStream_t stream);

#endif
