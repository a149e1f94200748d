#include "text/tokenizer/json_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

bool ln_json_bool(const json_t *object, const char *key, bool fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

const char *ln_json_text(const json_t *object, const char *key, size_t *n_bytes) {
    const json_t *value = json_object_get(object, key);
    *n_bytes = json_string_length(value);
    return json_string_value(value);
}

static ln_status missing(ln_error *err, const char *part, const char *type, const char *field) {
    return ln_fail(err, LINNET_ERR_FORMAT, "the %s %s has no valid \"%s\"", part, type, field);
}

static ln_status unknown(ln_error *err, const char *part, const json_t *value) {
    const char *type = json_string_value(json_object_get(value, "type"));
    if (type == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "a %s has no type", part);
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the %s type \"%.100s\" is not supported", part,
                   type);
}

static bool is_type(const json_t *value, const char *type) {
    const char *actual = json_string_value(json_object_get(value, "type"));
    return actual != NULL && strcmp(actual, type) == 0;
}

/* Parts of a kind, each alone or in a Sequence, which may lie in another. */
typedef struct part_kind {
    const char *name, *items; /* in errors; the key of a Sequence's list */
    ln_status (*add)(ln_tokenizer *tokenizer, const json_t *value, void *list, ln_error *err);
} part_kind;

static ln_status too_many(ln_error *err, const char *part) {
    return ln_fail(err, LINNET_ERR_LIMIT, "the tokenizer has too many %ss", part);
}

static ln_status add_parts(const part_kind *kind, ln_tokenizer *tokenizer, const json_t *value,
                           int depth, void *list, ln_error *err) {
    if (depth > LN_JSON_MAX_DEPTH)
        return too_many(err, kind->name);
    if (!is_type(value, "Sequence"))
        return kind->add(tokenizer, value, list, err);
    const json_t *items = json_object_get(value, kind->items);
    if (!json_is_array(items))
        return missing(err, kind->name, "Sequence", kind->items);
    for (size_t i = 0; i < json_array_size(items); i++)
        LN_TRY(add_parts(kind, tokenizer, json_array_get(items, i), depth + 1, list, err));
    return LINNET_OK;
}

/* Copies a required text field into the arena. */
static ln_status copy_text(ln_tokenizer *tokenizer, const json_t *object, const char *part,
                           const char *field, const char **text, size_t *n_bytes, ln_error *err) {
    const char *value = ln_json_text(object, field, n_bytes);
    if (value == NULL)
        return missing(err, part, json_string_value(json_object_get(object, "type")), field);
    *text = ln_arena_copy(&tokenizer->arena, value, *n_bytes);
    return *text != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer");
}

/* {"String": ..} becomes *literal, {"Regex": ..} *regex; a bare string is a literal. */
static ln_status pattern(ln_tokenizer *tokenizer, const json_t *object, const char *part,
                         const char **literal, size_t *literal_bytes, ln_regex **regex,
                         ln_error *err) {
    const json_t *value = json_object_get(object, "pattern");
    size_t n;
    const char *source = ln_json_text(value, "Regex", &n);
    *literal = NULL;
    *regex = NULL;
    if (source != NULL) {
        LN_TRY(ln_regex_compile(source, n, regex, err));
        tokenizer->heap_bytes += ln_regex_bytes(*regex);
        return LINNET_OK;
    }
    source = ln_json_text(value, "String", &n);
    if (source == NULL)
        return missing(err, part, json_string_value(json_object_get(object, "type")), "pattern");
    *literal = ln_arena_copy(&tokenizer->arena, source, n);
    *literal_bytes = n;
    return *literal != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer");
}

/* ---- normalisers ------------------------------------------------------------------------- */

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool ln_base64_decode(const char *text, size_t n_bytes, char **bytes, size_t *n_out) {
    *n_out = 0;
    *bytes = malloc(n_bytes / 4 * 3 + 4);
    if (*bytes == NULL)
        return false;
    uint32_t word = 0;
    unsigned n_bits = 0;
    while (n_bytes > 0 && text[n_bytes - 1] == '=')
        n_bytes--;
    for (size_t i = 0; i < n_bytes; i++) {
        int value = base64_value(text[i]);
        if (value < 0) {
            free(*bytes);
            *bytes = NULL;
            return false;
        }
        word = word << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            (*bytes)[(*n_out)++] = (char)(word >> n_bits & 255);
        }
    }
    return true;
}

