/* The size of what experts take on the CPU, where a GPU has all else of their layers. */
#ifndef LN_ENGINE_PLAN_CPU_EXPERTS_H
#define LN_ENGINE_PLAN_CPU_EXPERTS_H

#include "engine/plan/plan.h"

/* Sizes of rows and scratch for the weights that are planned, and the arena of what the CPU runs,
 * which has cpu_layers.h's sizes; limits rise to what goes there and back. Nothing for 0 layers. */
ln_status ln_engine_plan_size_cpu_experts(const ln_spec *spec, ln_engine_plan *plan, ln_error *err);

#endif
