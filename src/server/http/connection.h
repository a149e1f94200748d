/* A connection: what is read from a socket, what is to be written to it, and the exchange between.
 * The reader (reader.h) fills the exchange, the response (response.h) empties it, and the listener
 * frees a doomed connection in a later iteration of the event loop. */
#ifndef LN_SERVER_HTTP_CONNECTION_H
#define LN_SERVER_HTTP_CONNECTION_H

#include <event2/buffer.h>
#include <event2/event.h>
#include <time.h>

#include "server/http/hooks.h"
#include "server/http/limits.h"
#include "server/http/parser.h"
#include "server/http/tls.h"

typedef enum ln_connection_state {
    LN_CONNECTION_IDLE,    /* between requests */
    LN_CONNECTION_HEAD,    /* a request has begun */
    LN_CONNECTION_BODY,    /* its head is whole */
    LN_CONNECTION_RESPOND, /* it is whole, or its body is not wanted */
    LN_CONNECTION_LINGER,  /* the response is sent: what the client still sends is discarded */
    LN_CONNECTION_DOOMED   /* waits for the reaper */
} ln_connection_state;

typedef struct ln_connection ln_connection;

/* The connections of a listener, and what they share. */
typedef struct ln_connection_set {
    ln_http_limits limits;
    ln_http_hooks hooks;
    ln_connection *first, *doomed;
    struct event *reaper;   /* frees the doomed */
    size_t n_body_bytes;    /* of all exchanges that are not over */
    uint64_t id_key, n_ids; /* of request ids */
    bool is_draining;
    char date[40]; /* of `date_s`, for responses */
    time_t date_s;
} ln_connection_set;

struct ln_connection {
    ln_exchange exchange; /* first: an exchange is its connection */
    ln_connection_set *set;
    ln_connection *next, *previous; /* of set->first, or `next` of set->doomed */
    int fd;
    ln_tls_stream *tls; /* NULL: plain */
    struct event *read_event, *write_event, *timer;
    struct evbuffer *out;
    ln_strbuf pending; /* bytes of requests to come, not parsed yet */
    ln_connection_state state;
    ln_http_parser parser; /* of the request that is being read */
    ln_strbuf headers;     /* of the response, added by the handler */
    size_t n_headers, n_blank;
    size_t n_body_bytes; /* read so far, also where a handler has taken the body */
    size_t lingered_bytes;
    int refusal; /* status of a broken rule; 0: none */
    const char *refusal_text;
    unsigned n_hosts; /* host headers */
    bool skips_body;  /* on_head did not want it */
    bool keeps_alive; /* after this exchange */
    bool is_chunked;  /* the response in parts */
    bool is_parsing;  /* inside the loop of ln_reader_feed */
    bool is_active;   /* an exchange has begun and is not over */
    bool is_whole;    /* the request was handed to on_request */
    bool expects_continue;
    bool is_timed; /* the deadline of its first head runs since it was accepted */
    bool is_late;  /* it was accepted while the server drains */
    bool finished; /* our side was shut down */
    char peer[LN_HTTP_PEER_BYTES];
};

/* Ends a connection soon, from the event loop; its events stop now. */
void ln_connection_doom(ln_connection *connection);
void ln_connection_set_deadline(ln_connection *connection, uint32_t ms); /* 0: none */
/* Schedules the reader for the next iteration of the event loop, where bytes are pending. */
void ln_connection_wake(ln_connection *connection);
/* Refuses the request that is being read; the connection closes after it. */
void ln_connection_refuse(ln_connection *connection, int status, const char *message);
/* Records why the reader must refuse the request; the first reason counts. Always false. */
bool ln_connection_fail(ln_connection *connection, int status, const char *message);
/* Frees what belongs to the exchange, and makes the connection ready for the next. */
void ln_connection_reset(ln_connection *connection);

#endif
