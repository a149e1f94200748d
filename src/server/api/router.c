#include "server/api/router.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/load_report.h"
#include "server/api/routes.h"
#include "server/http/response.h"
#include "server/json/reply.h"

/* Compares with every key, each over the longest possible length, so that the time says nothing
 * of where they differ. */
static bool is_key(const ln_router *router, const char *credential) {
    enum { MAX_BYTES = LN_ROUTER_MAX_KEY_BYTES };
    char given[MAX_BYTES] = {0}, key[MAX_BYTES];
    size_t n_given = strlen(credential);
    memcpy(given, credential, n_given < MAX_BYTES ? n_given : MAX_BYTES);
    bool found = false;
    for (size_t i = 0; i < router->n_api_keys; i++) {
        size_t n_bytes = strlen(router->api_keys[i]);
        volatile unsigned char difference = n_bytes != n_given;
        memset(key, 0, sizeof key);
        memcpy(key, router->api_keys[i], n_bytes < MAX_BYTES ? n_bytes : MAX_BYTES);
        for (size_t j = 0; j < MAX_BYTES; j++)
            difference = (unsigned char)(difference | (given[j] ^ key[j]));
        found |= difference == 0;
    }
    return found;
}

static bool has_key(const ln_router *router, const ln_exchange *exchange) {
    const char *credential = exchange->credential, *api_key = exchange->api_key;
    return router->n_api_keys == 0 || (credential != NULL && is_key(router, credential)) ||
           (api_key != NULL && is_key(router, api_key));
}

static void add_cors(const ln_router *router, ln_exchange *exchange) {
    const char *allowed = router->cors_origin;
    if (allowed == NULL || exchange->origin == NULL)
        return;
    if (strcmp(allowed, "*") != 0 && strcmp(allowed, exchange->origin) != 0)
        return;
    ln_response_add_header(exchange, "Access-Control-Allow-Origin", allowed);
    ln_response_add_header(exchange, "Vary", "Origin");
    ln_response_add_header(exchange, "Access-Control-Expose-Headers",
                           "X-Request-Id, Retry-After, X-Ignored-Fields");
}

/* Where a browser opens "/", it gets the web page; others get what root.c says. */
static const ln_route *find_route(const ln_router *router, const ln_exchange *exchange) {
    bool has_page = router->context->has_web_page;
    bool opens = has_page && exchange->wants_html && strcmp(exchange->path, "/") == 0;
    const ln_route *found =
        ln_routes_find(opens ? "/web/index.html" : exchange->path, exchange->method);
    return found != NULL && found->access == LN_ACCESS_PAGE && !has_page ? NULL : found;
}

static bool may_call(const ln_router *router, const ln_route *route, const ln_exchange *exchange) {
    return route->access == LN_ACCESS_PUBLIC ||
           (ln_host_guard_check(&router->guard, exchange) == NULL &&
            (route->access == LN_ACCESS_PAGE || has_key(router, exchange)));
}

bool ln_router_wants_body(const ln_router *router, ln_exchange *exchange) {
    char *path = ln_routes_complete(exchange->path);
    if (path != NULL) {
        free(exchange->path);
        exchange->path = path;
    }
    const ln_route *found = find_route(router, exchange);
    exchange->route = NULL;
    exchange->dialect = found != NULL ? (int)found->dialect : LN_DIALECT_OPENAI;
    if (found == NULL || found->method != exchange->method || !may_call(router, found, exchange))
        return false;
    exchange->route = found;
    return true;
}

static void refuse(const ln_router *router, ln_exchange *exchange) {
    ln_api_error error = {0};
    char methods[64];
    const ln_route *found = find_route(router, exchange);
    bool is_open = found != NULL && found->access == LN_ACCESS_PUBLIC;
    bool is_page = found != NULL && found->access == LN_ACCESS_PAGE;
    const char *culprit = ln_host_guard_check(&router->guard, exchange);
    if (!is_open && culprit != NULL) {
        ln_api_fail(&error, 403, NULL,
                    "the header %s names a site, which may be a page that must not call this "
                    "server; --allowed-host, --cors or --api-key let it in",
                    culprit);
    } else if (!is_open && !is_page && !has_key(router, exchange)) {
        ln_api_fail(&error, 401, NULL, "the API key is missing or wrong");
        error.code = "invalid_api_key";
    } else if (found == NULL) {
        ln_api_fail(&error, 404, NULL, "there is no %.256s; GET / names what there is",
                    exchange->path);
    } else {
        ln_routes_list_methods(exchange->path, methods, sizeof methods);
        ln_response_add_header(exchange, "Allow", methods);
        ln_api_fail(&error, 405, NULL, "%s is not possible for %.256s", exchange->verb,
                    exchange->path);
    }
    ln_reply_error(exchange, &error);
}

void ln_router_handle(const ln_router *router, ln_exchange *exchange) {
    const ln_route *found = exchange->route;
    add_cors(router, exchange);
    if (found != NULL)
        ln_load_report_add(router->context, exchange);
    if (exchange->method == LN_HTTP_OPTIONS && router->cors_origin != NULL) {
        ln_response_add_header(exchange, "Access-Control-Allow-Methods",
                               "GET, POST, DELETE, OPTIONS");
        ln_response_add_header(exchange, "Access-Control-Allow-Headers",
                               exchange->asked_headers != NULL
                                   ? exchange->asked_headers
                                   : "authorization, content-type, x-api-key, x-request-id");
        ln_response_add_header(exchange, "Access-Control-Max-Age", "600");
        ln_response_send(exchange, 204, NULL, NULL, 0);
    } else if (found == NULL) {
        refuse(router, exchange);
    } else {
        found->handle(router->context, exchange);
    }
}
