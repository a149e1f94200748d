/* tokenizer.json of Hugging Face: the model and the added tokens. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale/number.h"
#include "format/json_nul.h"
#include "text/tokenizer/json_parts.h"
#include "text/tokenizer/tokenizer_state.h"

typedef struct model_reader {
    ln_tokenizer *t;
    size_t n_added; /* tokens for which the vocabulary needs room */
    ln_nul_stand_in stand_in;
    ln_strbuf scratch;
} model_reader;

/* ---- vocabulary -------------------------------------------------------------------------- */

/* Ids may have holes, but not so that a small file asks for much memory. */
static ln_status check_id(json_int_t id, size_t n_tokens, const char *piece, ln_error *err) {
    if (id < 0 || (uint64_t)id > (uint64_t)n_tokens * 8 + 65536)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "token \"%.60s\" has the id %lld in a vocabulary of %zu", piece,
                       (long long)id, n_tokens);
    return LINNET_OK;
}

/* {"piece": id, ...}, with room for added tokens. */
static ln_status read_vocab_object(model_reader *r, json_t *vocab, ln_error *err) {
    ln_tokenizer *t = r->t;
    const char *piece;
    json_t *id;
    size_t n = json_object_size(vocab), count = n;
    json_object_foreach(vocab, piece, id) {
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id))
            return ln_fail(err, LINNET_ERR_FORMAT, "token \"%.60s\" has no integer id", piece);
        LN_TRY(check_id(value, n, piece, err));
        if ((size_t)value >= count)
            count = (size_t)value + 1;
    }
    LN_TRY(ln_vocab_init(&t->vocab, &t->arena, count + r->n_added, n, err));
    json_object_foreach(vocab, piece, id) {
        size_t n_bytes;
        const char *text = ln_json_key(piece, &r->stand_in, &r->scratch, &n_bytes);
        if (text == NULL)
            return ln_fail_memory(err, "the tokenizer");
        LN_TRY(
            ln_vocab_set(&t->vocab, &t->arena, (size_t)json_integer_value(id), text, n_bytes, err));
    }
    t->vocab.count = count;
    return LINNET_OK;
}

/* Scores decide between paths whose sums are as good as equal, so their last bit counts. The
 * library that writes these files reads a number as an integer and divides it by a power of ten,
 * which rounds twice; the file has the shortest digits that make `score`. */
static double score_as_read(double score) {
    char text[40];
    for (int precision = 14; precision <= 16; precision++) {
        ln_snprintf(text, sizeof text, "%.*e", precision, score);
        if (ln_strtod(text, NULL) == score)
            break;
    }
    uint64_t integer = 0;
    int power = 1; /* of ten, for its last digit */
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') {
            integer = integer * 10 + (uint64_t)(*at - '0');
            power--;
        }
    power += atoi(at + 1);
    if (power >= 0 || power < -22) /* 10^22 is the last one that is a double */
        return score;
    return copysign((double)integer / pow(10, -power), score);
}

/* [["piece", score], ...]; of a piece given twice the last counts. */
static ln_status read_vocab_list(model_reader *r, json_t *vocab, double **scores, ln_error *err) {
    ln_tokenizer *t = r->t;
    size_t n = json_array_size(vocab);
    LN_TRY(ln_vocab_init(&t->vocab, &t->arena, n + r->n_added, n, err));
    *scores = ln_arena_alloc(&t->arena, n, sizeof **scores);
    if (*scores == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t id = n; id-- > 0;) {
        json_t *pair = json_array_get(vocab, id);
        json_t *piece = json_array_get(pair, 0), *score = json_array_get(pair, 1);
        if (!json_is_string(piece) || !json_is_number(score))
            return ln_fail(err, LINNET_ERR_FORMAT, "token %zu is no pair of text and score", id);
        (*scores)[id] = score_as_read(json_number_value(score));
        LN_TRY(ln_vocab_set(&t->vocab, &t->arena, id, json_string_value(piece),
                            json_string_length(piece), err));
    }
    t->vocab.count = n;
    return LINNET_OK;
}

/* ---- models ------------------------------------------------------------------------------ */

/* "a b" or ["a", "b"]. */
static ln_status read_merge(json_t *value, size_t index, ln_bpe_merge *merge, ln_error *err) {
    const char *text = json_string_value(value);
    if (text != NULL) {
        size_t n = json_string_length(value);
        const char *space = memchr(text, ' ', n);
        size_t left = space != NULL ? (size_t)(space - text) : 0;
        if (space == NULL || memchr(space + 1, ' ', n - left - 1) != NULL || n > UINT32_MAX)
            return ln_fail(err, LINNET_ERR_FORMAT, "merge %zu is not two tokens", index);
        *merge = (ln_bpe_merge){text, space + 1, (uint32_t)left, (uint32_t)(n - left - 1)};
        return LINNET_OK;
    }
    json_t *left = json_array_get(value, 0), *right = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_string(left) || !json_is_string(right))
        return ln_fail(err, LINNET_ERR_FORMAT, "merge %zu is not two tokens", index);
    *merge =
        (ln_bpe_merge){json_string_value(left), json_string_value(right),
                       (uint32_t)json_string_length(left), (uint32_t)json_string_length(right)};
    return LINNET_OK;
}

