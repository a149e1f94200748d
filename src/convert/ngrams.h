/* Qwen 4: attention's indexer, and embeddings of hashed n-grams. Internal to this folder. */
#ifndef LN_CONVERT_NGRAMS_H
#define LN_CONVERT_NGRAMS_H

#include "convert/parts.h"

/* What chooses runs of tokens, beside attention. */
ln_status ln_convert_index_means(ln_convert_plan *plan, ln_tensor_id id,
                                 const ln_indexer_spec *index);
/* A layer's n-grams; nothing where it has none. */
ln_status ln_convert_ngrams(ln_convert_plan *plan, ln_tensor_id id);
/* What readers do not know of such a model, or NULL. */
const char *ln_convert_unknown_ngrams(const ln_spec *spec);
/* Keys of both; nothing of other models. */
ln_status ln_convert_put_ngrams(const ln_convert_plan *plan, ln_gguf_writer *writer);

#endif
