/* What a tokenizer made of any bytes must stand: a text that holds every kind of trouble. */
#ifndef LN_TESTS_FUZZ_TOKENIZER_H
#define LN_TESTS_FUZZ_TOKENIZER_H

#include <stdlib.h>

#include "base/utf8.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/tokenizer_state.h"

static const char text[] = "Hello, <s>w\xc3\xb6rld</s>  \xe4\xbd\xa0\xe5\xa5\xbd 12345 don't\n\n"
                           "\xf0\x9f\x99\x82\xff\xed\xa0\x80 \xe2\x96\x81 aaaaaaaaaaaa\0\x01[CLS]"
                           "e\xcc\x81 \xef\xac\x81 \xe3\x8d\xbf ## x\t";

/* Pushes every id that the text gave, and some that no vocabulary has. */
static void decode(const ln_tokenizer *tokenizer, const ln_ids *ids) {
    size_t capacity = ln_tokenizer_max_piece_bytes(tokenizer);
    char *piece = malloc(capacity);
    ln_detokenizer state;
    ln_detokenizer_init(&state, tokenizer, ids->count % 2 == 0);
    for (size_t i = 0; piece != NULL && i < ids->count + 4; i++) {
        int32_t id = i < ids->count ? ids->data[i] : (int32_t)(i * 0x3fffffff);
        size_t n = ln_detokenizer_push(&state, id, piece, capacity);
        if (n > capacity || !ln_utf8_check(piece, n))
            __builtin_trap();
    }
    if (piece != NULL)
        ln_detokenizer_flush(&state, piece, capacity);
    free(piece);
}

/* Encodes the text in every way and decodes what comes out. */
static void encode_and_decode(const ln_tokenizer *tokenizer) {
    ln_error err = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        ln_ids ids = {0};
        if (ln_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, &ids, &err) == LINNET_OK)
            decode(tokenizer, &ids);
        ln_ids_free(&ids);
    }
}

#endif
