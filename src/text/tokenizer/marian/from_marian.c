/* Marian's tokenizer (OPUS-MT): source.spm cuts a text into pieces, vocab.json numbers them. Its
 * ids are those of the model; target_vocab.json has them for what comes out, where there are two.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/json_nul.h"
#include "text/tokenizer/tokenizer_state.h"

enum { LARGEST_FILE = 1 << 30, N_SPECIAL = 3 };

/* ---- files --------------------------------------------------------------------------------- */

typedef ln_status (*read_fn)(ln_tokenizer *t, ln_vocab *vocab, const char *bytes, size_t n_bytes,
                             ln_error *err);

/* Errors name the file. */
static ln_status read_file(const ln_checkpoint *checkpoint, const char *name, read_fn read,
                           ln_tokenizer *t, ln_vocab *vocab, ln_error *err) {
    char *path = ln_path_join(ln_checkpoint_path(checkpoint), name);
    if (path == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    ln_status status = ln_file_read(path, LARGEST_FILE, &bytes, err);
    if (status == LINNET_OK) {
        status = read(t, vocab, bytes.data ? bytes.data : "", bytes.len, err);
        if (status != LINNET_OK)
            status = ln_error_prefix(err, status, path);
    }
    ln_strbuf_free(&bytes);
    free(path);
    return status;
}

static ln_status read_spm(ln_tokenizer *t, ln_vocab *vocab, const char *bytes, size_t n_bytes,
                          ln_error *err) {
    LN_TRY(ln_tokenizer_read_pieces(t, bytes, n_bytes, err));
    if (t->model != LN_MODEL_UNIGRAM)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "Marian's tokenizer is Unigram, this is not");
    *vocab = t->vocab;
    t->unigram.vocab = vocab;
    return LINNET_OK;
}

/* Ids may have holes, but not so that a small file asks for much memory. */
static ln_status count_ids(json_t *root, size_t *count, ln_error *err) {
    const char *piece;
    json_t *id;
    if (!json_is_object(root))
        return ln_fail(err, LINNET_ERR_FORMAT, "the file holds no object of pieces and ids");
    size_t n = *count = json_object_size(root);
    json_object_foreach(root, piece, id) {
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id))
            return ln_fail(err, LINNET_ERR_FORMAT, "piece \"%.60s\" has no integer id", piece);
        if (value < 0 || (uint64_t)value > (uint64_t)n * 8 + 65536)
            return ln_fail(err, LINNET_ERR_LIMIT,
                           "piece \"%.60s\" has the id %lld in a vocabulary of %zu", piece,
                           (long long)value, n);
        if ((size_t)value >= *count)
            *count = (size_t)value + 1;
    }
    return LINNET_OK;
}

static ln_status fill_vocab(ln_tokenizer *t, ln_vocab *vocab, json_t *root,
                            const ln_nul_stand_in *stand_in, ln_strbuf *scratch, ln_error *err) {
    size_t count = 0;
    const char *key;
    json_t *value;
    LN_TRY(count_ids(root, &count, err));
    LN_TRY(ln_vocab_init(vocab, &t->arena, count, json_object_size(root), err));
    json_object_foreach(root, key, value) {
        size_t n_bytes, id = (size_t)json_integer_value(value);
        const char *piece = ln_json_key(key, stand_in, scratch, &n_bytes);
        if (piece == NULL)
            return ln_fail_memory(err, "the tokenizer");
        if (vocab->pieces[id].data != NULL)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "pieces \"%.60s\" and \"%.60s\" both have the id %zu",
                           vocab->pieces[id].data, key, id);
        LN_TRY(ln_vocab_set(vocab, &t->arena, id, piece, n_bytes, err));
    }
    return LINNET_OK;
}

