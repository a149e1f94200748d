/* WordPiece: a word is cut into the longest pieces from left to right, or is unknown as a whole
 * (Wu et al., "Google's neural machine translation system", 2016). */
#ifndef LN_TEXT_TOKENIZER_WORDPIECE_H
#define LN_TEXT_TOKENIZER_WORDPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"

typedef struct ln_wordpiece {
    const ln_vocab *vocab;
    ln_trie trie;
    uint32_t begin_node;    /* where the search for a word's first piece begins */
    uint32_t continue_node; /* and for the others, UINT32_MAX: no piece continues */
    bool nothing_begins;    /* no piece has the prefix of first pieces */
    size_t max_chars;       /* a longer word is unknown */
} ln_wordpiece;

/* First pieces are found under begin_prefix (GGUF: U+2581; else empty), others under
 * continue_prefix ("##"). */
ln_status ln_wordpiece_init(ln_wordpiece *wordpiece, ln_arena *arena, const ln_vocab *vocab,
                            const char *begin_prefix, const char *continue_prefix, size_t max_chars,
                            ln_error *err);

/* Appends the ids of a word. `plain`: special pieces are not candidates. */
ln_status ln_wordpiece_encode(const ln_wordpiece *wordpiece, const char *word, size_t n_bytes,
                              bool plain, ln_ids *ids, ln_error *err);

/* The word's own id, or the unknown one. */
ln_status ln_wordlevel_encode(const ln_vocab *vocab, const char *word, size_t n_bytes, bool plain,
                              ln_ids *ids, ln_error *err);

#endif
