#include "server/http/response.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "server/http/output.h"

/* An exchange is the first member of its connection. */
static ln_connection *of(ln_exchange *exchange) {
    return (ln_connection *)(void *)exchange;
}

/* Ends the exchange: resets the connection for the next request, or lets it linger. */
static void end_exchange(ln_connection *connection) {
    ln_connection_set *set = connection->set;
    set->hooks.on_end(set->hooks.user, &connection->exchange);
    bool keeps_alive = connection->keeps_alive && !set->is_draining;
    ln_connection_reset(connection);
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
    connection->state = keeps_alive ? LN_CONNECTION_IDLE : LN_CONNECTION_LINGER;
    ln_connection_set_deadline(connection, set->limits.idle_ms);
    if (connection->is_parsing)
        return; /* the loop goes on, and flushes */
    ln_output_flush(connection);
    if (connection->state == LN_CONNECTION_IDLE)
        ln_connection_wake(connection);
}

/* ---- heads ------------------------------------------------------------------------------ */

static const char *phrase_of(int status) {
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
    }
}

static const char *date_of(ln_connection_set *set) {
    time_t now = time(NULL);
    if (now != set->date_s) {
        struct tm fields;
        set->date_s = now;
        gmtime_r(&now, &fields);
        strftime(set->date, sizeof set->date, "%a, %d %b %Y %H:%M:%S GMT", &fields);
    }
    return set->date;
}

__attribute__((format(printf, 2, 3))) static void put_text(ln_connection *connection,
                                                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (evbuffer_add_vprintf(connection->out, format, arguments) < 0)
        ln_connection_doom(connection);
    va_end(arguments);
}

/* Writes the head of a response; length < 0: the body comes in parts. */
static void put_head(ln_connection *connection, int status, const char *type, ssize_t length) {
    ln_exchange *exchange = &connection->exchange;
    bool is_old = connection->parser.minor_version == 0 && !exchange->is_bad;
    connection->is_chunked = length < 0 && !is_old;
    if ((length < 0 && is_old) || connection->set->is_draining)
        connection->keeps_alive = false; /* the end of the connection is that of the body */
    exchange->status = status;
    put_text(connection, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n", status,
             phrase_of(status), date_of(connection->set), exchange->id);
    put_text(connection, "Request-Id: %s\r\n", exchange->id); /* which Anthropic's clients read */
    if (type != NULL)
        put_text(connection, "Content-Type: %s\r\n", type);
    if (length >= 0 && status != 204 && status != 304) /* which have no body */
        put_text(connection, "Content-Length: %zd\r\n", length);
    else if (length < 0)
        put_text(connection, "Cache-Control: no-cache\r\n%s",
                 connection->is_chunked ? "Transfer-Encoding: chunked\r\n" : "");
    if (connection->headers.failed)
        ln_connection_doom(connection); /* one would be missing */
    if (connection->headers.len > 0)
        ln_output_add(connection, connection->headers.data, connection->headers.len);
    if (!connection->keeps_alive)
        put_text(connection, "Connection: close\r\n");
    else if (is_old)
        put_text(connection, "Connection: keep-alive\r\n");
    ln_output_add(connection, "\r\n", 2);
}

void ln_response_add_header(ln_exchange *exchange, const char *name, const char *value) {
    ln_strbuf_printf(&of(exchange)->headers, "%s: %s\r\n", name, value);
}

/* ---- bodies ----------------------------------------------------------------------------- */

void ln_response_send(ln_exchange *exchange, int status, const char *type, const void *body,
                      size_t n_bytes) {
    ln_connection *connection = of(exchange);
    put_head(connection, status, type, (ssize_t)n_bytes);
    if (!exchange->is_head && n_bytes > 0) {
        ln_output_add(connection, body, n_bytes);
        exchange->sent_bytes = n_bytes;
    }
    end_exchange(connection);
}

void ln_response_begin(ln_exchange *exchange, int status, const char *type) {
    put_head(of(exchange), status, type, -1);
}

bool ln_response_write(ln_exchange *exchange, const void *bytes, size_t n_bytes) {
    ln_connection *connection = of(exchange);
    if (connection->state == LN_CONNECTION_DOOMED)
        return false;
    if (n_bytes == 0 || exchange->is_head)
        return true;
    if (evbuffer_get_length(connection->out) > connection->set->limits.max_unread_bytes) {
        ln_connection_doom(connection); /* the client does not read */
        return false;
    }
    ln_output_put_part(connection, bytes, n_bytes);
    exchange->sent_bytes += n_bytes;
    if (!event_pending(connection->write_event, EV_WRITE, NULL))
        ln_output_flush(connection);
    return connection->state != LN_CONNECTION_DOOMED;
}

bool ln_response_write_text(ln_exchange *exchange, const ln_strbuf *text) {
    if (!text->failed)
        return ln_response_write(exchange, text->data, text->len);
    ln_connection_doom(of(exchange));
    return false;
}

size_t ln_response_get_room(ln_exchange *exchange) {
    enum { FRAME_BYTES = 32 }; /* of a part in the chunked coding, at most */
    const ln_connection *connection = of(exchange);
    size_t n_waiting = evbuffer_get_length(connection->out) + FRAME_BYTES;
    size_t most = connection->set->limits.max_unread_bytes;
    return n_waiting < most ? most - n_waiting : 0;
}

void ln_response_end(ln_exchange *exchange) {
    ln_connection *connection = of(exchange);
    if (connection->is_chunked && !exchange->is_head)
        ln_output_add(connection, "0\r\n\r\n", 5);
    end_exchange(connection);
}
