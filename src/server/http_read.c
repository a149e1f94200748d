/* Requests from bytes: the parser's callbacks, and the rules that it leaves to its user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/connection.h"

/* Blank lines between requests are skipped, as the standard allows, but not without end. */
enum { MAX_PENDING_BYTES = 1 << 20, MAX_BLANK = 8 };

/* Refuses the request at the end of the step that found the fault. */
static bool refuse(ln_connection *connection, int status, const char *text) {
    if (connection->refusal == 0) {
        connection->refusal = status;
        connection->refusal_text = text;
    }
    return false;
}

/* ---- headers ---------------------------------------------------------------------------- */

static bool is(const ln_strbuf *name, const char *expected) {
    return strcasecmp(name->data, expected) == 0;
}

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Keeps a value that may come once. */
static bool keep(ln_connection *connection, char **slot, const char *value, const char *complaint) {
    if (*slot != NULL)
        return refuse(connection, 400, complaint);
    *slot = strdup(value);
    return *slot != NULL || refuse(connection, 503, "out of memory");
}

static bool take_authorization(ln_connection *connection, const char *value) {
    static const char scheme[] = "Bearer ";
    size_t n_bytes = sizeof scheme - 1;
    if (strncasecmp(value, scheme, n_bytes) != 0)
        value = ""; /* another scheme is no key */
    else
        value += n_bytes + strspn(value + n_bytes, " ");
    return keep(connection, &connection->exchange.credential, value,
                "there is more than one authorization header");
}

/* A client's own request id, when it is harmless in a log. */
static void take_id(ln_exchange *exchange, const ln_strbuf *value) {
    if (value->len == 0 || value->len > LN_HTTP_ID_BYTES)
        return;
    for (size_t i = 0; i < value->len; i++) {
        char c = value->data[i];
        if (!is_alnum(c) && strchr("-_.:", c) == NULL)
            return;
    }
    memcpy(exchange->id, value->data, value->len + 1);
}

/* Whether a value can be that of a host header: it may be empty. */
static bool is_host(const ln_strbuf *value) {
    for (size_t i = 0; i < value->len; i++) {
        char c = value->data[i];
        if (!is_alnum(c) && strchr("-._~:[]%!$&'()*+,;=", c) == NULL)
            return false;
    }
    return true;
}

static bool take_host(ln_connection *connection, const ln_strbuf *value) {
    if (connection->n_hosts++ > 0)
        return refuse(connection, 400, "there is more than one host header");
    return is_host(value) || refuse(connection, 400, "the host header is malformed");
}

/* What comes behind a body in chunks has no meaning here, and must not look as if it had: its names
 * are not those that say how a request is framed, sent or allowed. */
static bool check_trailer(ln_connection *connection, const ln_strbuf *name) {
    static const char *const forbidden[] = {
        "authorization", "content-encoding", "content-length", "content-type", "expect",
        "host",          "transfer-encoding"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (is(name, forbidden[i]))
            return refuse(connection, 400, "there is a header that cannot come behind a body");
    return true;
}

/* Takes what the server needs of a header; how the request is framed is the parser's part. */
static bool take_header(ln_connection *connection) {
    const ln_strbuf *name = &connection->parser.name, *value = &connection->parser.value;
    ln_exchange *exchange = &connection->exchange;
    if (++connection->n_headers > connection->http->limits.max_headers)
        return refuse(connection, 431, "there are too many headers");
    if (connection->parser.is_trailer)
        return check_trailer(connection, name);
    if (is(name, "host"))
        return take_host(connection, value);
    if (is(name, "authorization"))
        return take_authorization(connection, value->data);
    if (is(name, "origin"))
        return keep(connection, &exchange->origin, value->data,
                    "there is more than one origin header");
    if (is(name, "x-request-id"))
        take_id(exchange, value);
    if (is(name, "expect")) {
        if (strcasecmp(value->data, "100-continue") != 0)
            return refuse(connection, 417, "only the expectation 100-continue is known");
        connection->expects_continue = true;
    }
    if (is(name, "content-encoding") && strcasecmp(value->data, "identity") != 0)
        return refuse(connection, 415, "content-encoding is not supported");
    return true;
}

/* ---- heads and bodies -------------------------------------------------------------------- */

static ln_http_method method_of(const char *verb) {
    if (strcmp(verb, "GET") == 0 || strcmp(verb, "HEAD") == 0)
        return LN_HTTP_GET;
    if (strcmp(verb, "POST") == 0)
        return LN_HTTP_POST;
    return strcmp(verb, "OPTIONS") == 0 ? LN_HTTP_OPTIONS : LN_HTTP_OTHER;
}

/* The target's path: of "/path?query", or of the absolute "http://host/path?query". */
static bool take_target(ln_connection *connection) {
    if (connection->parser.is_connect)
        return refuse(connection, 405, "the method CONNECT is not supported");
    char *target = ln_strbuf_take(&connection->parser.target);
    if (target == NULL)
        return refuse(connection, 503, "out of memory");
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        const char *slash = strchr(strchr(target, ':') + 3, '/');
        memmove(target, slash != NULL ? slash : "/", strlen(slash != NULL ? slash : "/") + 1);
    }
    target[strcspn(target, "?#")] = '\0';
    connection->exchange.path = target;
    return true;
}

