/* Loads the weights of a recurrent layer. */
#ifndef LN_MODEL_MIXER_LOAD_H
#define LN_MODEL_MIXER_LOAD_H

#include "model/load_tensor.h"

/* Nothing for a layer that is not recurrent. w->in_norm stays as it is. */
ln_status ln_load_mixer(ln_loader *l, size_t layer, const ln_layer_spec *of, ln_mixer_weights *w);

#endif
