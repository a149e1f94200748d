/* The tokenizer of a GGUF file: tokenizer.ggml.* and what llama.cpp makes of it. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/tokenizer_state.h"

#include "text/tokenizer/pre_names.inc"

typedef enum gguf_type { /* tokenizer.ggml.token_type */
                         GGUF_NORMAL = 1,
                         GGUF_UNKNOWN,
                         GGUF_CONTROL,
                         GGUF_USER_DEFINED,
                         GGUF_UNUSED,
                         GGUF_BYTE,
} gguf_type;

typedef struct reader {
    const ln_checkpoint *checkpoint;
    ln_tokenizer *t;
    ln_meta_value tokens;
    float *scores;         /* [n], zero when the file has none; owned */
    int32_t bos, eos, sep; /* -1: none */
    bool add_bos, add_eos, add_sep, add_space_prefix;
} reader;

static bool get_bool(const reader *r, const char *key, bool fallback) {
    ln_meta_value value;
    return ln_checkpoint_meta(r->checkpoint, key, &value) && value.kind == LN_META_BOOL
               ? value.boolean
               : fallback;
}

/* A token id under `key`, the fallback when it is absent; -1 and UINT32_MAX say that there is none,
 * as does a fallback past the vocabulary. */
static ln_status get_id(const reader *r, const char *key, int32_t fallback, int32_t *id,
                        ln_error *err) {
    ln_meta_value value;
    bool is_there = ln_checkpoint_meta(r->checkpoint, key, &value);
    if (is_there && value.kind != LN_META_INT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s is no token id", key);
    int64_t wanted = is_there ? value.integer : fallback;
    bool is_inside = wanted >= 0 && (uint64_t)wanted < r->t->vocab.count;
    if (is_there && !is_inside && wanted != -1 && wanted != UINT32_MAX)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s is %lld in a vocabulary of %zu", key,
                       (long long)wanted, r->t->vocab.count);
    *id = is_inside ? (int32_t)wanted : -1;
    return LINNET_OK;
}

static bool text_contains(const reader *r, const char *key, const char *part) {
    ln_meta_value value;
    if (!ln_checkpoint_meta(r->checkpoint, key, &value) || value.kind != LN_META_STRING)
        return false;
    size_t n = strlen(part);
    for (size_t at = 0; at + n <= value.string.bytes; at++) {
        size_t same = 0;
        while (same < n && (value.string.data[at + same] | 32) == part[same])
            same++;
        if (same == n)
            return true;
    }
    return false;
}

/* ---- vocabulary -------------------------------------------------------------------------- */

static uint32_t flags_of(int64_t type) {
    switch (type) {
    case GGUF_UNKNOWN: return LN_TOKEN_UNKNOWN | LN_TOKEN_SPECIAL | LN_TOKEN_ADDED;
    case GGUF_CONTROL: return LN_TOKEN_SPECIAL | LN_TOKEN_ADDED;
    case GGUF_USER_DEFINED: return LN_TOKEN_ADDED;
    case GGUF_UNUSED: return LN_TOKEN_UNUSED;
    case GGUF_BYTE: return LN_TOKEN_BYTE;
    default: return 0;
    }
}

static ln_status read_tokens(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    if (!ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.tokens", &r->tokens) ||
        r->tokens.kind != LN_META_ARRAY)
        return ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.tokens is no array");
    size_t n = r->tokens.array.count;
    if (n == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.tokens is empty");
    LN_TRY(ln_vocab_init(&t->vocab, &t->arena, n, n, err));
    ln_meta_value types, scores, item;
    bool has_types = ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.token_type", &types);
    bool has_scores = ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.scores", &scores);
    r->scores = calloc(n + 1, sizeof *r->scores);
    if (r->scores == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < n; i++) {
        if (!ln_meta_item(&r->tokens, i, &item) || item.kind != LN_META_STRING)
            return ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.tokens[%zu] is no text", i);
        LN_TRY(ln_vocab_set(&t->vocab, &t->arena, i, item.string.data, item.string.bytes, err));
        int32_t first = ln_vocab_find(&t->vocab, item.string.data, item.string.bytes);
        if (first != (int32_t)i && item.string.bytes > 0)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "tokenizer.ggml.tokens[%zu] is the same text as [%d]", i, (int)first);
        if (has_types) {
            if (!ln_meta_item(&types, i, &item) || item.kind != LN_META_INT)
                return ln_fail(err, LINNET_ERR_FORMAT,
                               "tokenizer.ggml.token_type[%zu] is no integer", i);
            t->vocab.pieces[i].flags = flags_of(item.integer);
        }
        if (has_scores) {
            bool ok = ln_meta_item(&scores, i, &item);
            if (!ok || (item.kind != LN_META_FLOAT && item.kind != LN_META_INT))
                return ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.scores[%zu] is no number",
                               i);
            r->scores[i] = item.kind == LN_META_FLOAT ? (float)item.real : (float)item.integer;
        }
    }
    return LINNET_OK;
}

