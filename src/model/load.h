/* Loads a model's weights: one walk over all of them, which plans or prepares each. */
#ifndef LN_MODEL_LOAD_H
#define LN_MODEL_LOAD_H

#include "model/weights.h"

/* What loading will take: prepared bytes in the backend's memory, bytes that stay mapped, and the
 * table. From headers alone (and the order of a GPTQ folder's columns). Errors name a missing
 * tensor or a wrong shape. */
typedef struct ln_weights_plan {
    size_t prepared_bytes, mapped_bytes, table_bytes;
    size_t adapter_bytes;    /* of the memory of one adapter */
    ln_expert_sizes experts; /* with expert_slots */
} ln_weights_plan;
ln_status ln_weights_plan_bytes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                const ln_weights_options *options, const ln_backend *backend,
                                ln_weights_plan *plan, ln_error *err);

/* Reserves just the planned bytes and prepares every weight, and the tables of positions. */
ln_status ln_weights_load(const ln_checkpoint *checkpoint, const ln_spec *spec,
                          const ln_weights_options *options, ln_backend *backend,
                          ln_weights *weights, ln_error *err);
void ln_weights_free(ln_weights *weights, ln_backend *backend);

#endif
