/* Responses: their heads, their bodies whole or in parts, and what the socket takes of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/connection.h"

enum { LINGER_MS = 2000 };

/* An exchange is the first member of its connection. */
static ln_connection *of(ln_exchange *exchange) {
    return (ln_connection *)(void *)exchange;
}

void ln_exchange_reset(ln_connection *connection) {
    ln_exchange *exchange = &connection->exchange;
    free(exchange->path);
    free(exchange->credential);
    free(exchange->origin);
    ln_http_parser_free(&connection->parser);
    ln_strbuf_free(&exchange->body);
    ln_strbuf_free(&connection->headers);
    *exchange = (ln_exchange){.peer = connection->peer};
    ln_strbuf_init(&exchange->body);
    ln_strbuf_init(&connection->headers);
    connection->n_headers = connection->n_blank = 0;
    connection->refusal = 0;
    connection->n_hosts = 0;
    connection->skips_body = false;
    connection->expects_continue = connection->is_chunked = false;
    connection->is_active = connection->is_whole = false;
}

/* ---- the socket ------------------------------------------------------------------------- */

/* Writes some of `out`: bytes, or -1 with errno. */
static ssize_t write_some(ln_connection *connection) {
    if (connection->tls == NULL)
        return evbuffer_write(connection->out, connection->fd);
    enum { MAX_RECORD = 16384 };
    size_t n_bytes = evbuffer_get_length(connection->out);
    n_bytes = n_bytes < MAX_RECORD ? n_bytes : MAX_RECORD;
    const void *bytes = evbuffer_pullup(connection->out, (ev_ssize_t)n_bytes);
    if (bytes == NULL) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t written = ln_tls_write(connection->tls, bytes, n_bytes);
    if (written > 0)
        evbuffer_drain(connection->out, (size_t)written);
    return written;
}

/* Everything is said and sent: our side closes, and the client may still read. */
static void linger(ln_connection *connection) {
    if (connection->finished)
        return;
    if (!event_pending(connection->read_event, EV_READ, NULL)) {
        ln_connection_doom(connection); /* the client's side has closed already */
        return;
    }
    connection->finished = true;
    if (connection->tls != NULL)
        ln_tls_finish(connection->tls);
    shutdown(connection->fd, SHUT_WR);
    ln_connection_set_deadline(connection, LINGER_MS);
}

void ln_connection_flush(ln_connection *connection) {
    bool had_progress = false;
    while (evbuffer_get_length(connection->out) > 0) {
        ssize_t written = write_some(connection);
        if (written > 0) {
            had_progress = true;
            continue;
        }
        if (written < 0 && errno == EINTR)
            continue;
        if (written == 0 || errno != EAGAIN) {
            ln_connection_doom(connection);
            return;
        }
        bool was_waiting = event_pending(connection->write_event, EV_WRITE, NULL);
        event_add(connection->write_event, NULL);
        bool is_reading =
            connection->state == LN_CONNECTION_HEAD || connection->state == LN_CONNECTION_BODY;
        if (!is_reading && (had_progress || !was_waiting))
            ln_connection_set_deadline(connection, connection->http->limits.unread_ms);
        return;
    }
    if (connection->state == LN_CONNECTION_LINGER) {
        linger(connection);
        return;
    }
    if (!had_progress)
        return;
    if (connection->state == LN_CONNECTION_RESPOND)
        ln_connection_set_deadline(connection, 0);
    else if (connection->state == LN_CONNECTION_IDLE)
        ln_connection_set_deadline(connection, connection->http->limits.idle_ms);
    ln_connection_resume(connection);
}

/* The exchange is over; the next one may begin. */
static void end_exchange(ln_connection *connection) {
    ln_http *http = connection->http;
    http->hooks.on_end(http->hooks.user, &connection->exchange);
    bool keeps_alive = connection->keeps_alive && !http->is_draining;
    ln_exchange_reset(connection);
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
    connection->state = keeps_alive ? LN_CONNECTION_IDLE : LN_CONNECTION_LINGER;
    ln_connection_set_deadline(connection, http->limits.idle_ms);
    if (connection->is_parsing)
        return; /* the loop goes on, and flushes */
    ln_connection_flush(connection);
    if (connection->state == LN_CONNECTION_IDLE)
        ln_connection_resume(connection);
}

/* ---- heads ------------------------------------------------------------------------------ */

static const char *phrase_of(int status) {
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
    }
}

static const char *date_of(ln_http *http) {
    time_t now = time(NULL);
    if (now != http->date_s) {
        struct tm fields;
        http->date_s = now;
        gmtime_r(&now, &fields);
        strftime(http->date, sizeof http->date, "%a, %d %b %Y %H:%M:%S GMT", &fields);
    }
    return http->date;
}

