/* tokenizer.json: byte-level BPE, BPE with byte fallback, Unigram and WordPiece. */
#include <stdlib.h>
#include <string.h>

#include "convert/vocab.h"
#include "format/json.h"
#include "text/tokenizer/json_parts.h"

static ln_status unsupported(const ln_convert_vocab *vocab, const char *what) {
    return ln_fail(vocab->err, LINNET_ERR_UNSUPPORTED,
                   "%s: GGUF has no form for %s; --no-tokenizer leaves the tokenizer out",
                   vocab->path, what);
}

static ln_status malformed(const ln_convert_vocab *vocab, const char *key) {
    return ln_fail(vocab->err, LINNET_ERR_FORMAT, "%s: key %s is malformed", vocab->path, key);
}

static bool is_type(const json_t *object, const char *type) {
    const char *found = json_string_value(json_object_get(object, "type"));
    return found != NULL && strcmp(found, type) == 0;
}

/* The step of a kind, alone or in a sequence; NULL when there is none. */
static const json_t *find_step(const json_t *steps, const char *list, const char *type) {
    size_t i;
    json_t *step;
    if (is_type(steps, type))
        return steps;
    json_array_foreach(json_object_get(steps, list), i, step) {
        if (is_type(step, type))
            return step;
    }
    return NULL;
}

/* <0x00> to <0xFF> */
static bool is_byte(const char *text, size_t n_bytes) {
    return n_bytes == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' &&
           strspn(text + 3, "0123456789ABCDEF") >= 2;
}

ln_status ln_convert_read_added(ln_convert_vocab *vocab, const json_t *root) {
    size_t i;
    json_t *added;
    json_array_foreach(json_object_get(root, "added_tokens"), i, added) {
        const json_t *id = json_object_get(added, "id"), *text = json_object_get(added, "content");
        if (!json_is_integer(id) || !json_is_string(text))
            return malformed(vocab, "added_tokens");
        const char *data = json_string_value(text);
        size_t n_bytes = json_string_length(text);
        int64_t number = json_integer_value(id);
        bool special = json_is_true(json_object_get(added, "special"));
        bool known = number >= 0 && (uint64_t)number < vocab->n_tokens;
        int old = known ? vocab->tokens[number].kind : LN_CONVERT_MISSING;
        if (old == LN_CONVERT_BYTE || old == LN_CONVERT_UNKNOWN ||
            (vocab->has_scores && is_byte(data, n_bytes)))
            continue;
        LN_TRY(ln_convert_set_token(vocab, number, data, n_bytes, 0,
                                    special ? LN_CONVERT_CONTROL : LN_CONVERT_USER_DEFINED));
    }
    return LINNET_OK;
}

/* ---- BPE -------------------------------------------------------------------------------- */

static ln_status read_pieces(ln_convert_vocab *vocab, json_t *pieces) {
    const char *key;
    json_t *id;
    ln_strbuf scratch;
    ln_strbuf_init(&scratch);
    ln_status status = LINNET_OK;
    json_object_foreach(pieces, key, id) {
        size_t n_bytes;
        const char *text = ln_json_key(key, &vocab->stand_in, &scratch, &n_bytes);
        if (text == NULL)
            status = ln_fail_memory(vocab->err, "the tokenizer");
        else if (!json_is_integer(id))
            status = malformed(vocab, "model.vocab");
        else
            status = ln_convert_set_token(
                vocab, json_integer_value(id), text, n_bytes, 0,
                vocab->has_scores && is_byte(text, n_bytes) ? LN_CONVERT_BYTE : LN_CONVERT_NORMAL);
        if (status != LINNET_OK)
            break;
    }
    ln_strbuf_free(&scratch);
    return status;
}

/* SentencePiece merges the pair that gives the best score: the rank of the first merge that gives
 * a token says the same. */
static ln_status score_merges(ln_convert_vocab *vocab, const json_t *merges) {
    ln_hashmap ids;
    size_t rank;
    json_t *merge;
    ln_strbuf joined;
    if (!ln_hashmap_init(&ids, &vocab->arena, vocab->n_tokens))
        return ln_fail_memory(vocab->err, "the tokenizer");
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].text != NULL)
            ln_hashmap_add(&ids, vocab->tokens[i].text, vocab->tokens[i].n_bytes, (uint32_t)i);
    ln_strbuf_init(&joined);
    json_array_foreach(merges, rank, merge) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        uint32_t id;
        ln_strbuf_clear(&joined);
        if (json_is_string(merge)) {
            const char *text = json_string_value(merge), *space = strchr(text, ' ');
            size_t n_left = space != NULL ? (size_t)(space - text) : 0;
            ln_strbuf_append(&joined, text, n_left);
            ln_strbuf_puts(&joined, text + n_left + (space != NULL));
        } else {
            ln_strbuf_append(&joined, json_string_value(left), json_string_length(left));
            ln_strbuf_append(&joined, json_string_value(right), json_string_length(right));
        }
        if (joined.data != NULL && ln_hashmap_get(&ids, joined.data, joined.len, &id) &&
            vocab->tokens[id].score == 0)
            vocab->tokens[id].score = -(float)(rank + 1);
    }
    bool failed = joined.failed;
    ln_strbuf_free(&joined);
    return failed ? ln_fail_memory(vocab->err, "the tokenizer") : LINNET_OK;
}

