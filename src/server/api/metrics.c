/* /metrics, for Prometheus. */
#include "server/api/routes.h"
#include "server/http/response.h"

void ln_endpoint_metrics(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    ln_metrics_now now = {.model = context->served.name,
                          .n_dropped_lines = context->log->n_dropped,
                          .n_open = atomic_load(&context->admission.n_open),
                          .n_connections = ln_listener_count_connections(context->listener)};
    now.engine.struct_bytes = sizeof now.engine;
    linnet_engine_get_stats(context->served.engine, &now.engine);
    ln_strbuf_clear(out);
    ln_metrics_render(&context->metrics, &now, out);
    ln_response_send(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", out->data,
                     out->len);
}
