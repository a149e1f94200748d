/* Recording of feed-forwards: dense ones and mixtures of experts. */
#ifndef LN_MODEL_FFN_RECORD_H
#define LN_MODEL_FFN_RECORD_H

#include "model/recorder.h"

/* x [n_tokens][dim] through the feed-forward, to the residual stream. */
void ln_record_feed_forward(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                            const float *x);

/* What a router gives of the residual stream, where it reads that as the layer begins. */
void ln_record_first_router(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w);

/* Adds the experts of the layer before to the residual stream. */
void ln_record_shortcut(recorder *r);

#endif
