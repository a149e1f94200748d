/* Tables of positions that checkpoints leave to be computed. */
#ifndef LN_MODEL_LAYERS_SINUSOIDS_H
#define LN_MODEL_LAYERS_SINUSOIDS_H

#include "model/load_tensor.h"

/* n_learned rows, each with sines, then cosines, of its number times frequencies from 1 down to
 * 1/10000; the row of the padding token is zero. */
ln_status ln_load_sinusoids(ln_loader *l, ln_weight *weight);

/* Beam's scales of queries by position, or logarithms of positions, where layers have them. */
ln_status ln_load_query_scales(ln_loader *l);

/* A row of n zeros that counts as the embedding of any token. */
ln_status ln_load_no_tokens(ln_loader *l, size_t n);

#endif
