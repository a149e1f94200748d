/* Text to ids: added tokens are cut out, what lies between them is normalised, split into words,
 * and encoded by the model. */
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_state.h"

/* The working memory of one call. */
typedef struct encoder {
    const ln_tokenizer *tokenizer;
    bool plain;                 /* text never becomes a special token */
    const ln_jinja_span *spans; /* [n_spans] with plain: but for text in trusted spans; or NULL */
    size_t n_spans;
    ln_ids *ids;
    ln_error *err;
    ln_regex_work regex;
    ln_strbuf normal[2];
    ln_words words;
    ln_added_hits raw_hits, normalized_hits;
    ln_bpe_work *bpe;
    ln_unigram_work unigram;
} encoder;

static ln_status encode_word(encoder *e, const char *word, size_t n_bytes) {
    const ln_tokenizer *t = e->tokenizer;
    switch (t->model) {
    case LN_MODEL_BPE:
        return ln_bpe_encode(&t->bpe, &e->bpe, word, n_bytes, e->plain, e->ids, e->err);
    case LN_MODEL_UNIGRAM:
        return ln_unigram_encode(&t->unigram, &e->unigram, word, n_bytes, e->plain, e->ids, e->err);
    case LN_MODEL_WORDPIECE:
        return ln_wordpiece_encode(&t->wordpiece, word, n_bytes, e->plain, e->ids, e->err);
    case LN_MODEL_WORDLEVEL: break;
    }
    return ln_wordlevel_encode(&t->vocab, word, n_bytes, e->plain, e->ids, e->err);
}

/* Normalised text without added tokens. */
static ln_status encode_words(encoder *e, const char *text, size_t n_bytes, bool at_start) {
    LN_TRY(ln_pretokenize(&e->tokenizer->pretokenizer, &e->regex, &e->words, text, n_bytes,
                          at_start, e->err));
    for (size_t i = 0; i < e->words.spans.count; i++) {
        ln_span span = e->words.spans.data[i];
        LN_TRY(encode_word(e, e->words.text + span.begin, span.end - span.begin));
    }
    return LINNET_OK;
}

