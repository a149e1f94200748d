/* /metrics, for Prometheus. */
#include <stdlib.h>

#include "server/api/routes.h"
#include "server/http/response.h"

static void list_used_adapters(linnet_engine *engine, ln_strbuf *names) {
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    for (size_t i = 0; linnet_engine_get_adapter(engine, i, &adapter); i++)
        if (adapter.n_requests > 0)
            ln_strbuf_printf(names, "%s%s", names->len > 0 ? "," : "", adapter.name);
}

/* Describes the loaded models; their number. */
static size_t describe(const ln_registry *registry, ln_metrics_engine *engines, ln_strbuf *used) {
    size_t n = 0;
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_served_model *served = &registry->entries[i].served;
        if (registry->entries[i].state != LN_MODEL_LOADED)
            continue;
        engines[n] = (ln_metrics_engine){.model = served->name,
                                         .stats.struct_bytes = sizeof engines[n].stats,
                                         .hangs = registry->entries[i].health.hangs,
                                         .max_adapters = served->max_adapters};
        linnet_engine_get_stats(served->engine, &engines[n].stats);
        list_used_adapters(served->engine, used);
        n++;
    }
    if (n == 1)
        engines[0].used_adapters = used->len > 0 ? used->data : "";
    return n;
}

void ln_endpoint_metrics(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    ln_strbuf used = {0};
    ln_health_look(&context->health);
    ln_metrics_engine *engines = calloc(registry->n_entries, sizeof *engines);
    ln_metrics_now now = {.prefix = context->metrics_prefix,
                          .model = registry->is_fixed ? registry->entries[0].served.name : "",
                          .engines = engines,
                          .n_engines = engines != NULL ? describe(registry, engines, &used) : 0,
                          .n_dropped_lines = context->log->n_dropped,
                          .n_open = atomic_load(&context->admission.n_open),
                          .n_connections = ln_listener_count_connections(context->listener)};
    if (context->kv_events != NULL) {
        now.has_kv_events = true;
        now.kv_events = ln_kv_publisher_count(context->kv_events);
    }
    ln_strbuf_clear(out);
    ln_metrics_render(&context->metrics, &now, out);
    ln_response_send(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", out->data,
                     out->len);
    ln_strbuf_free(&used);
    free(engines);
}
