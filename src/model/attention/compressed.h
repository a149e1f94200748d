/* Attention whose values are its keys, of one head for all (DeepSeek V4), and the compressed
 * entries that it reads beside its window: reading, loading and recording. */
#ifndef LN_MODEL_ATTENTION_COMPRESSED_H
#define LN_MODEL_ATTENTION_COMPRESSED_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* The part of a head of so many dimensions that rotates where partial_rotary_factor does not say
 * it. Errors: FORMAT. */
ln_status ln_spec_read_compressed_fraction(const ln_config *config, size_t head_dim,
                                           double *fraction, ln_error *err);
/* A layer's attention, but for the groups of its caches. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_read_compressed(const ln_config *config, ln_spec *spec, size_t layer,
                                  size_t window, ln_attention_spec *attention, ln_error *err);

ln_status ln_load_compressed_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                       ln_layer_weights *w);

/* What attention gives of x joins the residual stream. */
void ln_record_compressed_attention(recorder *r, const ln_attention_spec *spec,
                                    const ln_layer_weights *w, const float *x);

#endif