/* The head is whole: the hooks say whether the body is wanted. */
static bool take_head(ln_connection *connection) {
    const ln_http_parser *parser = &connection->parser;
    ln_exchange *exchange = &connection->exchange;
    ln_http *http = connection->http;
    if (!take_target(connection))
        return false;
    exchange->verb = parser->method;
    exchange->method = method_of(parser->method);
    exchange->is_head = strcmp(parser->method, "HEAD") == 0;
    connection->keeps_alive = parser->keeps_alive;
    if (connection->n_hosts == 0 && parser->minor_version == 1)
        return refuse(connection, 400, "the host header is missing");
    if (parser->has_length && parser->body_bytes > http->limits.max_body_bytes)
        return refuse(connection, 413, "the body is too large");
    connection->state = LN_CONNECTION_BODY;
    bool wanted = http->hooks.on_head(http->hooks.user, exchange);
    if (!parser->is_chunked && parser->body_bytes == 0)
        return true;
    connection->skips_body = !wanted;
    if (!wanted)
        return true;
    if (connection->expects_continue && parser->minor_version == 1) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        evbuffer_add(connection->out, go_on, sizeof go_on - 1);
    }
    ln_connection_set_deadline(connection, http->limits.body_ms);
    return true;
}

static bool take_data(ln_connection *connection) {
    const ln_http_parser *parser = &connection->parser;
    ln_strbuf *body = &connection->exchange.body;
    if (parser->n_data > connection->http->limits.max_body_bytes - body->len)
        return refuse(connection, 413, "the body is too large");
    return ln_strbuf_append(body, parser->data, parser->n_data) ||
           refuse(connection, 503, "out of memory");
}

/* ---- the loop --------------------------------------------------------------------------- */

/* Sixteen digits that do not repeat: a counter through a bijection. */
static void make_id(ln_http *http, ln_exchange *exchange) {
    uint64_t x = (http->n_ids++ ^ http->id_key) * 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    snprintf(exchange->serial, sizeof exchange->serial, "%016llx", (unsigned long long)x);
    snprintf(exchange->id, sizeof exchange->id, "req-%s", exchange->serial);
}

static void begin_request(ln_connection *connection) {
    ln_exchange *exchange = &connection->exchange;
    ln_http_parser_init(&connection->parser, connection->http->limits.max_head_bytes);
    connection->state = LN_CONNECTION_HEAD;
    connection->is_active = true;
    exchange->begin_ns = ln_clock_ns();
    make_id(connection->http, exchange);
    if (!connection->is_timed)
        ln_connection_set_deadline(connection, connection->http->limits.head_ms);
    connection->is_timed = false;
}

static void answer(ln_connection *connection) {
    ln_http *http = connection->http;
    connection->state = LN_CONNECTION_RESPOND;
    connection->is_whole = true;
    if (connection->skips_body || http->is_draining)
        connection->keeps_alive = false;
    ln_connection_set_deadline(connection, 0);
    http->hooks.on_request(http->hooks.user, &connection->exchange);
}

/* Parses some bytes up to the next event, and acts on it; false when all were used without one. */
static bool parse(ln_connection *connection, const char **bytes, size_t *n_bytes) {
    ln_http_parser *parser = &connection->parser;
    ln_http_event event;
    size_t n_used = ln_http_parser_feed(parser, *bytes, *n_bytes, &event);
    *bytes += n_used;
    *n_bytes -= n_used;
    switch (event) {
    case LN_HTTP_EVENT_MORE:
    case LN_HTTP_EVENT_END: break;
    case LN_HTTP_EVENT_HEADER: take_header(connection); break;
    case LN_HTTP_EVENT_HEAD: take_head(connection); break;
    case LN_HTTP_EVENT_DATA: take_data(connection); break;
    case LN_HTTP_EVENT_REFUSED: refuse(connection, parser->status, parser->reason); break;
    }
    if (connection->refusal != 0)
        ln_connection_refuse(connection, connection->refusal, connection->refusal_text);
    else if (event == LN_HTTP_EVENT_END || connection->skips_body)
        answer(connection);
    return event != LN_HTTP_EVENT_MORE;
}

static bool may_parse(const ln_connection *connection) {
    if (connection->state == LN_CONNECTION_IDLE)
        return (!connection->http->is_draining || connection->is_late) &&
               evbuffer_get_length(connection->out) <= connection->http->limits.max_unread_bytes;
    return connection->state == LN_CONNECTION_HEAD || connection->state == LN_CONNECTION_BODY;
}

void ln_connection_feed(ln_connection *connection, const char *bytes, size_t n_bytes) {
    if (connection->pending.len > 0 || connection->is_parsing || !may_parse(connection)) {
        if (connection->state == LN_CONNECTION_DOOMED || connection->state == LN_CONNECTION_LINGER)
            return;
        if (n_bytes > MAX_PENDING_BYTES - connection->pending.len ||
            !ln_strbuf_append(&connection->pending, bytes, n_bytes))
            ln_connection_doom(connection);
        return;
    }
    connection->is_parsing = true;
    bool had_event = false;
    while ((n_bytes > 0 || had_event) && may_parse(connection)) {
        if (connection->state == LN_CONNECTION_IDLE && n_bytes == 0)
            break;
        if (connection->state == LN_CONNECTION_IDLE) {
            if ((*bytes == '\r' || *bytes == '\n') && connection->n_blank++ < MAX_BLANK) {
                bytes++, n_bytes--;
                continue;
            }
            begin_request(connection);
        }
        had_event = parse(connection, &bytes, &n_bytes);
    }
    connection->is_parsing = false;
    if (n_bytes > 0)
        ln_connection_feed(connection, bytes, n_bytes); /* keeps it */
    if (connection->state != LN_CONNECTION_DOOMED)
        ln_connection_flush(connection);
}

void ln_connection_resume(ln_connection *connection) {
    if (connection->is_parsing || connection->pending.len == 0 || !may_parse(connection))
        return;
    ln_strbuf pending = connection->pending;
    ln_strbuf_init(&connection->pending);
    ln_connection_feed(connection, pending.data, pending.len);
    ln_strbuf_free(&pending);
}
