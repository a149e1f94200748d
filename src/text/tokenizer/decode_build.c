/* Working out, for each token, the text that the decoders make of it. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/decode.h"
#include "text/tokenizer/normalize.h"

/* Pieces of a hostile file may be no UTF-8: what a stream writes is, unless it is repaired later.
 */
static bool repair_from(ln_strbuf *blob, size_t before) {
    if (blob->len == before || ln_utf8_check(blob->data + before, blob->len - before))
        return true;
    ln_strbuf repaired;
    ln_strbuf_init(&repaired);
    ln_utf8_repair(&repaired, blob->data + before, blob->len - before);
    blob->len = before;
    bool ok = !repaired.failed && ln_strbuf_append(blob, repaired.data, repaired.len);
    ln_strbuf_free(&repaired);
    return ok;
}

static ln_status fill_texts(ln_decoder *decoder, ln_decode_texts *texts, ln_arena *arena,
                            ln_decode_text_fn text, void *context, ln_strbuf *blob, ln_error *err) {
    bool first = texts == &decoder->first, marked = decoder->lossy || decoder->ends_with_space;
    uint32_t *begin = ln_arena_alloc(arena, decoder->count + 1, sizeof *begin);
    if (begin == NULL)
        return ln_fail_memory(err, "the tokenizer's decoder");
    ln_strbuf_clear(blob);
    for (size_t id = 0; id < decoder->count; id++) {
        size_t before = blob->len;
        LN_TRY(text(context, id, first, blob, err));
        if (blob->is_full)
            return ln_fail(err, LINNET_ERR_LIMIT,
                           "the tokenizer's decoders make over %zu bytes of its vocabulary",
                           blob->limit);
        if (blob->failed || (!marked && !repair_from(blob, before)))
            return ln_fail_memory(err, "the tokenizer's decoder");
        if (blob->len > UINT32_MAX)
            return ln_fail(err, LINNET_ERR_LIMIT, "the vocabulary has over 4 GiB of text");
        begin[id + 1] = (uint32_t)blob->len;
        if (blob->len - before > decoder->longest_bytes)
            decoder->longest_bytes = blob->len - before;
    }
    texts->begin = begin;
    texts->data = ln_arena_copy(arena, blob->data ? blob->data : "", blob->len);
    return texts->data != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer's decoder");
}

ln_status ln_decoder_fill(ln_decoder *decoder, ln_arena *arena, size_t count, size_t max_bytes,
                          ln_decode_text_fn text, void *context, ln_error *err) {
    ln_strbuf blob = {.limit = max_bytes};
    decoder->count = count;
    ln_status status = fill_texts(decoder, &decoder->rest, arena, text, context, &blob, err);
    if (status == LINNET_OK)
        status = fill_texts(decoder, &decoder->first, arena, text, context, &blob, err);
    ln_strbuf_free(&blob);
    return status;
}

/* ---- Hugging Face ------------------------------------------------------------------------ */

typedef struct chain {
    const ln_decode_step *steps;
    size_t n_steps, n_each; /* steps[0 .. n_each - 1] run token by token */
    size_t fallback;        /* the index of ByteFallback, or n_steps */
    size_t joined;          /* the first step that sees the whole text, or n_steps */
    const ln_piece *names;
    ln_strbuf buffers[2];
    ln_regex_work work;
} chain;

/* Replaces every occurrence of `from` in place; the result is in *buf, *spare is scratch. */
static void replace_all(ln_strbuf *buf, ln_strbuf *spare, const char *from, size_t from_bytes,
                        const char *to, size_t to_bytes) {
    size_t at = 0;
    ln_strbuf_clear(spare);
    while (from_bytes > 0 && buf->len > 0) {
        const char *hit = ln_find_text(buf->data + at, buf->len - at, from, from_bytes);
        if (hit == NULL)
            break;
        size_t begin = (size_t)(hit - buf->data);
        ln_strbuf_append(spare, buf->data + at, begin - at);
        ln_strbuf_append(spare, to, to_bytes);
        at = begin + from_bytes;
    }
    if (at == 0)
        return;
    ln_strbuf_append(spare, buf->data + at, buf->len - at);
    ln_strbuf swap = *buf;
    *buf = *spare;
    *spare = swap;
}

static void replace_text(ln_strbuf *buf, ln_strbuf *spare, const char *from, const char *to) {
    replace_all(buf, spare, from, strlen(from), to, strlen(to));
}

