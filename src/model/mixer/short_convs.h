/* Short convolutions inside a layer: of keys and values, and of what attention and feed-forward
 * give, each of which is added to what it convolves. They share the layer's state. */
#ifndef LN_MODEL_MIXER_SHORT_CONVS_H
#define LN_MODEL_MIXER_SHORT_CONVS_H

#include "model/load_tensor.h"
#include "model/recorder.h"

static inline bool ln_has_short_convs(const ln_mixer_spec *mixer) {
    return mixer->kind == LN_MIXER_SHORT_CONVS;
}

/* Their channels, once attention is read. */
void ln_spec_size_short_convs(size_t dim, ln_layer_spec *layer);

ln_status ln_load_short_convs(ln_loader *l, size_t layer, const ln_mixer_spec *spec,
                              size_t n_kv_heads, ln_mixer_weights *w);

/* Where a linear is to leave what a convolution reads, or `out` in layers without any. */
static inline float *ln_short_conv_input(const recorder *r, float *out) {
    return ln_has_short_convs(&r->layer_spec->mixer) ? r->a->conv_in : out;
}

/* out = x + convolution(x) of what is there; nothing in layers without any. `from`: what that was
 * made of, and dynamic taps are. */
void ln_record_short_conv(recorder *r, ln_short_conv which, const float *from, float *out);

/* The same of what a block gives, which joins the residual stream. */
void ln_record_short_conv_to_stream(recorder *r, ln_short_conv which);

#endif
