/* Requests from bytes: the parser's callbacks, and the rules that it leaves to its user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/connection.h"

/* Blank lines between requests are skipped, as the standard allows, but not without end. */
enum { MAX_PENDING_BYTES = 1 << 20, MAX_BLANK = 8 };

static ln_connection *of(http_parser *parser) {
    return parser->data;
}

/* Stops the parser with a refusal. */
static int refuse(ln_connection *connection, int status, const char *text) {
    if (connection->refusal == 0) {
        connection->refusal = status;
        connection->refusal_text = text;
    }
    return -1;
}

/* ---- headers ---------------------------------------------------------------------------- */

static bool is_token(const ln_strbuf *name) {
    for (size_t i = 0; i < name->len; i++) {
        char c = name->data[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return name->len > 0;
}

static bool is_text(const ln_strbuf *value) {
    for (size_t i = 0; i < value->len; i++) {
        unsigned char c = (unsigned char)value->data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is(const ln_strbuf *name, const char *expected) {
    return strcasecmp(name->data, expected) == 0;
}

/* Keeps a value that may come once. */
static int keep(ln_connection *connection, char **slot, const char *value, const char *complaint) {
    if (*slot != NULL)
        return refuse(connection, 400, complaint);
    *slot = strdup(value);
    return *slot != NULL ? 0 : refuse(connection, 503, "out of memory");
}

static int take_authorization(ln_connection *connection, const char *value) {
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
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && strchr("-_.:", c) == NULL)
            return;
    }
    memcpy(exchange->id, value->data, value->len + 1);
}

/* Whether a value can be that of a host header: it may be empty. */
static bool is_host(const ln_strbuf *value) {
    for (size_t i = 0; i < value->len; i++) {
        char c = value->data[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && strchr("-._~:[]%!$&'()*+,;=", c) == NULL)
            return false;
    }
    return true;
}

static int take_host(ln_connection *connection, const ln_strbuf *value) {
    if (connection->n_hosts++ > 0)
        return refuse(connection, 400, "there is more than one host header");
    return is_host(value) ? 0 : refuse(connection, 400, "the host header is malformed");
}

/* What comes behind a body in chunks has no meaning here, and must not look as if it had: its names
 * are not those that say how a request is framed, sent or allowed. */
static int check_trailer(ln_connection *connection, const ln_strbuf *name) {
    static const char *const forbidden[] = {
        "authorization", "content-encoding", "content-length", "content-type", "expect",
        "host",          "transfer-encoding"};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (is(name, forbidden[i]))
            return refuse(connection, 400, "there is a header that cannot come behind a body");
    return 0;
}

/* The header in field and value is whole. */
static int take_header(ln_connection *connection) {
    ln_strbuf *name = &connection->field, *value = &connection->value;
    connection->reads_value = false;
    if (name->len == 0 && value->len == 0)
        return 0;
    if (!ln_strbuf_append(name, "", 0) || !ln_strbuf_append(value, "", 0))
        return refuse(connection, 503, "out of memory");
    if (!is_token(name))
        return refuse(connection, 400, "the name of a header is malformed");
    if (!is_text(value))
        return refuse(connection, 400, "the value of a header has control characters");
    if (++connection->n_headers > connection->http->limits.max_headers)
        return refuse(connection, 431, "there are too many headers");
    int status = 0;
    if (connection->state == LN_CONNECTION_BODY) {
        status = check_trailer(connection, name);
    } else if (is(name, "host")) {
        status = take_host(connection, value);
    } else if (is(name, "transfer-encoding")) {
        if (connection->n_codings++ > 0)
            status = refuse(connection, 400, "there is more than one transfer-encoding header");
    } else if (is(name, "authorization")) {
        status = take_authorization(connection, value->data);
    } else if (is(name, "origin")) {
        status = keep(connection, &connection->exchange.origin, value->data,
                      "there is more than one origin header");
    } else if (is(name, "x-request-id")) {
        take_id(&connection->exchange, value);
    } else if (is(name, "expect")) {
        if (strcasecmp(value->data, "100-continue") != 0)
            status = refuse(connection, 417, "only the expectation 100-continue is known");
        else
            connection->expects_continue = true;
    } else if (is(name, "content-encoding")) {
        if (strcasecmp(value->data, "identity") != 0)
            status = refuse(connection, 415, "content-encoding is not supported");
    }
    ln_strbuf_clear(name);
    ln_strbuf_clear(value);
    return status;
}

/* ---- the parser's callbacks -------------------------------------------------------------- */

static int on_url(http_parser *parser, const char *at, size_t n_bytes) {
    ln_connection *connection = of(parser);
    size_t before = connection->target != NULL ? strlen(connection->target) : 0;
    char *target = realloc(connection->target, before + n_bytes + 1);
    if (target == NULL)
        return refuse(connection, 503, "out of memory");
    memcpy(target + before, at, n_bytes);
    target[before + n_bytes] = '\0';
    connection->target = target;
    return 0;
}

static int on_header_field(http_parser *parser, const char *at, size_t n_bytes) {
    ln_connection *connection = of(parser);
    if (connection->reads_value && take_header(connection) != 0)
        return -1;
    return ln_strbuf_append(&connection->field, at, n_bytes)
               ? 0
               : refuse(connection, 503, "out of memory");
}

static int on_header_value(http_parser *parser, const char *at, size_t n_bytes) {
    ln_connection *connection = of(parser);
    connection->reads_value = true;
    return ln_strbuf_append(&connection->value, at, n_bytes)
               ? 0
               : refuse(connection, 503, "out of memory");
}

static ln_http_method method_of(const http_parser *parser) {
    switch (parser->method) {
    case HTTP_GET:
    case HTTP_HEAD: return LN_HTTP_GET;
    case HTTP_POST: return LN_HTTP_POST;
    case HTTP_OPTIONS: return LN_HTTP_OPTIONS;
    default: return LN_HTTP_OTHER;
    }
}

/* The target's path: "/path?query", or absolute "http://host/path?query". */
static int take_target(ln_connection *connection, bool is_connect) {
    char *target = connection->target;
    if (target == NULL || is_connect)
        return refuse(connection, 405, "the method CONNECT is not supported");
    for (const unsigned char *c = (const unsigned char *)target; *c; c++)
        if (*c <= 0x20 || *c >= 0x7f)
            return refuse(connection, 400, "the target of the request is malformed");
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        const char *slash = strchr(strchr(target, ':') + 3, '/');
        memmove(target, slash != NULL ? slash : "/", strlen(slash != NULL ? slash : "/") + 1);
    }
    target[strcspn(target, "?#")] = '\0';
    connection->exchange.path = target;
    connection->target = NULL;
    return 0;
}

/* Looks at the bytes of the request's line, before the parser does. */
static void scan_line(ln_connection *connection, const char *bytes, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes && !connection->has_line; i++) {
        enum { TAIL_BYTES = sizeof connection->line_tail };
        if (bytes[i] == '\n') {
            connection->has_line = true;
            return;
        }
        connection->n_line_spaces += bytes[i] == ' ';
        if (connection->n_line_tail == TAIL_BYTES)
            memmove(connection->line_tail, connection->line_tail + 1, TAIL_BYTES - 1);
        else
            connection->n_line_tail++;
        connection->line_tail[connection->n_line_tail - 1] = bytes[i];
    }
}