static ln_status charsmap(ln_tokenizer *tokenizer, const json_t *value, ln_charsmap *map,
                          ln_error *err) {
    size_t n, blob_bytes;
    const char *text = ln_json_text(value, "precompiled_charsmap", &n);
    char *blob;
    if (text == NULL)
        return missing(err, "normalizer", "Precompiled", "precompiled_charsmap");
    if (!ln_base64_decode(text, n, &blob, &blob_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "the precompiled_charsmap is not valid base64");
    ln_status status = ln_charsmap_init(map, &tokenizer->arena, blob, blob_bytes, err);
    free(blob);
    return status;
}

typedef struct normalizer_list {
    ln_normalize_step steps[LN_JSON_MAX_STEPS];
    size_t count;
} normalizer_list;

/* Normalisers without fields. */
static bool plain_normalizer(const json_t *value, ln_normalize_kind *kind) {
    static const struct {
        const char *type;
        ln_normalize_kind kind;
    } kinds[] = {
        {"NFC", LN_NORMALIZE_NFC},
        {"NFD", LN_NORMALIZE_NFD},
        {"NFKC", LN_NORMALIZE_NFKC},
        {"NFKD", LN_NORMALIZE_NFKD},
        {"Lowercase", LN_NORMALIZE_LOWERCASE},
        {"StripAccents", LN_NORMALIZE_STRIP_ACCENTS},
        {"Nmt", LN_NORMALIZE_NMT},
        {"ByteLevel", LN_NORMALIZE_BYTE_LEVEL},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (is_type(value, kinds[i].type)) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static ln_status one_normalizer(ln_tokenizer *tokenizer, const json_t *value,
                                ln_normalize_step *step, ln_error *err) {
    if (plain_normalizer(value, &step->kind))
        return LINNET_OK;
    if (is_type(value, "Strip")) {
        step->kind = LN_NORMALIZE_STRIP;
        step->strip.left = ln_json_bool(value, "strip_left", true);
        step->strip.right = ln_json_bool(value, "strip_right", true);
        return LINNET_OK;
    }
    if (is_type(value, "Prepend")) {
        step->kind = LN_NORMALIZE_PREPEND;
        return copy_text(tokenizer, value, "normalizer", "prepend", &step->prepend.text,
                         &step->prepend.bytes, err);
    }
    if (is_type(value, "Replace")) {
        step->kind = LN_NORMALIZE_REPLACE;
        LN_TRY(pattern(tokenizer, value, "normalizer", &step->replace.literal,
                       &step->replace.literal_bytes, &step->replace.regex, err));
        ln_status status = copy_text(tokenizer, value, "normalizer", "content",
                                     &step->replace.content, &step->replace.content_bytes, err);
        if (status != LINNET_OK)
            ln_regex_free(step->replace.regex);
        return status;
    }
    if (is_type(value, "BertNormalizer")) {
        step->kind = LN_NORMALIZE_BERT;
        step->bert.clean_text = ln_json_bool(value, "clean_text", true);
        step->bert.handle_cjk = ln_json_bool(value, "handle_chinese_chars", true);
        step->bert.lowercase = ln_json_bool(value, "lowercase", true);
        step->bert.strip_accents = ln_json_bool(value, "strip_accents", step->bert.lowercase);
        return LINNET_OK;
    }
    if (is_type(value, "Precompiled")) {
        step->kind = LN_NORMALIZE_PRECOMPILED;
        return charsmap(tokenizer, value, &step->charsmap, err);
    }
    return unknown(err, "normalizer", value);
}

static ln_status add_normalizer(ln_tokenizer *tokenizer, const json_t *value, void *list,
                                ln_error *err) {
    normalizer_list *to = list;
    if (to->count == LN_JSON_MAX_STEPS)
        return too_many(err, "normalizer");
    LN_TRY(one_normalizer(tokenizer, value, &to->steps[to->count], err));
    to->count++;
    return LINNET_OK;
}

ln_status ln_json_normalizer(ln_tokenizer *tokenizer, const json_t *value, ln_error *err) {
    static const part_kind kind = {"normalizer", "normalizers", add_normalizer};
    if (value == NULL || json_is_null(value))
        return LINNET_OK;
    normalizer_list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = add_parts(&kind, tokenizer, value, 0, list, err);
    tokenizer->normalizer.steps =
        ln_arena_alloc(&tokenizer->arena, list->count + 1, sizeof *tokenizer->normalizer.steps);
    if (tokenizer->normalizer.steps == NULL) {
        ln_normalizer_free(&(ln_normalizer){list->steps, list->count});
        status = ln_fail_memory(err, "the tokenizer");
    } else {
        memcpy(tokenizer->normalizer.steps, list->steps, list->count * sizeof list->steps[0]);
        tokenizer->normalizer.count = list->count;
    }
    free(list);
    return status;
}

/* ---- pre-tokenisers ---------------------------------------------------------------------- */

typedef struct split_list {
    ln_split_step steps[LN_JSON_MAX_STEPS + 4];
    size_t count;
} split_list;

static ln_status behavior(const json_t *value, const char *type, ln_split_behavior *result,
                          ln_error *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(value, "behavior"));
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *result = (ln_split_behavior)i;
            return LINNET_OK;
        }
    }
    return missing(err, "pre-tokenizer", type, "behavior");
}