/* Control, unknown and user-defined tokens are looked for in the text as they stand. */
static ln_status read_added(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    size_t n = 0;
    for (size_t i = 0; i < t->vocab.count; i++)
        n += (t->vocab.pieces[i].flags & LN_TOKEN_ADDED) != 0;
    t->added.tokens = ln_arena_alloc(&t->arena, n, sizeof *t->added.tokens);
    if (t->added.tokens == NULL)
        return ln_fail_memory(err, "the tokenizer");
    bool phi3 =
        text_contains(r, "general.name", "phi-3") || text_contains(r, "general.name", "phi3");
    for (size_t i = 0; i < t->vocab.count; i++) {
        const ln_piece *piece = &t->vocab.pieces[i];
        if (!(piece->flags & LN_TOKEN_ADDED) || piece->bytes == 0)
            continue;
        bool plain = strcmp(piece->data, "<unk>") == 0 || strcmp(piece->data, "<s>") == 0 ||
                     strcmp(piece->data, "<|endoftext|>") == 0;
        t->added.tokens[t->added.count++] =
            (ln_added_token){.pattern = piece->data,
                             .pattern_bytes = piece->bytes,
                             .id = (int32_t)i,
                             .rstrip = phi3 && !plain,
                             .special = (piece->flags & LN_TOKEN_SPECIAL) != 0};
    }
    return ln_added_build(&t->added, &t->arena, err);
}

/* ---- byte-level BPE ---------------------------------------------------------------------- */

static ln_status read_merges(reader *r, ln_error *err) {
    ln_meta_value list, item;
    if (!ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.merges", &list) ||
        list.kind != LN_META_ARRAY)
        return ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.merges is no array");
    size_t n = list.array.count;
    ln_bpe_merge *merges = malloc((n + 1) * sizeof *merges);
    if (merges == NULL)
        return ln_fail_memory(err, "the tokenizer");
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < n && status == LINNET_OK; i++) {
        const char *space = NULL;
        if (ln_meta_item(&list, i, &item) && item.kind == LN_META_STRING && item.string.bytes > 2)
            space = memchr(item.string.data + 1, ' ', item.string.bytes - 1);
        if (space == NULL || item.string.bytes > INT32_MAX) {
            status =
                ln_fail(err, LINNET_ERR_FORMAT, "tokenizer.ggml.merges[%zu] is not two tokens", i);
            break;
        }
        uint32_t left = (uint32_t)(space - item.string.data);
        merges[i] = (ln_bpe_merge){item.string.data, space + 1, left,
                                   (uint32_t)item.string.bytes - left - 1};
    }
    if (status == LINNET_OK)
        status = ln_bpe_init_merges(&r->t->bpe, &r->t->arena, &r->t->vocab, merges, n, true, err);
    free(merges);
    return status;
}

static ln_status find_pre(const reader *r, const struct pre_name **found, ln_error *err) {
    ln_meta_value value;
    *found = &pre_names[0];
    if (!ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.pre", &value) ||
        value.kind != LN_META_STRING || value.string.bytes == 0)
        return LINNET_OK;
    for (size_t i = 0; i < sizeof pre_names / sizeof pre_names[0]; i++) {
        size_t n = strlen(pre_names[i].name);
        if (n == value.string.bytes && memcmp(pre_names[i].name, value.string.data, n) == 0) {
            *found = &pre_names[i];
            return LINNET_OK;
        }
    }
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the pre-tokenizer \"%.*s\" is not supported",
                   value.string.bytes < 60 ? (int)value.string.bytes : 60, value.string.data);
}

