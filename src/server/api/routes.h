/* The endpoints: which handler answers which method and path. routes.inc has the table. */
#ifndef LN_SERVER_API_ROUTES_H
#define LN_SERVER_API_ROUTES_H

#include "server/context.h"
#include "server/json/reply.h"

/* Who may call a route: with a key; anybody whose Host and Origin pass, as a browser that opens a
 * page cannot send a key; anybody. */
typedef enum ln_access { LN_ACCESS_KEYED, LN_ACCESS_PAGE, LN_ACCESS_PUBLIC } ln_access;

typedef struct ln_route {
    ln_http_method method;
    const char *path; /* '*' at its end: all that begin so; within: any one part */
    ln_access access;
    ln_dialect dialect;
    /* Answers the exchange, now or later, on the server's thread. */
    void (*handle)(ln_context *context, ln_exchange *exchange);
} ln_route;

/* The route of a path and method, or, where there is none, one of the path by another method; NULL:
 * there is no such path. */
const ln_route *ln_routes_find(const char *path, ln_http_method method);
/* The methods of a path, as the header Allow has them. */
void ln_routes_list_methods(const char *path, char *methods, size_t capacity);
/* A path as the table has it: without a slash at its end, and with /v1 before it where only that is
 * there. malloc'd; NULL: no memory. */
char *ln_routes_complete(const char *path);
/* All of them: [*n_routes]. */
const ln_route *ln_routes_get(size_t *n_routes);
const char *ln_route_method_name(const ln_route *route);

#define ROUTE(method, path, access, dialect, handler)                                              \
    void ln_endpoint_##handler(ln_context *context, ln_exchange *exchange);
#include "server/api/routes.inc"
#undef ROUTE

#endif
