/* Listening, and the life of connections: accepted, read, idle, late, doomed, freed. */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/connection.h"

enum { BACKLOG = 4096, MAX_LINGER_BYTES = 16 << 20, RETRY_MS = 100 };

/* ---- ends ------------------------------------------------------------------------------- */

void ln_connection_set_deadline(ln_connection *connection, uint32_t ms) {
    struct timeval when = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (ms == 0)
        event_del(connection->timer);
    else
        event_add(connection->timer, &when);
}

static void pause_listener(ln_http *http) {
    event_del(http->accepter);
    http->is_paused = true;
}

static void resume_listener(ln_http *http) {
    if (http->is_paused && http->n_connections < http->limits.max_connections) {
        http->is_paused = false;
        event_add(http->accepter, NULL);
    }
}

/* Whether one more of a kind may be done in this turn of the loop. */
static bool may_do(ln_http *http, int kind) {
    enum { MAX_IN_TURN = 64 };
    struct timeval turn;
    event_base_gettimeofday_cached(http->base, &turn);
    if (turn.tv_sec != http->turn.tv_sec || turn.tv_usec != http->turn.tv_usec) {
        http->turn = turn;
        memset(http->n_in_turn, 0, sizeof http->n_in_turn);
    }
    return http->n_in_turn[kind]++ < MAX_IN_TURN;
}

void ln_connection_doom(ln_connection *connection) {
    ln_http *http = connection->http;
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
    connection->state = LN_CONNECTION_DOOMED;
    event_del(connection->read_event);
    event_del(connection->write_event);
    event_del(connection->timer);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        http->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    connection->next = http->doomed;
    http->doomed = connection;
    event_active(http->reaper, EV_TIMEOUT, 0);
}

static void free_connection(ln_connection *connection) {
    ln_exchange_reset(connection);
    ln_tls_stream_destroy(connection->tls);
    if (connection->read_event != NULL)
        event_free(connection->read_event);
    if (connection->write_event != NULL)
        event_free(connection->write_event);
    if (connection->timer != NULL)
        event_free(connection->timer);
    if (connection->out != NULL)
        evbuffer_free(connection->out);
    ln_strbuf_free(&connection->pending);
    close(connection->fd);
    free(connection);
}

/* Frees the doomed; their exchanges go back first. */
static void on_reaper(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    static const struct timeval soon = {.tv_usec = 1000};
    ln_http *http = argument;
    while (http->doomed != NULL) {
        if (!may_do(http, LN_TURN_REAPED)) {
            event_add(http->reaper, &soon);
            break;
        }
        ln_connection *connection = http->doomed;
        http->doomed = connection->next;
        ln_exchange *exchange = &connection->exchange;
        if (connection->is_active) {
            exchange->was_cut = true;
            if (connection->is_whole)
                http->hooks.on_gone(http->hooks.user, exchange);
            http->hooks.on_end(http->hooks.user, exchange);
        }
        free_connection(connection);
        http->n_connections--;
    }
    resume_listener(http);
}

/* ---- events of a connection ------------------------------------------------------------- */

static void on_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_connection *connection = argument;
    if (!may_do(connection->http, LN_TURN_LATE))
        ln_connection_set_deadline(connection, 1);
    else if (connection->state == LN_CONNECTION_HEAD)
        ln_connection_refuse(connection, 408, "the head of the request did not come in time");
    else if (connection->state == LN_CONNECTION_BODY)
        ln_connection_refuse(connection, 408, "the body of the request did not come in time");
    else
        ln_connection_doom(connection);
}

static ssize_t read_some(ln_connection *connection, bool *wants_write) {
    ln_http *http = connection->http;
    *wants_write = false;
    if (connection->tls != NULL)
        return ln_tls_read(connection->tls, http->scratch, sizeof http->scratch, wants_write);
    return recv(connection->fd, http->scratch, sizeof http->scratch, 0);
}

