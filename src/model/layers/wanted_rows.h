/* The end of the last layer of a step of which few rows are wanted, as prompts and texts have them:
 * what is behind its last attention runs on these rows alone. */
#ifndef LN_MODEL_LAYERS_WANTED_ROWS_H
#define LN_MODEL_LAYERS_WANTED_ROWS_H

#include "model/recorder.h"

/* In front of a layer's feed-forward. If from here on nothing reads other rows than those whose
 * logits or hidden states are wanted, the residual stream is theirs from here on, and so are the
 * batch and the activations of the recorder. */
bool ln_record_wanted_rows(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w);

#endif
