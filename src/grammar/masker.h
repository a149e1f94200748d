/* Token bitmasks: what may come next in a sequence, applied to its logits. A mask
 * is a bit for each id; those of the states that were met last are kept.
 */
#ifndef LN_GRAMMAR_MASKER_H
#define LN_GRAMMAR_MASKER_H

#include "grammar/grammar.h"

enum { LN_MASK_SLOTS = 64 };

typedef struct ln_mask_slot {
    uint64_t grammar; /* its number; 0: none */
    uint32_t generation, state;
    uint64_t used; /* by the clock of uses */
} ln_mask_slot;

typedef struct ln_masker {
    ln_token_trie trie;
    size_t n_text_bytes; /* planned for */
    void *trie_memory;
    bool has_trie;
    uint64_t *masks; /* [LN_MASK_SLOTS][n_words] */
    ln_mask_slot slots[LN_MASK_SLOTS];
    uint64_t *allowed; /* [n_words] of the sequence at hand */
    uint64_t clock, n_grammars;
    uint64_t n_made, n_found; /* masks worked out; those that were there */
} ln_masker;

/* Adds a masker for rows of n_vocab logits to an empty layout. `n_text_bytes`
 * is what ln_token_trie_measure says. init takes that many bytes, zeroed. */
void ln_masker_plan(size_t n_vocab, size_t n_text_bytes, ln_layout *layout);
void ln_masker_init(ln_masker *masker, size_t n_vocab, size_t n_text_bytes, void *memory);
/* Builds the trie, once; before the first grammar is compiled for it. */
ln_status ln_masker_load(ln_masker *masker, ln_token_text_fn text, const void *source,
                         ln_error *err);

/* Makes the logits[n_vocab] of what may not come next minus infinity.
 * tokens[n_tokens] are the sequence's output so far; `state` follows them, from
 * wherever it was. Ids that end a sequence keep their logits where the grammar
 * may end, and only there. *ended: the text is complete and nothing can follow;
 * the logits are then as they were. Allocates nothing. Errors: COMPUTE (the
 * vocabulary has no token to go on with, a token is not allowed), LIMIT (too
 * ambiguous). */
ln_status ln_masker_apply(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                          const int32_t *tokens, size_t n_tokens, const int32_t *stop_ids,
                          size_t n_stop_ids, float *logits, bool *ended, ln_error *err);

/* The one token that may come next, -1 where there are several, or the text may end, or after a
 * failure. As apply, which comes to the same; `state` may be a copy that runs ahead. */
int32_t ln_masker_forced(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                         const int32_t *tokens, size_t n_tokens, const int32_t *stop_ids,
                         size_t n_stop_ids);

/* The mask itself, [n_words] without ids that end a sequence, valid until the
 * next call. */
ln_status ln_masker_get(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                        const int32_t *tokens, size_t n_tokens, const uint64_t **mask,
                        bool *may_end, ln_error *err);

#endif
