/* /health and /ready: for who watches the server, or sends requests its way. */
#include <stdio.h>

#include "server/api/routes.h"
#include "server/http/response.h"
#include "server/json/out.h"

static void answer(ln_exchange *exchange, int status, const char *what) {
    char json[64];
    int n_bytes = snprintf(json, sizeof json, "{\"status\":\"%s\"}", what);
    ln_response_send(exchange, status, "application/json", json, (size_t)n_bytes);
}

/* 503, with the models that have trouble. */
static void answer_trouble(ln_context *context, ln_exchange *exchange, const char *trouble) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    const char *before = "";
    ln_strbuf_clear(out);
    ln_strbuf_printf(out, "{\"status\":\"%s\",\"models\":[", trouble);
    for (size_t i = 0; i < registry->n_entries; i++) {
        if (registry->entries[i].health.trouble == NULL)
            continue;
        ln_strbuf_puts(out, before);
        ln_json_put_text(out, registry->entries[i].served.name);
        before = ",";
    }
    ln_strbuf_puts(out, "]}");
    if (out->failed)
        answer(exchange, 503, trouble);
    else
        ln_response_send(exchange, 503, "application/json", out->data, out->len);
}

void ln_endpoint_health(ln_context *context, ln_exchange *exchange) {
    const char *trouble = ln_health_find_trouble(&context->health);
    if (trouble != NULL)
        answer_trouble(context, exchange, trouble);
    else
        answer(exchange, 200, "ok");
}

/* Whether a model can answer, if need be once it is loaded. */
static bool is_useful(const ln_registry *registry) {
    for (size_t i = 0; i < registry->n_entries; i++)
        if (!registry->entries[i].is_gone && registry->entries[i].health.trouble == NULL)
            return true;
    return false;
}

void ln_endpoint_ready(ln_context *context, ln_exchange *exchange) {
    const char *trouble = ln_health_find_trouble(&context->health);
    if (context->shutdown.is_draining)
        answer(exchange, 503, "draining");
    else if (trouble != NULL && !is_useful(&context->registry))
        answer_trouble(context, exchange, trouble);
    else
        answer(exchange, 200, "ready");
}
