#include "server/generation/event_stream.h"

#include <stdlib.h>
#include <string.h>

#include "server/http/response.h"

struct ln_event_follower {
    ln_event_stream *stream;
    ln_event_follower *next, *previous;
    ln_exchange *exchange;
    size_t position; /* in bytes of all events, also of those that were dropped */
};

/* ---- events ----------------------------------------------------------------------------- */

/* The number of the event that the text begins with; -1: it begins with none. */
static long long number_of(const char *events, size_t n_bytes) {
    static const char name[] = "\"sequence_number\":";
    const char *found = n_bytes > 0 ? memmem(events, n_bytes, name, sizeof name - 1) : NULL;
    return found != NULL ? strtoll(found + sizeof name - 1, NULL, 10) : -1;
}

/* Where the event that follows the one at a place begins, or the end. */
static size_t find_next(const char *events, size_t n_bytes, size_t at) {
    const char *end = memmem(events + at, n_bytes - at, "\n\n", 2);
    return end != NULL ? (size_t)(end - events) + 2 : n_bytes;
}

size_t ln_events_find(const char *events, size_t n_bytes, long long after, ln_api_error *error) {
    long long first = number_of(events, n_bytes);
    size_t at = 0;
    if (first < 0 || after + 1 < first) {
        ln_api_fail(error, 400, "starting_after",
                    "the events from number %lld on are not kept any more", after + 1);
        return SIZE_MAX;
    }
    for (long long number = first; number <= after && at < n_bytes; number++)
        at = find_next(events, n_bytes, at);
    return at;
}

/* ---- clients ---------------------------------------------------------------------------- */

void ln_event_follower_leave(ln_event_follower *follower) {
    if (follower->previous != NULL)
        follower->previous->next = follower->next;
    else
        follower->stream->first = follower->next;
    if (follower->next != NULL)
        follower->next->previous = follower->previous;
    follower->exchange->follower = NULL;
    free(follower);
}

/* A client that does not see all events must not believe that it does. */
static void cut(ln_event_follower *follower) {
    static const ln_strbuf lost = {.failed = true};
    ln_exchange *exchange = follower->exchange;
    ln_event_follower_leave(follower);
    ln_response_write_text(exchange, &lost);
}

/* Sends what the client has not had, as far as there is room before it reads on; `all`: whatever
 * room there is. False: it is cut. */
static bool advance(ln_event_follower *follower, bool all) {
    const ln_event_stream *stream = follower->stream;
    if (follower->position < stream->n_dropped_bytes) {
        cut(follower);
        return false;
    }
    size_t begin = follower->position - stream->n_dropped_bytes;
    size_t n_bytes = stream->events.len - begin, room = ln_response_get_room(follower->exchange);
    if (n_bytes > room && !all)
        n_bytes = room;
    follower->position += n_bytes;
    if (n_bytes > 0)
        ln_response_write(follower->exchange, stream->events.data + begin, n_bytes);
    return true; /* when the client is gone, on_gone follows */
}

static void advance_all(ln_event_stream *stream) {
    for (ln_event_follower *follower = stream->first, *next; follower != NULL; follower = next) {
        next = follower->next;
        advance(follower, false);
    }
}

/* ---- streams ---------------------------------------------------------------------------- */

void ln_event_stream_init(ln_event_stream *stream, ln_event_budget *budget,
                          const char *media_type) {
    *stream = (ln_event_stream){.budget = budget, .media_type = media_type};
    ln_strbuf_init(&stream->events);
}

/* Drops events at the beginning, `n_bytes` of them. */
static void drop(ln_event_stream *stream, size_t n_bytes) {
    size_t n_left = stream->events.len - n_bytes;
    memmove(stream->events.data, stream->events.data + n_bytes, n_left);
    stream->events.len = n_left;
    stream->events.data[n_left] = '\0';
    stream->n_dropped_bytes += n_bytes;
    stream->budget->n_bytes -= n_bytes;
}

static void fit(ln_event_stream *stream) {
    const ln_event_budget *budget = stream->budget;
    while (budget->n_bytes > budget->max_bytes && stream->events.len > 0)
        drop(stream, find_next(stream->events.data, stream->events.len, stream->events.len / 2));
}

void ln_event_stream_add(ln_event_stream *stream, const ln_strbuf *events) {
    size_t before = stream->events.len;
    if (events->len == 0 && !events->failed)
        return;
    if (!events->failed && ln_strbuf_append(&stream->events, events->data, events->len)) {
        stream->budget->n_bytes += stream->events.len - before;
    } else { /* memory is out: the stream has lost events, so nobody can follow it */
        stream->budget->n_bytes -= before;
        stream->n_dropped_bytes += before + 1;
        ln_strbuf_free(&stream->events);
    }
    advance_all(stream);
    fit(stream);
}

void ln_event_stream_end(ln_event_stream *stream) {
    for (ln_event_follower *follower = stream->first, *next; follower != NULL; follower = next) {
        ln_exchange *exchange = follower->exchange;
        next = follower->next;
        if (!advance(follower, true))
            continue;
        ln_event_follower_leave(follower);
        ln_response_end(exchange);
    }
}

void ln_event_stream_free(ln_event_stream *stream) {
    for (ln_event_follower *follower = stream->first, *next; follower != NULL; follower = next) {
        next = follower->next;
        cut(follower);
    }
    if (stream->budget != NULL)
        stream->budget->n_bytes -= stream->events.len;
    ln_strbuf_free(&stream->events);
}

bool ln_event_stream_follow(ln_event_stream *stream, ln_exchange *exchange, long long after,
                            ln_api_error *error) {
    bool is_new = after < 0 && stream->n_dropped_bytes == 0 && stream->events.len == 0;
    size_t begin =
        is_new ? 0 : ln_events_find(stream->events.data, stream->events.len, after, error);
    ln_event_follower *follower = begin != SIZE_MAX ? calloc(1, sizeof *follower) : NULL;
    if (follower == NULL)
        return begin == SIZE_MAX ? false : ln_api_fail_memory(error);
    *follower = (ln_event_follower){.stream = stream,
                                    .next = stream->first,
                                    .exchange = exchange,
                                    .position = stream->n_dropped_bytes + begin};
    if (follower->next != NULL)
        follower->next->previous = follower;
    stream->first = follower;
    exchange->follower = follower;
    ln_response_begin(exchange, 200, stream->media_type);
    advance(follower, false);
    return true;
}