static ln_status read_merges(ln_tokenizer *t, json_t *model, ln_error *err) {
    json_t *list = json_object_get(model, "merges");
    if (!json_is_array(list))
        return ln_fail(err, LINNET_ERR_FORMAT, "the BPE model has no list of merges");
    size_t n = json_array_size(list), count = 0;
    ln_bpe_merge *merges = malloc((n + 1) * sizeof *merges);
    if (merges == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < n && status == LINNET_OK; i++) {
        json_t *value = json_array_get(list, i);
        const char *text = json_string_value(value);
        if (text != NULL && strncmp(text, "#version", 8) == 0)
            continue;
        status = read_merge(value, i, &merges[count], err);
        count++;
    }
    if (status == LINNET_OK)
        status = ln_bpe_init_merges(&t->bpe, &t->arena, &t->vocab, merges, count, false, err);
    free(merges);
    return status;
}

static ln_status copy_option(ln_tokenizer *t, json_t *model, const char *key, const char **text,
                             ln_error *err) {
    const char *value = json_string_value(json_object_get(model, key));
    if (value == NULL || value[0] == '\0')
        return LINNET_OK;
    *text = ln_arena_copy(&t->arena, value, strlen(value));
    return *text != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer");
}

static ln_status read_bpe(model_reader *r, json_t *model, ln_error *err) {
    ln_tokenizer *t = r->t;
    t->model = LN_MODEL_BPE;
    LN_TRY(read_vocab_object(r, json_object_get(model, "vocab"), err));
    ln_bpe *bpe = &t->bpe;
    bpe->byte_fallback = ln_json_bool(model, "byte_fallback", false);
    bpe->fuse_unk = ln_json_bool(model, "fuse_unk", false);
    bpe->ignore_merges = ln_json_bool(model, "ignore_merges", false);
    LN_TRY(copy_option(t, model, "continuing_subword_prefix", &bpe->prefix, err));
    LN_TRY(copy_option(t, model, "end_of_word_suffix", &bpe->suffix, err));
    size_t unk_bytes;
    const char *unk = ln_json_text(model, "unk_token", &unk_bytes);
    if (unk != NULL)
        t->vocab.unk = ln_vocab_find(&t->vocab, unk, unk_bytes);
    bpe->unk_missing = unk != NULL && t->vocab.unk < 0;
    ln_vocab_find_bytes(&t->vocab, bpe->byte_ids);
    return read_merges(t, model, err);
}

static ln_status read_unigram(model_reader *r, json_t *model, ln_error *err) {
    ln_tokenizer *t = r->t;
    json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    double *scores;
    t->model = LN_MODEL_UNIGRAM;
    if (!json_is_array(vocab))
        return ln_fail(err, LINNET_ERR_FORMAT, "the Unigram model has no list of pieces");
    LN_TRY(read_vocab_list(r, vocab, &scores, err));
    if (json_is_integer(unk)) {
        json_int_t id = json_integer_value(unk);
        if (id < 0 || (size_t)id >= t->vocab.count)
            return ln_fail(err, LINNET_ERR_FORMAT, "unk_id is %lld in a vocabulary of %zu",
                           (long long)id, t->vocab.count);
        t->vocab.unk = (int32_t)id;
    }
    t->unigram.byte_fallback = ln_json_bool(model, "byte_fallback", false);
    return ln_unigram_init(&t->unigram, &t->arena, &t->vocab, scores, t->vocab.count,
                           LN_UNIGRAM_HUGGING_FACE, err);
}

static ln_status read_wordpiece(model_reader *r, json_t *model, bool whole_words, ln_error *err) {
    ln_tokenizer *t = r->t;
    LN_TRY(read_vocab_object(r, json_object_get(model, "vocab"), err));
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    if (unk == NULL)
        unk = whole_words ? "<unk>" : "[UNK]";
    t->vocab.unk = ln_vocab_find(&t->vocab, unk, strlen(unk));
    t->model = whole_words ? LN_MODEL_WORDLEVEL : LN_MODEL_WORDPIECE;
    if (whole_words)
        return LINNET_OK;
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    json_t *max_chars = json_object_get(model, "max_input_chars_per_word");
    json_int_t most = json_is_integer(max_chars) ? json_integer_value(max_chars) : 100;
    return ln_wordpiece_init(&t->wordpiece, &t->arena, &t->vocab, "", prefix ? prefix : "##",
                             most > 0 ? (size_t)most : 0, err);
}

