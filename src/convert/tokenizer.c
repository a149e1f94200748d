/* The tokenizer's keys of a converted file, from whichever form the folder has it in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "convert/vocab.h"

enum { MAX_FILE_BYTES = 256 << 20 };

static ln_status out_of_memory(const ln_convert_vocab *vocab) {
    return ln_fail_memory(vocab->err, "the tokenizer");
}

/* ---- what the folder's other files say -------------------------------------------------- */

/* The id of "bos_token" and the like: by text in tokenizer_config.json, else by config.json. */
static int64_t special_id(const ln_convert_vocab *vocab, const char *name) {
    char key[64];
    ln_meta_value value, item;
    snprintf(key, sizeof key, "%s.content", name);
    if ((ln_checkpoint_tokenizer_meta(vocab->checkpoint, name, &value) &&
         value.kind == LN_META_STRING) ||
        (ln_checkpoint_tokenizer_meta(vocab->checkpoint, key, &value) &&
         value.kind == LN_META_STRING)) {
        int64_t id = ln_convert_find_token(vocab, value.string.data, value.string.bytes);
        if (id >= 0)
            return id;
    }
    snprintf(key, sizeof key, "%s_id", name);
    if (!ln_checkpoint_meta(vocab->checkpoint, key, &value))
        return -1;
    if (ln_meta_item(&value, 0, &item))
        value = item;
    bool valid = value.kind == LN_META_INT && value.integer >= 0 &&
                 (uint64_t)value.integer < vocab->n_tokens;
    return valid ? value.integer : -1;
}

/* The ids that end a text: eos, or -1, and others, as many as GGUF has keys for. */
typedef struct stop_list {
    int64_t ids[3];
    size_t n;
} stop_list;

static void add_stop(const ln_convert_vocab *vocab, const ln_meta_value *value, stop_list *stops) {
    bool is_new = value->kind == LN_META_INT && value->integer >= 0 &&
                  (uint64_t)value->integer < vocab->n_tokens &&
                  stops->n < sizeof stops->ids / sizeof *stops->ids;
    for (size_t i = 0; i < stops->n; i++)
        is_new = is_new && stops->ids[i] != value->integer;
    if (is_new)
        stops->ids[stops->n++] = value->integer;
}

static void list_stops(const ln_convert_vocab *vocab, int64_t eos, stop_list *stops) {
    const ln_checkpoint *checkpoint = vocab->checkpoint;
    ln_meta_value found[3], item;
    bool is_there[3] = {ln_checkpoint_generation_meta(checkpoint, "eos_token_id", &found[0]),
                        ln_checkpoint_meta(checkpoint, "eos_token_id", &found[1]),
                        ln_checkpoint_meta(checkpoint, "text_config.eos_token_id", &found[2])};
    *stops = (stop_list){{eos}, 1};
    for (size_t i = 0; i < 3; i++) {
        if (is_there[i])
            add_stop(vocab, &found[i], stops);
        for (size_t j = 0; is_there[i] && ln_meta_item(&found[i], j, &item); j++)
            add_stop(vocab, &item, stops);
    }
}

static int flag_of(const ln_convert_vocab *vocab, const char *name, int fallback) {
    ln_meta_value value;
    return ln_checkpoint_tokenizer_meta(vocab->checkpoint, name, &value) &&
                   value.kind == LN_META_BOOL
               ? value.boolean
               : fallback;
}

/* ---- keys ------------------------------------------------------------------------------- */

static void put_id(ln_gguf_writer *writer, const char *key, int64_t id) {
    if (id >= 0)
        ln_gguf_put_u32(writer, key, (uint32_t)id);
}

/* Without a tokenizer, too: who gives ids wants the same end. */
static void put_stops(const ln_convert_vocab *vocab, ln_gguf_writer *writer) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t eos = special_id(vocab, "eos_token");
    stop_list stops;
    list_stops(vocab, eos >= 0 ? eos : vocab->eos, &stops);
    for (size_t i = 0; i < stops.n; i++)
        put_id(writer, keys[i], stops.ids[i]);
}

