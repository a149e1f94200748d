/* /v1/models: the models that the server offers. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/json/out.h"
#include "server/json/reply.h"

typedef struct time_buffer {
    char text[32];
} time_buffer;

static time_buffer time_text(int64_t seconds) {
    time_buffer buffer;
    time_t time = (time_t)seconds;
    struct tm fields;
    gmtime_r(&time, &fields);
    strftime(buffer.text, sizeof buffer.text, "%Y-%m-%dT%H:%M:%SZ", &fields);
    return buffer;
}

/* With the members that clients of OpenAI's API know and those of Anthropic's; its state as
 * llama.cpp's router has it. */
static void put_model(ln_strbuf *out, const ln_model_entry *entry, const char *adapter,
                      int64_t created_s) {
    const ln_served_model *served = &entry->served;
    const char *name = adapter != NULL ? adapter : served->name;
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, name);
    ln_strbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"linnet\"",
                     (long long)created_s);
    if (entry->has_plan)
        ln_strbuf_printf(out, ",\"max_model_len\":%zu", served->ctx_tokens);
    ln_strbuf_puts(out, ",\"type\":\"model\",\"lifecycle\":\"active\",\"display_name\":");
    ln_json_put_text(out, name);
    ln_strbuf_puts(out, ",\"root\":"); /* these as vLLM has them */
    ln_json_put_text(out, name);
    ln_strbuf_puts(out, ",\"parent\":");
    ln_json_put_text(out, adapter != NULL ? served->name : NULL);
    ln_strbuf_printf(out, ",\"status\":{\"value\":\"%s\"", ln_model_state_name(entry));
    const char *failure = entry->health.trouble != NULL ? entry->health.trouble : entry->failure;
    if (failure[0] != '\0') {
        ln_strbuf_puts(out, ",\"failed\":true,\"error\":");
        ln_json_put_text(out, failure);
    }
    ln_strbuf_puts(out, "}");
    if (entry->has_plan && adapter == NULL)
        ln_strbuf_printf(out, ",\"memory\":{\"host_bytes\":%zu,\"device_bytes\":%zu}",
                         entry->need.host_bytes, entry->need.device_bytes);
    ln_strbuf_printf(out, ",\"created_at\":\"%s\"}", time_text(created_s).text);
}

/* The model and, while it is loaded, its adapters. */
static void put_models(ln_strbuf *out, const ln_registry *registry, const ln_model_entry *entry,
                       char *last, size_t n_last) {
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    put_model(out, entry, NULL, registry->created_s);
    snprintf(last, n_last, "%s", entry->served.name);
    for (size_t i = 0; entry->state == LN_MODEL_LOADED &&
                       linnet_engine_get_adapter(entry->served.engine, i, &adapter);
         i++) {
        ln_strbuf_putc(out, ',');
        put_model(out, entry, adapter.name, registry->created_s);
        snprintf(last, n_last, "%s", adapter.name);
    }
}

void ln_endpoint_models(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    const char *first = NULL;
    char last[256];
    ln_registry_look(&context->registry);
    ln_health_look(&context->health);
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < registry->n_entries; i++) {
        if (registry->entries[i].is_gone)
            continue;
        if (first != NULL)
            ln_strbuf_putc(out, ',');
        else
            first = registry->entries[i].served.name;
        put_models(out, registry, &registry->entries[i], last, sizeof last);
    }
    ln_strbuf_puts(out, "],\"has_more\":false,\"first_id\":");
    ln_json_put_text(out, first);
    ln_strbuf_puts(out, ",\"last_id\":");
    ln_json_put_text(out, first != NULL ? last : NULL);
    ln_strbuf_putc(out, '}');
    ln_reply_json(exchange, out);
}

/* The model that a part of the path names, or the one that has its adapter. */
static const ln_model_entry *find(const ln_registry *registry, const char *part,
                                  linnet_adapter *adapter, bool *is_adapter) {
    *is_adapter = false;
    for (size_t i = 0; i < registry->n_entries; i++)
        if (!registry->entries[i].is_gone && ln_query_is(part, registry->entries[i].served.name))
            return &registry->entries[i];
    *is_adapter = true;
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *entry = &registry->entries[i];
        for (size_t j = 0; entry->state == LN_MODEL_LOADED && !entry->is_gone &&
                           linnet_engine_get_adapter(entry->served.engine, j, adapter);
             j++)
            if (ln_query_is(part, adapter->name))
                return entry;
    }
    return NULL;
}

void ln_endpoint_model(ln_context *context, ln_exchange *exchange) {
    const ln_registry *registry = &context->registry;
    const char *name = exchange->path + strlen("/v1/models/");
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    bool is_adapter;
    ln_registry_look(&context->registry);
    ln_health_look(&context->health);
    const ln_model_entry *entry = find(registry, name, &adapter, &is_adapter);
    if (entry == NULL) {
        ln_api_error error = {0};
        if (registry->is_fixed) {
            ln_served_model_miss(&registry->entries[0].served, name, &error);
        } else {
            ln_api_fail(&error, 404, "model",
                        "there is no model '%.128s'; GET /v1/models lists what there is", name);
            error.code = "model_not_found";
        }
        ln_reply_error(exchange, &error);
        return;
    }
    ln_strbuf_clear(&context->scratch);
    put_model(&context->scratch, entry, is_adapter ? adapter.name : NULL, registry->created_s);
    ln_reply_json(exchange, &context->scratch);
}