static ln_status replace_regex(const ln_decode_step *step, ln_regex_work *work, ln_strbuf *buf,
                               ln_strbuf *spare, ln_error *err) {
    ln_regex_walk walk = {0};
    size_t at = 0;
    ln_strbuf_clear(spare);
    while (buf->len > 0) {
        size_t begin, end;
        bool found;
        LN_TRY(ln_regex_next(step->regex, work, &walk, buf->data, buf->len, &begin, &end, &found,
                             err));
        if (!found)
            break;
        ln_strbuf_append(spare, buf->data + at, begin - at);
        ln_strbuf_append(spare, step->content, step->content_bytes);
        at = end;
    }
    ln_strbuf_append(spare, buf->data ? buf->data + at : "", buf->len - at);
    ln_strbuf swap = *buf;
    *buf = *spare;
    *spare = swap;
    return LINNET_OK;
}

static void clean_up(ln_strbuf *buf, ln_strbuf *spare) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        replace_text(buf, spare, pairs[i][0], pairs[i][1]);
}

static void wordpiece(const ln_decode_step *step, bool first, ln_strbuf *buf, ln_strbuf *spare) {
    if (!first) {
        bool continues = buf->len >= step->pattern_bytes && step->pattern_bytes > 0 &&
                         memcmp(buf->data, step->pattern, step->pattern_bytes) == 0;
        size_t cut = continues ? step->pattern_bytes : 0;
        ln_strbuf_clear(spare);
        if (!continues && step->pattern_bytes > 0)
            ln_strbuf_putc(spare, ' ');
        ln_strbuf_append(spare, buf->data ? buf->data + cut : "", buf->len - cut);
        ln_strbuf swap = *buf;
        *buf = *spare;
        *spare = swap;
    }
    if (step->flag)
        clean_up(buf, spare);
}

static void strip(const ln_decode_step *step, ln_strbuf *buf, ln_strbuf *spare) {
    size_t begin = 0, end = buf->len, n = step->pattern_bytes;
    for (uint32_t i = 0; i < step->start && begin + n <= end; i++, begin += n)
        if (memcmp(buf->data + begin, step->pattern, n) != 0)
            break;
    for (uint32_t i = 0; i < step->stop && end - begin >= n; i++, end -= n)
        if (memcmp(buf->data + end - n, step->pattern, n) != 0)
            break;
    ln_strbuf_clear(spare);
    ln_strbuf_append(spare, buf->data ? buf->data + begin : "", end - begin);
    ln_strbuf swap = *buf;
    *buf = *spare;
    *spare = swap;
}

static void byte_level(ln_strbuf *buf, ln_strbuf *spare) {
    size_t n;
    ln_strbuf_clear(spare);
    if (buf->len == 0 || !ln_strbuf_reserve(spare, buf->len))
        return;
    if (ln_byte_level_decode(buf->data, buf->len, spare->data, &n)) {
        spare->len = n;
        ln_strbuf swap = *buf;
        *buf = *spare;
        *spare = swap;
    }
}

/* Suffixes become spaces; those at the token's end are marked, since the last token has none. */
static void end_of_word(const ln_decode_step *step, ln_strbuf *buf, ln_strbuf *spare) {
    size_t n_spaces = 0, n = step->pattern_bytes;
    while (n > 0 && buf->len >= n && memcmp(buf->data + buf->len - n, step->pattern, n) == 0) {
        buf->len -= n;
        n_spaces++;
    }
    replace_all(buf, spare, step->pattern, n, " ", 1);
    while (n_spaces-- > 0)
        ln_strbuf_putc(buf, LN_DECODE_WAITING_SPACE);
}

static ln_status run_step(const ln_decode_step *step, chain *c, bool first, ln_strbuf *buf,
                          ln_strbuf *spare, ln_error *err) {
    switch (step->kind) {
    case LN_DECODE_BYTE_LEVEL: byte_level(buf, spare); break;
    case LN_DECODE_REPLACE:
        if (step->regex != NULL)
            return replace_regex(step, &c->work, buf, spare, err);
        replace_all(buf, spare, step->pattern, step->pattern_bytes, step->content,
                    step->content_bytes);
        break;
    case LN_DECODE_STRIP: strip(step, buf, spare); break;
    case LN_DECODE_METASPACE:
        replace_text(buf, spare, step->pattern, first && step->flag ? "" : " ");
        break;
    case LN_DECODE_WORDPIECE: wordpiece(step, first, buf, spare); break;
    case LN_DECODE_BPE: end_of_word(step, buf, spare); break;
    case LN_DECODE_JOIN:
        if (!first) {
            ln_strbuf_clear(spare);
            ln_strbuf_putc(spare, ' ');
            ln_strbuf_append(spare, buf->data ? buf->data : "", buf->len);
            ln_strbuf swap = *buf;
            *buf = *spare;
            *spare = swap;
        }
        break;
    case LN_DECODE_BYTE_FALLBACK:
    case LN_DECODE_FUSE: break;
    }
    return LINNET_OK;
}