/* Whether [begin, end) of the whole text lies in trusted spans. */
static bool is_trusted(const encoder *e, size_t begin, size_t end) {
    size_t low = 0, high = e->n_spans; /* the first span that ends behind `begin` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->spans[middle].end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < e->n_spans && e->spans[low].begin < end; low++)
        if (!e->spans[low].trusted)
            return false;
    return true;
}

/* Drops special tokens that were found outside the trusted spans. text[0] is byte `offset` of the
 * whole text. */
static void drop_untrusted(const encoder *e, const char *text, size_t offset, ln_added_hits *hits) {
    size_t kept = 0;
    for (size_t i = 0; i < hits->count; i++) {
        ln_added_hit hit = hits->data[i];
        const ln_added_token *token = hit.token;
        size_t begin = hit.begin; /* of the pattern, behind white space that was stripped */
        while (begin + token->pattern_bytes < hit.end &&
               memcmp(text + begin, token->pattern, token->pattern_bytes) != 0)
            begin++;
        begin += offset;
        if (!token->special || is_trusted(e, begin, begin + token->pattern_bytes))
            hits->data[kept++] = hit;
    }
    hits->count = kept;
}

static void drop_special(ln_added_hits *hits) {
    size_t kept = 0;
    for (size_t i = 0; i < hits->count; i++)
        if (!hits->data[i].token->special)
            hits->data[kept++] = hits->data[i];
    hits->count = kept;
}

/* Marian: a language code in front of a text, >>fra<<, is a token that source.spm does not see. */
static ln_status encode_language(encoder *e, const char *text, size_t n_bytes, size_t *n_code) {
    const ln_vocab *numbering = e->tokenizer->unigram.numbering;
    const char *end = NULL;
    *n_code = 0;
    if (numbering != NULL && n_bytes >= 4 && memcmp(text, ">>", 2) == 0)
        end = ln_find_text(text, n_bytes, "<<", 2);
    if (end == NULL)
        return LINNET_OK;
    *n_code = (size_t)(end - text) + 2;
    int32_t id = ln_vocab_find(numbering, text, *n_code);
    return ln_ids_push(e->ids, id >= 0 ? id : numbering->unk, e->err);
}

/* Text between added tokens that are looked for as they stand, from byte `offset` of the whole:
 * normalised, then searched for those that are looked for in normalised text. */
static ln_status encode_segment(encoder *e, const char *text, size_t n_bytes, size_t offset) {
    const char *normal;
    size_t normal_bytes, n_code, at = 0;
    LN_TRY(encode_language(e, text, n_bytes, &n_code));
    if (n_code > 0 && n_code == n_bytes)
        return LINNET_OK;
    text += n_code;
    n_bytes -= n_code;
    offset += n_code;
    bool at_start = offset == 0;
    LN_TRY(ln_normalize(&e->tokenizer->normalizer, &e->regex, e->normal, text, n_bytes, &normal,
                        &normal_bytes, &at_start, e->err));
    if (normal_bytes > INT32_MAX)
        return ln_fail(e->err, LINNET_ERR_LIMIT, "the text is too long to tokenise");
    LN_TRY(ln_added_find(&e->tokenizer->added, true, e->plain && e->spans == NULL, normal,
                         normal_bytes, &e->normalized_hits, e->err));
    if (e->spans != NULL && normal == text)
        drop_untrusted(e, normal, offset, &e->normalized_hits);
    else if (e->spans != NULL && !is_trusted(e, offset, offset + n_bytes))
        drop_special(&e->normalized_hits); /* where they came from cannot be told */
    for (size_t i = 0; i < e->normalized_hits.count; i++) {
        ln_added_hit hit = e->normalized_hits.data[i];
        if (hit.begin > at)
            LN_TRY(encode_words(e, normal + at, hit.begin - at, at_start && at == 0));
        LN_TRY(ln_ids_push(e->ids, hit.token->id, e->err));
        at = hit.end;
    }
    if (at < normal_bytes)
        LN_TRY(encode_words(e, normal + at, normal_bytes - at, at_start && at == 0));
    return LINNET_OK;
}

static ln_status encode_text(encoder *e, const char *text, size_t n_bytes) {
    size_t at = 0;
    LN_TRY(ln_added_find(&e->tokenizer->added, false, e->plain && e->spans == NULL, text, n_bytes,
                         &e->raw_hits, e->err));
    if (e->spans != NULL)
        drop_untrusted(e, text, 0, &e->raw_hits);
    for (size_t i = 0; i < e->raw_hits.count; i++) {
        ln_added_hit hit = e->raw_hits.data[i];
        if (hit.begin > at)
            LN_TRY(encode_segment(e, text + at, hit.begin - at, at));
        LN_TRY(ln_ids_push(e->ids, hit.token->id, e->err));
        at = hit.end;
    }
    return at < n_bytes ? encode_segment(e, text + at, n_bytes - at, at) : LINNET_OK;
}

/* The text with what the post-processor puts around it. */
static ln_status encode_all(encoder *e, const char *text, size_t n_bytes, bool add_special) {
    const ln_tokenizer *t = e->tokenizer;
    if (!add_special || t->n_post == 0)
        return encode_text(e, text, n_bytes);
    for (size_t i = 0; i < t->n_post; i++) {
        if (t->post[i] == LN_POST_TEXT)
            LN_TRY(encode_text(e, text, n_bytes));
        else
            LN_TRY(ln_ids_push(e->ids, t->post[i], e->err));
    }
    return LINNET_OK;
}

static ln_status encode_and_free(encoder *e, const char *text, size_t n_bytes, bool add_special) {
    size_t before = e->ids->count, expected = n_bytes / 4; /* a token is about four bytes */
    (void)ln_grow((void **)&e->ids->data, &e->ids->capacity, before + expected,
                  sizeof e->ids->data[0]);
    ln_status status = encode_all(e, text, n_bytes, add_special);
    if (status != LINNET_OK)
        e->ids->count = before;
    ln_regex_work_free(&e->regex);
    ln_strbuf_free(&e->normal[0]);
    ln_strbuf_free(&e->normal[1]);
    ln_words_free(&e->words);
    ln_added_hits_free(&e->raw_hits);
    ln_added_hits_free(&e->normalized_hits);
    ln_bpe_work_free(e->bpe);
    ln_unigram_work_free(&e->unigram);
    return status;
}

static ln_status check_length(size_t n_bytes, ln_error *err) {
    if (n_bytes <= INT32_MAX)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_LIMIT, "a text of %zu bytes is too long to tokenise", n_bytes);
}