static ln_status read_vocab(ln_tokenizer *t, ln_vocab *vocab, const char *bytes, size_t n_bytes,
                            ln_error *err) {
    json_t *root;
    ln_nul_stand_in stand_in = {0};
    ln_strbuf scratch;
    LN_TRY(ln_json_load(bytes, n_bytes, &root, &stand_in, err));
    ln_strbuf_init(&scratch);
    ln_status status = fill_vocab(t, vocab, root, &stand_in, &scratch, err);
    ln_strbuf_free(&scratch);
    json_decref(root);
    return status;
}

/* ---- special tokens -------------------------------------------------------------------------- */

/* A token that tokenizer_config.json may name otherwise, as text or as an object with content. */
static ln_meta_value special_name(const ln_checkpoint *checkpoint, int which) {
    static const char *const keys[N_SPECIAL][2] = {{"unk_token", "unk_token.content"},
                                                   {"eos_token", "eos_token.content"},
                                                   {"pad_token", "pad_token.content"}};
    static const char *const names[N_SPECIAL] = {"<unk>", "</s>", "<pad>"};
    ln_meta_value value;
    for (int i = 0; i < 2; i++)
        if (ln_checkpoint_tokenizer_meta(checkpoint, keys[which][i], &value) &&
            value.kind == LN_META_STRING)
            return value;
    value = (ln_meta_value){.kind = LN_META_STRING};
    value.string.data = names[which];
    value.string.bytes = strlen(names[which]);
    return value;
}

/* Flags them in a vocabulary; `pad` may be missing, and where only ids are decoded all may. */
static ln_status flag_special(const ln_checkpoint *checkpoint, ln_vocab *vocab, bool encodes,
                              ln_error *err) {
    int32_t *const places[N_SPECIAL] = {&vocab->unk, &vocab->eos, NULL};
    for (int i = 0; i < N_SPECIAL; i++) {
        ln_meta_value name = special_name(checkpoint, i);
        int32_t id = ln_vocab_find(vocab, name.string.data, name.string.bytes);
        if (id < 0 && places[i] != NULL && encodes)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s/vocab.json: there is no piece \"%.*s\"",
                           ln_checkpoint_path(checkpoint),
                           name.string.bytes < 60 ? (int)name.string.bytes : 60, name.string.data);
        if (id < 0)
            continue;
        vocab->pieces[id].flags |=
            LN_TOKEN_SPECIAL | LN_TOKEN_ADDED | (i == 0 ? LN_TOKEN_UNKNOWN : 0);
        if (places[i] != NULL)
            *places[i] = id;
    }
    return LINNET_OK;
}

/* The text of an entry of a list of tokens: itself, or its content; false: it has none. */
static bool listed_name(const ln_meta_value *entry, ln_meta_value *name) {
    void *position = NULL;
    const char *key;
    *name = *entry;
    if (entry->kind == LN_META_OBJECT)
        while (ln_meta_entry(entry, &position, &key, name) && strcmp(key, "content") != 0)
            continue;
    return name->kind == LN_META_STRING;
}

/* Flags further special tokens, as far as the vocabulary has them: others have no embedding. */
static void flag_listed(const ln_checkpoint *checkpoint, ln_vocab *vocab) {
    static const char *const keys[] = {"additional_special_tokens", "extra_special_tokens"};
    ln_meta_value list, entry, name;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!ln_checkpoint_tokenizer_meta(checkpoint, keys[i], &list))
            continue;
        for (size_t j = 0; ln_meta_item(&list, j, &entry); j++) {
            int32_t id = listed_name(&entry, &name)
                             ? ln_vocab_find(vocab, name.string.data, name.string.bytes)
                             : -1;
            if (id >= 0)
                vocab->pieces[id].flags |= LN_TOKEN_SPECIAL | LN_TOKEN_ADDED;
        }
    }
}

