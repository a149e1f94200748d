/* The layers of a spec. */
#ifndef LN_MODEL_SPEC_LAYERS_H
#define LN_MODEL_SPEC_LAYERS_H

#include "model/config.h"
#include "model/spec.h"

/* Reads the layers, their rotations and KV groups, and the encoder's, once the rest of the spec
 * is there. Errors name the key. */
ln_status ln_spec_read_layers(const ln_config *config, ln_arena *arena, ln_spec *spec,
                              ln_error *err);

#endif
