/* The weights of a layer's attention, of whatever kind it is. */
#ifndef LN_MODEL_ATTENTION_LOAD_H
#define LN_MODEL_ATTENTION_LOAD_H

#include "model/load_tensor.h"

ln_status ln_load_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                            ln_layer_weights *w);
/* Those of attention to the encoder's output. */
ln_status ln_load_cross_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w);

#endif
