/* What Gemma's layers have beside attention and feed-forward: an embedding of their own, which a
 * gate lets into the residual stream, and a number that multiplies what they give. */
#ifndef LN_MODEL_LAYERS_LOOKUP_RECORD_H
#define LN_MODEL_LAYERS_LOOKUP_RECORD_H

#include "model/recorder.h"

/* Right behind the embedding: activations->lookup of all layers, from a table and from x. */
void ln_record_lookup(recorder *r);

/* activations->lookup_gate = act(gate x) * the layer's embedding */
void ln_record_gated_lookup(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w,
                            const float *x);

/* At the end of a layer. */
void ln_record_layer_end(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w);

#endif
