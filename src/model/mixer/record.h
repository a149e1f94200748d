/* Records the operations of a recurrent layer. */
#ifndef LN_MODEL_MIXER_RECORD_H
#define LN_MODEL_MIXER_RECORD_H

#include "model/recorder.h"

/* Where the layer's states are. */
const ln_state_cache *ln_record_state_cache(const recorder *r);

/* x [n_tokens][dim], normalised, through the layer's mixer to the residual stream. */
void ln_record_mixer(recorder *r, const ln_mixer_spec *spec, const ln_layer_weights *w,
                     const float *x);

#endif
