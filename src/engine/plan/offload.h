/* Offloading: a GPU takes the last layers, as many as are asked for or fit its memory, and the CPU
 * the first ones. */
#ifndef LN_ENGINE_PLAN_OFFLOAD_H
#define LN_ENGINE_PLAN_OFFLOAD_H

#include "engine/plan/plan.h"

/* Chooses how many layers the CPU has, which `gpu_layers` of the options asks for or the memory of
 * the GPU; creates their backend and sizes all that they take. The plan has every other size for
 * all layers on `backend`, and is sized again. Errors: UNSUPPORTED, ARGUMENT, NOMEM. */
ln_status ln_engine_plan_offload(const linnet_model *model, const linnet_engine_options *options,
                                 const ln_backend *backend,
                                 const ln_backend_options *backend_options, ln_engine_plan *plan,
                                 ln_error *err);

/* Whether the backend has the memory that the plan wants there, and a margin. */
bool ln_engine_plan_fits(const ln_backend *backend, const ln_engine_plan *plan);

/* A context that nobody chose is long enough, although the memory of the GPU is small. */
void ln_engine_plan_split_ctx(const ln_spec *spec, const linnet_engine_options *options,
                              ln_engine_plan *plan);

#endif
