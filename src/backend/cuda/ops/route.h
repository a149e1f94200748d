/* What chooses a token's experts, and converts what they read. */
#ifndef LN_BACKEND_CUDA_OPS_ROUTE_H
#define LN_BACKEND_CUDA_OPS_ROUTE_H

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An LN_OP_ROUTE of one token and its LN_OP_GROUP, and beside them x to its form, which is not by
 * row. */
int ln_cuda_route_group_convert(const ln_op *ops, const ln_converted_act *x,
                                const ln_cuda_step *step, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