static ln_status set_patterns(ln_tokenizer *t, const char *const *patterns, ln_error *err) {
    ln_pretokenizer *pre = &t->pretokenizer;
    pre->steps = ln_arena_alloc(&t->arena, MAX_PATTERNS + 1, sizeof *pre->steps);
    if (pre->steps == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < MAX_PATTERNS && patterns[i] != NULL; i++) {
        ln_split_step *step = &pre->steps[pre->count];
        *step = (ln_split_step){.kind = LN_SPLIT_REGEX, .behavior = LN_SPLIT_ISOLATED};
        LN_TRY(ln_regex_compile(patterns[i], strlen(patterns[i]), &step->regex, err));
        t->heap_bytes += ln_regex_bytes(step->regex);
        pre->count++;
    }
    pre->steps[pre->count++] = (ln_split_step){.kind = LN_SPLIT_BYTE_LEVEL};
    return LINNET_OK;
}

/* A normal token's text is in the byte-level alphabet; that of others stands as it is. */
static ln_status byte_level_text(void *context, size_t id, bool first, ln_strbuf *out,
                                 ln_error *err) {
    const ln_piece *piece = &((const ln_vocab *)context)->pieces[id];
    (void)first;
    (void)err;
    size_t n;
    int byte = piece->flags & LN_TOKEN_BYTE ? ln_byte_piece(piece->data, piece->bytes, false) : -1;
    if (byte >= 0) {
        ln_strbuf_putc(out, (char)byte);
    } else if ((piece->flags & LN_TOKEN_ADDED) || !ln_utf8_check(piece->data, piece->bytes) ||
               !ln_strbuf_reserve(out, piece->bytes)) {
        ln_strbuf_append(out, piece->data, piece->bytes);
    } else if (ln_byte_level_decode(piece->data, piece->bytes, out->data + out->len, &n)) {
        out->len += n;
    } else {
        ln_strbuf_append(out, piece->data, piece->bytes);
    }
    return LINNET_OK;
}

static ln_status read_bpe(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    const struct pre_name *pre;
    LN_TRY(find_pre(r, &pre, err));
    t->model = LN_MODEL_BPE;
    t->bpe.ignore_merges = pre->ignore_merges;
    r->add_bos = pre->add_bos;
    r->bos = r->eos = 11;
    LN_TRY(read_merges(r, err));
    LN_TRY(set_patterns(t, pre->patterns, err));
    t->decoder.lossy = true;
    LN_TRY(ln_decoder_fill(&t->decoder, &t->arena, t->vocab.count, 0, byte_level_text, &t->vocab,
                           err));
    uint8_t *dropped = ln_arena_alloc(&t->arena, t->vocab.count, 1);
    if (dropped == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < t->vocab.count; i++)
        dropped[i] = (t->vocab.pieces[i].flags & LN_TOKEN_SPECIAL) != 0;
    t->decoder.dropped = dropped;
    return LINNET_OK;
}

/* ---- SentencePiece, and its Unigram ------------------------------------------------------ */

static ln_status set_spm_normalizer(reader *r, bool merge_spaces, ln_error *err) {
    ln_tokenizer *t = r->t;
    ln_normalize_step *step = ln_arena_alloc(&t->arena, 1, sizeof *step);
    if (step == NULL)
        return ln_fail_memory(err, "the tokenizer");
    step->kind = LN_NORMALIZE_SENTENCEPIECE;
    step->spm.add_dummy_prefix = r->add_space_prefix;
    step->spm.escape_whitespaces = true;
    step->spm.merge_spaces = merge_spaces;
    step->spm.remove_extra_whitespaces =
        merge_spaces && get_bool(r, "tokenizer.ggml.remove_extra_whitespaces", false);
    t->normalizer = (ln_normalizer){step, 1};
    return LINNET_OK;
}

static ln_status set_spm_decoder(reader *r, ln_error *err) {
    ln_decode_spm options = {.strip_first = r->add_space_prefix};
    return ln_decoder_build_spm(&r->t->decoder, &r->t->arena, &r->t->vocab, &options, err);
}

static ln_status read_spm(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    t->model = LN_MODEL_BPE;
    r->add_bos = true;
    r->bos = 1;
    r->eos = 2;
    LN_TRY(get_id(r, "tokenizer.ggml.unknown_token_id", 0, &t->vocab.unk, err));
    r->add_space_prefix = get_bool(r, "tokenizer.ggml.add_space_prefix", true);
    t->bpe.byte_fallback = true;
    ln_vocab_find_bytes(&t->vocab, t->bpe.byte_ids);
    LN_TRY(ln_bpe_init_scores(&t->bpe, &t->arena, &t->vocab, r->scores, err));
    LN_TRY(set_spm_normalizer(r, false, err));
    return set_spm_decoder(r, err);
}

