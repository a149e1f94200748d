/* Refusals of engine options, by name. */
#ifndef LN_ENGINE_PLAN_OPTIONS_H
#define LN_ENGINE_PLAN_OPTIONS_H

#include "model/model.h"

/* The ranks that the options name, of which this is one; each number is at least 1. */
ln_mesh ln_engine_plan_mesh(const linnet_engine_options *options);

/* Errors: ARGUMENT, UNSUPPORTED. */
ln_status ln_engine_plan_check_options(const linnet_model *model,
                                       const linnet_engine_options *options, ln_error *err);

#endif
