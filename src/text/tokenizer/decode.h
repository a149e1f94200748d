/* Decoding: what each token contributes to the text is worked out when the tokenizer is opened,
 * so that decoding copies bytes and allocates nothing. */
#ifndef LN_TEXT_TOKENIZER_DECODE_H
#define LN_TEXT_TOKENIZER_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "text/regex/regex.h"
#include "text/tokenizer/vocab.h"

/* Decoders of tokenizer.json, in the order in which they run. */
typedef enum ln_decode_kind {
    LN_DECODE_BYTE_LEVEL,
    LN_DECODE_REPLACE,
    LN_DECODE_BYTE_FALLBACK,
    LN_DECODE_FUSE,
    LN_DECODE_STRIP,
    LN_DECODE_METASPACE,
    LN_DECODE_WORDPIECE,
    LN_DECODE_BPE,
    LN_DECODE_JOIN, /* none given: tokens are joined with spaces */
} ln_decode_kind;

typedef struct ln_decode_step {
    ln_decode_kind kind;
    ln_regex *regex;     /* replace, unless it is literal; owned by the list */
    const char *pattern; /* replace: literal; wordpiece: prefix; metaspace: replacement;
                            strip: content; BPE: suffix */
    size_t pattern_bytes;
    const char *content; /* replace */
    size_t content_bytes;
    uint32_t start, stop; /* strip */
    bool flag;            /* wordpiece: clean up; metaspace: the first token's are dropped */
} ln_decode_step;

typedef struct ln_decode_texts {
    const char *data;      /* texts one after another */
    const uint32_t *begin; /* [count + 1] */
} ln_decode_texts;

/* What a later decoder makes of a character that byte tokens spelled. */
typedef struct ln_decode_char {
    char from[4]; /* [from_bytes] the character */
    uint8_t from_bytes;
    const char *to, *to_first; /* in the arena; in any token, and in the first one */
} ln_decode_char;

/* At the end of a text: a space that is written once another token follows. */
#define LN_DECODE_WAITING_SPACE ((char)0xff)

typedef struct ln_decoder {
    size_t count;                  /* ids */
    ln_decode_texts first;         /* of a token that begins the text */
    ln_decode_texts rest;          /* of any other; may be the same arrays */
    const int16_t *byte;           /* [count] the byte that the token stands for, or -1; or NULL */
    const uint8_t *dropped;        /* [count] 1: left out unless specials are kept */
    ln_decode_char after_bytes[4]; /* [n_after_bytes] in order */
    uint8_t n_after_bytes;
    bool lossy;             /* texts are bytes, ill-formed ones become U+FFFD (ByteLevel) */
    bool whole_runs;        /* bytes in a row are one text or all U+FFFD (ByteFallback) */
    bool first_while_empty; /* SentencePiece: `first` holds until some text was written */
    bool first_strips_one;  /* and until a space was stripped */
    char strip_content[4];  /* after everything is joined: that many of this are cut */
    uint8_t strip_bytes;
    uint32_t strip_start, strip_stop;
    bool ends_with_space; /* LN_DECODE_WAITING_SPACE may end a text (BPEDecoder) */
    size_t longest_bytes; /* of all texts */
} ln_decoder;

/* Works out a Hugging Face decoder over the vocabulary. dropped[count] is borrowed from the
 * arena; names[id]: the text that decoding starts from. */
ln_status ln_decoder_build(ln_decoder *decoder, ln_arena *arena, const ln_decode_step *steps,
                           size_t n_steps, const ln_piece *names, size_t count,
                           const uint8_t *dropped, ln_error *err);

/* SentencePiece's and llama.cpp's: U+2581 is a space, bytes in a row are decoded as far as they
 * are well-formed. `unk_surface`: what the unknown token shows, NULL: its own text. */
typedef struct ln_decode_spm {
    bool strip_first, strip_all; /* leading spaces: one; one per token while nothing is written */
    const char *unk_surface;
} ln_decode_spm;
ln_status ln_decoder_build_spm(ln_decoder *decoder, ln_arena *arena, const ln_vocab *vocab,
                               const ln_decode_spm *options, ln_error *err);

/* Fills texts from a function that appends the text of an id; used by both. */
typedef ln_status (*ln_decode_text_fn)(void *context, size_t id, bool first, ln_strbuf *out,
                                       ln_error *err);
ln_status ln_decoder_fill(ln_decoder *decoder, ln_arena *arena, size_t count, size_t max_bytes,
                          ln_decode_text_fn text, void *context, ln_error *err);

#endif