static ln_split_step *new_step(split_list *list, ln_split_kind kind, ln_split_behavior behavior_) {
    ln_split_step *step = &list->steps[list->count++];
    *step = (ln_split_step){.kind = kind, .behavior = behavior_};
    return step;
}

/* GPT-2's pattern, which ByteLevel applies unless told not to. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static ln_status byte_level(ln_tokenizer *tokenizer, const json_t *value, split_list *list,
                            ln_error *err) {
    if (ln_json_bool(value, "add_prefix_space", true))
        new_step(list, LN_SPLIT_PREFIX_SPACE, LN_SPLIT_ISOLATED);
    if (ln_json_bool(value, "use_regex", true)) {
        ln_split_step *step = new_step(list, LN_SPLIT_REGEX, LN_SPLIT_ISOLATED);
        LN_TRY(ln_regex_compile(gpt2_pattern, sizeof gpt2_pattern - 1, &step->regex, err));
        tokenizer->heap_bytes += ln_regex_bytes(step->regex);
    }
    new_step(list, LN_SPLIT_BYTE_LEVEL, LN_SPLIT_ISOLATED);
    return LINNET_OK;
}

static ln_status metaspace(ln_tokenizer *tokenizer, const json_t *value, split_list *list,
                           ln_error *err) {
    ln_split_step *step = new_step(list, LN_SPLIT_METASPACE, LN_SPLIT_ISOLATED);
    LN_TRY(copy_text(tokenizer, value, "pre-tokenizer", "replacement", &step->text,
                     &step->text_bytes, err));
    if (ln_utf8_valid(step->text, step->text_bytes) != step->text_bytes || step->text_bytes == 0)
        return missing(err, "pre-tokenizer", "Metaspace", "replacement");
    const char *scheme = json_string_value(json_object_get(value, "prepend_scheme"));
    if (scheme == NULL || strcmp(scheme, "always") == 0)
        step->prepend = LN_PREPEND_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        step->prepend = LN_PREPEND_FIRST;
    else if (strcmp(scheme, "never") == 0)
        step->prepend = LN_PREPEND_NEVER;
    else
        return missing(err, "pre-tokenizer", "Metaspace", "prepend_scheme");
    if (!ln_json_bool(value, "add_prefix_space", true))
        step->prepend = LN_PREPEND_NEVER;
    step->split = ln_json_bool(value, "split", true);
    return LINNET_OK;
}

static ln_status split(ln_tokenizer *tokenizer, const json_t *value, split_list *list,
                       ln_error *err) {
    ln_split_step *step = new_step(list, LN_SPLIT_LITERAL, LN_SPLIT_ISOLATED);
    LN_TRY(behavior(value, "Split", &step->behavior, err));
    step->invert = ln_json_bool(value, "invert", false);
    LN_TRY(pattern(tokenizer, value, "pre-tokenizer", &step->text, &step->text_bytes, &step->regex,
                   err));
    if (step->regex != NULL)
        step->kind = LN_SPLIT_REGEX;
    return LINNET_OK;
}

static ln_status delimiter(ln_tokenizer *tokenizer, const json_t *value, split_list *list,
                           ln_error *err) {
    ln_split_step *step = new_step(list, LN_SPLIT_LITERAL, LN_SPLIT_REMOVED);
    return copy_text(tokenizer, value, "pre-tokenizer", "delimiter", &step->text, &step->text_bytes,
                     err);
}

static ln_status add_pretokenizer(ln_tokenizer *tokenizer, const json_t *value, void *steps,
                                  ln_error *err) {
    split_list *list = steps;
    if (list->count >= LN_JSON_MAX_STEPS)
        return too_many(err, "pre-tokenizer");
    if (is_type(value, "ByteLevel"))
        return byte_level(tokenizer, value, list, err);
    if (is_type(value, "Split"))
        return split(tokenizer, value, list, err);
    if (is_type(value, "Metaspace"))
        return metaspace(tokenizer, value, list, err);
    if (is_type(value, "CharDelimiterSplit") || is_type(value, "Delimiter"))
        return delimiter(tokenizer, value, list, err);
    if (is_type(value, "Whitespace")) {
        new_step(list, LN_SPLIT_WORDS, LN_SPLIT_REMOVED)->invert = true;
    } else if (is_type(value, "WhitespaceSplit")) {
        new_step(list, LN_SPLIT_SPACE, LN_SPLIT_REMOVED);
    } else if (is_type(value, "BertPreTokenizer")) {
        new_step(list, LN_SPLIT_SPACE, LN_SPLIT_REMOVED);
        new_step(list, LN_SPLIT_PUNCTUATION, LN_SPLIT_ISOLATED);
    } else if (is_type(value, "Digits")) {
        bool each = ln_json_bool(value, "individual_digits", false);
        new_step(list, LN_SPLIT_DIGIT, each ? LN_SPLIT_ISOLATED : LN_SPLIT_CONTIGUOUS);
    } else if (is_type(value, "Punctuation")) {
        ln_split_step *step = new_step(list, LN_SPLIT_PUNCTUATION, LN_SPLIT_ISOLATED);
        if (json_object_get(value, "behavior") != NULL)
            return behavior(value, "Punctuation", &step->behavior, err);
    } else if (is_type(value, "FixedLength")) {
        json_int_t length = json_integer_value(json_object_get(value, "length"));
        new_step(list, LN_SPLIT_FIXED, LN_SPLIT_ISOLATED)->length =
            length > 0 && length < INT32_MAX ? (size_t)length : 5;
    } else {
        return unknown(err, "pre-tokenizer", value);
    }
    return LINNET_OK;
}

ln_status ln_json_pretokenizer(ln_tokenizer *tokenizer, const json_t *value, ln_error *err) {
    static const part_kind kind = {"pre-tokenizer", "pretokenizers", add_pretokenizer};
    if (value == NULL || json_is_null(value))
        return LINNET_OK;
    split_list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = add_parts(&kind, tokenizer, value, 0, list, err);
    ln_pretokenizer *kept = &tokenizer->pretokenizer;
    kept->steps = ln_arena_alloc(&tokenizer->arena, list->count + 1, sizeof *kept->steps);
    if (kept->steps == NULL) {
        ln_pretokenizer_free(&(ln_pretokenizer){list->steps, list->count});
        status = ln_fail_memory(err, "the tokenizer");
    } else {
        memcpy(kept->steps, list->steps, list->count * sizeof list->steps[0]);
        kept->count = list->count;
    }
    free(list);
    return status;
}

/* ---- decoders ---------------------------------------------------------------------------- */

