/* HTTP/1.1 over TCP or TLS, for one thread: a listener and its connections, with deadlines and
 * bounds.
 *
 * Nothing here blocks. A connection that breaks a rule is refused with a status and closed; one
 * whose client has gone, or does not read, is cut: its exchange is then given back through
 * on_gone, always from the event loop and never from inside a call of this folder's headers. */
#ifndef LN_SERVER_HTTP_LISTENER_H
#define LN_SERVER_HTTP_LISTENER_H

#include <event2/event.h>

#include "base/error.h"
#include "server/http/hooks.h"
#include "server/http/limits.h"

typedef struct ln_listener ln_listener;

typedef struct ln_http_address {
    const char *host;
    uint16_t port;                 /* 0: any free one */
    const char *certificate, *key; /* PEM files, or both NULL: without TLS */
} ln_http_address;

/* Listens at the address. Limits and hooks are copied; the base must outlive the listener. Errors
 * name host and port, or the file. */
ln_status ln_listener_open(struct event_base *base, const ln_http_address *address,
                           const ln_http_limits *limits, const ln_http_hooks *hooks,
                           ln_listener **listener, ln_error *err);
void ln_listener_close(ln_listener *listener); /* cuts what is left, without calling hooks */

uint16_t ln_listener_get_port(const ln_listener *listener);
size_t ln_listener_count_connections(const ln_listener *listener);

/* Some exchange is not over, or some response not sent, of a connection that is not late. */
bool ln_listener_is_busy(const ln_listener *listener);

/* Idle connections close now, the others after the exchange that they are in. Those that are
 * accepted from now on are late: they have one exchange, and nobody waits for them. */
void ln_listener_drain(ln_listener *listener);

#endif