/* Whether a space goes before the text: a normalizer or pre-tokenizer puts it there. */
static void read_space_prefix(ln_convert_vocab *vocab) {
    const json_t *pre = json_object_get(vocab->root, "pre_tokenizer");
    const json_t *normalizer = json_object_get(vocab->root, "normalizer");
    const json_t *metaspace = find_step(pre, "pretokenizers", "Metaspace");
    const char *scheme = json_string_value(json_object_get(metaspace, "prepend_scheme"));
    vocab->has_space_prefix = true;
    vocab->space_prefix = find_step(normalizer, "normalizers", "Prepend") != NULL;
    if (metaspace != NULL)
        vocab->space_prefix = scheme != NULL
                                  ? strcmp(scheme, "never") != 0
                                  : !json_is_false(json_object_get(metaspace, "add_prefix_space"));
}

static void set_unknown(ln_convert_vocab *vocab, const json_t *text) {
    if (json_is_string(text))
        vocab->unk =
            ln_convert_find_token(vocab, json_string_value(text), json_string_length(text));
    if (vocab->unk >= 0 && vocab->has_scores)
        vocab->tokens[vocab->unk].kind = LN_CONVERT_UNKNOWN;
}

static ln_status read_bpe(ln_convert_vocab *vocab, const json_t *model) {
    json_t *pieces = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    const json_t *pre = json_object_get(vocab->root, "pre_tokenizer");
    if (!json_is_object(pieces) || !json_is_array(merges))
        return malformed(vocab, "model");
    bool byte_level = find_step(pre, "pretokenizers", "ByteLevel") != NULL;
    if (!byte_level && !json_is_true(json_object_get(model, "byte_fallback")))
        return unsupported(vocab, "BPE that is neither byte-level nor falls back to bytes");
    vocab->model = byte_level ? "gpt2" : "llama";
    vocab->has_scores = !byte_level;
    LN_TRY(read_pieces(vocab, pieces));
    set_unknown(vocab, json_object_get(model, "unk_token"));
    if (byte_level) {
        vocab->merges = merges;
        return ln_convert_find_pre(vocab, pre,
                                   json_is_true(json_object_get(model, "ignore_merges")));
    }
    vocab->pre = "default";
    read_space_prefix(vocab);
    return score_merges(vocab, merges);
}

/* ---- Unigram ---------------------------------------------------------------------------- */

static ln_status read_charsmap(ln_convert_vocab *vocab) {
    const json_t *normalizer = json_object_get(vocab->root, "normalizer");
    const json_t *step = find_step(normalizer, "normalizers", "Precompiled");
    const json_t *text = json_object_get(step, "precompiled_charsmap");
    if (step == NULL)
        return json_is_null(normalizer) || normalizer == NULL
                   ? LINNET_OK
                   : unsupported(vocab, "Unigram with this normalizer");
    if (!json_is_string(text) ||
        !ln_base64_decode(json_string_value(text), json_string_length(text), &vocab->charsmap,
                          &vocab->charsmap_bytes))
        return malformed(vocab, "normalizer.precompiled_charsmap");
    return LINNET_OK;
}

static ln_status read_unigram(ln_convert_vocab *vocab, const json_t *model) {
    size_t id;
    json_t *piece;
    const json_t *unk = json_object_get(model, "unk_id");
    vocab->model = "t5";
    vocab->pre = "default";
    vocab->has_scores = true;
    vocab->remove_spaces = true;
    json_array_foreach(json_object_get(model, "vocab"), id, piece) {
        const json_t *text = json_array_get(piece, 0), *score = json_array_get(piece, 1);
        if (!json_is_string(text) || !json_is_number(score))
            return malformed(vocab, "model.vocab");
        const char *data = json_string_value(text);
        size_t n_bytes = json_string_length(text);
        LN_TRY(ln_convert_set_token(vocab, (int64_t)id, data, n_bytes,
                                    (float)json_number_value(score),
                                    is_byte(data, n_bytes) ? LN_CONVERT_BYTE : LN_CONVERT_NORMAL));
    }
    if (json_is_integer(unk) && json_integer_value(unk) >= 0 &&
        (uint64_t)json_integer_value(unk) < vocab->n_tokens) {
        vocab->unk = json_integer_value(unk);
        vocab->tokens[vocab->unk].kind = LN_CONVERT_UNKNOWN;
    }
    read_space_prefix(vocab);
    return read_charsmap(vocab);
}

/* ---- WordPiece -------------------------------------------------------------------------- */

/* A piece as readers want it: with U+2581 where a word begins, and without "##" where it goes on.
 */