static bool is_line_exact(const ln_connection *connection) {
    static const char name[] = "HTTP/1.";
    unsigned n = connection->n_line_tail;
    const char *tail = connection->line_tail;
    if (n > 0 && tail[n - 1] == '\r')
        n--;
    else
        tail++; /* a line may end without \r */
    return connection->n_line_spaces == 2 && n >= 8 && memcmp(tail, name, sizeof name - 1) == 0;
}

static int check_head(ln_connection *connection) {
    const http_parser *parser = &connection->parser;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return refuse(connection, 505, "the version of HTTP is not 1.0 or 1.1");
    if (!is_line_exact(connection))
        return refuse(connection, 400, "the request's line is not METHOD TARGET HTTP/1.1");
    if (connection->n_hosts == 0 && parser->http_minor == 1)
        return refuse(connection, 400, "the host header is missing");
    bool has_length = parser->content_length != UINT64_MAX;
    bool is_chunked = parser->flags & F_CHUNKED;
    if (is_chunked && has_length)
        return refuse(connection, 400, "there is a content-length with a transfer-encoding");
    if (is_chunked && parser->http_minor == 0)
        return refuse(connection, 400, "HTTP/1.0 has no transfer-encoding");
    if (has_length && parser->content_length > connection->http->limits.max_body_bytes)
        return refuse(connection, 413, "the body is too large");
    connection->has_body = is_chunked || (has_length && parser->content_length > 0);
    return 0;
}

