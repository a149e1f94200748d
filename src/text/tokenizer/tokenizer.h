/* Text to token ids and back. One tokenizer object whatever its source: tokenizer.json,
 * tokenizer.model (SentencePiece), source.spm with vocab.json (Marian) or GGUF metadata. Immutable
 * after opening and safe to share between threads; each call keeps its working memory to itself. */
#ifndef LN_TEXT_TOKENIZER_TOKENIZER_H
#define LN_TEXT_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "format/checkpoint.h"
#include "text/jinja/template.h"
#include "text/tokenizer/ids.h"

typedef struct ln_tokenizer ln_tokenizer;

/* LINNET_ERR_STATE when the checkpoint holds no tokenizer. */
ln_status ln_tokenizer_open(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                            ln_error *err);
void ln_tokenizer_close(ln_tokenizer *tokenizer);

enum {
    LN_ENCODE_ADD_SPECIAL = 1,   /* add BOS, EOS, CLS ... as the post-processor says */
    LN_ENCODE_PARSE_SPECIAL = 2, /* the text of added tokens is recognised, control tokens too */
};

/* Appends the ids of text[n_bytes] (any bytes; invalid UTF-8 is replaced or byte-encoded as the
 * tokenizer's own library does). Linear time. */
ln_status ln_tokenizer_encode(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              unsigned flags, ln_ids *ids, ln_error *err);

/* Appends the ids of a text with what the post-processor puts around it, or of two (`second` NULL:
 * one). What is over max_tokens (0: no limit) is cut from the end of the longer text. *n_first: the
 * ids up to the second text. */
ln_status ln_tokenizer_encode_pair(const ln_tokenizer *tokenizer, const char *first,
                                   size_t first_bytes, const char *second, size_t second_bytes,
                                   size_t max_tokens, ln_ids *ids, size_t *n_first, ln_error *err);

/* Appends the ids of a rendered template: text[n_bytes] in UTF-8, whose runs are spans[n_spans] in
 * order and without gaps. As with LN_ENCODE_PARSE_SPECIAL, but a special token counts only where
 * all of its text lies in trusted spans. Nothing else ends at a span: ordinary text on both sides
 * of it is encoded as one. No special tokens are added. */
ln_status ln_tokenizer_encode_spans(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                    const ln_jinja_span *spans, size_t n_spans, ln_ids *ids,
                                    ln_error *err);

/* A streaming decoder: feed ids, get whole UTF-8 code points. Plain data, copied by value. */
typedef struct ln_detokenizer {
    const ln_tokenizer *tokenizer;
    bool keep_special;
    bool started;        /* a token was decoded: rules for the first one are over */
    bool wrote;          /* some text was written */
    bool in_run;         /* the last tokens stood for single bytes */
    bool run_is_first;   /* and nothing came before them */
    bool bad_run;        /* and these bytes are not UTF-8 */
    bool stripping;      /* the text may still lose characters at its beginning */
    uint32_t n_stripped; /* characters that the beginning lost */
    uint32_t n_waiting;  /* characters that the end of the text would lose */
    uint32_t n_spaces;   /* likewise, after the end of a word */
    uint8_t n_held;
    unsigned char held[15]; /* a code point's first bytes, until the rest has come */
} ln_detokenizer;

void ln_detokenizer_init(ln_detokenizer *decoder, const ln_tokenizer *tokenizer, bool keep_special);

/* Writes the text that `id` completes to out[capacity]; returns its length in bytes. Needs at
 * most ln_tokenizer_max_piece_bytes(); ids out of range give nothing. */
size_t ln_detokenizer_push(ln_detokenizer *decoder, int32_t id, char *out, size_t capacity);
/* What is still held, as U+FFFD; at most 16 bytes. */
size_t ln_detokenizer_flush(ln_detokenizer *decoder, char *out, size_t capacity);

/* Appends the text of ids[n_ids]: what pushing them one by one gives, except that a run of byte
 * tokens that is not UTF-8 as a whole may show more U+FFFD here, where the library that defines
 * the tokenizer looks ahead and a stream cannot. */
ln_status ln_tokenizer_decode(const ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                              bool keep_special, ln_strbuf *text, ln_error *err);

size_t ln_tokenizer_max_piece_bytes(const ln_tokenizer *tokenizer); /* with room for held bytes */
size_t ln_tokenizer_vocab_size(const ln_tokenizer *tokenizer);
size_t ln_tokenizer_memory_bytes(const ln_tokenizer *tokenizer); /* arenas reserved, for the plan */

/* What a vocabulary has that is of no use, and that its writer hardly meant. */
typedef struct ln_tokenizer_oddities {
    size_t n_dangling_merges; /* of tokens that are not there */
    size_t n_empty_tokens;
} ln_tokenizer_oddities;
ln_tokenizer_oddities ln_tokenizer_find_oddities(const ln_tokenizer *tokenizer);
const char *ln_tokenizer_kind(const ln_tokenizer *tokenizer); /* "bpe", "unigram", ... */

/* -1 when there is none. */
int32_t ln_tokenizer_bos(const ln_tokenizer *tokenizer);
int32_t ln_tokenizer_eos(const ln_tokenizer *tokenizer);
int32_t ln_tokenizer_find(const ln_tokenizer *tokenizer, const char *piece, size_t n_bytes);
/* The bytes that the token stands for in the vocabulary (a borrowed piece), for inspection. */
const char *ln_tokenizer_piece(const ln_tokenizer *tokenizer, int32_t id, size_t *n_bytes);
bool ln_tokenizer_is_special(const ln_tokenizer *tokenizer, int32_t id);
/* How many bytes of `text`, which token `id` has ended, are left without the token's own when it is
 * special. */
size_t ln_tokenizer_count_plain(const ln_tokenizer *tokenizer, int32_t id, const char *text,
                                size_t n_bytes);

/* What a token adds to a text, in bytes that may be parts of code points. */
typedef struct ln_token_text {
    const char *data; /* [n_bytes], the tokenizer's; a special token's is its piece */
    size_t n_bytes;   /* 0: it adds nothing */
    bool is_special;  /* adds its text only where special tokens are kept */
    bool is_plain;    /* adds the same at the beginning of a text */
} ln_token_text;
ln_token_text ln_tokenizer_text(const ln_tokenizer *tokenizer, int32_t id);

/* False when a text is not its tokens' texts joined, but for the first token's. */
bool ln_tokenizer_joins(const ln_tokenizer *tokenizer);

#endif
