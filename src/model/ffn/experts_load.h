/* Weights of mixtures of experts. */
#ifndef LN_MODEL_FFN_EXPERTS_LOAD_H
#define LN_MODEL_FFN_EXPERTS_LOAD_H

#include "model/load_tensor.h"

/* A layer's router, experts and shared expert; without the experts where the options have those of
 * the layer loaded apart. */
ln_status ln_load_experts(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_layer_weights *w);

/* What operations read that limit gates of experts before their activation. */
ln_status ln_load_zeros(ln_loader *l);

/* The experts of the layers whose options have them loaded apart, and nothing else. */
ln_status ln_load_only_experts(ln_loader *l);

#endif
