/* A request's ids as text, ended by its stop strings. What could be the beginning of a stop string
 * is held back until that is decided; a stop string is cut from the text.
 *
 * The same ids give the same text and the same end. So a request has two of these: the receiver's,
 * which makes the text, and, when there are stop strings, the engine's, which says when to stop.
 * Text itself never passes between threads. */
#ifndef LN_ENGINE_REQUEST_TEXT_STREAM_H
#define LN_ENGINE_REQUEST_TEXT_STREAM_H

#include "base/layout.h"
#include "text/tokenizer/tokenizer.h"

/* A string and its failure function (Knuth, Morris and Pratt, 1977): borders[i] is the length of
 * the longest proper prefix of bytes[0 .. i] that also ends it. */
typedef struct ln_stop_string {
    const char *bytes;       /* [n_bytes], at least one */
    const uint32_t *borders; /* [n_bytes] */
    size_t n_bytes;
} ln_stop_string;

/* Fills borders[n_bytes]. */
void ln_stop_string_init(ln_stop_string *stop, const char *bytes, size_t n_bytes,
                         uint32_t *borders);

typedef struct ln_text_stream {
    ln_detokenizer decoder;      /* its tokenizer NULL: no text, only ids */
    const ln_stop_string *stops; /* [n_stops], the request's */
    size_t n_stops;
    size_t *n_matched; /* [n_stops] bytes of each stop string that end the text so far */
    char *buffer;      /* [capacity] */
    size_t capacity;
    size_t begin, end; /* of the text that is held back */
    bool stopped;      /* a stop string came: there is no more text */
    size_t stop_index; /* which, when stopped */
} ln_text_stream;

/* Adds a stream to a layout and returns its offset; max_stop_bytes is of the longest stop string.
 * `memory` below is at that offset, zeroed, and outlives the stream. */
size_t ln_text_stream_plan(ln_layout *layout, const ln_tokenizer *tokenizer, size_t n_stops,
                           size_t max_stop_bytes);
void ln_text_stream_init(ln_text_stream *stream, const ln_tokenizer *tokenizer, bool keep_special,
                         const ln_stop_string *stops, size_t n_stops, size_t max_stop_bytes,
                         void *memory);

/* Makes a stream that was not used yet go on where the text of ids[n_ids] ends. */
void ln_text_stream_follow(ln_text_stream *stream, const int32_t *ids, size_t n_ids);

/* Makes a stream stand where another of the same tokenizer and stop strings stands. */
void ln_text_stream_copy(ln_text_stream *to, const ln_text_stream *from);

/* The text that `id` settles: whole code points, valid until the next call. */
const char *ln_text_stream_push(ln_text_stream *stream, int32_t id, size_t *n_bytes);
/* There are no more ids: what was held back. */
const char *ln_text_stream_finish(ln_text_stream *stream, size_t *n_bytes);

#endif