static void put_special(const ln_convert_vocab *vocab, ln_gguf_writer *writer) {
    int64_t bos = special_id(vocab, "bos_token"), unk = special_id(vocab, "unk_token");
    put_id(writer, "tokenizer.ggml.bos_token_id", bos >= 0 ? bos : vocab->bos);
    put_id(writer, "tokenizer.ggml.unknown_token_id", unk >= 0 ? unk : vocab->unk);
    put_id(writer, "tokenizer.ggml.padding_token_id", special_id(vocab, "pad_token"));
    if (vocab->add_bos >= 0)
        ln_gguf_put_bool(writer, "tokenizer.ggml.add_bos_token", vocab->add_bos);
    if (vocab->add_eos >= 0)
        ln_gguf_put_bool(writer, "tokenizer.ggml.add_eos_token", vocab->add_eos);
    if (vocab->has_space_prefix)
        ln_gguf_put_bool(writer, "tokenizer.ggml.add_space_prefix", vocab->space_prefix);
    if (strcmp(vocab->model, "t5") == 0)
        ln_gguf_put_bool(writer, "tokenizer.ggml.remove_extra_whitespaces", vocab->remove_spaces);
    if (strcmp(vocab->model, "bert") == 0) {
        put_id(writer, "tokenizer.ggml.seperator_token_id", vocab->eos); /* its readers' spelling */
        put_id(writer, "tokenizer.ggml.cls_token_id", vocab->bos);
        put_id(writer, "tokenizer.ggml.mask_token_id", special_id(vocab, "mask_token"));
        ln_gguf_put_bool(writer, "tokenizer.ggml.normalizer.lowercase", vocab->lowercase);
        ln_gguf_put_bool(writer, "tokenizer.ggml.normalizer.strip_accents", vocab->strip_accents);
    }
    if (vocab->charsmap_bytes > 0)
        ln_gguf_put_array(writer, "tokenizer.ggml.precompiled_charsmap", LN_GGUF_U8,
                          vocab->charsmap, vocab->charsmap_bytes);
}

static ln_status put_merges(const ln_convert_vocab *vocab, ln_gguf_writer *writer) {
    size_t i;
    json_t *merge;
    ln_strbuf text;
    ln_strbuf_init(&text);
    ln_gguf_put_string_array(writer, "tokenizer.ggml.merges", json_array_size(vocab->merges));
    json_array_foreach(vocab->merges, i, merge) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        ln_strbuf_clear(&text);
        if (json_is_string(merge)) {
            ln_strbuf_append(&text, json_string_value(merge), json_string_length(merge));
        } else if (json_is_string(left) && json_is_string(right)) {
            ln_strbuf_append(&text, json_string_value(left), json_string_length(left));
            ln_strbuf_putc(&text, ' ');
            ln_strbuf_append(&text, json_string_value(right), json_string_length(right));
        } else {
            ln_strbuf_free(&text);
            return ln_fail(vocab->err, LINNET_ERR_FORMAT, "%s: merge %zu is not two tokens",
                           vocab->path, i);
        }
        ln_gguf_add_string(writer, text.data, text.len);
    }
    ln_strbuf_free(&text);
    return LINNET_OK;
}

static ln_status put_tokens(const ln_convert_vocab *vocab, ln_gguf_writer *writer) {
    size_t n = vocab->n_tokens;
    int32_t *kinds = calloc(n + 1, sizeof *kinds);
    float *scores = calloc(n + 1, sizeof *scores);
    char padding[32];
    if (kinds == NULL || scores == NULL) {
        free(kinds);
        free(scores);
        return out_of_memory(vocab);
    }
    ln_gguf_put_string_array(writer, "tokenizer.ggml.tokens", n);
    for (size_t i = 0; i < n; i++) {
        const ln_convert_token *token = &vocab->tokens[i];
        kinds[i] = token->kind == LN_CONVERT_MISSING ? LN_CONVERT_UNUSED : token->kind;
        scores[i] = token->kind == LN_CONVERT_MISSING ? -10000 : token->score;
        snprintf(padding, sizeof padding, "[PAD%zu]", i);
        if (token->kind == LN_CONVERT_MISSING)
            ln_gguf_add_string(writer, padding, strlen(padding));
        else
            ln_gguf_add_string(writer, token->text, token->n_bytes);
    }
    if (vocab->has_scores)
        ln_gguf_put_array(writer, "tokenizer.ggml.scores", LN_GGUF_F32, scores, n);
    ln_gguf_put_array(writer, "tokenizer.ggml.token_type", LN_GGUF_I32, kinds, n);
    free(kinds);
    free(scores);
    return LINNET_OK;
}

