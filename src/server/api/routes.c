#include "server/api/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ln_route routes[] = {
#define ROUTE(method, path, access, dialect, handler)                                              \
    {LN_HTTP_##method, path, LN_ACCESS_##access, LN_DIALECT_##dialect, ln_endpoint_##handler},
#include "server/api/routes.inc"
#undef ROUTE
};

enum { N_ROUTES = sizeof routes / sizeof *routes };

static const char *method_name(ln_http_method method) {
    return method == LN_HTTP_GET ? "GET" : method == LN_HTTP_DELETE ? "DELETE" : "POST";
}

/* A '*' in a pattern stands for the rest of one part of a path, "**" at its end for all that
 * follows. */
static bool matches(const char *pattern, const char *path) {
    const char *star = strchr(pattern, '*');
    if (star == NULL)
        return strcmp(path, pattern) == 0;
    size_t n_before = (size_t)(star - pattern);
    if (strncmp(path, pattern, n_before) != 0)
        return false;
    size_t n_part = strcspn(path + n_before, "/");
    return star[1] == '*' || (n_part > 0 && matches(star + 1, path + n_before + n_part));
}

const ln_route *ln_routes_find(const char *path, ln_http_method method) {
    const ln_route *first = NULL;
    for (size_t i = 0; i < N_ROUTES; i++) {
        bool fits = first == NULL ? matches(routes[i].path, path)
                                  : strcmp(routes[i].path, first->path) == 0;
        if (fits && routes[i].method == method)
            return &routes[i];
        if (fits && first == NULL)
            first = &routes[i];
    }
    return first;
}

void ln_routes_list_methods(const char *path, char *methods, size_t capacity) {
    size_t n_bytes = 0;
    const ln_route *found = ln_routes_find(path, LN_HTTP_OTHER);
    methods[0] = '\0';
    for (size_t i = 0; found != NULL && i < N_ROUTES; i++)
        if (strcmp(routes[i].path, found->path) == 0 && n_bytes < capacity)
            n_bytes += (size_t)snprintf(methods + n_bytes, capacity - n_bytes, "%s%s%s",
                                        n_bytes > 0 ? ", " : "", method_name(routes[i].method),
                                        routes[i].method == LN_HTTP_GET ? ", HEAD" : "");
}

char *ln_routes_complete(const char *path) {
    size_t n_bytes = strlen(path);
    char *whole = malloc(n_bytes + sizeof "/v1");
    if (whole == NULL)
        return NULL;
    memcpy(whole, "/v1", 3);
    memcpy(whole + 3, path, n_bytes + 1);
    if (n_bytes > 1 && path[n_bytes - 1] == '/')
        whole[2 + n_bytes] = '\0';
    if (ln_routes_find(whole + 3, LN_HTTP_OTHER) != NULL ||
        ln_routes_find(whole, LN_HTTP_OTHER) == NULL)
        memmove(whole, whole + 3, strlen(whole + 3) + 1);
    return whole;
}

const ln_route *ln_routes_get(size_t *n_routes) {
    *n_routes = N_ROUTES;
    return routes;
}

const char *ln_route_method_name(const ln_route *route) {
    return method_name(route->method);
}
