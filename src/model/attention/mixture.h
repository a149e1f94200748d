/* Mixture of attention heads (Zhang et al., 2022), as JetMoE has it: a token's queries come from
 * the experts that a router chooses, and go back through these. All share keys and values. */
#ifndef LN_MODEL_ATTENTION_MIXTURE_H
#define LN_MODEL_ATTENTION_MIXTURE_H

#include "model/load_tensor.h"
#include "model/recorder.h"

ln_status ln_load_attention_mixture(ln_loader *l, size_t layer, const ln_attention_spec *spec,
                                    ln_layer_weights *w);
/* The order of heads, which all layers have; nothing for other models. */
ln_status ln_load_choice_columns(ln_loader *l);

/* Queries of x, in a->q. */
void ln_record_expert_queries(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                              const float *x);
/* a->attended through the chosen experts to the residual stream. */
void ln_record_expert_outputs(recorder *r, const ln_attention_spec *spec,
                              const ln_layer_weights *w);

#endif
