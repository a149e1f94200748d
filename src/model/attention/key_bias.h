/* A bias of scores that a key's values make (Doge's dynamic mask attention): to the scores of all
 * queries of a head of keys, exp(rate softplus(W v)) is added, v being the values of all heads.
 *
 * Cached keys have LN_KEY_BIAS_DIMS elements more: the bias, and zeros. Those of queries are one
 * over the scale of scores, and zeros. */
#ifndef LN_MODEL_ATTENTION_KEY_BIAS_H
#define LN_MODEL_ATTENTION_KEY_BIAS_H

#include "model/load_tensor.h"
#include "model/recorder.h"

/* What all layers share; nothing for other models. */
ln_status ln_load_key_bias_rows(ln_loader *l);
/* All of a layer's attention. */
ln_status ln_load_biased_attention(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                                   ln_layer_weights *w);

/* Queries, keys and values of x, normalised, in a->q, a->k and a->v. */
void ln_record_biased_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                            const float *x);

#endif