/* The text of a token before step n, starting from its name. */
static ln_status run_steps(chain *c, size_t id, bool first, size_t n, ln_error *err) {
    ln_strbuf *buf = &c->buffers[0];
    ln_strbuf_clear(buf);
    buf->limit = c->buffers[1].limit = ln_text_limit(c->names[id].bytes);
    ln_strbuf_append(buf, c->names[id].data, c->names[id].bytes);
    for (size_t i = 0; i < n; i++) /* the whole text is the first and only token of a joined step */
        LN_TRY(run_step(&c->steps[i], c, first || i >= c->joined, buf, &c->buffers[1], err));
    if (buf->is_full || c->buffers[1].is_full)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "the tokenizer's decoders make over %zu bytes of token %zu", buf->limit, id);
    return buf->failed || c->buffers[1].failed ? ln_fail_memory(err, "the tokenizer's decoder")
                                               : LINNET_OK;
}

static ln_status chain_text(void *context, size_t id, bool first, ln_strbuf *out, ln_error *err) {
    chain *c = context;
    if (c->names[id].data == NULL)
        return LINNET_OK;
    LN_TRY(run_steps(c, id, first, c->n_each, err));
    ln_strbuf_append(out, c->buffers[0].data ? c->buffers[0].data : "", c->buffers[0].len);
    return LINNET_OK;
}

/* One code point: such a pattern cannot straddle tokens. */
static bool is_one_character(const ln_decode_step *step) {
    return step->regex == NULL && step->pattern_bytes > 0 &&
           ln_utf8_valid(step->pattern, step->pattern_bytes) == step->pattern_bytes;
}

/* A step after ByteFallback also sees what the bytes spelled. */
static ln_status add_after_bytes(ln_decoder *decoder, ln_arena *arena, const ln_decode_step *step,
                                 ln_error *err) {
    enum { MOST = sizeof decoder->after_bytes / sizeof decoder->after_bytes[0] };
    if (decoder->n_after_bytes == MOST)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "over %d decoders after ByteFallback are not supported", MOST);
    ln_decode_char *after = &decoder->after_bytes[decoder->n_after_bytes++];
    memcpy(after->from, step->pattern, step->pattern_bytes);
    after->from_bytes = (uint8_t)step->pattern_bytes;
    after->to = after->to_first = " ";
    if (step->kind == LN_DECODE_METASPACE && step->flag)
        after->to_first = "";
    if (step->kind == LN_DECODE_REPLACE)
        after->to = after->to_first = ln_arena_copy(arena, step->content, step->content_bytes);
    return after->to != NULL ? LINNET_OK : ln_fail_memory(err, "the tokenizer's decoder");
}

/* Which steps run token by token. Once the tokens are one text (Fuse, ByteLevel), only steps that
 * look at single characters, and a Strip at the end, can still be worked out in advance. */
static ln_status plan(ln_decoder *decoder, ln_arena *arena, chain *c, ln_error *err) {
    bool joined = false;
    c->fallback = c->joined = c->n_steps;
    for (size_t i = 0; i < c->n_steps; i++) {
        const ln_decode_step *step = &c->steps[i];
        if (step->kind == LN_DECODE_STRIP && joined) {
            if (decoder->strip_bytes != 0 || step->pattern_bytes > 4)
                return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                               "two Strip decoders after Fuse are not supported");
            memcpy(decoder->strip_content, step->pattern, step->pattern_bytes);
            decoder->strip_bytes = (uint8_t)step->pattern_bytes;
            decoder->strip_start = step->start;
            decoder->strip_stop = step->stop;
            continue;
        }
        bool by_character =
            (step->kind == LN_DECODE_REPLACE || step->kind == LN_DECODE_METASPACE) &&
            is_one_character(step) && !decoder->lossy;
        bool no_change = step->kind == LN_DECODE_FUSE;
        bool after_bpe = decoder->ends_with_space && !no_change;
        if ((joined && !by_character && !no_change) || decoder->strip_bytes != 0 || after_bpe)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "decoder %zu of the tokenizer works on the joined text, which is not "
                           "supported",
                           i);
        if (step->kind == LN_DECODE_BYTE_FALLBACK && c->fallback == c->n_steps)
            c->fallback = i;
        if (by_character && c->fallback < i)
            LN_TRY(add_after_bytes(decoder, arena, step, err));
        if (!joined && (no_change || step->kind == LN_DECODE_BYTE_LEVEL)) {
            joined = true;
            c->joined = i + 1;
            decoder->lossy = step->kind == LN_DECODE_BYTE_LEVEL;
        }
        decoder->ends_with_space |= step->kind == LN_DECODE_BPE;
        c->n_each = i + 1;
    }
    decoder->whole_runs = c->fallback < c->n_steps;
    return LINNET_OK;
}

