/* /version. */
#include "server/api/routes.h"
#include "server/json/reply.h"

void ln_endpoint_version(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_printf(out, "{\"version\":\"%s\"}", linnet_version());
    ln_reply_json(exchange, out);
}
