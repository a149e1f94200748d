/* Block attention residuals: layers are in blocks, a block's stream is the sum of what its layers
 * give, and what attention, feed-forward and output read attends to it and to the streams of all
 * blocks before it. Layers in the middle may run several times: each run begins with what the
 * first one began with, and what its blocks read takes messages, which queries make of the streams
 * of the run before. */
#ifndef LN_MODEL_LAYERS_BLOCK_RESIDUAL_H
#define LN_MODEL_LAYERS_BLOCK_RESIDUAL_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

ln_status ln_spec_read_block_residual(const ln_config *config, ln_spec *spec, ln_error *err);

/* A layer's queries, and norms of what keys and values read. */
ln_status ln_load_block_residual(ln_loader *l, size_t i, const ln_layer_spec *layer,
                                 ln_layer_weights *w);
/* Queries of messages. */
ln_status ln_load_messages(ln_loader *l);
/* The output's query. */
ln_status ln_load_block_residual_end(ln_loader *l);

void ln_record_residual_layer(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w);
/* x = what the output reads; nothing in other models. */
void ln_record_block_residual_end(recorder *r);

#endif
