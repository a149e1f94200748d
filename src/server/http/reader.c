#include "server/http/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/http/headers.h"
#include "server/http/output.h"

/* Blank lines between requests are skipped, as the standard allows, but not without end. */
enum { MAX_PENDING_BYTES = 1 << 20, MAX_BLANK = 8 };

/* ---- heads and bodies -------------------------------------------------------------------- */

static ln_http_method method_of(const char *verb) {
    if (strcmp(verb, "GET") == 0 || strcmp(verb, "HEAD") == 0)
        return LN_HTTP_GET;
    if (strcmp(verb, "POST") == 0)
        return LN_HTTP_POST;
    if (strcmp(verb, "DELETE") == 0)
        return LN_HTTP_DELETE;
    return strcmp(verb, "OPTIONS") == 0 ? LN_HTTP_OPTIONS : LN_HTTP_OTHER;
}

/* The target's path: of "/path?query", or of the absolute "http://host/path?query". */
static bool take_target(ln_connection *connection) {
    if (connection->parser.is_connect)
        return ln_connection_fail(connection, 405, "the method CONNECT is not supported");
    char *target = ln_strbuf_take(&connection->parser.target);
    if (target == NULL)
        return ln_connection_fail(connection, 503, "out of memory");
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        const char *slash = strchr(strchr(target, ':') + 3, '/');
        memmove(target, slash != NULL ? slash : "/", strlen(slash != NULL ? slash : "/") + 1);
    }
    size_t n_path = strcspn(target, "?#");
    connection->exchange.path = target;
    if (target[n_path] == '?') {
        char *query = target + n_path + 1;
        query[strcspn(query, "#")] = '\0';
        connection->exchange.query = strdup(query);
        if (connection->exchange.query == NULL)
            return ln_connection_fail(connection, 503, "out of memory");
    }
    target[n_path] = '\0';
    return true;
}

/* The head is whole: the hooks say whether the body is wanted. */
static bool take_head(ln_connection *connection) {
    const ln_http_parser *parser = &connection->parser;
    ln_exchange *exchange = &connection->exchange;
    ln_connection_set *set = connection->set;
    if (!take_target(connection))
        return false;
    exchange->verb = parser->method;
    exchange->method = method_of(parser->method);
    exchange->is_head = strcmp(parser->method, "HEAD") == 0;
    connection->keeps_alive = parser->keeps_alive;
    if (connection->n_hosts == 0 && parser->minor_version == 1)
        return ln_connection_fail(connection, 400, "the host header is missing");
    if (parser->has_length && parser->body_bytes > set->limits.max_body_bytes)
        return ln_connection_fail(connection, 413, "the body is too large");
    connection->state = LN_CONNECTION_BODY;
    bool wanted = set->hooks.on_head(set->hooks.user, exchange);
    if (!parser->is_chunked && parser->body_bytes == 0)
        return true;
    connection->skips_body = !wanted;
    if (!wanted)
        return true;
    if (connection->expects_continue && parser->minor_version == 1) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        ln_output_add(connection, go_on, sizeof go_on - 1);
    }
    ln_connection_set_deadline(connection, set->limits.body_ms);
    return true;
}

static bool take_data(ln_connection *connection) {
    const ln_http_parser *parser = &connection->parser;
    ln_connection_set *set = connection->set;
    ln_strbuf *body = &connection->exchange.body;
    if (parser->n_data > set->limits.max_body_bytes - body->len)
        return ln_connection_fail(connection, 413, "the body is too large");
    if (parser->n_data > set->limits.max_bodies_bytes - set->n_body_bytes)
        return ln_connection_fail(connection, 503, "the bodies of other requests take all room");
    connection->n_body_bytes += parser->n_data;
    set->n_body_bytes += parser->n_data;
    return ln_strbuf_append(body, parser->data, parser->n_data) ||
           ln_connection_fail(connection, 503, "out of memory");
}

/* ---- the loop --------------------------------------------------------------------------- */

/* Makes ids that do not repeat: a counter, mixed by a bijection so that it cannot be guessed. */
static void make_id(ln_connection_set *set, ln_exchange *exchange) {
    uint64_t x = (set->n_ids++ ^ set->id_key) * 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    snprintf(exchange->serial, sizeof exchange->serial, "%016llx", (unsigned long long)x);
    snprintf(exchange->id, sizeof exchange->id, "req-%s", exchange->serial);
}

static void begin_request(ln_connection *connection) {
    ln_exchange *exchange = &connection->exchange;
    ln_http_parser_init(&connection->parser, connection->set->limits.max_head_bytes);
    connection->state = LN_CONNECTION_HEAD;
    connection->is_active = true;
    exchange->begin_ns = ln_clock_ns();
    exchange->is_late = connection->is_late;
    make_id(connection->set, exchange);
    if (!connection->is_timed)
        ln_connection_set_deadline(connection, connection->set->limits.head_ms);
    connection->is_timed = false;
}

static void answer(ln_connection *connection) {
    ln_connection_set *set = connection->set;
    connection->state = LN_CONNECTION_RESPOND;
    connection->is_whole = true;
    if (connection->skips_body || set->is_draining)
        connection->keeps_alive = false;
    ln_connection_set_deadline(connection, 0);
    set->hooks.on_request(set->hooks.user, &connection->exchange);
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
    case LN_HTTP_EVENT_HEADER: ln_headers_take(connection); break;
    case LN_HTTP_EVENT_HEAD: take_head(connection); break;
    case LN_HTTP_EVENT_DATA: take_data(connection); break;
    case LN_HTTP_EVENT_REFUSED:
        ln_connection_fail(connection, parser->status, parser->reason);
        break;
    }
    if (connection->refusal != 0)
        ln_connection_refuse(connection, connection->refusal, connection->refusal_text);
    else if (event == LN_HTTP_EVENT_END || connection->skips_body)
        answer(connection);
    return event != LN_HTTP_EVENT_MORE;
}

static bool may_parse(const ln_connection *connection) {
    if (connection->state == LN_CONNECTION_IDLE)
        return (!connection->set->is_draining || connection->is_late) &&
               evbuffer_get_length(connection->out) <= connection->set->limits.max_unread_bytes;
    return connection->state == LN_CONNECTION_HEAD || connection->state == LN_CONNECTION_BODY;
}

void ln_reader_feed(ln_connection *connection, const char *bytes, size_t n_bytes) {
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
        ln_reader_feed(connection, bytes, n_bytes); /* appends it to pending */
    if (connection->state != LN_CONNECTION_DOOMED)
        ln_output_flush(connection);
}

void ln_reader_resume(ln_connection *connection) {
    if (connection->is_parsing || connection->pending.len == 0 || !may_parse(connection))
        return;
    ln_strbuf pending = connection->pending;
    ln_strbuf_init(&connection->pending);
    ln_reader_feed(connection, pending.data, pending.len);
    ln_strbuf_free(&pending);
}
