/* Which kernel runs an operation, or a few at once. */
#ifndef LN_BACKEND_CUDA_DISPATCH_H
#define LN_BACKEND_CUDA_DISPATCH_H

#include "backend/cuda/ops.h"
#include "backend/cuda/weights/layout.h"

bool ln_cuda_has_kernel(ln_op_kind kind);

/* Queues the first of ops[n_ops], or the first few where one kernel serves them; how many these
 * are. Rows that were converted for one linear stay in x and serve the next ones, as long as
 * nothing but what chooses experts runs. *code becomes 0, or the runtime's error code. */
size_t ln_cuda_dispatch(const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                        ln_converted_act *x, ln_cuda_stream stream, int *code);

#endif
