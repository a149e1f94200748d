/* What the attention of a stack's layers has in common, and what one of them has for itself. */
#ifndef LN_MODEL_ATTENTION_SPEC_H
#define LN_MODEL_ATTENTION_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* Heads, dimensions, norms and scales that all layers share. */
ln_status ln_spec_read_attention(const ln_config *config, const ln_spec *spec, bool encoder,
                                 ln_attention_spec *attention, ln_error *err);

/* What a layer has that sees a window, or whose queries do not rotate; its window and rotation are
 * known. */
ln_status ln_spec_read_own_attention(const ln_config *config, const ln_spec *spec, bool windowed,
                                     ln_attention_spec *attention, ln_error *err);

/* What a list in config.json calls a layer; its key's name into `name`. false: there is no list;
 * *is_named: it has a word for this layer. */
bool ln_spec_layer_word(const ln_config *config, size_t layer, char name[128], ln_meta_value *word,
                        bool *is_named);

#endif
