/* Tokens, and sequences of them, that a checkpoint forbids to come. */
#ifndef LN_MODEL_GENERATION_FORBIDDEN_H
#define LN_MODEL_GENERATION_FORBIDDEN_H

#include "base/arena.h"
#include "format/checkpoint.h"
#include "model/generation/stop_ids.h"

/* Word i is ids[ends[i - 1] .. ends[i]), never empty; its last id must not follow the others. */
typedef struct ln_forbidden {
    const int32_t *ids;
    const size_t *ends; /* [n_words] */
    size_t n_words;
} ln_forbidden;

/* What generation_config.json, or config.json where the former has no such key, lists as
 * bad_words_ids and suppress_tokens; the arrays live in the arena. As transformers has it, a bad
 * word that is a stop id alone does not count. Words with ids past n_vocab cannot come. Errors:
 * FORMAT, NOMEM. */
ln_status ln_forbidden_read(const ln_checkpoint *checkpoint, size_t n_vocab,
                            const ln_stop_ids *stops, ln_arena *arena, ln_forbidden *out,
                            ln_error *err);

#endif
