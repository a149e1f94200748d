/* Any bytes as what a client sends over a connection, in pieces: each request is read, routed and
 * answered, and the connection ends. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/api/host_guard.h"
#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/http/connection.h"
#include "server/http/reader.h"
#include "server/http/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_BODY_BYTES = 512 };

static struct event_base *base;
static size_t n_begun, n_answered;

static const ln_host_guard guard = {.is_active = true};

static bool on_head(void *user, ln_exchange *exchange) {
    (void)user;
    char *path = ln_routes_complete(exchange->path);
    if (path == NULL || exchange->verb == NULL)
        __builtin_trap();
    free(exchange->path);
    exchange->path = path;
    exchange->route = ln_routes_find(path, exchange->method);
    n_begun++;
    return exchange->route != NULL && ln_host_guard_check(&guard, exchange) == NULL;
}

static void on_request(void *user, ln_exchange *exchange) {
    (void)user;
    char methods[64], value[8];
    if (exchange->body.len > MAX_BODY_BYTES || exchange->id[0] == '\0')
        __builtin_trap();
    ln_routes_list_methods(exchange->path, methods, sizeof methods);
    ln_response_add_header(exchange, "Allow", methods);
    ln_query_get(exchange->query, "limit", value, sizeof value);
    ln_query_is(exchange->path, "demo");
    n_answered++;
    if (exchange->method == LN_HTTP_POST) {
        ln_response_begin(exchange, 200, "text/event-stream");
        ln_response_write(exchange, "data: x\n\n", 9);
        ln_response_end(exchange);
    } else {
        ln_response_send(exchange, exchange->route != NULL ? 200 : 404, "text/plain", "x\n", 2);
    }
}

static void on_refuse(void *user, ln_exchange *exchange, int status, const char *message) {
    (void)user;
    if (status < 400 || status > 599 || message == NULL)
        __builtin_trap();
    ln_response_send(exchange, status, "text/plain", message, strlen(message));
}

static void on_gone(void *user, ln_exchange *exchange) {
    (void)user, (void)exchange;
    __builtin_trap(); /* all are answered at once */
}

static void on_end(void *user, ln_exchange *exchange) {
    (void)user, (void)exchange;
}

static void on_event(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what, (void)argument;
}

static void open_connection(ln_connection_set *set, ln_connection *connection, int fd) {
    connection->set = set;
    connection->fd = fd;
    connection->exchange.peer = "peer";
    connection->out = evbuffer_new();
    connection->read_event = event_new(base, fd, EV_READ | EV_PERSIST, on_event, connection);
    connection->write_event = event_new(base, fd, EV_WRITE, on_event, connection);
    connection->timer = event_new(base, -1, 0, on_event, connection);
    set->first = connection;
    if (connection->out == NULL || connection->read_event == NULL ||
        connection->write_event == NULL || connection->timer == NULL)
        abort();
}

static void close_connection(ln_connection *connection) {
    ln_connection_doom(connection);
    ln_connection_reset(connection);
    event_free(connection->read_event);
    event_free(connection->write_event);
    event_free(connection->timer);
    evbuffer_free(connection->out);
    ln_strbuf_free(&connection->pending);
}

static void drain(int fd) {
    char bytes[4096];
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static int fds[2];
    ln_connection connection = {0};
    ln_connection_set set = {.limits = {.max_head_bytes = 2048,
                                        .max_headers = 16,
                                        .max_body_bytes = MAX_BODY_BYTES,
                                        .max_bodies_bytes = 2 * MAX_BODY_BYTES,
                                        .max_unread_bytes = 1 << 16,
                                        .head_ms = 1000,
                                        .body_ms = 1000,
                                        .idle_ms = 1000,
                                        .unread_ms = 1000},
                             .hooks = {NULL, on_head, on_request, on_refuse, on_gone, on_end}};
    if (base == NULL)
        base = event_base_new();
    if (bytes == 0 || base == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return 0;
    set.reaper = event_new(base, -1, 0, on_event, NULL);
    open_connection(&set, &connection, fds[0]);
    size_t step = data[0] % 16 == 0 ? bytes : data[0] % 16;
    for (size_t at = 1; at < bytes && connection.state != LN_CONNECTION_DOOMED; at += step) {
        ln_reader_feed(&connection, (const char *)data + at, bytes - at < step ? bytes - at : step);
        ln_reader_resume(&connection);
        drain(fds[1]);
    }
    close_connection(&connection);
    event_free(set.reaper);
    if (set.n_body_bytes != 0)
        __builtin_trap(); /* what was counted is given back */
    close(fds[0]);
    close(fds[1]);
    return 0;
}
