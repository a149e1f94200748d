/* Offloading of experts: a GPU takes all else of all layers. */
#ifndef LN_ENGINE_PLAN_EXPERT_OFFLOAD_H
#define LN_ENGINE_PLAN_EXPERT_OFFLOAD_H

#include "engine/plan/plan.h"

/* Where `cpu_experts` or `experts_from_disk` of the options asks for it: chooses of how many
 * layers, the first ones, the CPU has the experts, creates their backend and sizes all that they
 * take. The plan has every other size with all experts on `backend`, and is sized again. Errors:
 * UNSUPPORTED, NOMEM. */
ln_status ln_engine_plan_offload_experts(const linnet_model *model,
                                         const linnet_engine_options *options, ln_backend *backend,
                                         const ln_backend_options *backend_options,
                                         ln_engine_plan *plan, ln_error *err);

/* Whether the host has the memory that such a plan takes there; loading has not begun. Errors:
 * NOMEM. */
ln_status ln_engine_plan_check_experts(const ln_engine_plan *plan, ln_error *err);

#endif
