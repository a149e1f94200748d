/* Pre-tokenisers: text is cut into words, which the model then encodes one by one. */
#ifndef LN_TEXT_TOKENIZER_PRETOKENIZE_H
#define LN_TEXT_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "text/regex/regex.h"

typedef enum ln_split_kind {
    LN_SPLIT_REGEX,
    LN_SPLIT_LITERAL,
    LN_SPLIT_SPACE,       /* WhitespaceSplit, half of BertPreTokenizer */
    LN_SPLIT_PUNCTUATION, /* Punctuation, the other half */
    LN_SPLIT_DIGIT,
    LN_SPLIT_WORDS,        /* Whitespace: runs of \w, and of what is neither that nor space */
    LN_SPLIT_METASPACE,    /* spaces to the replacement, prefix, and perhaps a cut before each */
    LN_SPLIT_PREFIX_SPACE, /* ByteLevel: add_prefix_space */
    LN_SPLIT_BYTE_LEVEL,   /* ByteLevel: bytes to printable characters */
    LN_SPLIT_FIXED,        /* FixedLength */
} ln_split_kind;

typedef enum ln_split_behavior {
    LN_SPLIT_REMOVED,
    LN_SPLIT_ISOLATED,
    LN_SPLIT_MERGED_WITH_PREVIOUS,
    LN_SPLIT_MERGED_WITH_NEXT,
    LN_SPLIT_CONTIGUOUS,
} ln_split_behavior;

typedef enum ln_prepend_scheme {
    LN_PREPEND_ALWAYS,
    LN_PREPEND_FIRST,
    LN_PREPEND_NEVER,
} ln_prepend_scheme;

typedef struct ln_split_step {
    ln_split_kind kind;
    ln_split_behavior behavior;
    bool invert;      /* the pattern matches words, not delimiters */
    ln_regex *regex;  /* owned */
    const char *text; /* [text_bytes] the literal or the replacement, in the arena */
    size_t text_bytes;
    ln_prepend_scheme prepend;
    bool split;    /* metaspace: cut before each replacement */
    size_t length; /* fixed: code points per word */
} ln_split_step;

typedef struct ln_pretokenizer {
    ln_split_step *steps; /* [count], in the arena */
    size_t count;
} ln_pretokenizer;

void ln_pretokenizer_free(ln_pretokenizer *pretokenizer);

typedef struct ln_span {
    uint32_t begin, end; /* bytes */
} ln_span;

typedef struct ln_spans {
    ln_span *data; /* [count] */
    size_t count, capacity;
} ln_spans;

/* The words of a text, and the memory to make them; {0} to begin with. */
typedef struct ln_words {
    const char *text; /* what the spans index: the caller's text, or one of the buffers */
    ln_spans spans, spare, matches;
    ln_strbuf buffers[2];
    int used_buffer; /* the one that `text` is */
    bool at_start;   /* the first word begins with the first character of the whole text */
} ln_words;
void ln_words_free(ln_words *words);

/* Cuts text[n_bytes] (well-formed, below 2 GiB). at_start as in ln_words. */
ln_status ln_pretokenize(const ln_pretokenizer *pretokenizer, ln_regex_work *work, ln_words *words,
                         const char *text, size_t n_bytes, bool at_start, ln_error *err);

#endif
