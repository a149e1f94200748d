#include "server/api/router.h"

#include <string.h>

#include "server/api/routes.h"
#include "server/http/response.h"
#include "server/json/reply.h"

/* Compares with every key, each over the longest possible length, so that the time says nothing
 * of where they differ. */
static bool has_key(const ln_router *router, const ln_exchange *exchange) {
    enum { MAX_BYTES = LN_ROUTER_MAX_KEY_BYTES };
    char given[MAX_BYTES] = {0}, key[MAX_BYTES];
    const char *credential = exchange->credential != NULL ? exchange->credential : "";
    size_t n_given = strlen(credential);
    memcpy(given, credential, n_given < MAX_BYTES ? n_given : MAX_BYTES);
    bool found = router->n_api_keys == 0;
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

bool ln_router_wants_body(const ln_router *router, ln_exchange *exchange) {
    const ln_route *found = ln_routes_find(exchange->path);
    exchange->route = NULL;
    if (found == NULL || found->method != exchange->method)
        return false;
    if (!found->is_public && !has_key(router, exchange))
        return false;
    exchange->route = found;
    return true;
}

static void refuse(const ln_router *router, ln_exchange *exchange) {
    ln_api_error error = {0};
    const ln_route *found = ln_routes_find(exchange->path);
    bool is_open = found != NULL && found->is_public;
    if (!is_open && !has_key(router, exchange)) {
        ln_api_fail(&error, 401, NULL, "the API key is missing or wrong");
        error.code = "invalid_api_key";
    } else if (found == NULL) {
        ln_api_fail(&error, 404, NULL, "there is no %.256s; GET / names what there is",
                    exchange->path);
    } else {
        ln_response_add_header(exchange, "Allow",
                               found->method == LN_HTTP_GET ? "GET, HEAD" : "POST");
        ln_api_fail(&error, 405, NULL, "%s is not possible for %.256s", exchange->verb,
                    exchange->path);
    }
    ln_reply_error(exchange, &error);
}

void ln_router_handle(const ln_router *router, ln_exchange *exchange) {
    const ln_route *found = exchange->route;
    add_cors(router, exchange);
    if (exchange->method == LN_HTTP_OPTIONS && router->cors_origin != NULL) {
        ln_response_add_header(exchange, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        ln_response_add_header(exchange, "Access-Control-Allow-Headers",
                               "authorization, content-type, x-request-id");
        ln_response_add_header(exchange, "Access-Control-Max-Age", "600");
        ln_response_send(exchange, 204, NULL, NULL, 0);
    } else if (found == NULL) {
        refuse(router, exchange);
    } else {
        found->handle(router->context, exchange);
    }
}
