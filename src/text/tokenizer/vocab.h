/* The vocabulary: pieces by id and ids by piece, with what each token is. */
#ifndef LN_TEXT_TOKENIZER_VOCAB_H
#define LN_TEXT_TOKENIZER_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hashmap.h"
#include "text/tokenizer/trie.h"

enum {
    LN_TOKEN_SPECIAL = 1, /* control text: never recognised in plain text, dropped on decode */
    LN_TOKEN_ADDED = 2,   /* matched in the text before the model sees it */
    LN_TOKEN_BYTE = 4,    /* stands for one byte */
    LN_TOKEN_UNKNOWN = 8, /* stands for what the vocabulary lacks */
    LN_TOKEN_USER_DEFINED = 16 /* SentencePiece: always one piece */,
    LN_TOKEN_UNUSED = 32 /* SentencePiece: split again when a merge gives it */
};

typedef struct ln_piece {
    const char *data; /* [bytes], NUL-terminated, in the tokenizer's arena; NULL: no such id */
    uint32_t bytes;
    uint32_t flags; /* LN_TOKEN_ */
} ln_piece;

typedef struct ln_vocab {
    ln_piece *pieces; /* [count], by id */
    size_t count;
    size_t n_model; /* entries of the model's own vocabulary, added tokens aside */
    ln_hashmap map; /* piece of the model -> id */
    int32_t unk, bos, eos;
} ln_vocab;

/* Room for ids below `count` and for n_model pieces. */
ln_status ln_vocab_init(ln_vocab *vocab, ln_arena *arena, size_t count, size_t n_model,
                        ln_error *err);

/* Copies a piece to an id below count; the first id of a piece wins in the map. */
ln_status ln_vocab_set(ln_vocab *vocab, ln_arena *arena, size_t id, const char *data,
                       size_t n_bytes, ln_error *err);

/* The model's id of a piece, or -1. */
static inline int32_t ln_vocab_find(const ln_vocab *vocab, const char *data, size_t n_bytes) {
    uint32_t id;
    return ln_hashmap_get(&vocab->map, data, n_bytes, &id) ? (int32_t)id : -1;
}

/* A trie of the pieces that have the flag, by id; empty when there are none. */
ln_status ln_vocab_trie(const ln_vocab *vocab, ln_arena *arena, uint32_t flag, ln_trie *trie,
                        ln_error *err);

/* The ids of the 256 pieces <0xHH>, -1 where there is none. */
void ln_vocab_find_bytes(const ln_vocab *vocab, int32_t ids[256]);

#endif
