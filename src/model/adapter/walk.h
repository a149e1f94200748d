/* A walk over the matrices of a model that adapters can change. */
#ifndef LN_MODEL_ADAPTER_WALK_H
#define LN_MODEL_ADAPTER_WALK_H

#include "model/family.h"
#include "model/weights.h"

typedef ln_status (*ln_adapter_visit)(void *context, ln_tensor_id id, const ln_weight *weight,
                                      ln_error *err);

/* Calls visit with each of them, once; stops at the first failure. */
ln_status ln_adapter_walk(const ln_spec *spec, const ln_weights *weights, ln_adapter_visit visit,
                          void *context, ln_error *err);

#endif
