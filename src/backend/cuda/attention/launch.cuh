/* Attention on tensor cores, by the kernel that is fastest for the step (launch.cu). */
#ifndef LN_BACKEND_CUDA_ATTENTION_LAUNCH_CUH
#define LN_BACKEND_CUDA_ATTENTION_LAUNCH_CUH

#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/ops/qkv.cuh"

typedef struct ln_act_view ln_act_view;

/* Needs ln_takes_mma_attention. qkv: what the decode kernel does in front, where
 * ln_plan_refuses_qkv allows it, or NULL. to: where the result is converted for the next linear,
 * too, where ln_plan_attention_converts, or NULL. */
int ln_mma_attention(const ln_attention_args *args, const ln_qkv_args *qkv,
                     const ln_cuda_step *step, const ln_act_view *to, cudaStream_t stream);

#endif