static ln_status decode_strip(ln_tokenizer *tokenizer, const json_t *value, ln_decode_step *step,
                              ln_error *err) {
    step->kind = LN_DECODE_STRIP;
    LN_TRY(copy_text(tokenizer, value, "decoder", "content", &step->pattern, &step->pattern_bytes,
                     err));
    if (ln_utf8_valid(step->pattern, step->pattern_bytes) != step->pattern_bytes ||
        step->pattern_bytes == 0)
        return missing(err, "decoder", "Strip", "content");
    json_int_t start = json_integer_value(json_object_get(value, "start"));
    json_int_t stop = json_integer_value(json_object_get(value, "stop"));
    if (start < 0 || start > 1000 || stop < 0 || stop > 1000)
        return missing(err, "decoder", "Strip", "start");
    step->start = (uint32_t)start;
    step->stop = (uint32_t)stop;
    return LINNET_OK;
}

static ln_status one_decoder(ln_tokenizer *tokenizer, const json_t *value, ln_decode_step *step,
                             ln_error *err) {
    const char *scheme = json_string_value(json_object_get(value, "prepend_scheme"));
    if (is_type(value, "ByteLevel")) {
        step->kind = LN_DECODE_BYTE_LEVEL;
    } else if (is_type(value, "ByteFallback")) {
        step->kind = LN_DECODE_BYTE_FALLBACK;
    } else if (is_type(value, "Fuse")) {
        step->kind = LN_DECODE_FUSE;
    } else if (is_type(value, "Strip")) {
        return decode_strip(tokenizer, value, step, err);
    } else if (is_type(value, "Replace")) {
        step->kind = LN_DECODE_REPLACE;
        LN_TRY(copy_text(tokenizer, value, "decoder", "content", &step->content,
                         &step->content_bytes, err));
        return pattern(tokenizer, value, "decoder", &step->pattern, &step->pattern_bytes,
                       &step->regex, err);
    } else if (is_type(value, "Metaspace")) {
        step->kind = LN_DECODE_METASPACE;
        step->flag = (scheme == NULL || strcmp(scheme, "never") != 0) &&
                     ln_json_bool(value, "add_prefix_space", true);
        return copy_text(tokenizer, value, "decoder", "replacement", &step->pattern,
                         &step->pattern_bytes, err);
    } else if (is_type(value, "WordPiece")) {
        step->kind = LN_DECODE_WORDPIECE;
        step->flag = ln_json_bool(value, "cleanup", true);
        return copy_text(tokenizer, value, "decoder", "prefix", &step->pattern,
                         &step->pattern_bytes, err);
    } else if (is_type(value, "BPEDecoder")) {
        step->kind = LN_DECODE_BPE;
        return copy_text(tokenizer, value, "decoder", "suffix", &step->pattern,
                         &step->pattern_bytes, err);
    } else {
        return unknown(err, "decoder", value);
    }
    return LINNET_OK;
}

