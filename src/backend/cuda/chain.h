/* Chains: decode steps of few sequences on Hopper, where one kernel runs norms, linears of tiles
 * and attention one after another, with the bits of the kernels that run them one by one. */
#ifndef LN_BACKEND_CUDA_CHAIN_H
#define LN_BACKEND_CUDA_CHAIN_H

#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What blocks of a chain meet and pass results with, in device memory: a counter, 0 at first, and
 * results. */
enum { LN_CHAIN_BYTES = 8 << 20 };

/* How many operations, from the first on, are a chain; 0: the first is for other kernels. */
size_t ln_cuda_chain_ops(const ln_op *ops, size_t n_ops, const ln_cuda_step *step);
/* Runs as many. */
int ln_cuda_chain(const ln_op *ops, size_t n_ops, const ln_cuda_step *step, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
