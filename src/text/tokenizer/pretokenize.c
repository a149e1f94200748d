#include "text/tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "text/tokenizer/normalize.h"

void ln_pretokenizer_free(ln_pretokenizer *pretokenizer) {
    for (size_t i = 0; i < pretokenizer->count; i++)
        ln_regex_free(pretokenizer->steps[i].regex);
    pretokenizer->count = 0;
}

void ln_words_free(ln_words *words) {
    free(words->spans.data);
    free(words->spare.data);
    free(words->matches.data);
    ln_strbuf_free(&words->buffers[0]);
    ln_strbuf_free(&words->buffers[1]);
    *words = (ln_words){0};
}

static bool push(ln_spans *spans, size_t begin, size_t end) {
    if (spans->count == spans->capacity &&
        !ln_grow((void **)&spans->data, &spans->capacity, spans->count + 1, sizeof *spans->data))
        return false;
    spans->data[spans->count++] = (ln_span){(uint32_t)begin, (uint32_t)end};
    return true;
}

/* ---- matches ----------------------------------------------------------------------------- */

/* Matches of a pattern in one word: the delimiters, with what lies between them left out. */
static ln_status match_regex(const ln_split_step *step, ln_regex_work *work, ln_spans *matches,
                             const char *text, size_t n_bytes, ln_error *err) {
    ln_regex_walk walk = {0};
    for (;;) {
        size_t begin, end;
        bool found;
        LN_TRY(ln_regex_next(step->regex, work, &walk, text, n_bytes, &begin, &end, &found, err));
        if (!found)
            return LINNET_OK;
        if (!push(matches, begin, end))
            return ln_fail_memory(err, "tokens");
    }
}

static bool match_literal(const ln_split_step *step, ln_spans *matches, const char *text,
                          size_t n_bytes) {
    size_t at = 0;
    while (step->text_bytes > 0) {
        const char *hit = ln_find_text(text + at, n_bytes - at, step->text, step->text_bytes);
        if (hit == NULL)
            break;
        at = (size_t)(hit - text) + step->text_bytes;
        if (!push(matches, (size_t)(hit - text), at))
            return false;
    }
    return true;
}

static bool match_each(bool (*matches_char)(uint32_t), ln_spans *matches, const char *text,
                       size_t n_bytes) {
    for (size_t at = 0, length; at < n_bytes; at += length)
        if (matches_char(ln_utf8_decode(text + at, &length)) && !push(matches, at, at + length))
            return false;
    return true;
}

static int word_class(uint32_t c) {
    return ln_is_word(c) ? 1 : ln_is_space(c) ? 0 : 2;
}

/* Runs of one class of word characters, white space left out. */
static bool match_words(ln_spans *matches, const char *text, size_t n_bytes) {
    size_t length;
    for (size_t at = 0; at < n_bytes;) {
        size_t begin = at;
        int kind = word_class(ln_utf8_decode(text + at, &length));
        for (at += length; at < n_bytes; at += length)
            if (word_class(ln_utf8_decode(text + at, &length)) != kind)
                break;
        if (kind != 0 && !push(matches, begin, at))
            return false;
    }
    return true;
}

static ln_status find_matches(const ln_split_step *step, ln_regex_work *work, ln_spans *matches,
                              const char *text, size_t n_bytes, ln_error *err) {
    bool ok = true;
    matches->count = 0;
    switch (step->kind) {
    case LN_SPLIT_REGEX: return match_regex(step, work, matches, text, n_bytes, err);
    case LN_SPLIT_LITERAL: ok = match_literal(step, matches, text, n_bytes); break;
    case LN_SPLIT_SPACE: ok = match_each(ln_is_space, matches, text, n_bytes); break;
    case LN_SPLIT_PUNCTUATION: ok = match_each(ln_is_punctuation, matches, text, n_bytes); break;
    case LN_SPLIT_DIGIT: ok = match_each(ln_is_numeric, matches, text, n_bytes); break;
    default: ok = match_words(matches, text, n_bytes); break;
    }
    return ok ? LINNET_OK : ln_fail_memory(err, "tokens");
}

/* ---- cutting at the matches -------------------------------------------------------------- */