typedef struct decoder_list {
    ln_decode_step *steps; /* [LN_JSON_MAX_STEPS] */
    size_t *n_steps;
} decoder_list;

static ln_status add_decoder(ln_tokenizer *tokenizer, const json_t *value, void *list,
                             ln_error *err) {
    const decoder_list *to = list;
    if (*to->n_steps == LN_JSON_MAX_STEPS)
        return too_many(err, "decoder");
    LN_TRY(one_decoder(tokenizer, value, &to->steps[*to->n_steps], err));
    ++*to->n_steps;
    return LINNET_OK;
}

ln_status ln_json_decoder(ln_tokenizer *tokenizer, const json_t *value, ln_decode_step *steps,
                          size_t *n_steps, ln_error *err) {
    static const part_kind kind = {"decoder", "decoders", add_decoder};
    decoder_list list = {steps, n_steps};
    *n_steps = 0;
    if (value == NULL || json_is_null(value)) {
        steps[(*n_steps)++].kind = LN_DECODE_JOIN;
        return LINNET_OK;
    }
    return add_parts(&kind, tokenizer, value, 0, &list, err);
}

/* ---- post-processors --------------------------------------------------------------------- */

typedef struct post_list {
    int32_t ids[LN_JSON_MAX_STEPS];
    size_t count;
} post_list;

static ln_status add_id(ln_tokenizer *tokenizer, post_list *list, const json_t *id, ln_error *err) {
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || (size_t)value >= tokenizer->vocab.count)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "the post-processor adds a token that the vocabulary of %zu lacks",
                       tokenizer->vocab.count);
    if (list->count == LN_JSON_MAX_STEPS)
        return ln_fail(err, LINNET_ERR_LIMIT, "the post-processor adds too many tokens");
    list->ids[list->count++] = (int32_t)value;
    return LINNET_OK;
}

