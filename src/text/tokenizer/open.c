/* Opening the tokenizer of a checkpoint, whatever its form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/tokenizer/tokenizer_state.h"

enum { LARGEST_FILE = 1 << 30 };

ln_tokenizer *ln_tokenizer_new(void) {
    ln_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer != NULL)
        ln_arena_init(&tokenizer->arena);
    return tokenizer;
}

void ln_tokenizer_close(ln_tokenizer *tokenizer) {
    if (tokenizer == NULL)
        return;
    ln_normalizer_free(&tokenizer->normalizer);
    ln_pretokenizer_free(&tokenizer->pretokenizer);
    ln_arena_free(&tokenizer->arena);
    free(tokenizer);
}

ln_status ln_tokenizer_set_post(ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                ln_error *err) {
    int32_t *copy = ln_arena_alloc(&tokenizer->arena, n_ids, sizeof *copy);
    if (copy == NULL)
        return ln_fail_memory(err, "the tokenizer");
    if (n_ids > 0)
        memcpy(copy, ids, n_ids * sizeof *copy);
    tokenizer->post = copy;
    tokenizer->n_post = n_ids;
    return LINNET_OK;
}

ln_status ln_tokenizer_set_pair(ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                                ln_error *err) {
    int32_t *copy = ln_arena_alloc(&tokenizer->arena, n_ids, sizeof *copy);
    if (copy == NULL)
        return ln_fail_memory(err, "the tokenizer");
    memcpy(copy, ids, n_ids * sizeof *copy);
    tokenizer->pair = copy;
    tokenizer->n_pair = n_ids;
    return LINNET_OK;
}

typedef ln_status (*parse_fn)(const char *, size_t, ln_tokenizer **, ln_error *);

static ln_status open_file(const char *path, parse_fn parse, ln_tokenizer **tokenizer,
                           ln_error *err) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_status status = ln_file_read(path, LARGEST_FILE, &bytes, err);
    if (status == LINNET_OK) {
        status = parse(bytes.data ? bytes.data : "", bytes.len, tokenizer, err);
        if (status != LINNET_OK)
            status = ln_error_prefix(err, status, path);
    }
    ln_strbuf_free(&bytes);
    return status;
}

/* The id of a token that tokenizer_config.json names (as text, or as an object with content), or
 * else that config.json numbers; -1 when neither does. */
static int32_t named_token(const ln_checkpoint *checkpoint, const ln_tokenizer *tokenizer,
                           const char *name) {
    char key[64];
    ln_meta_value value;
    snprintf(key, sizeof key, "%s.content", name);
    if ((ln_checkpoint_tokenizer_meta(checkpoint, name, &value) && value.kind == LN_META_STRING) ||
        (ln_checkpoint_tokenizer_meta(checkpoint, key, &value) && value.kind == LN_META_STRING)) {
        int32_t id = ln_tokenizer_find(tokenizer, value.string.data, value.string.bytes);
        if (id >= 0)
            return id;
    }
    snprintf(key, sizeof key, "%s_id", name);
    if (ln_checkpoint_meta(checkpoint, key, &value) && value.kind == LN_META_INT &&
        value.integer >= 0 && (uint64_t)value.integer < tokenizer->vocab.count)
        return (int32_t)value.integer;
    return -1;
}

static bool tokenizer_flag(const ln_checkpoint *checkpoint, const char *key, bool fallback) {
    ln_meta_value value;
    return ln_checkpoint_tokenizer_meta(checkpoint, key, &value) && value.kind == LN_META_BOOL
               ? value.boolean
               : fallback;
}

/* A bare tokenizer.model says nothing about BOS and EOS; tokenizer_config.json does, and most
 * models of that kind begin with BOS. */
static ln_status set_post(const ln_checkpoint *checkpoint, ln_tokenizer *tokenizer, ln_error *err) {
    int32_t ids[3];
    size_t n = 0;
    if (tokenizer->vocab.bos >= 0 && tokenizer_flag(checkpoint, "add_bos_token", true))
        ids[n++] = tokenizer->vocab.bos;
    ids[n++] = LN_POST_TEXT;
    if (tokenizer->vocab.eos >= 0 && tokenizer_flag(checkpoint, "add_eos_token", false))
        ids[n++] = tokenizer->vocab.eos;
    return ln_tokenizer_set_post(tokenizer, ids, n, err);
}

static ln_status open_folder(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                             ln_error *err) {
    const char *json = ln_checkpoint_tokenizer_json(checkpoint);
    const char *model = ln_checkpoint_tokenizer_model(checkpoint);
    if (json == NULL && model == NULL && ln_checkpoint_source_spm(checkpoint) != NULL)
        return ln_tokenizer_from_marian(checkpoint, tokenizer, err);
    if (json != NULL)
        LN_TRY(open_file(json, ln_tokenizer_from_json, tokenizer, err));
    else if (model != NULL)
        LN_TRY(open_file(model, ln_tokenizer_from_sentencepiece, tokenizer, err));
    else
        return ln_fail(err, LINNET_ERR_STATE, "the checkpoint holds no tokenizer");
    ln_tokenizer *t = *tokenizer;
    int32_t bos = named_token(checkpoint, t, "bos_token");
    int32_t eos = named_token(checkpoint, t, "eos_token");
    t->vocab.bos = bos >= 0 ? bos : t->vocab.bos;
    t->vocab.eos = eos >= 0 ? eos : t->vocab.eos;
    ln_status status = json == NULL ? set_post(checkpoint, t, err) : LINNET_OK;
    if (status != LINNET_OK) {
        ln_tokenizer_close(t);
        *tokenizer = NULL;
    }
    return status;
}

ln_status ln_tokenizer_open(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                            ln_error *err) {
    *tokenizer = NULL;
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_HF)
        return open_folder(checkpoint, tokenizer, err);
    ln_status status = ln_tokenizer_from_gguf(checkpoint, tokenizer, err);
    if (status == LINNET_OK || status == LINNET_ERR_STATE)
        return status;
    return ln_error_prefix(err, status, ln_checkpoint_path(checkpoint));
}
