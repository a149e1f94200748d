/* Relative logits: hidden states make a relative query for each head, whose products with learned
 * embeddings of distances are added to scores. */
#ifndef LN_MODEL_ATTENTION_RELATIVE_LOGITS_H
#define LN_MODEL_ATTENTION_RELATIVE_LOGITS_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* window: what the layer sees; 0: all. */
ln_status ln_spec_read_relative_logits(const ln_config *config, size_t window,
                                       ln_attention_spec *attention, ln_error *err);

ln_status ln_load_relative_logits(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w);

/* The relative queries, of what attention reads. */
void ln_record_relative_logits(recorder *r, const ln_attention_spec *spec,
                               const ln_layer_weights *w, const float *x);

/* What attention adds to its scores; nothing where the layer has no such bias. */
ln_relative_logits ln_relative_logits_of(const recorder *r, const ln_attention_spec *spec,
                                         const ln_layer_weights *w);

#endif
