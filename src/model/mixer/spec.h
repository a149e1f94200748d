/* Reads what recurrent layers are like, and which ones are. */
#ifndef LN_MODEL_MIXER_SPEC_H
#define LN_MODEL_MIXER_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* The recurrent layers of the family, all alike; kind NONE where it has none. */
ln_status ln_spec_read_mixer(const ln_config *config, const ln_spec *spec, ln_mixer_spec *mixer,
                             ln_error *err);

/* What comes out of a convolution goes through SiLU, and in lightning attention q, k and v do:
 * config.json may name no other activation where a layer recurs. */
ln_status ln_spec_check_mixer_activation(const ln_config *config, const ln_family *family,
                                         ln_mixer kind, ln_error *err);

/* What a layer of one block is. */
typedef enum ln_block {
    LN_BLOCK_MIXER,
    LN_BLOCK_ATTENTION,
    LN_BLOCK_DENSE,
    LN_BLOCK_EXPERTS
} ln_block;

/* *n_hidden: the width of a feed-forward, where GGUF lists one for each layer. */
ln_status ln_spec_layer_block(const ln_config *config, const ln_spec *spec, size_t layer,
                              ln_block *block, size_t *n_hidden, ln_error *err);

/* Whether a layer is recurrent, instead of attention or, with mixers_beside, along with it. */
ln_status ln_spec_layer_has_mixer(const ln_config *config, const ln_spec *spec, size_t layer,
                                  bool *has_mixer, ln_error *err);

#endif