ln_status ln_tokenizer_encode(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                              unsigned flags, ln_ids *ids, ln_error *err) {
    LN_TRY(check_length(n_bytes, err));
    encoder e = {.tokenizer = tokenizer,
                 .plain = !(flags & LN_ENCODE_PARSE_SPECIAL),
                 .ids = ids,
                 .err = err};
    ln_strbuf repaired;
    ln_strbuf_init(&repaired);
    ln_status status = LINNET_OK;
    if (n_bytes > 0 && !tokenizer->raw_bytes && !ln_utf8_check(text, n_bytes)) {
        if (!ln_utf8_repair(&repaired, text, n_bytes) || repaired.len > INT32_MAX)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory while repairing UTF-8");
        text = repaired.data;
        n_bytes = repaired.len;
    }
    if (status == LINNET_OK)
        status = encode_and_free(&e, text, n_bytes, (flags & LN_ENCODE_ADD_SPECIAL) != 0);
    ln_strbuf_free(&repaired);
    return status;
}

ln_status ln_tokenizer_encode_spans(const ln_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                    const ln_jinja_span *spans, size_t n_spans, ln_ids *ids,
                                    ln_error *err) {
    LN_TRY(check_length(n_bytes, err));
    if (n_bytes > 0 && !ln_utf8_check(text, n_bytes)) /* a repair would move the spans */
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the rendered text is not UTF-8");
    encoder e = {.tokenizer = tokenizer,
                 .plain = true,
                 .spans = spans,
                 .n_spans = n_spans,
                 .ids = ids,
                 .err = err};
    return encode_and_free(&e, text, n_bytes, false);
}

/* ---- pairs ------------------------------------------------------------------------------- */

static size_t count_special(const int32_t *post, size_t n_post) {
    size_t n = 0;
    for (size_t i = 0; i < n_post; i++)
        n += post[i] >= 0;
    return n;
}

/* How many ids of two texts, of n[0] and n[1], stay where there is room for so many: the longer one
 * is cut down to the other, then both, as the tokenizers library cuts "longest first". */
static void cut_longer(size_t n[2], size_t room) {
    size_t shorter = n[0] > n[1] ? 1 : 0;
    if (n[0] + n[1] <= room)
        return;
    if (2 * n[shorter] > room) {
        n[shorter] = room / 2;
        n[1 - shorter] = room - room / 2;
        return;
    }
    n[1 - shorter] = room - n[shorter];
}

static ln_status push_all(ln_ids *ids, const int32_t *from, size_t n, ln_error *err) {
    for (size_t i = 0; i < n; i++)
        LN_TRY(ln_ids_push(ids, from[i], err));
    return LINNET_OK;
}

ln_status ln_tokenizer_encode_pair(const ln_tokenizer *tokenizer, const char *first,
                                   size_t first_bytes, const char *second, size_t second_bytes,
                                   size_t max_tokens, ln_ids *ids, size_t *n_first, ln_error *err) {
    static const int32_t bare[] = {LN_POST_TEXT, LN_POST_SECOND};
    const int32_t *post = second != NULL ? tokenizer->pair : tokenizer->post;
    size_t n_post = second != NULL ? tokenizer->n_pair : tokenizer->n_post;
    ln_ids texts[2] = {{0}, {0}};
    *n_first = 0;
    if (post == NULL) {
        post = bare;
        n_post = second != NULL ? 2 : 1;
    }
    ln_status status = ln_tokenizer_encode(tokenizer, first, first_bytes, 0, &texts[0], err);
    if (status == LINNET_OK && second != NULL)
        status = ln_tokenizer_encode(tokenizer, second, second_bytes, 0, &texts[1], err);
    size_t n_special = count_special(post, n_post), n[2] = {texts[0].count, texts[1].count};
    if (max_tokens > 0 && second == NULL && n[0] + n_special > max_tokens)
        n[0] = max_tokens > n_special ? max_tokens - n_special : 0;
    else if (max_tokens > 0 && second != NULL)
        cut_longer(n, max_tokens > n_special ? max_tokens - n_special : 0);
    for (size_t i = 0; status == LINNET_OK && i < n_post; i++) {
        if (post[i] == LN_POST_SECOND)
            *n_first = ids->count;
        if (post[i] >= 0)
            status = ln_ids_push(ids, post[i], err);
        else
            status = push_all(ids, texts[-1 - post[i]].data, n[-1 - post[i]], err);
    }
    ln_ids_free(&texts[0]);
    ln_ids_free(&texts[1]);
    return status;
}
