/* What an HTTP parser makes of bytes, as one text: "GET /a 1.1;name=value;HEAD;data;END", where
 * trailers begin with '+', a connection that closes is marked "HEAD close", and a refusal is its
 * status. Shared by the unit test and the fuzz target. */
#ifndef LN_TESTS_SERVER_HTTP_TRACE_H
#define LN_TESTS_SERVER_HTTP_TRACE_H

#include "server/http/parser.h"

typedef struct http_trace {
    ln_strbuf text;
    size_t n_used;  /* bytes of the request */
    bool is_inside; /* the body's data, which may come in any number of pieces */
    int status;     /* of a refusal */
} http_trace;

static inline void trace_event(const ln_http_parser *parser, ln_http_event event,
                               http_trace *trace) {
    ln_strbuf *out = &trace->text;
    if (event != LN_HTTP_EVENT_MORE && event != LN_HTTP_EVENT_DATA) {
        if (trace->is_inside)
            ln_strbuf_putc(out, ';');
        trace->is_inside = false;
    }
    switch (event) {
    case LN_HTTP_EVENT_MORE: break;
    case LN_HTTP_EVENT_HEADER:
        ln_strbuf_puts(out, parser->is_trailer ? "+" : "");
        ln_strbuf_append(out, parser->name.data, parser->name.len);
        ln_strbuf_putc(out, '=');
        ln_strbuf_append(out, parser->value.data, parser->value.len);
        ln_strbuf_putc(out, ';');
        break;
    case LN_HTTP_EVENT_HEAD:
        ln_strbuf_printf(out, "%s %s 1.%d%s;", parser->method, parser->target.data,
                         parser->minor_version, parser->keeps_alive ? "" : " close");
        break;
    case LN_HTTP_EVENT_DATA:
        trace->is_inside = true;
        ln_strbuf_append(out, parser->data, parser->n_data);
        break;
    case LN_HTTP_EVENT_END: ln_strbuf_puts(out, "END"); break;
    case LN_HTTP_EVENT_REFUSED:
        trace->status = parser->status;
        ln_strbuf_printf(out, "%d", parser->status);
        break;
    }
}

/* Feeds `step` bytes at a time, up to the end of the request. The caller frees trace->text. */
static inline void trace_request(const char *bytes, size_t n_bytes, size_t step,
                                 size_t max_head_bytes, http_trace *trace) {
    ln_http_parser parser;
    ln_http_event event = LN_HTTP_EVENT_MORE;
    *trace = (http_trace){.n_used = 0};
    ln_strbuf_init(&trace->text);
    ln_http_parser_init(&parser, max_head_bytes);
    for (size_t end = 0; end < n_bytes && event == LN_HTTP_EVENT_MORE;) {
        end = n_bytes - end < step ? n_bytes : end + step;
        do {
            trace->n_used +=
                ln_http_parser_feed(&parser, bytes + trace->n_used, end - trace->n_used, &event);
            trace_event(&parser, event, trace);
        } while (event != LN_HTTP_EVENT_MORE && event != LN_HTTP_EVENT_END &&
                 event != LN_HTTP_EVENT_REFUSED);
    }
    ln_http_parser_free(&parser);
}

#endif
