/* HTTP/1.1 over TCP or TLS, for one thread: a listener, connections with deadlines and bounds,
 * and exchanges (a request and its response).
 *
 * Nothing here blocks. A connection that breaks a rule is refused with a status and closed; one
 * whose client has gone, or does not read, is cut: its exchange is then given back through
 * on_gone, always from the event loop and never from inside a call of this header. */
#ifndef LN_SERVER_HTTP_H
#define LN_SERVER_HTTP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

typedef struct ln_http ln_http;
typedef struct ln_exchange ln_exchange;

typedef enum ln_http_method {
    LN_HTTP_OTHER = 0,
    LN_HTTP_GET, /* HEAD too: the body of the response is left out */
    LN_HTTP_POST,
    LN_HTTP_OPTIONS
} ln_http_method;

typedef struct ln_http_limits {
    size_t max_connections; /* more wait in the kernel's queue */
    size_t max_head_bytes, max_headers;
    size_t max_body_bytes;
    size_t max_unread_bytes; /* of responses that the client has not taken */
    uint32_t head_ms;        /* from the first byte of a request to the end of its head */
    uint32_t body_ms;        /* and from there to the end of its body */
    uint32_t idle_ms;        /* between requests */
    uint32_t unread_ms;      /* without progress in writing */
} ln_http_limits;

typedef struct ln_http_hooks {
    void *user;
    /* The head is read. False: the body is not wanted (on_request follows at once). */
    bool (*on_head)(void *user, ln_exchange *exchange);
    /* The request is whole; it is answered now or later. */
    void (*on_request)(void *user, ln_exchange *exchange);
    /* The client broke a rule of HTTP; answers with ln_http_send, at once. */
    void (*on_refuse)(void *user, ln_exchange *exchange, int status, const char *message);
    /* The client is gone before the response was whole; `exchange` must not be used after. */
    void (*on_gone)(void *user, ln_exchange *exchange);
    /* An exchange is over; for the log. It comes after on_gone when the client went. */
    void (*on_end)(void *user, ln_exchange *exchange);
} ln_http_hooks;

enum { LN_HTTP_ID_BYTES = 64, LN_HTTP_SERIAL_BYTES = 16, LN_HTTP_PEER_BYTES = 64 };

struct ln_exchange {
    ln_http_method method;
    bool is_head;     /* of method GET */
    const char *verb; /* the method's name; static storage, NULL: not read */
    bool is_bad;      /* refused before its head was whole */
    char *path;       /* without the query; owned, never NULL once the head is read */
    char *credential; /* what follows "Bearer "; owned, NULL: none */
    char *origin;     /* owned, NULL: none */
    char serial[LN_HTTP_SERIAL_BYTES + 1]; /* never twice */
    char id[LN_HTTP_ID_BYTES + 1];         /* the client's x-request-id, or from serial */
    const char *peer;                      /* the client's address */
    ln_strbuf body;
    uint64_t begin_ns;                       /* of ln_clock_ns, at the first byte */
    int status;                              /* of the response; 0 until it begins */
    size_t sent_bytes;                       /* of the response's body */
    bool was_cut;                            /* the client went, or did not read */
    const void *route;                       /* the hooks', as are these: */
    void *job, *generation;                  /* what works on the answer */
    size_t n_prompt_tokens, n_output_tokens; /* for the log */
};

/* Listens at host and port (0: any free one). `certificate` and `key` are PEM files, or both
 * NULL. The base, limits and hooks are copied or borrowed as long as the object lives. Errors
 * name host and port, or the file. */
typedef struct ln_http_address {
    const char *host;
    uint16_t port;
    const char *certificate, *key;
} ln_http_address;
ln_status ln_http_listen(struct event_base *base, const ln_http_address *address,
                         const ln_http_limits *limits, const ln_http_hooks *hooks, ln_http **http,
                         ln_error *err);
void ln_http_destroy(ln_http *http); /* cuts what is left, without calling hooks */

uint16_t ln_http_get_port(const ln_http *http);
size_t ln_http_count_connections(const ln_http *http);

/* Some exchange is not over, or some response not sent, of a connection that is not late. */
bool ln_http_is_busy(const ln_http *http);

/* Idle connections close now, the others after the exchange that they are in. Those that are
 * accepted from now on are late: they have one exchange, and nobody waits for them. */
void ln_http_drain(ln_http *http);
bool ln_http_is_late(const ln_exchange *exchange);

/* Adds a header to the response that has not begun. */
void ln_http_add_header(ln_exchange *exchange, const char *name, const char *value);

/* A whole response; the exchange is over and must not be used after. */
void ln_http_send(ln_exchange *exchange, int status, const char *type, const void *body,
                  size_t n_bytes);

/* A response in parts. write returns false once the client is gone or takes nothing any more
 * (on_gone follows). */
void ln_http_begin(ln_exchange *exchange, int status, const char *type);
bool ln_http_write(ln_exchange *exchange, const void *bytes, size_t n_bytes);
void ln_http_end(ln_exchange *exchange); /* the exchange is over */

#endif
