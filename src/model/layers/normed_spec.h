/* Layers whose blocks add to the norm that they read, instead of to what that is of (MiniMax). */
#ifndef LN_MODEL_LAYERS_NORMED_SPEC_H
#define LN_MODEL_LAYERS_NORMED_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* What such a layer multiplies the norms and the blocks' results with; of another: nothing. */
ln_status ln_spec_read_normed(const ln_config *config, ln_layer_spec *layer, ln_error *err);

#endif