static int on_headers_complete(http_parser *parser) {
    ln_connection *connection = of(parser);
    ln_exchange *exchange = &connection->exchange;
    ln_http *http = connection->http;
    parser->upgrade = 0; /* no protocol to change to: the request is an ordinary one */
    if (take_header(connection) != 0 ||
        take_target(connection, parser->method == HTTP_CONNECT) != 0)
        return -1;
    exchange->method = method_of(parser);
    exchange->verb = http_method_str((enum http_method)parser->method);
    exchange->is_head = parser->method == HTTP_HEAD;
    connection->keeps_alive = http_should_keep_alive(parser);
    if (check_head(connection) != 0)
        return -1;
    connection->state = LN_CONNECTION_BODY;
    bool wanted = http->hooks.on_head(http->hooks.user, exchange);
    if (!connection->has_body)
        return 0;
    if (!wanted) {
        connection->skips_body = true;
        return -1;
    }
    if (connection->expects_continue && parser->http_minor == 1) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        evbuffer_add(connection->out, go_on, sizeof go_on - 1);
    }
    ln_connection_set_deadline(connection, http->limits.body_ms);
    return 0;
}

static int on_body(http_parser *parser, const char *at, size_t n_bytes) {
    ln_connection *connection = of(parser);
    ln_strbuf *body = &connection->exchange.body;
    if (n_bytes > connection->http->limits.max_body_bytes - body->len)
        return refuse(connection, 413, "the body is too large");
    return ln_strbuf_append(body, at, n_bytes) ? 0 : refuse(connection, 503, "out of memory");
}

/* The parser takes any two bytes for the end of a line here: it stops, and `parse` looks. */
static int on_chunk_header(http_parser *parser) {
    of(parser)->is_last_chunk = parser->content_length == 0;
    of(parser)->ends_line = of(parser)->ends_size = true;
    http_parser_pause(parser, 1);
    return 0;
}

static int on_chunk_complete(http_parser *parser) {
    if (of(parser)->is_last_chunk)
        return 0;
    of(parser)->ends_line = true;
    of(parser)->ends_size = false;
    http_parser_pause(parser, 1);
    return 0;
}

