/* Zamba's recurrent layers behind a block: attention and a feed-forward of the residual stream
 * and the embedding side by side. Several layers share a block's weights, to which each adds
 * matrices of low rank (Zamba 2) or nothing; what the block gives goes through a matrix and is
 * added to what the recurrent layer reads, not to the residual stream. */
#ifndef LN_MODEL_LAYERS_SHARED_BLOCK_H
#define LN_MODEL_LAYERS_SHARED_BLOCK_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* Which block a layer has, or none; attention and feed-forward are in `layer`. */
ln_status ln_spec_read_shared_block(const ln_config *config, ln_spec *spec, size_t i,
                                    ln_layer_spec *layer, ln_error *err);

/* What a layer has of its own. */
ln_status ln_load_block(ln_loader *l, size_t i, const ln_layer_spec *layer, ln_block_weights *w);

/* Keeps the embedding, behind it. */
void ln_record_block_begin(recorder *r);
/* What attention reads: [2 dim]. */
const float *ln_record_block_input(recorder *r, const ln_layer_weights *w);
/* out += high low x */
void ln_record_low(recorder *r, const ln_low_weights *w, const float *x, float *out);
/* From what attention gives in a->block to what the recurrent layer reads. */
const float *ln_record_block_output(recorder *r, const ln_layer_weights *w);

#endif
