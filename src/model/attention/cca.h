/* Compressed convolutional attention (Figliolia et al., 2025), as ZAYA has it: queries and keys go
 * through two causal convolutions, one of each channel and one of each head, and what they were
 * before is added: a query's mean with its key, and the mean of those for the key. Half of a
 * token's values are made of the token before.
 *
 * The convolutions are one LN_OP_CONV and a matrix for each head: a channel stands in the row as
 * often as the second one has taps, delayed by as many tokens, so that a head's matrix meets them
 * side by side. Values are channels behind, of which some are delayed. A row is filled up to whole
 * units, which are as wide as what a matrix reads. */
#ifndef LN_MODEL_ATTENTION_CCA_H
#define LN_MODEL_ATTENTION_CCA_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* Reads the convolutions of a layer whose heads are known; nothing for other mixers. */
ln_status ln_spec_read_cca(const ln_config *config, ln_attention_spec *attention,
                           ln_mixer_spec *mixer, ln_error *err);

/* Orders of columns, which all layers have; nothing for other models. */
ln_status ln_load_cca_columns(ln_loader *l);
/* All of a layer's attention. */
ln_status ln_load_cca(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                      ln_layer_weights *w);

/* Queries, keys and values of x, in a->q, a->k and a->v. */
void ln_record_cca(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                   const float *x);

#endif
