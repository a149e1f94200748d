/* From a request to the handler of its route: keys, hosts, CORS, and what is said where there is
 * none. */
#ifndef LN_SERVER_API_ROUTER_H
#define LN_SERVER_API_ROUTER_H

#include "server/api/host_guard.h"
#include "server/context.h"

enum { LN_ROUTER_MAX_KEY_BYTES = 256 };

typedef struct ln_router {
    ln_context *context;         /* borrowed, as are keys and origin */
    const char *const *api_keys; /* [n_api_keys]; none: no key is asked for */
    size_t n_api_keys;
    const char *cors_origin; /* "*" or one origin; NULL: none */
    ln_host_guard guard;
} ln_router;

/* The head is read: whether the body is wanted, which it is when the request has a route and a key;
 * otherwise why not is the answer. */
bool ln_router_wants_body(const ln_router *router, ln_exchange *exchange);
/* The request is whole. */
void ln_router_handle(const ln_router *router, ln_exchange *exchange);

#endif
