#include "server/api/routes.h"

#include <string.h>

enum { KEYED = false, PUBLIC = true };

static const ln_route routes[] = {
#define ROUTE(method, path, access, handler)                                                       \
    {LN_HTTP_##method, path, access, ln_endpoint_##handler},
#include "server/api/routes.inc"
#undef ROUTE
};

static bool matches(const char *pattern, const char *path) {
    size_t n_bytes = strlen(pattern);
    if (pattern[n_bytes - 1] == '*')
        return strncmp(path, pattern, n_bytes - 1) == 0;
    return strcmp(path, pattern) == 0;
}

const ln_route *ln_routes_find(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (matches(routes[i].path, path))
            return &routes[i];
    return NULL;
}

const ln_route *ln_routes_get(size_t *n_routes) {
    *n_routes = sizeof routes / sizeof *routes;
    return routes;
}
