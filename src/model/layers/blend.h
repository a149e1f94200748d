/* Muse Spark's residual stream: what stays of it and what a block gives are weighted by element.
 * Norms behind feed-forwards and experts multiply by their weights before they normalise. */
#ifndef LN_MODEL_LAYERS_BLEND_H
#define LN_MODEL_LAYERS_BLEND_H

#include "model/config.h"
#include "model/load_tensor.h"

/* Instead of the norms behind a layer's blocks. */
ln_status ln_load_blend(ln_loader *l, const ln_layer_spec *layer, size_t i, ln_layer_weights *w);

/* nGPT (Loshchilov et al., 2024): norms make vectors of length one. The residual stream is such a
 * norm of itself, of which a part gives way to the norm of what a block gives. */
ln_status ln_spec_read_unit_sphere(const ln_config *config, ln_spec *spec, ln_error *err);
/* A layer's norms and scales, in place of those that its blocks have been given. */
ln_status ln_load_unit_layer(ln_loader *l, const ln_layer_spec *layer, size_t i,
                             ln_layer_weights *w);
/* A norm that makes vectors of length one. */
ln_status ln_load_unit_norm(ln_loader *l, size_t dim, ln_norm *out);
/* What logits are multiplied with. */
ln_status ln_load_unit_output(ln_loader *l, const float **scales);

#endif
