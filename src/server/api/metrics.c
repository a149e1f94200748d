/* /metrics, for Prometheus. */
#include "server/api/routes.h"
#include "server/http/response.h"

static void list_used_adapters(linnet_engine *engine, ln_strbuf *names) {
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    for (size_t i = 0; linnet_engine_get_adapter(engine, i, &adapter); i++)
        if (adapter.n_requests > 0)
            ln_strbuf_printf(names, "%s%s", names->len > 0 ? "," : "", adapter.name);
}

void ln_endpoint_metrics(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    ln_strbuf used = {0};
    ln_metrics_now now = {.prefix = context->metrics_prefix,
                          .model = context->served.name,
                          .max_adapters = context->served.max_adapters,
                          .n_dropped_lines = context->log->n_dropped,
                          .n_open = atomic_load(&context->admission.n_open),
                          .n_connections = ln_listener_count_connections(context->listener)};
    now.engine.struct_bytes = sizeof now.engine;
    linnet_engine_get_stats(context->served.engine, &now.engine);
    list_used_adapters(context->served.engine, &used);
    now.used_adapters = used.len > 0 ? used.data : "";
    ln_strbuf_clear(out);
    ln_metrics_render(&context->metrics, &now, out);
    ln_response_send(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", out->data,
                     out->len);
    ln_strbuf_free(&used);
}
