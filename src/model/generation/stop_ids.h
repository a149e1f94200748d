/* The ids that end a text, as the checkpoint's files name them. */
#ifndef LN_MODEL_GENERATION_STOP_IDS_H
#define LN_MODEL_GENERATION_STOP_IDS_H

#include "format/checkpoint.h"
#include "text/tokenizer/tokenizer.h"

typedef struct ln_stop_ids {
    int32_t *ids; /* [count], ascending; owned */
    size_t count;
    size_t n_outside; /* named, but past the vocabulary: they cannot be sampled */
} ln_stop_ids;

/* Adds those that config.json, generation_config.json or the GGUF metadata name, and the
 * tokenizer's (NULL: none), as far as they are below n_vocab. Errors: FORMAT, LIMIT, NOMEM. */
ln_status ln_stop_ids_read(const ln_checkpoint *checkpoint, const ln_tokenizer *tokenizer,
                           size_t n_vocab, ln_stop_ids *ids, ln_error *err);

/* The stop id that takes the place of a text's last token where its length cuts it
 * (forced_eos_token_id of generation_config.json, or else config.json); -1: none does. */
int32_t ln_forced_end_read(const ln_checkpoint *checkpoint, const ln_stop_ids *stops);

#endif
