/* /: for who looks by hand, what there is. */
#include <string.h>

#include "server/api/routes.h"
#include "server/http/response.h"
#include "server/json/out.h"
#include "server/json/reply.h"

void ln_endpoint_root(ln_context *context, ln_exchange *exchange) {
    size_t n_routes;
    const ln_route *routes = ln_routes_get(&n_routes);
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"message\":\"linnet serves a language model\",\"model\":");
    const ln_model_entry *latest = ln_registry_latest(&context->registry);
    ln_json_put_text(out, latest != NULL ? latest->served.name : NULL);
    ln_strbuf_puts(out, ",\"endpoints\":[");
    for (size_t i = 0; i < n_routes; i++)
        if (strchr(routes[i].path, '*') == NULL &&
            (routes[i].access != LN_ACCESS_PAGE || context->has_web_page))
            ln_strbuf_printf(out, "%s\"%s %s\"", i > 0 ? "," : "", ln_route_method_name(&routes[i]),
                             routes[i].path);
    ln_strbuf_puts(out, "]}");
    if (context->has_web_page)
        ln_response_add_header(exchange, "Vary", "Accept");
    ln_reply_json(exchange, out);
}
