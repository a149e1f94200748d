/* Server-sent events of an answer that goes on without its client: they are kept, and clients
 * follow them from any one on. Events are numbered: each begins with `event: TYPE`, and its data
 * with {"type":TYPE,"sequence_number":N. Only the server's thread calls these functions. */
#ifndef LN_SERVER_GENERATION_EVENT_STREAM_H
#define LN_SERVER_GENERATION_EVENT_STREAM_H

#include "server/http/exchange.h"
#include "server/json/error.h"

/* What all streams together keep. */
typedef struct ln_event_budget {
    size_t n_bytes, max_bytes;
} ln_event_budget;

typedef struct ln_event_follower ln_event_follower;

typedef struct ln_event_stream {
    ln_event_budget *budget;
    const char *media_type;
    ln_strbuf events;         /* whole ones, the last of all that there were */
    size_t n_dropped_bytes;   /* those before them */
    ln_event_follower *first; /* owned */
} ln_event_stream;

void ln_event_stream_init(ln_event_stream *stream, ln_event_budget *budget, const char *media_type);
/* Cuts the connections of clients that still follow; a zeroed stream is fine. */
void ln_event_stream_free(ln_event_stream *stream);

/* Adds events, and sends clients what they take. Beyond the budget the older half goes; a client
 * that had not come so far is cut. */
void ln_event_stream_add(ln_event_stream *stream, const ln_strbuf *events);
/* Sends clients the rest, and ends their responses. */
void ln_event_stream_end(ln_event_stream *stream);

/* Answers the exchange with the events behind the number `after` (-1: all). False with the error
 * set: they are not there any more. */
bool ln_event_stream_follow(ln_event_stream *stream, ln_exchange *exchange, long long after,
                            ln_api_error *error);
/* The client of a follower, an exchange's, is gone. */
void ln_event_follower_leave(ln_event_follower *follower);

/* Where in a text of events those behind the number `after` begin; SIZE_MAX with the error set: the
 * first of them is not in the text. */
size_t ln_events_find(const char *events, size_t n_bytes, long long after, ln_api_error *error);

#endif
