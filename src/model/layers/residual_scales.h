/* ZAYA's residual stream: behind a block it is (x + a) b + (f(x) + c) d, by element, and it begins
 * with a scaled and shifted embedding. */
#ifndef LN_MODEL_LAYERS_RESIDUAL_SCALES_H
#define LN_MODEL_LAYERS_RESIDUAL_SCALES_H

#include "model/load_tensor.h"

/* Of the embedding, and instead of the norms behind a layer's blocks; nothing for other models. */
ln_status ln_load_embedding_scales(ln_loader *l);
ln_status ln_load_residual_scales(ln_loader *l, size_t layer, ln_layer_weights *w);

#endif
