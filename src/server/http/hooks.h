/* What HTTP asks of the server above it. Called from the event loop. */
#ifndef LN_SERVER_HTTP_HOOKS_H
#define LN_SERVER_HTTP_HOOKS_H

#include "server/http/exchange.h"

typedef struct ln_http_hooks {
    void *user;
    /* The head is read. False: the body is not wanted (on_request follows at once). */
    bool (*on_head)(void *user, ln_exchange *exchange);
    /* The request is whole; it is answered now or later. */
    void (*on_request)(void *user, ln_exchange *exchange);
    /* The client broke a rule of HTTP; answers with ln_response_send, at once. */
    void (*on_refuse)(void *user, ln_exchange *exchange, int status, const char *message);
    /* The client is gone before the response was whole; `exchange` must not be used after. */
    void (*on_gone)(void *user, ln_exchange *exchange);
    /* An exchange is over; for the log. It comes after on_gone when the client went. */
    void (*on_end)(void *user, ln_exchange *exchange);
} ln_http_hooks;

#endif