/* Takes the bytes that a connection gave; false once it is at its end. */
static bool take(ln_connection *connection, ssize_t n_bytes) {
    bool is_answered =
        connection->state == LN_CONNECTION_IDLE || connection->state == LN_CONNECTION_LINGER;
    if (n_bytes == 0 && is_answered && evbuffer_get_length(connection->out) > 0) {
        connection->state = LN_CONNECTION_LINGER; /* it says no more, but may still read */
        event_del(connection->read_event);
        return false;
    }
    if (n_bytes <= 0) {
        ln_connection_doom(connection);
        return false;
    }
    if (connection->state != LN_CONNECTION_LINGER) {
        ln_connection_feed(connection, connection->http->scratch, (size_t)n_bytes);
        return connection->state != LN_CONNECTION_DOOMED;
    }
    connection->lingered_bytes += (size_t)n_bytes;
    if (connection->lingered_bytes <= MAX_LINGER_BYTES)
        return true;
    ln_connection_doom(connection);
    return false;
}

static void on_readable(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_connection *connection = argument;
    enum { MAX_READS = 8 }; /* then others have their turn; TLS may hold more than one record */
    for (int i = 0; i < MAX_READS; i++) {
        bool wants_write;
        ssize_t n_bytes = read_some(connection, &wants_write);
        if (n_bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wants_write)
                event_add(connection->write_event, NULL);
            return;
        }
        if (!take(connection, n_bytes) || connection->tls == NULL ||
            !event_pending(connection->read_event, EV_READ, NULL))
            return;
    }
    event_active(connection->read_event, EV_READ, 0);
}

static void on_writable(evutil_socket_t fd, short what, void *argument) {
    ln_connection *connection = argument;
    if (evbuffer_get_length(connection->out) > 0)
        ln_connection_flush(connection);
    else if (connection->tls != NULL)
        on_readable(fd, what, connection);
}

/* ---- accepting -------------------------------------------------------------------------- */

static void describe_peer(ln_connection *connection, const struct sockaddr *address) {
    connection->exchange.peer = connection->peer;
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        port = ntohs(in->sin6_port);
    }
    snprintf(connection->peer, sizeof connection->peer,
             address->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port);
}

static ln_connection *create_connection(ln_http *http, int fd) {
    ln_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->http = http;
    connection->fd = fd;
    connection->read_event =
        event_new(http->base, fd, EV_READ | EV_PERSIST, on_readable, connection);
    connection->write_event = event_new(http->base, fd, EV_WRITE, on_writable, connection);
    connection->timer = evtimer_new(http->base, on_timer, connection);
    connection->out = evbuffer_new();
    if (http->tls != NULL)
        connection->tls = ln_tls_stream_create(http->tls, fd);
    if (connection->read_event != NULL && connection->write_event != NULL &&
        connection->timer != NULL && connection->out != NULL &&
        (http->tls == NULL || connection->tls != NULL))
        return connection;
    connection->fd = -1; /* the caller closes it */
    free_connection(connection);
    return NULL;
}

static void accept_connection(ln_http *http, int fd, const struct sockaddr *address) {
    ln_connection *connection = create_connection(http, fd);
    if (connection == NULL) {
        close(fd);
        return;
    }
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    describe_peer(connection, address);
    connection->next = http->connections;
    if (http->connections != NULL)
        http->connections->previous = connection;
    http->connections = connection;
    if (++http->n_connections >= http->limits.max_connections)
        pause_listener(http);
    connection->is_late = http->is_draining;
    /* a handshake is part of the first head */
    connection->is_timed = http->tls != NULL || connection->is_late;
    ln_connection_set_deadline(connection,
                               connection->is_timed ? http->limits.head_ms : http->limits.idle_ms);
    event_add(connection->read_event, NULL);
}

static void on_acceptable(evutil_socket_t listen_fd, short what, void *argument) {
    (void)what;
    ln_http *http = argument;
    while (!http->is_paused && may_do(http, LN_TURN_ACCEPTED)) {
        struct sockaddr_storage address = {0};
        socklen_t n_bytes = sizeof address;
        int fd =
            accept4(listen_fd, (struct sockaddr *)&address, &n_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            accept_connection(http, fd, (const struct sockaddr *)&address);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* no descriptors are left, say: the kernel would report it without end */
            struct timeval soon = {.tv_usec = RETRY_MS * 1000};
            pause_listener(http);
            event_add(http->retry, &soon);
        }
    }
}

