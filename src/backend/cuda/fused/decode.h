/* Chains: decode steps of few sequences on Hopper, where one kernel runs norms, linears of tiles
 * and attention one after another, and those of 9 to 64 rows, where one runs linears and norms,
 * with the bits of the kernels that run them one by one. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_H
#define LN_BACKEND_CUDA_FUSED_DECODE_H

#include "backend/cuda/ops.h"
#include "backend/cuda/weights/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What blocks of a fused_plan meet and pass results with, in device memory, all 0 at first: of chains of
 * few sequences, and behind it those of 9 to 64 rows (linear_norm.cuh). */
enum {
    LN_DECODE_FEW_BYTES = 8 << 20,
    LN_LINEAR_NORM_BYTES = 128 + 132 * 16 * 1024,
    LN_DECODE_BYTES = LN_DECODE_FEW_BYTES + LN_LINEAR_NORM_BYTES
};

/* How many operations, from the first on, are a fused_plan; 0: the first is for other kernels. */
size_t ln_cuda_fused_decode_ops(const ln_op *ops, size_t n_ops, const ln_cuda_step *step);
/* Runs as many. */
int ln_cuda_fused_decode(const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                         ln_cuda_stream stream);
/* Runs a fused_plan of linears and norms for 9 to 64 rows, if these begin with one: of how many. 0: they
 * do not, and nothing was run. */
size_t ln_cuda_linear_norm(const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                           ln_converted_act *x, ln_cuda_stream stream, int *code);

#ifdef __cplusplus
}
#endif

#endif
