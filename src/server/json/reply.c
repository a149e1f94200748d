#include "server/json/reply.h"

#include <stdio.h>

#include "server/http/response.h"
#include "server/json/out.h"

static const char media_type[] = "application/json";

/* The error when there is no room to write one. */
static const char without_memory[] =
    "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,"
    "\"code\":null}}";

void ln_reply_put_error(ln_strbuf *out, const ln_api_error *error) {
    ln_strbuf_puts(out, "{\"error\":{\"message\":");
    ln_json_put_text(out, error->message);
    ln_strbuf_puts(out, ",\"type\":");
    ln_json_put_text(out, error->type);
    ln_strbuf_puts(out, ",\"param\":");
    ln_json_put_text(out, error->param[0] != '\0' ? error->param : NULL);
    ln_strbuf_puts(out, ",\"code\":");
    ln_json_put_text(out, error->code);
    ln_strbuf_puts(out, "}}");
}

static const char *messages_type(const ln_api_error *error) {
    return error->status == 413   ? "request_too_large"
           : error->status == 503 ? "overloaded_error"
           : error->status >= 500 ? "api_error"
                                  : error->type;
}

void ln_reply_put_error_in(ln_dialect dialect, ln_strbuf *out, const ln_api_error *error,
                           const char *request_id) {
    switch (dialect) {
    case LN_DIALECT_MESSAGES:
        ln_strbuf_puts(out, "{\"type\":\"error\",\"error\":{\"type\":");
        ln_json_put_text(out, messages_type(error));
        ln_strbuf_puts(out, ",\"message\":");
        ln_json_put_text(out, error->message);
        ln_strbuf_putc(out, '}');
        if (request_id != NULL) {
            ln_strbuf_puts(out, ",\"request_id\":");
            ln_json_put_text(out, request_id);
        }
        ln_strbuf_putc(out, '}');
        return;
    case LN_DIALECT_OLLAMA:
        ln_strbuf_puts(out, "{\"error\":");
        ln_json_put_text(out, error->message);
        ln_strbuf_putc(out, '}');
        return;
    case LN_DIALECT_OPENAI:
    default: ln_reply_put_error(out, error); return;
    }
}

void ln_reply_error(ln_exchange *exchange, const ln_api_error *error) {
    ln_strbuf json;
    char seconds[16];
    ln_strbuf_init(&json);
    ln_reply_put_error_in((ln_dialect)exchange->dialect, &json, error, exchange->id);
    if (error->status == 429 || error->status == 503) {
        snprintf(seconds, sizeof seconds, "%u", error->retry_s > 0 ? error->retry_s : 1);
        ln_response_add_header(exchange, "Retry-After", seconds);
    }
    if (error->status == 401)
        ln_response_add_header(exchange, "WWW-Authenticate", "Bearer");
    if (json.failed)
        ln_response_send(exchange, 503, media_type, without_memory, sizeof without_memory - 1);
    else
        ln_response_send(exchange, error->status, media_type, json.data, json.len);
    ln_strbuf_free(&json);
}

void ln_reply_json(ln_exchange *exchange, const ln_strbuf *json) {
    static const ln_api_error out_of_memory = {
        .status = 503, .type = "server_error", .message = "out of memory"};
    if (json->failed)
        ln_reply_error(exchange, &out_of_memory);
    else
        ln_response_send(exchange, 200, media_type, json->data, json->len);
}
