/* What differs from layer to layer where a family says so: sizes of heads by what a layer sees,
 * keys and values of an earlier layer, widths. */
#ifndef LN_MODEL_LAYERS_BY_LAYER_H
#define LN_MODEL_LAYERS_BY_LAYER_H

#include "model/config.h"
#include "model/spec.h"

/* Completes layer number config->layer, whose attention is windowed or not and rotates as it will;
 * those before it are complete. The group of its cache is the caller's where it has one of its own.
 */
ln_status ln_spec_read_by_layer(const ln_config *config, const ln_spec *spec, bool windowed,
                                ln_layer_spec *layer, ln_error *err);

/* The same of layers whose tensors say which blocks they have, and how wide these are: KV heads of
 * layer->attention, n_heads 0 without one, and layer->ffn.n_hidden. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_read_tensor_sizes(const ln_config *config, const ln_spec *spec,
                                    ln_layer_spec *layer, ln_error *err);
/* The first layer that has all blocks, for which lists have no zeros. Errors: UNSUPPORTED, where
 * none has. */
ln_status ln_spec_find_whole_layer(const ln_config *config, const ln_spec *spec, size_t *layer,
                                   ln_error *err);

/* Limits of what gate and up give, where lists have them for this layer. */
ln_status ln_spec_read_limits(const ln_config *config, ln_ffn_spec *ffn, ln_error *err);

/* The size of the heads that rotate by table number `rope`, which must agree. */
ln_status ln_spec_rope_head_dim(const ln_config *config, const ln_spec *spec, size_t rope,
                                size_t *head_dim, ln_error *err);

/* Embeddings that each layer has of its own. */
ln_status ln_spec_read_lookup(const ln_config *config, ln_spec *spec, ln_error *err);

#endif
