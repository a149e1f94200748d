/* Differential attention (Ye et al., 2024): what heads of the second half give is subtracted, times
 * lambda, from what those of the first give, and the difference is normalised. */
#ifndef LN_MODEL_ATTENTION_DIFFERENTIAL_H
#define LN_MODEL_ATTENTION_DIFFERENTIAL_H

#include "model/load_tensor.h"
#include "model/recorder.h"

/* Values, the output's matrix, and what is between them. */
ln_status ln_load_differential(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                               ln_layer_weights *w);

/* Values of x for all KV heads, in a->v. */
void ln_record_value_pairs(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                           const float *x);

/* What the output's matrix reads, [n_tokens][n_heads * k_dim], of a->attended. */
const float *ln_record_difference(recorder *r, const ln_attention_spec *spec,
                                  const ln_layer_weights *w);

#endif