static void on_retry(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    resume_listener(argument);
}

/* ---- listening -------------------------------------------------------------------------- */

static ln_status bind_socket(const ln_http_address *address, int *fd, ln_error *err) {
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%u", address->port);
    int failed = getaddrinfo(address->host, port, &hints, &found);
    if (failed)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "cannot listen at %s: %s", address->host,
                       gai_strerror(failed));
    ln_status status = LINNET_OK;
    int yes = 1;
    *fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd >= 0)
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (*fd < 0 || bind(*fd, found->ai_addr, found->ai_addrlen) != 0 || listen(*fd, BACKLOG) != 0)
        status = ln_fail(err, LINNET_ERR_IO, "cannot listen at %s port %s: %s", address->host, port,
                         strerror(errno));
    freeaddrinfo(found);
    if (status != LINNET_OK && *fd >= 0)
        close(*fd);
    return status;
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t n_bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &n_bytes) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)&address)->sin_port);
}

static ln_status open_listener(ln_http *http, const ln_http_address *address, ln_error *err) {
    int fd = -1;
    http->reaper = event_new(http->base, -1, 0, on_reaper, http);
    http->retry = evtimer_new(http->base, on_retry, http);
    if (http->reaper == NULL || http->retry == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    if (address->certificate != NULL)
        LN_TRY(ln_tls_create(address->certificate, address->key, &http->tls, err));
    LN_TRY(bind_socket(address, &fd, err));
    http->port = port_of(fd);
    http->listen_fd = fd;
    http->accepter = event_new(http->base, fd, EV_READ | EV_PERSIST, on_acceptable, http);
    if (http->accepter == NULL || event_add(http->accepter, NULL) != 0)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    return LINNET_OK;
}

ln_status ln_http_listen(struct event_base *base, const ln_http_address *address,
                         const ln_http_limits *limits, const ln_http_hooks *hooks, ln_http **out,
                         ln_error *err) {
    *out = NULL;
    ln_http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    http->base = base;
    http->listen_fd = -1;
    http->limits = *limits;
    http->hooks = *hooks;
    if (getrandom(&http->id_key, sizeof http->id_key, 0) != sizeof http->id_key)
        http->id_key = (uint64_t)time(NULL);
    ln_status status = open_listener(http, address, err);
    if (status == LINNET_OK)
        *out = http;
    else
        ln_http_destroy(http);
    return status;
}

void ln_http_destroy(ln_http *http) {
    if (http == NULL)
        return;
    while (http->connections != NULL)
        ln_connection_doom(http->connections);
    while (http->doomed != NULL) {
        ln_connection *connection = http->doomed;
        http->doomed = connection->next;
        free_connection(connection);
    }
    if (http->accepter != NULL)
        event_free(http->accepter);
    if (http->listen_fd >= 0)
        close(http->listen_fd);
    if (http->reaper != NULL)
        event_free(http->reaper);
    if (http->retry != NULL)
        event_free(http->retry);
    ln_tls_destroy(http->tls);
    free(http);
}

uint16_t ln_http_get_port(const ln_http *http) {
    return http->port;
}

size_t ln_http_count_connections(const ln_http *http) {
    return http->n_connections;
}

bool ln_http_is_busy(const ln_http *http) {
    for (const ln_connection *connection = http->connections; connection != NULL;
         connection = connection->next)
        if (!connection->is_late &&
            (connection->is_active || evbuffer_get_length(connection->out) > 0))
            return true;
    return http->doomed != NULL;
}

bool ln_http_is_late(const ln_exchange *exchange) {
    return ((const ln_connection *)(const void *)exchange)->is_late;
}

void ln_http_drain(ln_http *http) {
    http->is_draining = true;
    for (ln_connection *connection = http->connections, *next; connection; connection = next) {
        next = connection->next;
        if (connection->state == LN_CONNECTION_IDLE && evbuffer_get_length(connection->out) == 0)
            ln_connection_doom(connection);
    }
}
