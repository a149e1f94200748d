#include "engine/request/text_stream.h"

#include <string.h>

enum { FLUSH_BYTES = 16 }; /* what ln_detokenizer_flush writes at most */

void ln_stop_string_init(ln_stop_string *stop, const char *bytes, size_t n_bytes,
                         uint32_t *borders) {
    *stop = (ln_stop_string){.bytes = bytes, .borders = borders, .n_bytes = n_bytes};
    uint32_t border = 0;
    borders[0] = 0;
    for (size_t i = 1; i < n_bytes; i++) {
        while (border > 0 && bytes[i] != bytes[border])
            border = borders[border - 1];
        border += bytes[i] == bytes[border];
        borders[i] = border;
    }
}

static size_t buffer_bytes(const ln_tokenizer *tokenizer, size_t max_stop_bytes) {
    if (tokenizer == NULL)
        return 0;
    return max_stop_bytes + ln_tokenizer_max_piece_bytes(tokenizer) + FLUSH_BYTES;
}

size_t ln_text_stream_plan(ln_layout *layout, const ln_tokenizer *tokenizer, size_t n_stops,
                           size_t max_stop_bytes) {
    size_t offset = ln_layout_add(layout, n_stops, sizeof(size_t));
    ln_layout_add(layout, buffer_bytes(tokenizer, max_stop_bytes), 1);
    return offset;
}

void ln_text_stream_init(ln_text_stream *stream, const ln_tokenizer *tokenizer, bool keep_special,
                         const ln_stop_string *stops, size_t n_stops, size_t max_stop_bytes,
                         void *memory) {
    ln_layout layout = {0};
    size_t matched = ln_layout_add(&layout, n_stops, sizeof(size_t));
    size_t buffer = layout.bytes;
    *stream = (ln_text_stream){
        .stops = stops,
        .n_stops = n_stops,
        .n_matched = (size_t *)(void *)((char *)memory + matched),
        .buffer = (char *)memory + buffer,
        .capacity = buffer_bytes(tokenizer, max_stop_bytes),
    };
    if (tokenizer != NULL)
        ln_detokenizer_init(&stream->decoder, tokenizer, keep_special);
}

void ln_text_stream_follow(ln_text_stream *stream, const int32_t *ids, size_t n_ids) {
    for (size_t i = 0; stream->decoder.tokenizer != NULL && i < n_ids; i++)
        ln_detokenizer_push(&stream->decoder, ids[i], stream->buffer, stream->capacity);
}

void ln_text_stream_copy(ln_text_stream *to, const ln_text_stream *from) {
    size_t *n_matched = to->n_matched;
    char *buffer = to->buffer;
    *to = *from;
    to->n_matched = n_matched;
    to->buffer = buffer;
    if (from->n_stops > 0)
        memcpy(n_matched, from->n_matched, from->n_stops * sizeof *n_matched);
    if (from->end > 0)
        memcpy(buffer, from->buffer, from->end);
}

/* Follows one more byte of text; returns the length of the longest stop string that it completes,
 * or 0. */
static size_t match_byte(ln_text_stream *stream, char byte) {
    size_t longest = 0;
    for (size_t i = 0; i < stream->n_stops; i++) {
        const ln_stop_string *stop = &stream->stops[i];
        size_t n = stream->n_matched[i];
        while (n > 0 && byte != stop->bytes[n])
            n = stop->borders[n - 1];
        n += byte == stop->bytes[n];
        if (n == stop->n_bytes && n > longest) {
            longest = n;
            stream->stop_index = i;
        }
        stream->n_matched[i] = n; /* n == n_bytes is the end: nothing follows */
    }
    return longest;
}

/* Bytes at the end of the text that could begin a stop string. */
static size_t bytes_to_hold(const ln_text_stream *stream) {
    size_t held = 0;
    for (size_t i = 0; i < stream->n_stops; i++)
        if (stream->n_matched[i] > held)
            held = stream->n_matched[i];
    return held;
}

/* Gives out the text before `end`. */
static const char *give(ln_text_stream *stream, size_t end, size_t *n_bytes) {
    *n_bytes = end;
    stream->begin = end;
    return stream->buffer;
}

/* Makes room behind what is held back. */
static void drop_given(ln_text_stream *stream) {
    stream->end -= stream->begin;
    memmove(stream->buffer, stream->buffer + stream->begin, stream->end);
    stream->begin = 0;
}

const char *ln_text_stream_push(ln_text_stream *stream, int32_t id, size_t *n_bytes) {
    *n_bytes = 0;
    if (stream->decoder.tokenizer == NULL || stream->stopped)
        return "";
    drop_given(stream);
    size_t fresh = stream->end;
    stream->end +=
        ln_detokenizer_push(&stream->decoder, id, stream->buffer + fresh, stream->capacity - fresh);
    for (size_t i = fresh; i < stream->end; i++) {
        size_t n_stop = match_byte(stream, stream->buffer[i]);
        if (n_stop == 0)
            continue;
        stream->stopped = true;
        stream->end = i + 1 - n_stop;
        return give(stream, stream->end, n_bytes);
    }
    return give(stream, stream->end - bytes_to_hold(stream), n_bytes);
}

const char *ln_text_stream_finish(ln_text_stream *stream, size_t *n_bytes) {
    *n_bytes = 0;
    if (stream->decoder.tokenizer == NULL || stream->stopped)
        return "";
    drop_given(stream);
    stream->end += ln_detokenizer_flush(&stream->decoder, stream->buffer + stream->end,
                                        stream->capacity - stream->end);
    return give(stream, stream->end, n_bytes);
}
