/* The endpoints: which handler answers which method and path. routes.inc has the table. */
#ifndef LN_SERVER_API_ROUTES_H
#define LN_SERVER_API_ROUTES_H

#include "server/context.h"

typedef struct ln_route {
    ln_http_method method;
    const char *path; /* '*' at its end: all that begin so */
    bool is_public;   /* without a key */
    /* Answers the exchange, now or later, on the server's thread. */
    void (*handle)(ln_context *context, ln_exchange *exchange);
} ln_route;

/* The route of a path, whatever the method; NULL: there is none. */
const ln_route *ln_routes_find(const char *path);
/* All of them: [*n_routes]. */
const ln_route *ln_routes_get(size_t *n_routes);

#define ROUTE(method, path, access, handler)                                                       \
    void ln_endpoint_##handler(ln_context *context, ln_exchange *exchange);
#include "server/api/routes.inc"
#undef ROUTE

#endif
