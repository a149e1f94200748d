#include "server/api/stored_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/out.h"
#include "server/json/reply.h"

void ln_stored_take_id(const ln_exchange *exchange, const char *before, char *id) {
    const char *begin = exchange->path + strlen(before);
    size_t n_bytes = strcspn(begin, "/");
    snprintf(id, LN_STORED_ID_BYTES, "%.*s", n_bytes < LN_STORED_ID_BYTES ? (int)n_bytes : 0,
             begin);
}

void ln_stored_reply(ln_context *context, ln_exchange *exchange, char *json) {
    ln_strbuf_clear(&context->scratch);
    ln_strbuf_puts(&context->scratch, json);
    ln_reply_json(exchange, &context->scratch);
    free(json);
}

void ln_stored_reply_deleted(ln_context *context, ln_exchange *exchange, const char *id,
                             const char *kind) {
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, id);
    ln_strbuf_printf(out, ",\"object\":\"%s\",\"deleted\":true}", kind);
    ln_reply_json(exchange, out);
}

void ln_stored_reply_missing(ln_exchange *exchange, const char *what, const char *param,
                             const char *id) {
    ln_api_error error = {0};
    ln_api_fail(&error, 404, param, "%s with id '%s' not found.", what, id);
    ln_reply_error(exchange, &error);
}