/* Receives the spans of a word in order, delimiters and the rest, and makes words of them as
 * the behaviour says. MERGED_WITH_NEXT holds a delimiter back until the next span. */
typedef struct cutter {
    ln_spans *out;
    ln_split_behavior behavior;
    size_t base, first; /* where the word begins; spans of `out` that are not this word's */
    bool previous;      /* the last span was a delimiter */
    bool failed;
} cutter;

static void put(cutter *c, size_t begin, size_t end) {
    if (!push(c->out, c->base + begin, c->base + end))
        c->failed = true;
}

static void extend(cutter *c, size_t begin, size_t end) {
    if (c->out->count > c->first)
        c->out->data[c->out->count - 1].end = (uint32_t)(c->base + end);
    else
        put(c, begin, end);
}

static void add_span(cutter *c, size_t begin, size_t end, bool delimiter) {
    switch (c->behavior) {
    case LN_SPLIT_REMOVED:
        if (!delimiter)
            put(c, begin, end);
        break;
    case LN_SPLIT_ISOLATED: put(c, begin, end); break;
    case LN_SPLIT_CONTIGUOUS:
        if (delimiter == c->previous)
            extend(c, begin, end);
        else
            put(c, begin, end);
        break;
    case LN_SPLIT_MERGED_WITH_PREVIOUS:
        if (delimiter && !c->previous)
            extend(c, begin, end);
        else
            put(c, begin, end);
        break;
    case LN_SPLIT_MERGED_WITH_NEXT: /* a delimiter joins the rest that follows it at once */
        if (!delimiter && c->previous)
            extend(c, begin, end);
        else
            put(c, begin, end);
        break;
    }
    c->previous = delimiter;
}

static void cut(cutter *c, const ln_spans *matches, bool invert, size_t n_bytes) {
    size_t at = 0;
    for (size_t i = 0; i < matches->count; i++) {
        ln_span match = matches->data[i];
        if (match.begin > at)
            add_span(c, at, match.begin, invert);
        add_span(c, match.begin, match.end, !invert);
        at = match.end;
    }
    if (at < n_bytes)
        add_span(c, at, n_bytes, invert);
}

static void drop_empty(ln_spans *spans, size_t from) {
    size_t kept = from;
    for (size_t i = from; i < spans->count; i++)
        if (spans->data[i].end > spans->data[i].begin)
            spans->data[kept++] = spans->data[i];
    spans->count = kept;
}

static ln_status split_step(const ln_split_step *step, ln_regex_work *work, ln_words *words,
                            ln_error *err) {
    uint32_t start = words->spans.count > 0 ? words->spans.data[0].begin : 0;
    for (size_t i = 0; i < words->spans.count; i++) {
        ln_span span = words->spans.data[i];
        size_t n_bytes = span.end - span.begin;
        LN_TRY(find_matches(step, work, &words->matches, words->text + span.begin, n_bytes, err));
        cutter c = {&words->spare, step->behavior, span.begin, words->spare.count, false, false};
        cut(&c, &words->matches, step->invert, n_bytes);
        if (c.failed)
            return ln_fail_memory(err, "tokens");
        drop_empty(&words->spare, c.first);
    }
    if (words->spare.count > 0 && words->spare.data[0].begin != start)
        words->at_start = false;
    return LINNET_OK;
}

static ln_status fixed_step(const ln_split_step *step, ln_words *words, ln_error *err) {
    for (size_t i = 0; i < words->spans.count; i++) {
        ln_span span = words->spans.data[i];
        for (size_t at = span.begin; at < span.end;) {
            size_t begin = at;
            for (size_t n = 0; n < step->length && at < span.end; n++)
                at += ln_utf8_length((unsigned char)words->text[at]);
            if (!push(&words->spare, begin, at))
                return ln_fail_memory(err, "tokens");
        }
    }
    return LINNET_OK;
}

/* ---- steps that rewrite the text --------------------------------------------------------- */

