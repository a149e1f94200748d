/* Residual streams that are gated (Qwen 4): a block reads the mean of the streams' norms, each
 * element times the sigmoid of a gate that a path of low rank makes of all of them; and each stream
 * takes what the block gives times a weight of its own. Loading and recording. */
#ifndef LN_MODEL_LAYERS_HYPER_GATED_H
#define LN_MODEL_LAYERS_HYPER_GATED_H

#include "model/load_tensor.h"
#include "model/recorder.h"

/* What all layers share. */
ln_status ln_load_gated_streams(ln_loader *l);
/* `mix`: the role of weights of what streams take, or, of streams that take nothing, LN_ROLE_COUNT;
 * `norm`: the first of three. */
ln_status ln_load_gated_hyper(ln_loader *l, size_t i, ln_role mix, ln_role norm,
                              ln_hyper_weights *out);

/* normed = norm of each stream, times weights [n * dim] */
void ln_record_stream_norm(recorder *r, const float *streams, const float *weights, float *normed);
/* x = what a block reads; activations->hyper_post: what the streams take of what it gives. */
void ln_record_gated_read(recorder *r, const ln_hyper_weights *w);

#endif
