/* Muse Spark's residual stream: what stays of it and what a block gives are weighed by element.
 * Norms behind feed-forwards and experts multiply by their weights before they normalise. */
#ifndef LN_MODEL_LAYERS_BLEND_H
#define LN_MODEL_LAYERS_BLEND_H

#include "model/load_tensor.h"

/* Instead of the norms behind a layer's blocks. */
ln_status ln_load_blend(ln_loader *l, const ln_layer_spec *layer, size_t i, ln_layer_weights *w);

#endif
