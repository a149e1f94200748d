/* Weights of what Gemma's layers have beside attention and feed-forward: embeddings of their own,
 * and experts beside a dense feed-forward. */
#ifndef LN_MODEL_LAYERS_LOOKUP_LOAD_H
#define LN_MODEL_LAYERS_LOOKUP_LOAD_H

#include "model/load_tensor.h"

/* The tables of all layers' embeddings, which go with the embedding. */
ln_status ln_load_lookup(ln_loader *l);
/* A layer's part of them, and its scale. */
ln_status ln_load_layer_lookup(ln_loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w);
/* Norms around experts that stand beside a dense feed-forward. */
ln_status ln_load_experts_beside(ln_loader *l, size_t i, const ln_moe_spec *moe,
                                 ln_layer_weights *w);
/* Keys and values that files hold of a layer that attends to another's: nothing reads them. */
void ln_load_skip_borrowed(const ln_loader *l, size_t i);

#endif