static ln_status read_model(model_reader *r, json_t *model, ln_error *err) {
    const char *type = json_string_value(json_object_get(model, "type"));
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(model))
        return ln_fail(err, LINNET_ERR_FORMAT, "there is no model");
    if (type == NULL) /* early files did not say */
        type = json_object_get(model, "merges") ? "BPE"
               : json_is_array(vocab)           ? "Unigram"
                                                : "WordPiece";
    if (strcmp(type, "Unigram") == 0)
        return read_unigram(r, model, err);
    if (!json_is_object(vocab))
        return ln_fail(err, LINNET_ERR_FORMAT, "the %.40s model has no vocabulary", type);
    if (strcmp(type, "BPE") == 0)
        return read_bpe(r, model, err);
    if (strcmp(type, "WordPiece") == 0 || strcmp(type, "WordLevel") == 0)
        return read_wordpiece(r, model, type[4] == 'L', err);
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the model type \"%.60s\" is not supported", type);
}

/* ---- added tokens ------------------------------------------------------------------------ */

typedef struct added_reader {
    ln_tokenizer *t;
    int32_t *index_of;  /* [capacity] by id: place in t->added.tokens plus one, or 0 */
    ln_piece *names;    /* [capacity] by id: what decoding starts from */
    ln_hashmap special; /* contents of special tokens */
    size_t capacity, next_id;
    ln_regex_work work;
    ln_strbuf buffers[2];
} added_reader;

/* The id of a token's content: as added before, as in the model, or the next free one. */
static size_t id_of_content(added_reader *r, const char *content, size_t n_bytes) {
    uint32_t id;
    if (ln_hashmap_get(&r->t->added_map, content, n_bytes, &id))
        return id;
    int32_t known = ln_vocab_find(&r->t->vocab, content, n_bytes);
    return known >= 0 ? (size_t)known : r->next_id++;
}

/* What a normalised token is looked for as; the content itself when nothing changes. */
static ln_status normalize_content(added_reader *r, ln_added_token *token, ln_error *err) {
    const char *normal;
    size_t n_bytes;
    bool at_start = true;
    LN_TRY(ln_normalize(&r->t->normalizer, &r->work, r->buffers, token->pattern,
                        token->pattern_bytes, &normal, &n_bytes, &at_start, err));
    if (n_bytes > UINT32_MAX)
        return ln_fail(err, LINNET_ERR_LIMIT, "an added token has %zu bytes", n_bytes);
    if (n_bytes == token->pattern_bytes && memcmp(normal, token->pattern, n_bytes) == 0)
        return LINNET_OK;
    token->pattern = ln_arena_copy(&r->t->arena, normal, n_bytes);
    token->pattern_bytes = (uint32_t)n_bytes;
    return token->pattern != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer");
}

static ln_status read_added(added_reader *r, json_t *value, ln_error *err) {
    ln_tokenizer *t = r->t;
    size_t n_bytes;
    const char *text = ln_json_text(value, "content", &n_bytes);
    if (text == NULL || n_bytes > INT32_MAX)
        return ln_fail(err, LINNET_ERR_FORMAT, "an added token has no content");
    if (n_bytes == 0)
        return LINNET_OK;
    size_t id = id_of_content(r, text, n_bytes);
    LN_BUG_ON(id >= r->capacity);
    char *content = ln_arena_copy(&t->arena, text, n_bytes);
    if (content == NULL)
        return ln_fail_memory(err, "the tokenizer");
    bool special = ln_json_bool(value, "special", false);
    ln_added_token token = {.pattern = content,
                            .pattern_bytes = (uint32_t)n_bytes,
                            .id = (int32_t)id,
                            .single_word = ln_json_bool(value, "single_word", false),
                            .lstrip = ln_json_bool(value, "lstrip", false),
                            .rstrip = ln_json_bool(value, "rstrip", false),
                            .normalized = ln_json_bool(value, "normalized", !special),
                            .special = special};
    if (token.normalized)
        LN_TRY(normalize_content(r, &token, err));
    ln_hashmap_add(&t->added_map, content, n_bytes, (uint32_t)id);
    if (special)
        ln_hashmap_add(&r->special, content, n_bytes, 1);
    t->vocab.pieces[id].data = content;
    t->vocab.pieces[id].bytes = (uint32_t)n_bytes;
    t->vocab.pieces[id].flags |= LN_TOKEN_ADDED | (special ? LN_TOKEN_SPECIAL : 0);
    r->names[id] = (ln_piece){token.pattern, token.pattern_bytes, 0};
    if (r->index_of[id] == 0)
        r->index_of[id] = (int32_t)++t->added.count;
    t->added.tokens[r->index_of[id] - 1] = token;
    if (id >= t->vocab.count)
        t->vocab.count = id + 1;
    return LINNET_OK;
}

