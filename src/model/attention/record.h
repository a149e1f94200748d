/* The attention of a layer as operations, of whatever kind it is. */
#ifndef LN_MODEL_ATTENTION_RECORD_H
#define LN_MODEL_ATTENTION_RECORD_H

#include "model/recorder.h"

/* What attention gives of x joins the residual stream, or goes to r->apart. */
void ln_record_attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                         const float *x);
/* Caches keys and values of x, and attends to nothing. */
void ln_record_keys(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                    const float *x);
/* The same of attention to the encoder's output, which is in the cache. */
void ln_record_cross_attention(recorder *r, const ln_attention_spec *spec,
                               const ln_layer_weights *w, const float *x);

#endif