static ln_status find_bytes(ln_decoder *decoder, ln_arena *arena, chain *c, size_t count,
                            ln_error *err) {
    int16_t *byte = ln_arena_alloc(arena, count, sizeof *byte);
    if (byte == NULL)
        return ln_fail_memory(err, "the tokenizer's decoder");
    for (size_t id = 0; id < count; id++) {
        byte[id] = -1;
        if (c->names[id].data == NULL)
            continue;
        LN_TRY(run_steps(c, id, false, c->fallback, err));
        byte[id] = (int16_t)ln_byte_piece(c->buffers[0].data, c->buffers[0].len, true);
    }
    decoder->byte = byte;
    return LINNET_OK;
}

ln_status ln_decoder_build(ln_decoder *decoder, ln_arena *arena, const ln_decode_step *steps,
                           size_t n_steps, const ln_piece *names, size_t count,
                           const uint8_t *dropped, ln_error *err) {
    chain c = {.steps = steps, .n_steps = n_steps, .names = names};
    *decoder = (ln_decoder){.dropped = dropped};
    LN_TRY(plan(decoder, arena, &c, err));
    size_t n_bytes = 0;
    for (size_t id = 0; id < count; id++)
        n_bytes += names[id].bytes;
    ln_status status =
        ln_decoder_fill(decoder, arena, count, ln_text_limit(n_bytes), chain_text, &c, err);
    if (status == LINNET_OK && decoder->whole_runs)
        status = find_bytes(decoder, arena, &c, count, err);
    ln_strbuf_free(&c.buffers[0]);
    ln_strbuf_free(&c.buffers[1]);
    ln_regex_work_free(&c.work);
    return status;
}

/* ---- SentencePiece ----------------------------------------------------------------------- */

typedef struct spm_chain {
    const ln_vocab *vocab;
    const ln_decode_spm *options;
} spm_chain;

static ln_status spm_text(void *context, size_t id, bool first, ln_strbuf *out, ln_error *err) {
    static const char space_symbol[] = "\xe2\x96\x81";
    const spm_chain *c = context;
    const ln_piece *piece = &c->vocab->pieces[id];
    (void)err;
    if (piece->data == NULL || (piece->flags & LN_TOKEN_BYTE))
        return LINNET_OK;
    if ((piece->flags & LN_TOKEN_UNKNOWN) && c->options->unk_surface != NULL) {
        ln_strbuf_puts(out, c->options->unk_surface);
        return LINNET_OK;
    }
    if (piece->flags & (LN_TOKEN_SPECIAL | LN_TOKEN_UNKNOWN)) {
        ln_strbuf_append(out, piece->data, piece->bytes);
        return LINNET_OK;
    }
    size_t at = 0;
    if (first && (c->options->strip_first || c->options->strip_all) && piece->bytes >= 3 &&
        memcmp(piece->data, space_symbol, 3) == 0)
        at = 3;
    while (at < piece->bytes) {
        const char *hit = ln_find_text(piece->data + at, piece->bytes - at, space_symbol, 3);
        size_t end = hit != NULL ? (size_t)(hit - piece->data) : piece->bytes;
        ln_strbuf_append(out, piece->data + at, end - at);
        if (hit != NULL)
            ln_strbuf_putc(out, ' ');
        at = end + (hit != NULL ? 3 : 0);
    }
    return LINNET_OK;
}

ln_status ln_decoder_build_spm(ln_decoder *decoder, ln_arena *arena, const ln_vocab *vocab,
                               const ln_decode_spm *options, ln_error *err) {
    spm_chain c = {vocab, options};
    *decoder = (ln_decoder){.first_while_empty = true,
                            .first_strips_one = options->strip_first && !options->strip_all};
    LN_TRY(ln_decoder_fill(decoder, arena, vocab->count, 0, spm_text, &c, err));
    int16_t *byte = ln_arena_alloc(arena, vocab->count, sizeof *byte);
    uint8_t *dropped = ln_arena_alloc(arena, vocab->count, sizeof *dropped);
    if (byte == NULL || dropped == NULL)
        return ln_fail_memory(err, "the tokenizer's decoder");
    for (size_t id = 0; id < vocab->count; id++) {
        const ln_piece *piece = &vocab->pieces[id];
        bool is_byte = piece->data != NULL && (piece->flags & LN_TOKEN_BYTE);
        byte[id] = (int16_t)(is_byte ? ln_byte_piece(piece->data, piece->bytes, false) : -1);
        dropped[id] = (piece->flags & LN_TOKEN_SPECIAL) ||
                      ((piece->flags & LN_TOKEN_UNKNOWN) && options->unk_surface == NULL);
    }
    decoder->byte = byte;
    decoder->dropped = dropped;
    return LINNET_OK;
}
