/* Biases of scores by distance that hidden states make: each head of a query mixes learned profiles
 * over distances. */
#ifndef LN_MODEL_ATTENTION_DISTANCES_H
#define LN_MODEL_ATTENTION_DISTANCES_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* window: what the layer sees; 0: all. */
ln_status ln_spec_read_distances(const ln_config *config, size_t window,
                                 ln_attention_spec *attention, ln_error *err);

ln_status ln_load_distances(ln_loader *l, size_t i, const ln_attention_spec *spec,
                            ln_layer_weights *w);

/* What the heads mix profiles by, of what attention reads. */
void ln_record_distances(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                         const float *x);

/* What attention adds to its scores; nothing where the layer has no such bias. */
ln_distance_bias ln_distance_bias_of(const recorder *r, const ln_attention_spec *spec,
                                     const ln_layer_weights *w);

#endif
