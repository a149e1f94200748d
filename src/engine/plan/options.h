/* Refusals of engine options, by name. */
#ifndef LN_ENGINE_PLAN_OPTIONS_H
#define LN_ENGINE_PLAN_OPTIONS_H

#include "model/model.h"

/* Errors: ARGUMENT. */
ln_status ln_engine_plan_check_options(const linnet_model *model,
                                       const linnet_engine_options *options, ln_error *err);

#endif