static ln_status set_piece(ln_convert_vocab *vocab, const json_t *id, const char *text,
                           size_t n_bytes, ln_strbuf *piece) {
    bool goes_on = n_bytes >= 2 && memcmp(text, "##", 2) == 0;
    if (!json_is_integer(id))
        return malformed(vocab, "model.vocab");
    ln_strbuf_clear(piece);
    if (!goes_on)
        ln_strbuf_puts(piece, "\xe2\x96\x81");
    ln_strbuf_append(piece, text + (goes_on ? 2 : 0), n_bytes - (goes_on ? 2 : 0));
    if (piece->failed)
        return ln_fail_memory(vocab->err, "the tokenizer");
    return ln_convert_set_token(vocab, json_integer_value(id), piece->data, piece->len, 0,
                                LN_CONVERT_NORMAL);
}

static ln_status check_bert(const ln_convert_vocab *vocab, const json_t *model,
                            const json_t *normalizer) {
    const json_t *pre = json_object_get(vocab->root, "pre_tokenizer");
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    if (!is_type(normalizer, "BertNormalizer") || !is_type(pre, "BertPreTokenizer") ||
        !ln_json_bool(normalizer, "clean_text", true) ||
        !ln_json_bool(normalizer, "handle_chinese_chars", true) ||
        (prefix != NULL && strcmp(prefix, "##") != 0))
        return unsupported(vocab, "WordPiece other than BERT's");
    return LINNET_OK;
}

static ln_status read_wordpiece(ln_convert_vocab *vocab, const json_t *model) {
    const json_t *normalizer = json_object_get(vocab->root, "normalizer");
    json_t *pieces = json_object_get(model, "vocab"), *id;
    const char *key, *unknown = json_string_value(json_object_get(model, "unk_token"));
    ln_strbuf scratch, piece;
    ln_status status = LINNET_OK;
    LN_TRY(check_bert(vocab, model, normalizer));
    vocab->model = "bert";
    vocab->pre = "default";
    vocab->lowercase = ln_json_bool(normalizer, "lowercase", true);
    vocab->strip_accents = ln_json_bool(normalizer, "strip_accents", vocab->lowercase);
    ln_strbuf_init(&scratch);
    ln_strbuf_init(&piece);
    json_object_foreach(pieces, key, id) {
        size_t n_bytes;
        const char *text = ln_json_key(key, &vocab->stand_in, &scratch, &n_bytes);
        if (text == NULL)
            status = ln_fail_memory(vocab->err, "the tokenizer");
        else
            status = set_piece(vocab, id, text, n_bytes, &piece);
        if (status != LINNET_OK)
            break;
    }
    ln_strbuf_free(&scratch);
    ln_strbuf_free(&piece);
    id = unknown != NULL ? json_object_get(pieces, unknown) : NULL;
    vocab->unk = json_is_integer(id) ? json_integer_value(id) : -1;
    return status;
}

/* ---- what is added to every text -------------------------------------------------------- */

/* The id of a special token of a template's item, or -1. */
static int64_t template_id(const ln_convert_vocab *vocab, const json_t *item) {
    const json_t *name = ln_json_find(item, "SpecialToken.id");
    return json_is_string(name)
               ? ln_convert_find_token(vocab, json_string_value(name), json_string_length(name))
               : -1;
}

void ln_convert_read_template(ln_convert_vocab *vocab) {
    const json_t *post = json_object_get(vocab->root, "post_processor");
    const json_t *single =
        json_object_get(find_step(post, "processors", "TemplateProcessing"), "single");
    const json_t *bert = find_step(post, "processors", "BertProcessing");
    size_t n = json_array_size(single);
    vocab->add_bos = vocab->add_eos = bert != NULL;
    if (bert != NULL) {
        vocab->bos = json_integer_value(json_array_get(json_object_get(bert, "cls"), 1));
        vocab->eos = json_integer_value(json_array_get(json_object_get(bert, "sep"), 1));
    }
    if (n == 0)
        return;
    int64_t bos = template_id(vocab, json_array_get(single, 0));
    int64_t eos = n > 1 ? template_id(vocab, json_array_get(single, n - 1)) : -1;
    vocab->add_bos = bos >= 0;
    vocab->add_eos = eos >= 0;
    vocab->bos = bos >= 0 ? bos : vocab->bos;
    vocab->eos = eos >= 0 ? eos : vocab->eos;
}

ln_status ln_convert_read_json(ln_convert_vocab *vocab) {
    const json_t *model = json_object_get(vocab->root, "model");
    if (is_type(model, "BPE") ||
        (json_object_get(model, "type") == NULL && json_object_get(model, "merges") != NULL))
        LN_TRY(read_bpe(vocab, model));
    else if (is_type(model, "Unigram"))
        LN_TRY(read_unigram(vocab, model));
    else if (is_type(model, "WordPiece"))
        LN_TRY(read_wordpiece(vocab, model));
    else
        return unsupported(vocab, "this kind of tokenizer");
    LN_TRY(ln_convert_read_added(vocab, vocab->root));
    ln_convert_read_template(vocab);
    return LINNET_OK;
}
