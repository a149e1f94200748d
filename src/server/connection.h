/* Inside the HTTP server: a connection, shared by what reads its requests (http_read.c), what
 * writes its responses (http_write.c), and its life (http.c). */
#ifndef LN_SERVER_CONNECTION_H
#define LN_SERVER_CONNECTION_H

#include <event2/buffer.h>
#include <event2/event.h>

#include "server/http.h"
#include "server/http/parser.h"
#include "server/tls.h"

typedef enum ln_connection_state {
    LN_CONNECTION_IDLE,    /* between requests */
    LN_CONNECTION_HEAD,    /* a request has begun */
    LN_CONNECTION_BODY,    /* its head is whole */
    LN_CONNECTION_RESPOND, /* it is whole, or its body is not wanted */
    LN_CONNECTION_LINGER,  /* all is said: what the client still sends is thrown away */
    LN_CONNECTION_DOOMED   /* waits for the reaper */
} ln_connection_state;

typedef struct ln_connection ln_connection;
struct ln_connection {
    ln_exchange exchange; /* first: an exchange is its connection */
    ln_http *http;
    ln_connection *next, *previous; /* of http->connections, or `next` of http->doomed */
    int fd;
    ln_tls_stream *tls; /* NULL: plain */
    struct event *read_event, *write_event, *timer;
    struct evbuffer *out;
    ln_strbuf pending; /* bytes of requests to come, not parsed yet */
    ln_connection_state state;
    ln_http_parser parser; /* of the request that is being read */
    ln_strbuf headers;     /* of the response, added by the handler */
    size_t n_headers, n_blank;
    size_t lingered_bytes;
    int refusal; /* status of a broken rule; 0: none */
    const char *refusal_text;
    unsigned n_hosts; /* host headers */
    bool skips_body;  /* on_head did not want it */
    bool keeps_alive; /* after this exchange */
    bool is_chunked;  /* the response in parts */
    bool is_parsing;  /* inside the loop of ln_connection_feed */
    bool is_active;   /* an exchange has begun and is not over */
    bool is_whole;    /* the request was handed to on_request */
    bool expects_continue;
    bool is_timed; /* the deadline of its first head runs since it was accepted */
    bool is_late;  /* it was accepted while the server drains */
    bool finished; /* our side was shut down */
    char peer[LN_HTTP_PEER_BYTES];
};

/* What may come in crowds, which must not hold up others: so many of each in a turn of the loop. */
enum { LN_TURN_ACCEPTED = 0, LN_TURN_LATE, LN_TURN_REAPED, LN_TURN_KINDS };

struct ln_http {
    struct event_base *base;
    ln_http_limits limits;
    ln_http_hooks hooks;
    int listen_fd; /* -1: none */
    struct event *accepter, *reaper, *retry;
    ln_tls *tls;
    ln_connection *connections, *doomed;
    size_t n_connections;
    uint64_t id_key, n_ids; /* of request ids */
    uint16_t port;
    bool is_draining, is_paused;
    struct timeval turn;               /* of the loop, as its cached time says, */
    unsigned n_in_turn[LN_TURN_KINDS]; /* and what was done in it */
    char date[40];                     /* of `date_s` */
    time_t date_s;
    char scratch[65536]; /* what a read gives */
};

/* http.c */

/* Ends a connection from the event loop, soon; its events stop now. */
void ln_connection_doom(ln_connection *connection);
void ln_connection_set_deadline(ln_connection *connection, uint32_t ms); /* 0: none */

/* http_read.c */

/* Parses bytes as far as requests may be taken now; the rest is kept as pending. */
void ln_connection_feed(ln_connection *connection, const char *bytes, size_t n_bytes);
/* Goes on with what is pending, after a response is over. */
void ln_connection_resume(ln_connection *connection);

/* http_write.c */

/* Writes what the socket takes. */
void ln_connection_flush(ln_connection *connection);
/* Refuses the request that is being read; the connection closes after it. */
void ln_connection_refuse(ln_connection *connection, int status, const char *message);
/* Frees what belongs to an exchange, and makes the connection ready for the next. */
void ln_exchange_reset(ln_connection *connection);

#endif
