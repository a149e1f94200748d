/* Indexers of attention that is not latent (Qwen 4): a run's key is the norm of the mean of its
 * tokens' keys, and rotates as the first of them. What is chosen are the tokens of the best runs,
 * and those behind the last whole one. Reading, loading and recording. */
#ifndef LN_MODEL_ATTENTION_INDEX_MEANS_H
#define LN_MODEL_ATTENTION_INDEX_MEANS_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* A layer's indexer and its compressor, but for the groups of its caches. Errors: FORMAT,
 * UNSUPPORTED. */
ln_status ln_spec_read_index_means(const ln_config *config, ln_spec *spec, size_t layer,
                                   ln_attention_spec *attention, ln_error *err);

ln_status ln_load_index_means(ln_loader *l, size_t i, const ln_indexer_spec *indexer,
                              ln_layer_weights *w);

/* The positions that attention is to read. */
void ln_record_index_means(recorder *r, const ln_attention_spec *attention,
                           const ln_layer_weights *w, const float *x);

#endif
