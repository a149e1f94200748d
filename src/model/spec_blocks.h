/* The parts of a spec that only some families have: mixtures of experts, latent attention. */
#ifndef LN_MODEL_SPEC_BLOCKS_H
#define LN_MODEL_SPEC_BLOCKS_H

#include "model/config.h"
#include "model/spec.h"

/* Reads the mixture that layers share into ffn->moe (n_experts 0: the model is dense) and the
 * activation's consequences. dense_hidden is what a dense layer has. */
ln_status ln_spec_read_moe(const ln_config *config, const ln_family *family, size_t dense_hidden,
                           ln_moe_spec *moe, ln_error *err);

/* Whether this layer is dense although others are mixtures. */
ln_status ln_spec_layer_is_dense(const ln_config *config, size_t n_layers, size_t layer,
                                 bool *dense, ln_error *err);

/* Reads latent attention where the checkpoint has it: dimensions of heads and of what is cached.
 * The scale stays for the caller, over n_plain + n_rope. */
ln_status ln_spec_read_latent(const ln_config *config, const ln_family *family,
                              ln_attention_spec *attention, ln_error *err);

/* How many positions an indexer chooses, by how many heads of which size. */
ln_status ln_spec_read_indexer_sizes(const ln_config *config, ln_indexer_spec *indexer,
                                     ln_error *err);

/* The indexer of layer number `layer`, whose cache is the next one, in a family that has them;
 * layers may share what an earlier one chose. */
ln_status ln_spec_read_indexer(const ln_config *config, ln_spec *spec, size_t layer,
                               ln_attention_spec *attention, ln_error *err);

/* Whether a layer does nothing with text. */
ln_status ln_spec_layer_is_idle(const ln_config *config, const ln_family *family, size_t layer,
                                bool *idle, ln_error *err);

#endif