/* Gemma 4: SentencePiece's texts, with merges in their order instead of scores. */
static ln_status read_spm_merges(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    t->model = LN_MODEL_BPE;
    r->add_bos = true;
    LN_TRY(get_id(r, "tokenizer.ggml.unknown_token_id", -1, &t->vocab.unk, err));
    r->add_space_prefix = get_bool(r, "tokenizer.ggml.add_space_prefix", false);
    t->bpe.byte_fallback = true;
    ln_vocab_find_bytes(&t->vocab, t->bpe.byte_ids);
    LN_TRY(read_merges(r, err));
    LN_TRY(set_spm_normalizer(r, false, err));
    return set_spm_decoder(r, err);
}

/* tokenizer.ggml.precompiled_charsmap, an array of bytes. */
static ln_status read_charsmap(reader *r, ln_charsmap *map, ln_error *err) {
    ln_meta_value value, item;
    if (!ln_checkpoint_meta(r->checkpoint, "tokenizer.ggml.precompiled_charsmap", &value))
        return LINNET_OK;
    size_t n = value.kind == LN_META_ARRAY ? value.array.count : 0;
    unsigned char *bytes = malloc(n + 1);
    if (bytes == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < n; i++)
        bytes[i] = ln_meta_item(&value, i, &item) && item.kind == LN_META_INT
                       ? (unsigned char)(item.integer & 255)
                       : 0;
    ln_status status = ln_charsmap_init(map, &r->t->arena, bytes, n, err);
    free(bytes);
    return status;
}

static ln_status read_unigram(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    t->model = LN_MODEL_UNIGRAM;
    r->add_eos = true;
    r->eos = 1;
    LN_TRY(get_id(r, "tokenizer.ggml.unknown_token_id", 2, &t->vocab.unk, err));
    r->add_space_prefix = get_bool(r, "tokenizer.ggml.add_space_prefix", true);
    double *scores = ln_arena_alloc(&t->arena, t->vocab.count, sizeof *scores);
    if (scores == NULL)
        return ln_fail_memory(err, "the tokenizer");
    for (size_t i = 0; i < t->vocab.count; i++)
        scores[i] = (double)r->scores[i];
    LN_TRY(ln_unigram_init(&t->unigram, &t->arena, &t->vocab, scores, t->vocab.count,
                           LN_UNIGRAM_LLAMA_CPP, err));
    LN_TRY(set_spm_normalizer(r, true, err));
    LN_TRY(read_charsmap(r, &t->normalizer.steps[0].spm.charsmap, err));
    t->raw_bytes = true;
    return set_spm_decoder(r, err);
}

/* ---- WordPiece --------------------------------------------------------------------------- */

/* Words begin with U+2581 in the vocabulary, which a space replaces except at the beginning. */
static ln_status read_wordpiece(reader *r, ln_error *err) {
    static const ln_decode_step steps[] = {
        {.kind = LN_DECODE_METASPACE, .pattern = "\xe2\x96\x81", .pattern_bytes = 3, .flag = true},
        {.kind = LN_DECODE_WORDPIECE, .pattern = "", .flag = true},
    };
    ln_tokenizer *t = r->t;
    t->model = LN_MODEL_WORDPIECE;
    r->add_bos = r->add_sep = true;
    r->bos = 101;
    r->sep = 102;
    LN_TRY(get_id(r, "tokenizer.ggml.unknown_token_id", 100, &t->vocab.unk, err));
    LN_TRY(
        ln_wordpiece_init(&t->wordpiece, &t->arena, &t->vocab, "\xe2\x96\x81", "", SIZE_MAX, err));
    ln_normalize_step *normal = ln_arena_alloc(&t->arena, 1, sizeof *normal);
    ln_split_step *splits = ln_arena_alloc(&t->arena, 2, sizeof *splits);
    uint8_t *dropped = ln_arena_alloc(&t->arena, t->vocab.count, 1);
    if (normal == NULL || splits == NULL || dropped == NULL)
        return ln_fail_memory(err, "the tokenizer");
    bool lowercase = get_bool(r, "tokenizer.ggml.normalizer.lowercase", true);
    normal->kind = LN_NORMALIZE_BERT;
    normal->bert.clean_text = normal->bert.handle_cjk = true;
    normal->bert.lowercase = lowercase;
    normal->bert.strip_accents = get_bool(r, "tokenizer.ggml.normalizer.strip_accents", lowercase);
    t->normalizer = (ln_normalizer){normal, 1};
    splits[0] = (ln_split_step){.kind = LN_SPLIT_SPACE, .behavior = LN_SPLIT_REMOVED};
    splits[1] = (ln_split_step){.kind = LN_SPLIT_PUNCTUATION, .behavior = LN_SPLIT_ISOLATED};
    t->pretokenizer = (ln_pretokenizer){splits, 2};
    for (size_t i = 0; i < t->vocab.count; i++)
        dropped[i] = (t->vocab.pieces[i].flags & LN_TOKEN_SPECIAL) != 0;
    return ln_decoder_build(&t->decoder, &t->arena, steps, 2, t->vocab.pieces, t->vocab.count,
                            dropped, err);
}

