/* Hierarchical reasoning (HRM): a stack of layers that runs often and one that runs seldom, each on
 * the sum of what both gave last, which is normalised. A run's layers are the spec's own, with the
 * weights of the run before. Dory is simpler: layers in the middle run some times, each on the norm
 * of what is there plus that of what came out of the layers before them. Looped transformers run
 * all layers some times, with the last norm between. Layers that get messages of the run before are
 * counted here, and run in block_residual.h. */
#ifndef LN_MODEL_LAYERS_CYCLES_H
#define LN_MODEL_LAYERS_CYCLES_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* How many layers there are in all, where config.json counts those of a stack. */
ln_status ln_spec_read_cycles(const ln_config *config, ln_spec *spec, ln_error *err);

/* What the low stack begins with. */
ln_status ln_load_cycles(ln_loader *l);
/* The first layer from `first` on that has a layer's weights: maybe itself. */
size_t ln_cycle_layer(const ln_spec *spec, size_t first, size_t layer);
/* The checkpoint's number of a layer, where some run several times. */
size_t ln_cycle_stored(const ln_spec *spec, size_t layer);
/* What the names of a layer's tensors begin with. */
void ln_cycle_stem(const ln_spec *spec, size_t layer, char stem[64]);

/* Ahead of a layer. */
void ln_record_cycle(recorder *r, size_t layer);

#endif
