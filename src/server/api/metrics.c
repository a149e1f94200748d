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

static bool has_counts(const ln_model_entry *entry) {
    bool found = entry->metrics.n_prompt_tokens > 0;
    for (size_t i = 0; i < LN_METRICS_FINISHES; i++)
        found |= entry->metrics.n_finished[i] > 0;
    return found;
}

/* Describes the models that are loaded or have had requests; their number. */
static size_t describe(const ln_registry *registry, ln_metrics_model *models, ln_strbuf *used) {
    size_t n = 0;
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *entry = &registry->entries[i];
        bool is_loaded = entry->state == LN_MODEL_LOADED;
        if (entry->is_gone || (!is_loaded && !has_counts(entry)))
            continue; /* another one may have the name of what is gone */
        ln_metrics_model *model = &models[n++];
        *model = (ln_metrics_model){.name = entry->served.name,
                                    .counts = &entry->metrics,
                                    .is_loaded = is_loaded,
                                    .stats.struct_bytes = sizeof model->stats,
                                    .hangs = entry->health.hangs,
                                    .max_adapters = entry->served.max_adapters,
                                    .used_adapters = ""};
        if (!is_loaded)
            continue;
        linnet_engine_get_stats(entry->served.engine, &model->stats);
        list_used_adapters(entry->served.engine, used);
    }
    if (n == 1 && used->len > 0)
        models[0].used_adapters = used->data;
    return n;
}

void ln_endpoint_metrics(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    ln_strbuf used = {0};
    ln_health_look(&context->health);
    ln_metrics_model *models = calloc(registry->n_entries, sizeof *models);
    ln_metrics_now now = {.prefix = context->metrics_prefix,
                          .model = registry->is_fixed ? registry->entries[0].served.name : "",
                          .models = models,
                          .n_models = models != NULL ? describe(registry, models, &used) : 0,
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
    free(models);
}
