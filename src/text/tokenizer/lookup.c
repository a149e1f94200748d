/* What a tokenizer knows of single tokens. */
#include <string.h>

#include "text/tokenizer/tokenizer_state.h"

size_t ln_tokenizer_vocab_size(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.count;
}

size_t ln_tokenizer_memory_bytes(const ln_tokenizer *tokenizer) {
    return sizeof *tokenizer + tokenizer->arena.reserved_bytes + tokenizer->heap_bytes;
}

const char *ln_tokenizer_kind(const ln_tokenizer *tokenizer) {
    static const char *const names[] = {"bpe", "unigram", "wordpiece", "wordlevel"};
    return names[tokenizer->model];
}

ln_tokenizer_oddities ln_tokenizer_find_oddities(const ln_tokenizer *tokenizer) {
    ln_tokenizer_oddities odd = {.n_dangling_merges = tokenizer->bpe.n_dangling};
    for (size_t i = 0; i < tokenizer->vocab.count; i++)
        odd.n_empty_tokens +=
            tokenizer->vocab.pieces[i].data != NULL && tokenizer->vocab.pieces[i].bytes == 0;
    return odd;
}

int32_t ln_tokenizer_bos(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.bos;
}

int32_t ln_tokenizer_eos(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.eos;
}

int32_t ln_tokenizer_find(const ln_tokenizer *tokenizer, const char *piece, size_t n_bytes) {
    uint32_t id;
    if (ln_hashmap_get(&tokenizer->added_map, piece, n_bytes, &id))
        return (int32_t)id;
    return ln_vocab_find(&tokenizer->vocab, piece, n_bytes);
}

const char *ln_tokenizer_piece(const ln_tokenizer *tokenizer, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    if (id < 0 || (size_t)id >= tokenizer->vocab.count)
        return NULL;
    *n_bytes = tokenizer->vocab.pieces[id].bytes;
    return tokenizer->vocab.pieces[id].data;
}

bool ln_tokenizer_is_special(const ln_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (size_t)id < tokenizer->vocab.count &&
           (tokenizer->vocab.pieces[id].flags & LN_TOKEN_SPECIAL) != 0;
}

size_t ln_tokenizer_count_plain(const ln_tokenizer *tokenizer, int32_t id, const char *text,
                                size_t n_bytes) {
    size_t n_piece = 0;
    if (!ln_tokenizer_is_special(tokenizer, id))
        return n_bytes;
    const char *piece = ln_tokenizer_piece(tokenizer, id, &n_piece);
    bool is_whole = piece != NULL && n_piece <= n_bytes &&
                    memcmp(text + n_bytes - n_piece, piece, n_piece) == 0;
    return n_bytes - (is_whole ? n_piece : 0);
}

#define FOUR(b)       (b), (b) + 1, (b) + 2, (b) + 3
#define SIXTEEN(b)    FOUR(b), FOUR((b) + 4), FOUR((b) + 8), FOUR((b) + 12)
#define SIXTY_FOUR(b) SIXTEEN(b), SIXTEEN((b) + 16), SIXTEEN((b) + 32), SIXTEEN((b) + 48)
static const unsigned char all_bytes[256] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128),
                                             SIXTY_FOUR(192)};

/* Whether a text that begins with these bytes loses some of them. */
static bool is_stripped(const ln_decoder *decoder, const char *text, size_t n_bytes) {
    return decoder->strip_start > 0 && n_bytes >= decoder->strip_bytes &&
           memcmp(text, decoder->strip_content, decoder->strip_bytes) == 0;
}

ln_token_text ln_tokenizer_text(const ln_tokenizer *tokenizer, int32_t id) {
    const ln_decoder *decoder = &tokenizer->decoder;
    ln_token_text text = {.is_plain = true};
    if (id < 0 || (size_t)id >= decoder->count || tokenizer->vocab.pieces[id].data == NULL)
        return text;
    if (decoder->dropped[id]) {
        text.is_special = true;
        text.data = tokenizer->vocab.pieces[id].data;
        text.n_bytes = tokenizer->vocab.pieces[id].bytes;
        return text;
    }
    if (decoder->byte != NULL && decoder->byte[id] >= 0) {
        text.data = (const char *)all_bytes + decoder->byte[id];
        text.n_bytes = 1;
        text.is_plain = !is_stripped(decoder, text.data, 1);
        return text;
    }
    const ln_decode_texts *first = &decoder->first, *rest = &decoder->rest;
    text.data = rest->data + rest->begin[id];
    text.n_bytes = rest->begin[id + 1] - rest->begin[id];
    text.is_plain = first->begin[id + 1] - first->begin[id] == text.n_bytes &&
                    memcmp(first->data + first->begin[id], text.data, text.n_bytes) == 0 &&
                    !is_stripped(decoder, text.data, text.n_bytes);
    return text;
}

bool ln_tokenizer_joins(const ln_tokenizer *tokenizer) {
    const ln_decoder *decoder = &tokenizer->decoder;
    return !decoder->ends_with_space && decoder->strip_stop == 0;
}
