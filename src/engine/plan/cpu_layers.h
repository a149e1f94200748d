/* The sizes of the layers that a GPU leaves to the CPU. */
#ifndef LN_ENGINE_PLAN_CPU_LAYERS_H
#define LN_ENGINE_PLAN_CPU_LAYERS_H

#include "engine/plan/plan.h"

/* Sizes what depends on the budget and the KV shape: plan->cpu_layers, its part of plan->limits and
 * plan->bytes. */
ln_status ln_engine_plan_cpu_layers(const ln_spec *spec, ln_engine_plan *plan, ln_error *err);

#endif
