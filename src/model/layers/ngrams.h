/* Embeddings of hashed n-grams (Qwen 4's per-layer embeddings): in front of some layers each
 * residual stream takes a value that they make, by a gate of a key of theirs and the stream, and
 * what a convolution makes of such values. Tokens of earlier steps are in the cache of another
 * convolution, which moves them. Reading, loading and recording. */
#ifndef LN_MODEL_LAYERS_NGRAMS_H
#define LN_MODEL_LAYERS_NGRAMS_H

#include "model/config.h"
#include "model/load_tensor.h"
#include "model/recorder.h"

/* spec->ngrams, where the checkpoint has them, but for n_layers. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_read_ngrams(const ln_config *config, ln_spec *spec, ln_error *err);
/* Whether a layer has them, and its number among those that do. */
ln_status ln_spec_layer_ngrams(const ln_config *config, ln_spec *spec, size_t i,
                               ln_layer_spec *layer, ln_error *err);

/* Where a layer's table is found; `reads`: whether tensor data may be read, without which numbers
 * that lie there stay as the reference would make them. */
typedef struct ln_ngram_source {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    size_t layer;
    ln_unused_tensors *unused; /* or NULL */
    bool reads;
} ln_ngram_source;
/* *n but for its parts' weights, and the rows of the whole table. Errors: FORMAT. */
ln_status ln_find_ngrams(const ln_ngram_source *source, ln_ngrams *n, size_t *n_rows,
                         ln_error *err);

/* What all layers share, and a layer's. */
ln_status ln_load_ngrams(ln_loader *l);
ln_status ln_load_layer_ngrams(ln_loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w);

/* The streams in front of a layer. */
void ln_record_ngrams(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w);

#endif