static ln_status put_all(const ln_convert_vocab *vocab, ln_gguf_writer *writer) {
    ln_gguf_put_string(writer, "tokenizer.ggml.model", vocab->model, strlen(vocab->model));
    ln_gguf_put_string(writer, "tokenizer.ggml.pre", vocab->pre, strlen(vocab->pre));
    LN_TRY(put_tokens(vocab, writer));
    if (vocab->merges != NULL)
        LN_TRY(put_merges(vocab, writer));
    put_special(vocab, writer);
    return LINNET_OK;
}

/* ---- reading ---------------------------------------------------------------------------- */

static ln_status read_file(ln_convert_vocab *vocab, const char *path, ln_strbuf *bytes) {
    vocab->path = path;
    return ln_file_read(path, MAX_FILE_BYTES, bytes, vocab->err);
}

/* Parses tokenizer.json into vocab->root. */
static ln_status read_root(ln_convert_vocab *vocab, const char *json) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_status status = read_file(vocab, json, &bytes);
    if (status == LINNET_OK) {
        status = ln_json_load(bytes.data, bytes.len, &vocab->root, &vocab->stand_in, vocab->err);
        if (status != LINNET_OK)
            status = ln_error_prefix(vocab->err, status, json);
    }
    ln_strbuf_free(&bytes);
    return status;
}

/* SentencePiece's own file, and the tokens that tokenizer.json adds to it. */
static ln_status read_model(ln_convert_vocab *vocab, const char *model, const char *json) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_status status = read_file(vocab, model, &bytes);
    if (status == LINNET_OK)
        status = ln_convert_read_spm(vocab, bytes.data, bytes.len);
    ln_strbuf_free(&bytes);
    if (status == LINNET_OK && json != NULL) {
        status = read_root(vocab, json);
        if (status == LINNET_OK)
            status = ln_convert_read_added(vocab, vocab->root);
        if (status == LINNET_OK)
            ln_convert_read_template(vocab);
    }
    if (vocab->add_bos < 0) {
        vocab->add_bos = flag_of(vocab, "add_bos_token", vocab->bos >= 0);
        vocab->add_eos = flag_of(vocab, "add_eos_token", false);
    }
    return status;
}

static ln_status read_json(ln_convert_vocab *vocab, const char *json) {
    LN_TRY(read_root(vocab, json));
    return ln_convert_read_json(vocab);
}

static ln_status read_vocab(ln_convert_vocab *vocab) {
    const char *json = ln_checkpoint_tokenizer_json(vocab->checkpoint);
    const char *model = ln_checkpoint_tokenizer_model(vocab->checkpoint);
    if (model != NULL)
        return read_model(vocab, model, json);
    return json != NULL ? read_json(vocab, json) : LINNET_OK;
}

/* Gemma 4's readers want the merges themselves. */
static void keep_merges(ln_convert_vocab *vocab) {
    const json_t *merges = json_object_get(json_object_get(vocab->root, "model"), "merges");
    if (vocab->model == NULL || strcmp(vocab->model, "llama") != 0 || !json_is_array(merges))
        return;
    vocab->model = vocab->pre = "gemma4";
    vocab->merges = merges;
}

ln_status ln_convert_put_tokenizer(const ln_convert_plan *plan, bool with_vocab,
                                   ln_gguf_writer *writer) {
    ln_convert_vocab vocab = {.checkpoint = plan->checkpoint,
                              .n_tokens = plan->spec->n_vocab,
                              .add_bos = -1,
                              .add_eos = -1,
                              .bos = -1,
                              .eos = -1,
                              .unk = -1,
                              .err = plan->err};
    ln_arena_init(&vocab.arena);
    vocab.tokens = ln_arena_alloc(&vocab.arena, vocab.n_tokens, sizeof *vocab.tokens);
    ln_status status = vocab.tokens != NULL ? LINNET_OK : out_of_memory(&vocab);
    if (status == LINNET_OK && with_vocab)
        status = read_vocab(&vocab);
    if (status == LINNET_OK && strcmp(plan->architecture, "gemma4") == 0)
        keep_merges(&vocab);
    if (status == LINNET_OK && vocab.model != NULL)
        status = put_all(&vocab, writer);
    if (status == LINNET_OK)
        put_stops(&vocab, writer);
    const char *chat = with_vocab ? ln_checkpoint_chat_template(plan->checkpoint) : NULL;
    if (status == LINNET_OK && chat != NULL)
        ln_gguf_put_string(writer, "tokenizer.chat_template", chat, strlen(chat));
    json_decref(vocab.root);
    free(vocab.charsmap);
    ln_arena_free(&vocab.arena);
    return status;
}