static ln_status read_decoder(added_reader *r, json_t *value, ln_error *err) {
    ln_tokenizer *t = r->t;
    ln_decode_step *steps = calloc(LN_JSON_MAX_STEPS, sizeof *steps);
    uint8_t *dropped = ln_arena_alloc(&t->arena, t->vocab.count, 1);
    if (steps == NULL || dropped == NULL) {
        free(steps);
        return ln_fail_memory(err, "the tokenizer");
    }
    for (size_t id = 0; id < t->vocab.count; id++) {
        if (r->names[id].data == NULL)
            r->names[id] = t->vocab.pieces[id];
        uint32_t found;
        dropped[id] = r->names[id].data != NULL &&
                      ln_hashmap_get(&r->special, r->names[id].data, r->names[id].bytes, &found);
    }
    size_t n_steps, heap_bytes = t->heap_bytes;
    ln_status status = ln_json_decoder(t, value, steps, &n_steps, err);
    if (status == LINNET_OK)
        status = ln_decoder_build(&t->decoder, &t->arena, steps, n_steps, r->names, t->vocab.count,
                                  dropped, err);
    for (size_t i = 0; i < LN_JSON_MAX_STEPS; i++)
        ln_regex_free(steps[i].regex);
    t->heap_bytes = heap_bytes; /* these are gone again */
    free(steps);
    return status;
}

/* Added tokens, and what needs them to be known: decoder and post-processor. */
static ln_status read_rest(ln_tokenizer *t, json_t *root, size_t n_model, ln_error *err) {
    json_t *list = json_object_get(root, "added_tokens");
    size_t n = json_array_size(list);
    added_reader r = {.t = t, .next_id = n_model};
    r.capacity = (t->vocab.count > n_model ? t->vocab.count : n_model) + n;
    r.index_of = calloc(r.capacity + 1, sizeof *r.index_of);
    r.names = calloc(r.capacity + 1, sizeof *r.names);
    t->added.tokens = ln_arena_alloc(&t->arena, n, sizeof *t->added.tokens);
    ln_status status = LINNET_OK;
    if (r.index_of == NULL || r.names == NULL || t->added.tokens == NULL ||
        !ln_hashmap_init(&t->added_map, &t->arena, n) || !ln_hashmap_init(&r.special, &t->arena, n))
        status = ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < n && status == LINNET_OK; i++)
        status = read_added(&r, json_array_get(list, i), err);
    ln_bpe_note_special(&t->bpe);
    if (status == LINNET_OK)
        status = ln_added_build(&t->added, &t->arena, err);
    if (status == LINNET_OK)
        status = read_decoder(&r, json_object_get(root, "decoder"), err);
    if (status == LINNET_OK)
        status = ln_json_post_processor(t, json_object_get(root, "post_processor"), err);
    free(r.index_of);
    free(r.names);
    ln_regex_work_free(&r.work);
    ln_strbuf_free(&r.buffers[0]);
    ln_strbuf_free(&r.buffers[1]);
    return status;
}

static ln_status read_root(model_reader *r, json_t *root, ln_error *err) {
    ln_tokenizer *t = r->t;
    if (!json_is_object(root))
        return ln_fail(err, LINNET_ERR_FORMAT, "the file holds no object");
    r->n_added = json_array_size(json_object_get(root, "added_tokens"));
    json_t *model = json_object_get(root, "model");
    LN_TRY(read_model(r, model, err));
    json_t *vocab = json_object_get(model, "vocab");
    size_t n_model = json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab);
    LN_TRY(ln_json_normalizer(t, json_object_get(root, "normalizer"), err));
    LN_TRY(ln_json_pretokenizer(t, json_object_get(root, "pre_tokenizer"), err));
    return read_rest(t, root, n_model, err);
}

ln_status ln_tokenizer_from_json(const char *bytes, size_t n_bytes, ln_tokenizer **tokenizer,
                                 ln_error *err) {
    *tokenizer = NULL;
    json_t *root;
    model_reader r = {0};
    ln_strbuf_init(&r.scratch);
    LN_TRY(ln_json_load(bytes, n_bytes, &root, &r.stand_in, err));
    r.t = ln_tokenizer_new();
    ln_status status =
        r.t != NULL ? read_root(&r, root, err) : ln_fail_memory(err, "the tokenizer");
    json_decref(root);
    ln_strbuf_free(&r.scratch);
    if (status == LINNET_OK)
        *tokenizer = r.t;
    else
        ln_tokenizer_close(r.t);
    return status;
}