static int on_message_complete(http_parser *parser) {
    if (of(parser)->state == LN_CONNECTION_BODY && take_header(of(parser)) != 0) /* a trailer */
        return -1;
    of(parser)->state = LN_CONNECTION_RESPOND;
    http_parser_pause(parser, 1);
    return 0;
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
    http_parser_init(&connection->parser, HTTP_REQUEST);
    connection->parser.data = connection;
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

/* What the parser says is wrong, as a refusal. */
static void refuse_error(ln_connection *connection) {
    enum http_errno code = HTTP_PARSER_ERRNO(&connection->parser);
    if (connection->refusal != 0)
        ln_connection_refuse(connection, connection->refusal, connection->refusal_text);
    else if (code == HPE_HEADER_OVERFLOW)
        ln_connection_refuse(connection, 431, "the head of the request is too large");
    else if (code == HPE_UNEXPECTED_CONTENT_LENGTH)
        ln_connection_refuse(connection, 400,
                             "there are two content-lengths, or one with a transfer-encoding");
    else
        ln_connection_refuse(connection, 400, http_errno_description(code));
}

/* Follows the last line in these bytes, which may be that of a chunk's size and go on in the next
 * read: whether it has control characters, and whether a quoted string in it ends. */
static void follow_line(ln_connection *connection, const char *bytes, size_t n_bytes, bool begins) {
    size_t at = n_bytes > 0 && bytes[n_bytes - 1] == '\n' ? n_bytes - 1 : n_bytes;
    while (at > 0 && bytes[at - 1] != '\n')
        at--;
    if (at > 0 || begins)
        connection->is_dirty = connection->is_quoted = connection->is_escaped =
            connection->is_return = false;
    for (; at < n_bytes && bytes[at] != '\n'; at++) {
        unsigned char byte = (unsigned char)bytes[at];
        connection->is_dirty |=
            connection->is_return || byte == 0x7f || (byte < 0x20 && byte != '\t' && byte != '\r');
        connection->is_return = byte == '\r';
        bool escapes = connection->is_quoted && !connection->is_escaped && byte == '\\';
        if (byte == '"' && !connection->is_escaped)
            connection->is_quoted = !connection->is_quoted;
        connection->is_escaped = escapes;
    }
}

/* Parses some of the bytes; returns how many. */
static size_t parse(ln_connection *connection, const char *bytes, size_t n_bytes) {
    static const http_parser_settings settings = {.on_url = on_url,
                                                  .on_header_field = on_header_field,
                                                  .on_header_value = on_header_value,
                                                  .on_headers_complete = on_headers_complete,
                                                  .on_body = on_body,
                                                  .on_chunk_header = on_chunk_header,
                                                  .on_chunk_complete = on_chunk_complete,
                                                  .on_message_complete = on_message_complete};
    size_t limit = connection->http->limits.max_head_bytes;
    bool in_head = connection->state == LN_CONNECTION_HEAD;
    if (in_head && n_bytes > limit + 1 - connection->head_bytes)
        n_bytes = limit + 1 - connection->head_bytes;
    if (in_head)
        scan_line(connection, bytes, n_bytes);
    size_t n_used = http_parser_execute(&connection->parser, &settings, bytes, n_bytes);
    enum http_errno code = HTTP_PARSER_ERRNO(&connection->parser);
    if (in_head)
        connection->head_bytes += n_used;
    char before = n_used > 1 ? bytes[n_used - 2] : connection->last_byte;
    if (connection->parser.flags & F_CHUNKED)
        follow_line(connection, bytes, n_used, connection->last_byte == '\n');
    if (n_used > 0)
        connection->last_byte = bytes[n_used - 1];
    if (connection->skips_body) {
        answer(connection);
    } else if (code == HPE_PAUSED && connection->ends_line) {
        connection->ends_line = false;
        http_parser_pause(&connection->parser, 0);
        if (before != '\r' || connection->last_byte != '\n' ||
            (connection->ends_size && (connection->is_dirty || connection->is_quoted)))
            ln_connection_refuse(connection, 400, "the chunked coding is malformed");
    } else if (code == HPE_PAUSED) {
        answer(connection);
    } else if (code != HPE_OK) {
        refuse_error(connection);
    } else if (connection->state == LN_CONNECTION_HEAD && connection->head_bytes > limit) {
        ln_connection_refuse(connection, 431, "the head of the request is too large");
    }
    return n_used;
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
    while (n_bytes > 0 && may_parse(connection)) {
        if (connection->state == LN_CONNECTION_IDLE) {
            if ((*bytes == '\r' || *bytes == '\n') && connection->n_blank++ < MAX_BLANK) {
                bytes++, n_bytes--;
                continue;
            }
            begin_request(connection);
        }
        size_t n_used = parse(connection, bytes, n_bytes);
        bytes += n_used;
        n_bytes -= n_used;
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
