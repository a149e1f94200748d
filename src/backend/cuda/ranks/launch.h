/* The launchers of what ranks do together (backend/rank_ops.h), as those of cuda/ops.h. */
#ifndef LN_BACKEND_CUDA_RANKS_LAUNCH_H
#define LN_BACKEND_CUDA_RANKS_LAUNCH_H

#include "backend/cuda/ops.h"

int ln_cuda_all_reduce(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_rank_gather(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_rank_pass(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#endif
