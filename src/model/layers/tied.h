/* Attention whose values are its keys, of one head for all (DeepSeek V4), and the compressed
 * entries that it reads beside its window: reading, loading and recording. So are tables of the
 * experts that tokens meet. */
#ifndef LN_MODEL_LAYERS_TIED_H
#define LN_MODEL_LAYERS_TIED_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* The part of a head of so many dimensions that rotates where partial_rotary_factor does not say
 * it. Errors: FORMAT. */
ln_status ln_spec_read_tied_fraction(const ln_config *config, size_t head_dim, double *fraction,
                                     ln_error *err);
/* A layer's attention, but for the groups of its caches. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_read_tied(const ln_config *config, ln_spec *spec, size_t layer, size_t window,
                            ln_attention_spec *attention, ln_error *err);
/* Whether the layer's experts are those of a table. Errors: FORMAT. */
ln_status ln_spec_read_by_token(const ln_config *config, size_t layer, bool *by_token,
                                ln_error *err);

ln_status ln_load_tied_attention(ln_loader *l, size_t i, const ln_attention_spec *spec,
                                 ln_layer_weights *w);
ln_status ln_load_experts_by_token(ln_loader *l, size_t i, const ln_moe_spec *moe,
                                   const int32_t **out);

/* What attention gives of x joins the residual stream. */
void ln_record_tied_attention(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                              const float *x);

#endif
