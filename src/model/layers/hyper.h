/* Hyper-connections (Zhu et al., 2024) in the form that Hy 4 has: instead of one residual stream
 * there are several. A block reads a weighted sum of them, and each takes what it gives times a
 * weight of its own; the weights are made of all streams. In DeepSeek V4's form streams also mix:
 * what stays of them is multiplied with a matrix whose rows and columns sum to one. Reading,
 * loading and recording. */
#ifndef LN_MODEL_LAYERS_HYPER_H
#define LN_MODEL_LAYERS_HYPER_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* spec->hyper, where the family has it. Errors: FORMAT. */
ln_status ln_spec_read_hyper(const ln_config *config, ln_spec *spec, ln_error *err);

/* What all layers share, a layer's, and what the output reads. */
ln_status ln_load_hyper(ln_loader *l);
ln_status ln_load_layer_hyper(ln_loader *l, size_t i, ln_layer_weights *w);
ln_status ln_load_hyper_end(ln_loader *l);

/* Every stream is the embedding. */
void ln_record_hyper_begin(recorder *r);
/* x = the weighted sum of the streams, which a block reads; activations->hyper_post: what the
 * streams take of what it gives. */
void ln_record_hyper_read(recorder *r, const ln_hyper_weights *w);
/* The streams with what the block has left in x. */
void ln_record_hyper_write(recorder *r);
/* x = what the last norm reads */
void ln_record_hyper_end(recorder *r);

#endif
