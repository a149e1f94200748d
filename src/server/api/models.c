/* /v1/models: the model that is served. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/api/routes.h"
#include "server/json/out.h"
#include "server/json/reply.h"

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *found = c != '\0' ? strchr(digits, c | 32) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* Whether a part of a path stands for the name, with %XX for some of its bytes. */
static bool is_encoded(const char *part, const char *name) {
    for (; *part != '\0' && *name != '\0'; name++) {
        int high = *part == '%' ? hex_digit(part[1]) : -1;
        int low = high >= 0 ? hex_digit(part[2]) : -1;
        char byte = low >= 0 ? (char)(high << 4 | low) : *part;
        if (byte != *name)
            return false;
        part += low >= 0 ? 3 : 1;
    }
    return *part == *name;
}

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

/* With the members that clients of OpenAI's API know and those of Anthropic's. */
static void put_model(ln_strbuf *out, const ln_served_model *served, const char *adapter) {
    const char *name = adapter != NULL ? adapter : served->name;
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, name);
    ln_strbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"linnet\"",
                     (long long)served->created_s);
    ln_strbuf_printf(
        out, ",\"max_model_len\":%zu,\"type\":\"model\",\"display_name\":", served->ctx_tokens);
    ln_json_put_text(out, name);
    if (adapter != NULL) { /* as vLLM has it */
        ln_strbuf_puts(out, ",\"root\":");
        ln_json_put_text(out, name);
        ln_strbuf_puts(out, ",\"parent\":");
        ln_json_put_text(out, served->name);
    }
    ln_strbuf_printf(out, ",\"created_at\":\"%s\"}", time_text(served->created_s).text);
}

void ln_endpoint_models(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    char last[256];
    snprintf(last, sizeof last, "%s", context->served.name);
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"object\":\"list\",\"data\":[");
    put_model(out, &context->served, NULL);
    for (size_t i = 0; linnet_engine_get_adapter(context->served.engine, i, &adapter); i++) {
        ln_strbuf_putc(out, ',');
        put_model(out, &context->served, adapter.name);
        snprintf(last, sizeof last, "%s", adapter.name);
    }
    ln_strbuf_puts(out, "],\"has_more\":false,\"first_id\":");
    ln_json_put_text(out, context->served.name);
    ln_strbuf_puts(out, ",\"last_id\":");
    ln_json_put_text(out, last);
    ln_strbuf_putc(out, '}');
    ln_reply_json(exchange, out);
}

void ln_endpoint_model(ln_context *context, ln_exchange *exchange) {
    const ln_served_model *served = &context->served;
    const char *name = exchange->path + strlen("/v1/models/");
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    bool is_model = is_encoded(name, served->name), is_adapter = false;
    for (size_t i = 0;
         !is_model && !is_adapter && linnet_engine_get_adapter(served->engine, i, &adapter); i++)
        is_adapter = is_encoded(name, adapter.name);
    if (!is_model && !is_adapter) {
        ln_api_error error = {0};
        ln_api_fail(&error, 404, "model", "there is no model '%.128s'; this server has '%.128s'",
                    name, served->name);
        error.code = "model_not_found";
        ln_reply_error(exchange, &error);
        return;
    }
    ln_strbuf_clear(&context->scratch);
    put_model(&context->scratch, served, is_adapter ? adapter.name : NULL);
    ln_reply_json(exchange, &context->scratch);
}