/* The head of a response; length < 0: in parts. */
static void put_head(ln_connection *connection, int status, const char *type, ssize_t length) {
    ln_exchange *exchange = &connection->exchange;
    bool is_old = connection->parser.minor_version == 0 && !exchange->is_bad;
    connection->is_chunked = length < 0 && !is_old;
    if ((length < 0 && is_old) || connection->http->is_draining)
        connection->keeps_alive = false; /* the end of the connection is that of the body */
    exchange->status = status;
    evbuffer_add_printf(connection->out, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n",
                        status, phrase_of(status), date_of(connection->http), exchange->id);
    if (type != NULL)
        evbuffer_add_printf(connection->out, "Content-Type: %s\r\n", type);
    if (length >= 0)
        evbuffer_add_printf(connection->out, "Content-Length: %zd\r\n", length);
    else
        evbuffer_add_printf(connection->out, "Cache-Control: no-cache\r\n%s",
                            connection->is_chunked ? "Transfer-Encoding: chunked\r\n" : "");
    if (connection->headers.len > 0)
        evbuffer_add(connection->out, connection->headers.data, connection->headers.len);
    if (!connection->keeps_alive)
        evbuffer_add_printf(connection->out, "Connection: close\r\n");
    else if (is_old)
        evbuffer_add_printf(connection->out, "Connection: keep-alive\r\n");
    evbuffer_add(connection->out, "\r\n", 2);
}

void ln_http_add_header(ln_exchange *exchange, const char *name, const char *value) {
    ln_strbuf_printf(&of(exchange)->headers, "%s: %s\r\n", name, value);
}

/* ---- bodies ----------------------------------------------------------------------------- */

void ln_http_send(ln_exchange *exchange, int status, const char *type, const void *body,
                  size_t n_bytes) {
    ln_connection *connection = of(exchange);
    put_head(connection, status, type, (ssize_t)n_bytes);
    if (!exchange->is_head && n_bytes > 0) {
        evbuffer_add(connection->out, body, n_bytes);
        exchange->sent_bytes = n_bytes;
    }
    end_exchange(connection);
}

void ln_http_begin(ln_exchange *exchange, int status, const char *type) {
    put_head(of(exchange), status, type, -1);
}

/* The line before a part of n_bytes; returns its length. */
static size_t put_size(char *line, size_t n_bytes) {
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    unsigned shift = 0;
    while (n_bytes >> shift >= 16)
        shift += 4;
    for (;; shift -= 4) {
        line[n++] = digits[n_bytes >> shift & 15];
        if (shift == 0)
            break;
    }
    line[n++] = '\r';
    line[n++] = '\n';
    return n;
}

/* A part with its framing. Where nothing waits before it and it is short, as those with a token
 * are, it goes to the socket at once and in one piece; what the socket does not take goes to
 * `out`. */
static void write_part(ln_connection *connection, const char *bytes, size_t n_bytes) {
    enum { SHORT_BYTES = 4096, SIZE_BYTES = 2 * sizeof n_bytes + 2 };
    char line[SIZE_BYTES], whole[SHORT_BYTES + SIZE_BYTES + 2];
    size_t n_line = connection->is_chunked ? put_size(line, n_bytes) : 0;
    size_t n_end = connection->is_chunked ? 2 : 0;
    if (connection->tls != NULL || n_bytes > SHORT_BYTES ||
        evbuffer_get_length(connection->out) > 0) {
        evbuffer_add(connection->out, line, n_line);
        evbuffer_add(connection->out, bytes, n_bytes);
        evbuffer_add(connection->out, "\r\n", n_end);
        return;
    }
    memcpy(whole, line, n_line);
    memcpy(whole + n_line, bytes, n_bytes);
    memcpy(whole + n_line + n_bytes, "\r\n", n_end);
    size_t n_whole = n_line + n_bytes + n_end;
    ssize_t written = send(connection->fd, whole, n_whole, MSG_NOSIGNAL);
    size_t n_written = written > 0 ? (size_t)written : 0;
    if (n_written < n_whole)
        evbuffer_add(connection->out, whole + n_written, n_whole - n_written);
}

bool ln_http_write(ln_exchange *exchange, const void *bytes, size_t n_bytes) {
    ln_connection *connection = of(exchange);
    if (connection->state == LN_CONNECTION_DOOMED)
        return false;
    if (n_bytes == 0 || exchange->is_head)
        return true;
    if (evbuffer_get_length(connection->out) + n_bytes >
        connection->http->limits.max_unread_bytes) {
        ln_connection_doom(connection); /* the client does not read */
        return false;
    }
    write_part(connection, bytes, n_bytes);
    exchange->sent_bytes += n_bytes;
    if (!event_pending(connection->write_event, EV_WRITE, NULL))
        ln_connection_flush(connection);
    return connection->state != LN_CONNECTION_DOOMED;
}

void ln_http_end(ln_exchange *exchange) {
    ln_connection *connection = of(exchange);
    if (connection->is_chunked && !exchange->is_head)
        evbuffer_add(connection->out, "0\r\n\r\n", 5);
    end_exchange(connection);
}

void ln_connection_refuse(ln_connection *connection, int status, const char *message) {
    ln_http *http = connection->http;
    ln_exchange *exchange = &connection->exchange;
    exchange->is_bad = exchange->path == NULL;
    connection->keeps_alive = false;
    connection->state = LN_CONNECTION_RESPOND;
    http->hooks.on_refuse(http->hooks.user, exchange, status, message);
}
