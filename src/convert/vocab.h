/* A tokenizer on its way into GGUF: tokens by id, and what the keys tokenizer.ggml.* say of them.
 * Internal to convert_*.c. */
#ifndef LN_CONVERT_VOCAB_H
#define LN_CONVERT_VOCAB_H

#include <jansson.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "convert/plan.h"
#include "format/json_nul.h"

typedef enum ln_convert_kind { /* tokenizer.ggml.token_type */
                               LN_CONVERT_MISSING = 0,
                               LN_CONVERT_NORMAL,
                               LN_CONVERT_UNKNOWN,
                               LN_CONVERT_CONTROL,
                               LN_CONVERT_USER_DEFINED,
                               LN_CONVERT_UNUSED,
                               LN_CONVERT_BYTE
} ln_convert_kind;

typedef struct ln_convert_token {
    const char *text; /* [n_bytes], in the arena */
    size_t n_bytes;
    float score;
    int32_t kind;
} ln_convert_token;

typedef struct ln_convert_vocab {
    const ln_checkpoint *checkpoint;
    const char *path; /* of the file that is read, for messages */
    ln_arena arena;
    ln_convert_token *tokens; /* [n_tokens]: as many as the logits have */
    size_t n_tokens;
    const char *model; /* "gpt2", "llama", "gemma4", "t5" or "bert"; NULL: there is no tokenizer */
    const char *pre;
    bool has_scores, has_space_prefix, space_prefix, remove_spaces;
    bool lowercase, strip_accents; /* of "bert" */
    int add_bos, add_eos;          /* 0, 1, or -1: not said */
    int64_t bos, eos, unk;         /* ids, or -1 */
    char *charsmap;                /* [charsmap_bytes], owned */
    size_t charsmap_bytes;
    const json_t *merges; /* of `root`, or NULL */
    json_t *root;         /* owned */
    ln_nul_stand_in stand_in;
    ln_error *err;
} ln_convert_vocab;

/* Sets a token's text; ids that the logits lack are ignored. */
ln_status ln_convert_set_token(ln_convert_vocab *vocab, int64_t id, const char *text,
                               size_t n_bytes, float score, int kind);
/* The id of a text, or -1. */
int64_t ln_convert_find_token(const ln_convert_vocab *vocab, const char *text, size_t n_bytes);

/* json.c: tokenizer.json, parsed in `root`. */
ln_status ln_convert_read_json(ln_convert_vocab *vocab);
/* Its added tokens alone. */
ln_status ln_convert_read_added(ln_convert_vocab *vocab, const json_t *root);
/* What its post-processor puts around every text. */
void ln_convert_read_template(ln_convert_vocab *vocab);
/* pre.c: the name of byte-level BPE's pre-tokenizer. */
ln_status ln_convert_find_pre(ln_convert_vocab *vocab, const json_t *pre, bool ignore_merges);
/* spm.c: tokenizer.model. */
ln_status ln_convert_read_spm(ln_convert_vocab *vocab, const char *bytes, size_t n_bytes);

#endif