static bool starts_with(const char *text, size_t n_bytes, const char *prefix, size_t prefix_bytes) {
    return n_bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

/* Appends the word with its spaces replaced; a cut before each replacement, so that a run of them
 * gives one word each, the last with the text that follows. */
static bool put_metaspace(const ln_split_step *step, ln_words *words, ln_strbuf *to, ln_span span,
                          bool first) {
    const char *text = words->text + span.begin;
    size_t n_bytes = span.end - span.begin, begin = to->len;
    bool prepend =
        step->prepend == LN_PREPEND_ALWAYS || (step->prepend == LN_PREPEND_FIRST && first);
    if (prepend && text[0] != ' ' && !starts_with(text, n_bytes, step->text, step->text_bytes))
        ln_strbuf_append(to, step->text, step->text_bytes);
    for (size_t at = 0; at < n_bytes;) {
        const char *space = memchr(text + at, ' ', n_bytes - at);
        size_t end = space != NULL ? (size_t)(space - text) : n_bytes;
        ln_strbuf_append(to, text + at, end - at);
        if (space != NULL)
            ln_strbuf_append(to, step->text, step->text_bytes);
        at = end + (space != NULL);
    }
    if (to->failed)
        return false;
    if (!step->split)
        return push(&words->spare, begin, to->len);
    for (size_t at = begin; at < to->len;) {
        const char *next = to->data + at;
        bool cuts = starts_with(next, to->len - at, step->text, step->text_bytes);
        size_t from = at + (cuts ? step->text_bytes : 0);
        const char *hit =
            ln_find_text(to->data + from, to->len - from, step->text, step->text_bytes);
        size_t end = hit != NULL ? (size_t)(hit - to->data) : to->len;
        if (!push(&words->spare, at, end))
            return false;
        at = end;
    }
    return true;
}

static ln_status rewrite_step(const ln_split_step *step, ln_words *words, ln_error *err) {
    ln_strbuf *to = &words->buffers[!words->used_buffer];
    ln_strbuf_clear(to);
    for (size_t i = 0; i < words->spans.count; i++) {
        ln_span span = words->spans.data[i];
        const char *text = words->text + span.begin;
        size_t begin = to->len, n_bytes = span.end - span.begin;
        bool ok = true;
        if (step->kind == LN_SPLIT_METASPACE) {
            ok = put_metaspace(step, words, to, span, i == 0 && words->at_start);
        } else {
            if (step->kind == LN_SPLIT_BYTE_LEVEL) {
                ln_byte_level_encode(to, text, n_bytes);
            } else {
                if (text[0] != ' ')
                    ln_strbuf_putc(to, ' ');
                ln_strbuf_append(to, text, n_bytes);
            }
            ok = push(&words->spare, begin, to->len);
        }
        if (to->is_full)
            return ln_fail(err, LINNET_ERR_LIMIT,
                           "the tokenizer's pre-tokenizers make over %zu bytes", to->limit);
        if (!ok || to->failed)
            return ln_fail_memory(err, "tokens");
        if (to->len > INT32_MAX)
            return ln_fail(err, LINNET_ERR_LIMIT, "the text is too long to tokenise");
    }
    words->used_buffer = !words->used_buffer;
    words->text = to->data != NULL ? to->data : "";
    return LINNET_OK;
}

ln_status ln_pretokenize(const ln_pretokenizer *pretokenizer, ln_regex_work *work, ln_words *words,
                         const char *text, size_t n_bytes, bool at_start, ln_error *err) {
    words->text = text;
    words->at_start = at_start;
    words->buffers[0].limit = words->buffers[1].limit = ln_text_limit(n_bytes);
    words->spans.count = 0;
    if (n_bytes > 0 && !push(&words->spans, 0, n_bytes))
        return ln_fail_memory(err, "tokens");
    for (size_t i = 0; i < pretokenizer->count && words->spans.count > 0; i++) {
        const ln_split_step *step = &pretokenizer->steps[i];
        words->spare.count = 0;
        switch (step->kind) {
        case LN_SPLIT_METASPACE:
        case LN_SPLIT_PREFIX_SPACE:
        case LN_SPLIT_BYTE_LEVEL: LN_TRY(rewrite_step(step, words, err)); break;
        case LN_SPLIT_FIXED: LN_TRY(fixed_step(step, words, err)); break;
        default: LN_TRY(split_step(step, work, words, err)); break;
        }
        ln_spans swap = words->spans;
        words->spans = words->spare;
        words->spare = swap;
    }
    return LINNET_OK;
}
