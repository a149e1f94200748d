/* What the tests of tokenizers share: files to tokenizers, texts to ids and back. */
#ifndef LN_TESTS_TOKENIZER_SUPPORT_H
#define LN_TESTS_TOKENIZER_SUPPORT_H

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/tokenizer_state.h"

static inline bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Opens tokenizer.json or tokenizer.model by path. */
static inline ln_tokenizer *open_tokenizer(const char *path) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_error err = {0};
    ln_tokenizer *tokenizer = NULL;
    if (ln_file_read(path, 1 << 28, &bytes, &err) == LINNET_OK)
        (ends_with(path, ".model") ? ln_tokenizer_from_sentencepiece : ln_tokenizer_from_json)(
            bytes.data, bytes.len, &tokenizer, &err);
    ln_strbuf_free(&bytes);
    if (tokenizer == NULL)
        fail_msg("%s: %s", path, err.message);
    return tokenizer;
}

/* Opens the tokenizer of a folder by the files that it holds. */
static inline ln_tokenizer *open_folder(const char *path) {
    ln_error err = {0};
    ln_checkpoint *checkpoint = NULL;
    ln_tokenizer *tokenizer = NULL;
    if (ln_checkpoint_open(path, true, &checkpoint, &err) != LINNET_OK ||
        ln_tokenizer_open(checkpoint, &tokenizer, &err) != LINNET_OK)
        fail_msg("%s: %s", path, err.message);
    ln_checkpoint_close(checkpoint);
    return tokenizer;
}

static inline ln_tokenizer *parse_json(const char *json) {
    ln_error err = {0};
    ln_tokenizer *tokenizer = NULL;
    if (ln_tokenizer_from_json(json, strlen(json), &tokenizer, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return tokenizer;
}

/* The ids as "1 2 3", malloc'd. */
static inline char *encode_text(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                unsigned flags) {
    ln_ids ids = {0};
    ln_error err = {0};
    ln_strbuf out;
    ln_strbuf_init(&out);
    if (ln_tokenizer_encode(tokenizer, text, n_bytes, flags, &ids, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < ids.count; i++)
        ln_strbuf_printf(&out, i ? " %d" : "%d", ids.data[i]);
    ln_ids_free(&ids);
    return ln_strbuf_take(&out);
}

static inline void assert_encodes(const ln_tokenizer *tokenizer, const char *text, unsigned flags,
                                  const char *ids) {
    char *actual = encode_text(tokenizer, text, strlen(text), flags);
    if (strcmp(actual, ids) != 0)
        fail_msg("\"%s\" encodes to [%s], not [%s]", text, actual, ids);
    free(actual);
}

/* The text of ids, pushed one by one, malloc'd; every push gives whole code points. */
static inline char *stream_text(const ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                bool keep_special) {
    ln_strbuf out;
    ln_strbuf_init(&out);
    size_t capacity = ln_tokenizer_max_piece_bytes(tokenizer);
    char *piece = malloc(capacity);
    ln_detokenizer state;
    ln_detokenizer_init(&state, tokenizer, keep_special);
    for (size_t i = 0; i <= n_ids; i++) {
        size_t n = i < n_ids ? ln_detokenizer_push(&state, ids[i], piece, capacity)
                             : ln_detokenizer_flush(&state, piece, capacity);
        assert_true(n <= capacity);
        for (size_t at = 0; at < n;) {
            size_t length = ln_utf8_valid(piece + at, n - at);
            assert_true(length > 0);
            at += length;
        }
        ln_strbuf_append(&out, piece, n);
    }
    free(piece);
    return ln_strbuf_take(&out);
}

#endif
