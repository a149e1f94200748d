/* Split-KV decode attention on Hopper from caches of int8 and E4M3 (sm90_decode_q8.cu), with the
 * bits of ln_attention_mma_decode and ln_attention_merge. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_Q8_CUH
#define LN_BACKEND_CUDA_ATTENTION_SM90_DECODE_Q8_CUH

#include "backend/cuda/attention/args.cuh"

typedef struct ln_act_view ln_act_view;

bool ln_takes_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step);
/* merges: else it leaves partial results for ln_attention_merge. With `to` the result is converted
 * for the next linear, too. */
int ln_attention_sm90_decode_q8(const ln_mma_attention_args *args, const ln_cuda_step *step,
                                bool merges, const ln_act_view *to, cudaStream_t stream);

#endif