static ln_status add_text(post_list *list, bool is_second, ln_error *err) {
    if (list->count == LN_JSON_MAX_STEPS)
        return ln_fail(err, LINNET_ERR_LIMIT, "the post-processor adds too many tokens");
    list->ids[list->count++] = is_second ? LN_POST_SECOND : LN_POST_TEXT;
    return LINNET_OK;
}

static ln_status template_piece(ln_tokenizer *tokenizer, const json_t *value, const json_t *piece,
                                post_list *list, ln_error *err) {
    const json_t *sequence = json_object_get(piece, "Sequence");
    const char *which = json_string_value(json_object_get(sequence, "id"));
    if (sequence != NULL)
        return add_text(list, which != NULL && strcmp(which, "B") == 0, err);
    const json_t *special = json_object_get(piece, "SpecialToken");
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *tokens = json_object_get(value, "special_tokens");
    const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
    if (!json_is_array(ids))
        return missing(err, "post-processor", "TemplateProcessing", "special_tokens");
    for (size_t i = 0; i < json_array_size(ids); i++)
        LN_TRY(add_id(tokenizer, list, json_array_get(ids, i), err));
    return LINNET_OK;
}

/* A classifier token, the texts, separators: RoBERTa has two of them between texts. */
static ln_status add_separated(ln_tokenizer *tokenizer, const json_t *value, bool is_pair,
                               post_list *list, ln_error *err) {
    const json_t *cls = json_array_get(json_object_get(value, "cls"), 1);
    const json_t *sep = json_array_get(json_object_get(value, "sep"), 1);
    list->count = 0;
    LN_TRY(add_id(tokenizer, list, cls, err));
    LN_TRY(add_text(list, false, err));
    LN_TRY(add_id(tokenizer, list, sep, err));
    if (!is_pair)
        return LINNET_OK;
    if (is_type(value, "RobertaProcessing"))
        LN_TRY(add_id(tokenizer, list, sep, err));
    LN_TRY(add_text(list, true, err));
    return add_id(tokenizer, list, sep, err);
}

static ln_status add_template(ln_tokenizer *tokenizer, const json_t *value, const char *key,
                              post_list *list, ln_error *err) {
    const json_t *pieces = json_object_get(value, key);
    list->count = 0;
    for (size_t i = 0; i < json_array_size(pieces); i++)
        LN_TRY(template_piece(tokenizer, value, json_array_get(pieces, i), list, err));
    return LINNET_OK;
}

/* What goes around one text, and around two. */
typedef struct post_lists {
    post_list single, pair;
} post_lists;

static ln_status add_post_processor(ln_tokenizer *tokenizer, const json_t *value, void *list,
                                    ln_error *err) {
    post_lists *lists = list;
    if (is_type(value, "ByteLevel")) /* only about offsets */
        return LINNET_OK;
    if (is_type(value, "BertProcessing") || is_type(value, "RobertaProcessing")) {
        LN_TRY(add_separated(tokenizer, value, true, &lists->pair, err));
        return add_separated(tokenizer, value, false, &lists->single, err);
    }
    if (!is_type(value, "TemplateProcessing"))
        return unknown(err, "post-processor", value);
    if (!json_is_array(json_object_get(value, "single")))
        return missing(err, "post-processor", "TemplateProcessing", "single");
    LN_TRY(add_template(tokenizer, value, "pair", &lists->pair, err));
    return add_template(tokenizer, value, "single", &lists->single, err);
}

ln_status ln_json_post_processor(ln_tokenizer *tokenizer, const json_t *value, ln_error *err) {
    static const part_kind kind = {"post-processor", "processors", add_post_processor};
    if (value == NULL || json_is_null(value))
        return LINNET_OK;
    post_lists lists = {0};
    const post_list *single = &lists.single, *pair = &lists.pair;
    LN_TRY(add_parts(&kind, tokenizer, value, 0, &lists, err));
    if (single->count > 0)
        LN_TRY(ln_tokenizer_set_post(tokenizer, single->ids, single->count, err));
    return pair->count > 0 ? ln_tokenizer_set_pair(tokenizer, pair->ids, pair->count, err)
                           : LINNET_OK;
}
