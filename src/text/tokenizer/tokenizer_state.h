/* What a tokenizer is made of, and the ways to make one from the bytes of a file. */
#ifndef LN_TEXT_TOKENIZER_TOKENIZER_STATE_H
#define LN_TEXT_TOKENIZER_TOKENIZER_STATE_H

#include "base/arena.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decode.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordpiece.h"

typedef enum ln_token_model {
    LN_MODEL_BPE,
    LN_MODEL_UNIGRAM,
    LN_MODEL_WORDPIECE,
    LN_MODEL_WORDLEVEL,
} ln_token_model;

#define LN_POST_TEXT   (-1) /* where the text's own tokens go */
#define LN_POST_SECOND (-2) /* those of the second of two texts */

struct ln_tokenizer {
    ln_arena arena;
    ln_vocab vocab;
    ln_hashmap added_map; /* content of an added token -> id */
    ln_added added;
    ln_normalizer normalizer;
    ln_pretokenizer pretokenizer;
    ln_token_model model;
    ln_bpe bpe;
    ln_unigram unigram;
    ln_vocab source_pieces; /* Marian: what `unigram` cuts a text into */
    ln_vocab source_vocab;  /* and what numbers it, where `vocab` is of what is written alone */
    ln_wordpiece wordpiece; /* word level too: a piece is a whole word */
    int32_t *post;          /* [n_post] ids around LN_POST_TEXT, added on request */
    size_t n_post;
    int32_t *pair; /* [n_pair] the same around two texts; NULL: nobody says */
    size_t n_pair;
    ln_decoder decoder;
    bool raw_bytes;    /* the normaliser takes ill-formed text */
    size_t heap_bytes; /* of compiled regular expressions, beside the arena */
};

/* tokenizer.json. */
ln_status ln_tokenizer_from_json(const char *bytes, size_t n_bytes, ln_tokenizer **tokenizer,
                                 ln_error *err);
/* tokenizer.model. */
ln_status ln_tokenizer_from_sentencepiece(const char *bytes, size_t n_bytes,
                                          ln_tokenizer **tokenizer, ln_error *err);
/* source.spm and vocab.json of a Marian model's folder. */
ln_status ln_tokenizer_from_marian(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                                   ln_error *err);
/* tokenizer.ggml.* of GGUF metadata. */
ln_status ln_tokenizer_from_gguf(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                                 ln_error *err);

/* An empty tokenizer to fill; NULL when memory is out. */
ln_tokenizer *ln_tokenizer_new(void);

/* Fills in what segments a text from the bytes of a SentencePiece model: vocabulary, model and
 * normaliser. */
ln_status ln_tokenizer_read_pieces(ln_tokenizer *t, const char *bytes, size_t n_bytes,
                                   ln_error *err);

/* ids[n_ids] become the post-processing template; LN_POST_TEXT stands for the text. */
ln_status ln_tokenizer_set_post(ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                ln_error *err);
/* The same for two texts. */
ln_status ln_tokenizer_set_pair(ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                ln_error *err);

#endif
