/* From a request to the handler of its route: keys, hosts, CORS, and what is said where there is
 * none. */
#ifndef LN_SERVER_API_ROUTER_H
#define LN_SERVER_API_ROUTER_H

#include "server/api/api_keys.h"
#include "server/api/host_guard.h"
#include "server/context.h"

typedef struct ln_router {
    ln_context *context;     /* borrowed, as are keys and origin */
    ln_api_keys *api_keys;   /* one of them is asked for; NULL: none is */
    const char *cors_origin; /* "*" or one origin; NULL: none */
    ln_host_guard guard;
} ln_router;

/* The head is read: whether the body is wanted, which it is when the request has a route and a key;
 * otherwise why not is the answer. */
bool ln_router_wants_body(const ln_router *router, ln_exchange *exchange);
/* The request is whole. */
void ln_router_handle(const ln_router *router, ln_exchange *exchange);

#endif
