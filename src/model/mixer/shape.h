/* Sizes of a recurrent layer. */
#ifndef LN_MODEL_MIXER_SHAPE_H
#define LN_MODEL_MIXER_SHAPE_H

#include "model/spec.h"

/* CCA: units of what its convolution reads, as wide as what a head's matrix reads. */
size_t ln_mixer_conv_units(const ln_mixer_spec *mixer);

/* Columns of what the layer's convolution reads, or its scan without one. */
size_t ln_mixer_conv_dim(const ln_mixer_spec *mixer, size_t dim);

/* The layer's blocks, where a step has drafts of at most so many tokens. */
ln_state_shape ln_mixer_state_shape(const ln_mixer_spec *mixer, size_t dim, size_t draft_tokens);

#endif
