/* Normalisers: what happens to the text before it is split into words. */
#ifndef LN_TEXT_TOKENIZER_NORMALIZE_H
#define LN_TEXT_TOKENIZER_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "text/regex/regex.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/trie.h"

typedef enum ln_normalize_kind {
    LN_NORMALIZE_NFC,
    LN_NORMALIZE_NFD,
    LN_NORMALIZE_NFKC,
    LN_NORMALIZE_NFKD,
    LN_NORMALIZE_LOWERCASE,
    LN_NORMALIZE_STRIP_ACCENTS,
    LN_NORMALIZE_STRIP,
    LN_NORMALIZE_PREPEND,
    LN_NORMALIZE_REPLACE,
    LN_NORMALIZE_BERT,
    LN_NORMALIZE_NMT,
    LN_NORMALIZE_BYTE_LEVEL,
    LN_NORMALIZE_PRECOMPILED,   /* Hugging Face's reading of a charsmap */
    LN_NORMALIZE_SENTENCEPIECE, /* SentencePiece's own: charsmap and white space */
} ln_normalize_kind;

typedef struct ln_normalize_step {
    ln_normalize_kind kind;
    union {
        struct {
            bool left, right;
        } strip;
        struct {
            const char *text; /* in the arena, as every string here */
            size_t bytes;
        } prepend;
        struct {
            const char *literal; /* NULL: `regex` is the pattern */
            size_t literal_bytes;
            ln_regex *regex; /* owned */
            const char *content;
            size_t content_bytes;
        } replace;
        struct {
            bool clean_text, handle_cjk, strip_accents, lowercase;
        } bert;
        ln_charsmap charsmap;
        struct {
            ln_charsmap charsmap;
            bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
            bool whitespace_as_suffix;
            bool merge_spaces;    /* llama.cpp's way with extra white space */
            ln_trie user_defined; /* pieces that stay as they are */
        } spm;
    };
} ln_normalize_step;

typedef struct ln_normalizer {
    ln_normalize_step *steps; /* [count], in the arena */
    size_t count;
} ln_normalizer;

/* Frees what the arena does not hold. */
void ln_normalizer_free(ln_normalizer *normalizer);

/* Bytes that a text of n_bytes may become while it is normalised and split, or a token's name while
 * it is decoded. Unicode and bytes as characters make 22 of one; a file's own rules could make any
 * number. */
static inline size_t ln_text_limit(size_t n_bytes) {
    enum { FACTOR = 32, BASE = 1 << 16 };
    return n_bytes < (SIZE_MAX - BASE) / FACTOR ? n_bytes * FACTOR + BASE : SIZE_MAX;
}

/* Runs all steps over text[n_bytes] (well-formed, except that SentencePiece's step takes any
 * bytes). The result is *out, one of the two buffers or the text itself. *at_start is cleared
 * when the first character of the result no longer comes from the first of the text. */
ln_status ln_normalize(const ln_normalizer *normalizer, ln_regex_work *work, ln_strbuf buffers[2],
                       const char *text, size_t n_bytes, const char **out, size_t *out_bytes,
                       bool *at_start, ln_error *err);

/* One of the four normal forms, appended to `out`. */
ln_status ln_normalize_unicode(ln_strbuf *out, const char *text, size_t n_bytes, bool compatible,
                               bool compose, ln_error *err);

#endif
