#include "server/api/router.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api/load_report.h"
#include "server/api/routes.h"
#include "server/http/response.h"
#include "server/json/reply.h"

/* Whether the exchange may call as far as keys go, and by which: that becomes the exchange's. */
static bool has_key(const ln_router *router, ln_exchange *exchange) {
    if (router->api_keys == NULL)
        return true;
    ln_api_key *key = NULL;
    if (exchange->credential != NULL)
        key = ln_api_keys_find(router->api_keys, exchange->credential);
    if (key == NULL && exchange->api_key != NULL)
        key = ln_api_keys_find(router->api_keys, exchange->api_key);
    exchange->key = key;
    exchange->key_name = key != NULL ? key->spec.name : "";
    return key != NULL;
}

/* Counts a request of the exchange's key; false: it is answered, as it comes too early. */
static bool take_request(ln_context *context, ln_exchange *exchange) {
    unsigned wait_s;
    ln_api_error error = {0};
    ln_api_key *key = exchange->key;
    if (key == NULL || ln_api_key_take(key, ln_clock_ns(), &wait_s))
        return true;
    ln_api_fail(&error, 429, NULL, "the key %.64s allows %u requests a minute", key->admission.name,
                key->spec.requests_per_minute);
    error.code = "rate_limit_exceeded";
    error.retry_s = wait_s;
    context->metrics.n_refused++;
    ln_reply_error(exchange, &error);
    return false;
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
                           "X-Request-Id, Request-Id, Retry-After, X-Ignored-Fields");
}

/* Where a browser opens "/", it gets the web page; others get what root.c says. */
static const ln_route *find_route(const ln_router *router, const ln_exchange *exchange) {
    bool has_page = router->context->has_web_page;
    bool opens = has_page && exchange->wants_html && strcmp(exchange->path, "/") == 0;
    const ln_route *found =
        ln_routes_find(opens ? "/web/index.html" : exchange->path, exchange->method);
    return found != NULL && found->access == LN_ACCESS_PAGE && !has_page ? NULL : found;
}

static bool may_call(const ln_router *router, const ln_route *route, ln_exchange *exchange) {
    return route->access == LN_ACCESS_PUBLIC ||
           (ln_host_guard_check(&router->guard, exchange) == NULL &&
            (route->access == LN_ACCESS_PAGE || has_key(router, exchange)));
}

/* The dialect of a path that is not there, by those beside it. */
static ln_dialect guess_dialect(const char *path) {
    static const struct {
        const char *before;
        ln_dialect dialect;
    } folders[] = {{"/api/", LN_DIALECT_OLLAMA}, {"/v1/messages/", LN_DIALECT_MESSAGES}};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(path, folders[i].before, strlen(folders[i].before)) == 0)
            return folders[i].dialect;
    return LN_DIALECT_OPENAI;
}

bool ln_router_wants_body(const ln_router *router, ln_exchange *exchange) {
    char *path = ln_routes_complete(exchange->path);
    if (path != NULL) {
        free(exchange->path);
        exchange->path = path;
    }
    const ln_route *found = find_route(router, exchange);
    exchange->route = NULL;
    exchange->dialect = (int)(found != NULL ? found->dialect : guess_dialect(exchange->path));
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
    } else if (take_request(router->context, exchange)) {
        found->handle(router->context, exchange);
    }
}
