/* Queries, keys and relative queries whose heads have limited norms, and sinks of each token. */
#ifndef LN_MODEL_ATTENTION_LENGTHS_H
#define LN_MODEL_ATTENTION_LENGTHS_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

ln_status ln_spec_read_lengths(const ln_config *config, ln_attention_spec *attention,
                               ln_error *err);

ln_status ln_load_lengths(ln_loader *l, size_t i, const ln_attention_spec *spec,
                          ln_layer_weights *w);

/* x: what attention reads. Nothing in layers without limits. */
void ln_record_lengths(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                       const float *x);

#endif
