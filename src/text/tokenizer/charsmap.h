/* SentencePiece's precompiled_charsmap: a double array over byte strings (Yata et al., "A compact
 * static double-array keeping character codes", 2007) whose values are offsets of NUL-terminated
 * replacements. */
#ifndef LN_TEXT_TOKENIZER_CHARSMAP_H
#define LN_TEXT_TOKENIZER_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct ln_charsmap {
    const uint32_t *units; /* [n_units], in the arena */
    size_t n_units;        /* 0: an empty map */
    const char *texts;     /* [texts_bytes] replacements, in the arena, NUL at the end */
    size_t texts_bytes;
} ln_charsmap;

/* Copies the blob (size of the array, array, replacements) into the arena. */
ln_status ln_charsmap_init(ln_charsmap *map, ln_arena *arena, const void *blob, size_t n_bytes,
                           ln_error *err);

/* The replacement of the shortest or longest prefix of the text that has one; *matched is that
 * prefix's length, 0 when there is none. */
const char *ln_charsmap_find(const ln_charsmap *map, const char *text, size_t n_bytes, int longest,
                             size_t *matched);

#endif