/* ---- all --------------------------------------------------------------------------------- */

/* Which special tokens go around the text. */
static ln_status read_special(reader *r, ln_error *err) {
    ln_tokenizer *t = r->t;
    int32_t ids[4];
    size_t n = 0;
    int32_t sep;
    LN_TRY(get_id(r, "tokenizer.ggml.bos_token_id", r->bos, &t->vocab.bos, err));
    LN_TRY(get_id(r, "tokenizer.ggml.eos_token_id", r->eos, &t->vocab.eos, err));
    LN_TRY(get_id(r, "tokenizer.ggml.seperator_token_id", r->sep, &sep, err));
    bool add_bos = get_bool(r, "tokenizer.ggml.add_bos_token", r->add_bos);
    bool add_eos = get_bool(r, "tokenizer.ggml.add_eos_token", r->add_eos);
    bool add_sep = get_bool(r, "tokenizer.ggml.add_sep_token", r->add_sep);
    if (add_bos && t->vocab.bos >= 0)
        ids[n++] = t->vocab.bos;
    ids[n++] = LN_POST_TEXT;
    if (add_sep && t->model == LN_MODEL_WORDPIECE && sep >= 0)
        ids[n++] = sep;
    else if (add_eos && t->vocab.eos >= 0)
        ids[n++] = t->vocab.eos;
    return ln_tokenizer_set_post(t, ids, n, err);
}

static ln_status read_all(reader *r, const ln_meta_value *model, ln_error *err) {
    static const struct {
        const char *name;
        ln_status (*read)(reader *, ln_error *);
    } models[] = {{"gpt2", read_bpe},
                  {"llama", read_spm},
                  {"gemma4", read_spm_merges},
                  {"t5", read_unigram},
                  {"bert", read_wordpiece}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        size_t n = strlen(models[i].name);
        if (model->string.bytes != n || memcmp(model->string.data, models[i].name, n) != 0)
            continue;
        LN_TRY(read_tokens(r, err));
        LN_TRY(models[i].read(r, err));
        LN_TRY(read_added(r, err));
        ln_bpe_note_special(&r->t->bpe);
        return read_special(r, err);
    }
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "the tokenizer model \"%.*s\" is not supported",
                   model->string.bytes < 60 ? (int)model->string.bytes : 60, model->string.data);
}

/* Whether the file says so itself that there is none. */
static bool says_none(const ln_meta_value *model) {
    static const char *const names[] = {"none", "no_vocab"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (model->string.bytes == strlen(names[i]) &&
            memcmp(model->string.data, names[i], model->string.bytes) == 0)
            return true;
    return false;
}

ln_status ln_tokenizer_from_gguf(const ln_checkpoint *checkpoint, ln_tokenizer **tokenizer,
                                 ln_error *err) {
    *tokenizer = NULL;
    ln_meta_value model;
    if (!ln_checkpoint_meta(checkpoint, "tokenizer.ggml.model", &model) ||
        model.kind != LN_META_STRING || says_none(&model))
        return ln_fail(err, LINNET_ERR_STATE, "the checkpoint holds no tokenizer");
    reader r = {.checkpoint = checkpoint, .t = ln_tokenizer_new(), .bos = -1, .eos = -1, .sep = -1};
    ln_status status =
        r.t != NULL ? read_all(&r, &model, err) : ln_fail_memory(err, "the tokenizer");
    free(r.scores);
    if (status == LINNET_OK)
        *tokenizer = r.t;
    else
        ln_tokenizer_close(r.t);
    return status;
}
