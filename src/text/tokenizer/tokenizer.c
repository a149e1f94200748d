/* The front: opening, closing, encoding, and looking things up. */
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/grow.h"
#include "base/utf8.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/tokenizer_state.h"

void ln_ids_free(ln_ids *ids) {
    free(ids->data);
    *ids = (ln_ids){0};
}

ln_status ln_ids_push_slow(ln_ids *ids, int32_t id, ln_error *err) {
    if (!ln_grow((void **)&ids->data, &ids->capacity, ids->count + 1, sizeof id))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu token ids", ids->count + 1);
    ids->data[ids->count++] = id;
    return LINNET_OK;
}

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
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the tokenizer");
    if (n_ids > 0)
        memcpy(copy, ids, n_ids * sizeof *copy);
    tokenizer->post = copy;
    tokenizer->n_post = n_ids;
    return LINNET_OK;
}

/* ---- encoding ---------------------------------------------------------------------------- */

/* The working memory of one call. */
typedef struct encoder {
    const ln_tokenizer *tokenizer;
    bool plain; /* text never becomes a special token */
    const ln_template_span
        *spans; /* [n_spans] with plain: but for text in trusted spans; or NULL */
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

/* Text between added tokens that are looked for as they stand, from byte `offset` of the whole:
 * normalised, then searched for those that are looked for in normalised text. */
static ln_status encode_segment(encoder *e, const char *text, size_t n_bytes, size_t offset) {
    bool at_start = offset == 0;
    const char *normal;
    size_t normal_bytes, at = 0;
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
                                    const ln_template_span *spans, size_t n_spans, ln_ids *ids,
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

/* ---- looking up -------------------------------------------------------------------------- */

size_t ln_tokenizer_vocab_size(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.count;
}

size_t ln_tokenizer_memory_bytes(const ln_tokenizer *tokenizer) {
    return sizeof *tokenizer + tokenizer->arena.reserved_bytes + tokenizer->heap_bytes;
}

const char *ln_tokenizer_kind(const ln_tokenizer *tokenizer) {
    static const char *const names[] = {"bpe", "unigram", "wordpiece", "wordlevel"};
    return names[tokenizer->model];
}

int32_t ln_tokenizer_bos(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.bos;
}

int32_t ln_tokenizer_eos(const ln_tokenizer *tokenizer) {
    return tokenizer->vocab.eos;
}

int32_t ln_tokenizer_find(const ln_tokenizer *tokenizer, const char *piece, size_t n_bytes) {
    uint32_t id;
    if (ln_hashmap_get(&tokenizer->added_map, piece, n_bytes, &id))
        return (int32_t)id;
    return ln_vocab_find(&tokenizer->vocab, piece, n_bytes);
}

const char *ln_tokenizer_piece(const ln_tokenizer *tokenizer, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    if (id < 0 || (size_t)id >= tokenizer->vocab.count)
        return NULL;
    *n_bytes = tokenizer->vocab.pieces[id].bytes;
    return tokenizer->vocab.pieces[id].data;
}

bool ln_tokenizer_is_special(const ln_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (size_t)id < tokenizer->vocab.count &&
           (tokenizer->vocab.pieces[id].flags & LN_TOKEN_SPECIAL) != 0;
}

size_t ln_tokenizer_count_plain(const ln_tokenizer *tokenizer, int32_t id, const char *text,
                                size_t n_bytes) {
    size_t n_piece = 0;
    if (!ln_tokenizer_is_special(tokenizer, id))
        return n_bytes;
    const char *piece = ln_tokenizer_piece(tokenizer, id, &n_piece);
    bool is_whole = piece != NULL && n_piece <= n_bytes &&
                    memcmp(text + n_bytes - n_piece, piece, n_piece) == 0;
    return n_bytes - (is_whole ? n_piece : 0);
}

#define FOUR(b)       (b), (b) + 1, (b) + 2, (b) + 3
#define SIXTEEN(b)    FOUR(b), FOUR((b) + 4), FOUR((b) + 8), FOUR((b) + 12)
#define SIXTY_FOUR(b) SIXTEEN(b), SIXTEEN((b) + 16), SIXTEEN((b) + 32), SIXTEEN((b) + 48)
static const unsigned char all_bytes[256] = {SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128),
                                             SIXTY_FOUR(192)};

/* Whether a text that begins with these bytes loses some of them. */
static bool is_stripped(const ln_decoder *decoder, const char *text, size_t n_bytes) {
    return decoder->strip_start > 0 && n_bytes >= decoder->strip_bytes &&
           memcmp(text, decoder->strip_content, decoder->strip_bytes) == 0;
}

ln_token_text ln_tokenizer_text(const ln_tokenizer *tokenizer, int32_t id) {
    const ln_decoder *decoder = &tokenizer->decoder;
    ln_token_text text = {.is_plain = true};
    if (id < 0 || (size_t)id >= decoder->count || tokenizer->vocab.pieces[id].data == NULL)
        return text;
    if (decoder->dropped[id]) {
        text.is_special = true;
        text.data = tokenizer->vocab.pieces[id].data;
        text.n_bytes = tokenizer->vocab.pieces[id].bytes;
        return text;
    }
    if (decoder->byte != NULL && decoder->byte[id] >= 0) {
        text.data = (const char *)all_bytes + decoder->byte[id];
        text.n_bytes = 1;
        text.is_plain = !is_stripped(decoder, text.data, 1);
        return text;
    }
    const ln_decode_texts *first = &decoder->first, *rest = &decoder->rest;
    text.data = rest->data + rest->begin[id];
    text.n_bytes = rest->begin[id + 1] - rest->begin[id];
    text.is_plain = first->begin[id + 1] - first->begin[id] == text.n_bytes &&
                    memcmp(first->data + first->begin[id], text.data, text.n_bytes) == 0 &&
                    !is_stripped(decoder, text.data, text.n_bytes);
    return text;
}

bool ln_tokenizer_joins(const ln_tokenizer *tokenizer) {
    const ln_decoder *decoder = &tokenizer->decoder;
    return !decoder->ends_with_space && decoder->strip_stop == 0;
}
