/* The streaming decoder, and the decoding of whole lists. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/decode.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_state.h"

/* Bounded output: what does not fit is cut, never overrun. */
typedef struct sink {
    char *data;
    size_t len, capacity;
    ln_detokenizer *state;
    const ln_decoder *decoder;
} sink;

static void write_bytes(sink *out, const char *bytes, size_t n_bytes) {
    size_t room = out->capacity - out->len;
    if (n_bytes > room)
        n_bytes = room;
    if (n_bytes > 0)
        memcpy(out->data + out->len, bytes, n_bytes);
    out->len += n_bytes;
    out->state->wrote |= n_bytes > 0;
}

/* Writes text that the joined text's Strip may cut: leading content is dropped, trailing content
 * waits until something else follows. */
static void write_stripped(sink *out, const char *text, size_t n_bytes) {
    const ln_decoder *decoder = out->decoder;
    ln_detokenizer *state = out->state;
    size_t n = decoder->strip_bytes;
    if (n == 0) {
        write_bytes(out, text, n_bytes);
        return;
    }
    for (size_t at = 0; at < n_bytes;) {
        bool is_content = n_bytes - at >= n && memcmp(text + at, decoder->strip_content, n) == 0;
        if (is_content && state->stripping && state->n_stripped < decoder->strip_start) {
            state->n_stripped++;
            at += n;
            continue;
        }
        state->stripping = false;
        if (is_content && decoder->strip_stop > 0) {
            if (state->n_waiting < decoder->strip_stop)
                state->n_waiting++;
            else
                write_bytes(out, decoder->strip_content, n);
            at += n;
            continue;
        }
        for (; state->n_waiting > 0; state->n_waiting--)
            write_bytes(out, decoder->strip_content, n);
        size_t end = at + ln_utf8_length((unsigned char)text[at]);
        if (end > n_bytes)
            end = n_bytes;
        if (decoder->strip_stop == 0)
            end = n_bytes;
        write_bytes(out, text + at, end - at);
        at = end;
    }
}

static void write_replacement(sink *out) {
    write_stripped(out, "\xef\xbf\xbd", 3);
}

/* Bytes that may be parts of code points: whole ones are written, ill-formed ones replaced, and
 * the beginning of one is held. */
static void write_lossy(sink *out, const char *bytes, size_t n_bytes) {
    ln_detokenizer *state = out->state;
    while (n_bytes > 0 && state->n_held > 0) { /* complete what is held, byte by byte */
        char joined[4];
        memcpy(joined, state->held, state->n_held);
        joined[state->n_held] = bytes[0];
        size_t total = (size_t)state->n_held + 1;
        bool cut_short;
        if (ln_utf8_valid(joined, total) == total) {
            write_stripped(out, joined, total);
            state->n_held = 0;
        } else if (ln_utf8_invalid(joined, total, &cut_short) == total && cut_short) {
            state->held[state->n_held++] = (unsigned char)bytes[0];
        } else { /* the new byte begins something else */
            write_replacement(out);
            state->n_held = 0;
            continue;
        }
        bytes++;
        n_bytes--;
    }
    for (size_t begin = 0, at = 0; at < n_bytes || begin < at;) {
        size_t length = at < n_bytes ? ln_utf8_valid(bytes + at, n_bytes - at) : 0;
        if (length > 0) {
            at += length;
            continue;
        }
        write_stripped(out, bytes + begin, at - begin);
        if (at < n_bytes) {
            bool cut_short;
            size_t bad = ln_utf8_invalid(bytes + at, n_bytes - at, &cut_short);
            if (cut_short) {
                memcpy(state->held, bytes + at, bad);
                state->n_held = (uint8_t)bad;
                return;
            }
            write_replacement(out);
            at += bad;
        }
        begin = at;
    }
}

/* A character that byte tokens spelled. */
static void write_spelled(sink *out, const char *text, size_t n_bytes) {
    const ln_decoder *decoder = out->decoder;
    for (size_t i = 0; i < decoder->n_after_bytes; i++) {
        const ln_decode_char *after = &decoder->after_bytes[i];
        if (n_bytes != after->from_bytes || memcmp(text, after->from, n_bytes) != 0)
            continue;
        text = out->state->run_is_first ? after->to_first : after->to;
        n_bytes = strlen(text);
    }
    write_stripped(out, text, n_bytes);
}

/* A byte token. Hugging Face replaces every byte of a run that is not well-formed as a whole;
 * SentencePiece only the ones that are not. Both hold the beginning of a code point. */
static void write_byte(sink *out, unsigned char byte) {
    ln_detokenizer *state = out->state;
    if (!state->in_run)
        state->run_is_first = !state->started;
    state->in_run = true;
    if (state->bad_run) {
        write_replacement(out);
        return;
    }
    for (;;) {
        char joined[4];
        memcpy(joined, state->held, state->n_held);
        joined[state->n_held] = (char)byte;
        size_t total = (size_t)state->n_held + 1;
        bool cut_short;
        if (ln_utf8_valid(joined, total) == total) {
            write_spelled(out, joined, total);
            state->n_held = 0;
            return;
        }
        if (ln_utf8_invalid(joined, total, &cut_short) == total && cut_short) {
            state->held[state->n_held++] = byte;
            return;
        }
        state->bad_run = out->decoder->whole_runs;
        bool alone = state->n_held == 0;
        for (size_t i = 0; i < state->n_held; i++)
            write_replacement(out);
        state->n_held = 0;
        if (alone || state->bad_run) {
            write_replacement(out);
            return;
        }
    }
}