/* Their text in trusted text stands for them. */
static ln_status set_added(ln_tokenizer *t, const ln_vocab *vocab, ln_error *err) {
    size_t n_added = 0;
    for (size_t id = 0; id < vocab->count; id++)
        n_added += (vocab->pieces[id].flags & LN_TOKEN_ADDED) != 0;
    t->added.tokens = ln_arena_alloc(&t->arena, n_added + 1, sizeof *t->added.tokens);
    if (t->added.tokens == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t id = 0; id < vocab->count; id++) {
        const ln_piece *piece = &vocab->pieces[id];
        if ((piece->flags & LN_TOKEN_ADDED) && piece->bytes > 0)
            t->added.tokens[t->added.count++] = (ln_added_token){.pattern = piece->data,
                                                                 .pattern_bytes = piece->bytes,
                                                                 .id = (int32_t)id,
                                                                 .special = true};
    }
    return ln_added_build(&t->added, &t->arena, err);
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

/* The ids of source.spm's pieces in the vocabulary: what that lacks is unknown. */
static ln_status number_pieces(ln_tokenizer *t, const ln_vocab *vocab, ln_error *err) {
    const ln_vocab *pieces = t->unigram.vocab;
    int32_t *numbers = ln_arena_alloc(&t->arena, pieces->count, sizeof *numbers);
    if (numbers == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < pieces->count; i++) {
        int32_t id = ln_vocab_find(vocab, pieces->pieces[i].data, pieces->pieces[i].bytes);
        numbers[i] = id >= 0 && (int32_t)i != pieces->unk ? id : vocab->unk;
    }
    t->unigram.numbering = vocab;
    t->unigram.numbers = numbers;
    return LINNET_OK;
}

/* SentencePiece decodes its control pieces as nothing and its byte pieces as bytes. */
static ln_status set_decoder(ln_tokenizer *t, ln_error *err) {
    const ln_decode_spm options = {.strip_first = true, .strip_all = true};
    const ln_vocab *pieces = t->unigram.vocab;
    for (size_t i = 0; i < pieces->count; i++) {
        const ln_piece *piece = &pieces->pieces[i];
        int32_t id = ln_vocab_find(&t->vocab, piece->data, piece->bytes);
        if (id >= 0)
            t->vocab.pieces[id].flags |= piece->flags & (LN_TOKEN_BYTE | LN_TOKEN_SPECIAL);
    }
    return ln_decoder_build_spm(&t->decoder, &t->arena, &t->vocab, &options, err);
}

static ln_status read_all(const ln_checkpoint *checkpoint, ln_tokenizer *t, ln_error *err) {
    ln_meta_value value;
    bool is_separate = ln_checkpoint_tokenizer_meta(checkpoint, "separate_vocabs", &value) &&
                       value.kind == LN_META_BOOL && value.boolean;
    ln_vocab *vocab = is_separate ? &t->source_vocab : &t->vocab;
    LN_TRY(read_file(checkpoint, "source.spm", read_spm, t, &t->source_pieces, err));
    LN_TRY(read_file(checkpoint, "vocab.json", read_vocab, t, vocab, err));
    LN_TRY(flag_special(checkpoint, vocab, true, err));
    flag_listed(checkpoint, vocab);
    if (is_separate) {
        LN_TRY(read_file(checkpoint, "target_vocab.json", read_vocab, t, &t->vocab, err));
        LN_TRY(flag_special(checkpoint, &t->vocab, false, err));
    }
    const int32_t post[] = {LN_POST_TEXT, vocab->eos};
    LN_TRY(number_pieces(t, vocab, err));
    LN_TRY(set_added(t, vocab, err));
    LN_TRY(set_decoder(t, err));
    return ln_tokenizer_set_post(t, post, 2, err);
}

ln_status ln_tokenizer_from_marian(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                                   ln_error *err) {
    *tokenizer = NULL;
    ln_tokenizer *t = ln_tokenizer_new();
    if (t == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = read_all(checkpoint, t, err);
    if (status == LINNET_OK)
        *tokenizer = t;
    else
        ln_tokenizer_close(t);
    return status;
}
