/* Runs what plan/plan.h decided: the launchers that serve planned launches, one each. They queue
 * work on the stream and return 0, or the runtime's error code. `ops`: of the whole step. */
#ifndef LN_BACKEND_CUDA_LAUNCH_H
#define LN_BACKEND_CUDA_LAUNCH_H

#include "backend/cuda/plan/launches.h"

#ifdef __cplusplus
extern "C" {
#endif

bool ln_cuda_has_kernel(ln_op_kind kind);

int ln_cuda_launch_one(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                       const ln_cuda_step *step, ln_cuda_stream stream);

int ln_cuda_fused_decode(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                         const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_mixture(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                    ln_cuda_stream stream);
int ln_cuda_linear_norm(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                        const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_gemm(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream);
int ln_cuda_grouped_gemm(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream);
/* Linears with adapters, of the three kinds of launches that linears have apart. */
int ln_cuda_lora_expand(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                        ln_cuda_stream stream);
/* Linears behind an LN_OP_LORA_SHRINK, whose adapters are one more K split. */
int ln_cuda_lora_gemm(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                      ln_cuda_stream stream);
/* Two operations. */
int ln_cuda_linear_pair(const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_route_group(const ln_op *ops, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_norm_convert(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                         ln_cuda_stream stream);
int ln_cuda_attention_convert(const ln_cuda_launch *launch, const ln_op *ops,
                              const ln_cuda_step *step, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
