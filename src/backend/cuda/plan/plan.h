/* How a step runs on a GPU: which kernel serves which operations, decided once, before any of them
 * is queued, from the operations, their values and the step's shape. Nothing here needs a device.
 *
 * A plan is made for a step that no graph replays, when it is captured or queued, in memory that is
 * reserved with the backend's scratch. launch.h runs it. */
#ifndef LN_BACKEND_CUDA_PLAN_PLAN_H
#define LN_BACKEND_CUDA_PLAN_PLAN_H

#include "backend/cuda/plan/launches.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory for plans of up to max_ops operations; false when there is none. */
bool ln_cuda_plan_reserve(ln_cuda_plan *plan, size_t max_ops);
void ln_cuda_plan_free(ln_cuda_plan *plan);

/* Plans ops[n_ops], at most plan->max_ops; false: their values have ids out of order. Of `step`
 * counts matter, and whether pointers are NULL. */
bool ln_cuda_plan_make(ln_cuda_plan *plan, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                       const ln_cuda_target *target);

const char *ln_cuda_launch_name(const ln_cuda_launch *launch, const ln_op *ops);

#ifdef __cplusplus
}
#endif

#endif
