/* Latent attention (MLA), and the indexer by which it is sparse: what is recorded before it. */
#ifndef LN_MODEL_ATTENTION_LATENT_H
#define LN_MODEL_ATTENTION_LATENT_H

#include "model/recorder.h"

/* Queries of x, which meet the cached latents themselves, in a->q; the latents of x to their slots,
 * and with an indexer the positions to read in a->indices. */
void ln_record_latent_heads(recorder *r, const ln_attention_spec *spec, const ln_layer_weights *w,
                            const float *x);

#endif