static void end_run(sink *out) {
    ln_detokenizer *state = out->state;
    for (size_t i = 0; state->in_run && i < state->n_held; i++)
        write_replacement(out);
    if (state->in_run)
        state->n_held = 0;
    state->in_run = state->bad_run = false;
}

void ln_detokenizer_init(ln_detokenizer *decoder, const ln_tokenizer *tokenizer,
                         bool keep_special) {
    *decoder =
        (ln_detokenizer){.tokenizer = tokenizer, .keep_special = keep_special, .stripping = true};
}

static void push(sink *out, size_t id) {
    const ln_decoder *decoder = out->decoder;
    ln_detokenizer *state = out->state;
    int byte = decoder->byte != NULL ? decoder->byte[id] : -1;
    if (byte >= 0) {
        write_byte(out, (unsigned char)byte);
        state->started = true;
        return;
    }
    end_run(out);
    bool first = !state->started;
    if (decoder->first_while_empty)
        first = first && !state->wrote;
    const ln_decode_texts *texts = first ? &decoder->first : &decoder->rest;
    const char *text = texts->data + texts->begin[id];
    size_t n_bytes = texts->begin[id + 1] - texts->begin[id];
    for (; state->n_spaces > 0; state->n_spaces--)
        write_stripped(out, " ", 1);
    while (decoder->ends_with_space && n_bytes > 0 &&
           text[n_bytes - 1] == LN_DECODE_WAITING_SPACE) {
        state->n_spaces++;
        n_bytes--;
    }
    if (decoder->lossy)
        write_lossy(out, text, n_bytes);
    else
        write_stripped(out, text, n_bytes);
    if (!decoder->first_while_empty) {
        state->started = true;
    } else if (decoder->first_strips_one && first) {
        size_t unstripped = decoder->rest.begin[id + 1] - decoder->rest.begin[id];
        state->started = unstripped != n_bytes;
    }
}

size_t ln_detokenizer_push(ln_detokenizer *decoder, int32_t id, char *out, size_t capacity) {
    const ln_decoder *table = &decoder->tokenizer->decoder;
    sink to = {out, 0, capacity, decoder, table};
    if (id < 0 || (size_t)id >= table->count)
        return 0;
    if (decoder->tokenizer->vocab.pieces[id].data == NULL)
        return 0;
    if (table->dropped[id] && !decoder->keep_special)
        return 0;
    push(&to, (size_t)id);
    return to.len;
}

size_t ln_detokenizer_flush(ln_detokenizer *decoder, char *out, size_t capacity) {
    sink to = {out, 0, capacity, decoder, &decoder->tokenizer->decoder};
    if (decoder->in_run)
        end_run(&to);
    else if (decoder->n_held > 0)
        write_replacement(&to);
    decoder->n_held = 0;
    return to.len;
}

size_t ln_tokenizer_max_piece_bytes(const ln_tokenizer *tokenizer) {
    enum { HELD_TEXT = 16 }; /* three replacements, a waiting space */
    return 4 * tokenizer->decoder.longest_bytes + HELD_TEXT +
           (size_t)tokenizer->decoder.strip_stop * tokenizer->decoder.strip_bytes;
}

/* Whether the run of byte tokens that begins at ids[at] is well-formed as a whole. Dropped tokens
 * do not end a run. */
static bool is_good_run(const ln_detokenizer *state, const int32_t *ids, size_t n_ids, size_t at) {
    const ln_decoder *decoder = &state->tokenizer->decoder;
    char held[4];
    size_t n_held = 0;
    for (; at < n_ids; at++) {
        int32_t id = ids[at];
        if (id < 0 || (size_t)id >= decoder->count ||
            state->tokenizer->vocab.pieces[id].data == NULL ||
            (decoder->dropped[id] && !state->keep_special))
            continue;
        if (decoder->byte[id] < 0)
            break;
        held[n_held++] = (char)decoder->byte[id];
        bool cut_short;
        if (ln_utf8_valid(held, n_held) == n_held)
            n_held = 0;
        else if (ln_utf8_invalid(held, n_held, &cut_short) != n_held || !cut_short)
            return false;
    }
    return n_held == 0;
}

ln_status ln_tokenizer_decode(const ln_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                              bool keep_special, ln_strbuf *text, ln_error *err) {
    const ln_decoder *decoder = &tokenizer->decoder;
    size_t most = ln_tokenizer_max_piece_bytes(tokenizer);
    ln_detokenizer state;
    ln_detokenizer_init(&state, tokenizer, keep_special);
    for (size_t i = 0; i <= n_ids; i++) {
        if (!ln_strbuf_reserve(text, most))
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory while decoding");
        char *to = text->data + text->len;
        if (i == n_ids) {
            text->len += ln_detokenizer_flush(&state, to, most);
            break;
        }
        bool is_byte = decoder->whole_runs && ids[i] >= 0 && (size_t)ids[i] < decoder->count &&
                       decoder->byte[ids[i]] >= 0 && (keep_special || !decoder->dropped[ids[i]]);
        if (is_byte && !state.in_run) /* the library looks at the whole run before it writes */
            state.bad_run = !is_good_run(&state, ids, n_ids, i);
        text->len += ln_detokenizer_push(&state, ids[i], to, most);
    }
    text->data[text->len] = '\0';
    return LINNET_OK;
}
