/* Added tokens: text that is recognised before the model sees it. */
#ifndef LN_TEXT_TOKENIZER_ADDED_H
#define LN_TEXT_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/tokenizer/trie.h"

typedef struct ln_added_token {
    const char *pattern; /* [pattern_bytes] what is looked for, in the arena */
    uint32_t pattern_bytes;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} ln_added_token;

typedef struct ln_added {
    ln_added_token *tokens; /* [count], in the arena */
    size_t count;
    ln_trie raw;        /* of reversed patterns, looked for before normalisation */
    ln_trie normalized; /* and after it */
} ln_added;

/* Builds both automata from tokens[count]. */
ln_status ln_added_build(ln_added *added, ln_arena *arena, ln_error *err);

/* A token found in the text, its stripped white space included. */
typedef struct ln_added_hit {
    uint32_t begin, end; /* bytes; begin may lie before the end of the hit before it */
    const ln_added_token *token;
} ln_added_hit;

typedef struct ln_added_hits {
    ln_added_hit *data; /* [count], in order */
    size_t count, capacity;
} ln_added_hits;
void ln_added_hits_free(ln_added_hits *hits);

/* Finds tokens leftmost first, longest first, in time linear in the text. `plain`: special tokens
 * are matched but not reported, so that their text stays text. */
ln_status ln_added_find(const ln_added *added, bool normalized, bool plain, const char *text,
                        size_t n_bytes, ln_added_hits *hits, ln_error *err);

#endif
