/* /health and /ready: for who watches the server, or sends requests its way. */
#include <stdio.h>

#include "server/api/routes.h"
#include "server/http/response.h"

static void answer(ln_exchange *exchange, const char *trouble, const char *otherwise) {
    char json[64];
    int n_bytes =
        snprintf(json, sizeof json, "{\"status\":\"%s\"}", trouble != NULL ? trouble : otherwise);
    ln_response_send(exchange, trouble != NULL ? 503 : 200, "application/json", json,
                     (size_t)n_bytes);
}

void ln_endpoint_health(ln_context *context, ln_exchange *exchange) {
    answer(exchange, ln_health_find_trouble(&context->health), "ok");
}

void ln_endpoint_ready(ln_context *context, ln_exchange *exchange) {
    const char *trouble = ln_health_find_trouble(&context->health);
    answer(exchange, context->shutdown.is_draining ? "draining" : trouble, "ready");
}
