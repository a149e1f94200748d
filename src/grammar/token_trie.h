/* The texts of a vocabulary's tokens as a trie over bytes, in depth-first
 * order: a walk over all of it, or over what lies below a node, is a loop over
 * an array. */
#ifndef LN_GRAMMAR_TOKEN_TRIE_H
#define LN_GRAMMAR_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/layout.h"
#include "text/tokenizer/tokenizer.h"

enum { LN_TRIE_MAX_DEPTH = 250 }; /* longer tokens are in no grammar */

/* Comes before a special token's text, so that no ordinary text is taken for
 * one: no byte of UTF-8. */
#define LN_SPECIAL_MARK ((char)0xff)

/* The text of a token; `source` is the caller's. */
typedef ln_token_text (*ln_token_text_fn)(const void *source, int32_t id);

typedef struct ln_token_trie {
    ln_token_text_fn text;
    const void *source;
    size_t n_vocab; /* ids */
    uint32_t n_nodes;
    uint8_t *byte;                   /* [n_nodes] that leads to the node; the root is 0 */
    uint8_t *depth;                  /* [n_nodes] */
    uint32_t *end;                   /* [n_nodes] what follows all that lies below the node */
    int32_t *token;                  /* [n_nodes] that ends here, or -1 */
    int32_t *same;                   /* [n_vocab] the next token of the same text, or -1 */
    uint64_t *first_other;           /* [n_words] tokens whose text differs at the beginning
                                        of a text */
    const struct ln_grammar *common; /* whose tables others share, NULL: none */
    size_t n_words;                  /* of a mask: a bit for each id */
} ln_token_trie;

/* Bytes of the tokens' texts, the most that a trie can have nodes for.
 * O(n_vocab). */
size_t ln_token_trie_measure(ln_token_text_fn text, const void *source, size_t n_vocab);

/* Adds a trie for texts of n_bytes to a layout; returns its offset. build fills
 * memory there, which is zeroed and outlives the trie. Errors: NOMEM. */
size_t ln_token_trie_plan(size_t n_vocab, size_t n_bytes, ln_layout *layout);
ln_status ln_token_trie_build(ln_token_trie *trie, ln_token_text_fn text, const void *source,
                              size_t n_vocab, size_t n_bytes, void *memory, ln_error *err);

#endif
