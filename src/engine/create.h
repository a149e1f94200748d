/* An engine's creation and end: it reserves what the plan says, and reports what it reserved. */
#ifndef LN_ENGINE_CREATE_H
#define LN_ENGINE_CREATE_H

#include "engine/engine.h"

/* As linnet_engine_create, with all options. */
ln_status ln_engine_create(const linnet_model *model, const linnet_engine_options *options,
                           linnet_engine **engine, ln_error *err);
void ln_engine_destroy(linnet_engine *engine); /* NULL is fine */

/* The plan with what was really reserved. */
linnet_memory_plan ln_engine_memory(const linnet_engine *engine);

#endif
