/* Split-KV decode attention on Hopper from 16-bit caches (sm90_decode_f16.cu), with the bits of
 * ln_attention_mma_decode. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_F16_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_F16_CUH

#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/ops/qkv.cuh"

bool ln_takes_sm90_decode_f16(const ln_mma_attention_args *args, const ln_cuda_step *step);
/* Partial results for ln_attention_merge; is_whole (ln_plan_decodes_whole): the result itself,
 * which is also converted as `to` says, or NULL. qkv: what is to be done in front, or NULL. */
int ln_attention_sm90_decode_f16(const ln_mma_attention_args *args, const ln_qkv_args *qkv,
                                 const ln_cuda_step *step, bool is_whole, const ln_act_view *to,
                                 cudaStream_t stream);

#endif
