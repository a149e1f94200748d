#include "server/http/listener.h"

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

#include "server/http/output.h"
#include "server/http/reader.h"

enum { BACKLOG = 4096, MAX_LINGER_BYTES = 16 << 20, RETRY_MS = 100 };

/* What clients can cause in bulk. Each is bounded per iteration of the event loop, so that a crowd
 * does not delay the connections that have work. */
enum { BULK_ACCEPTED = 0, BULK_LATE, BULK_REAPED, BULK_KINDS };

struct ln_listener {
    ln_connection_set set; /* first: a connection's set is its listener */
    struct event_base *base;
    int listen_fd; /* -1: none */
    struct event *accepter, *retry;
    ln_tls *tls; /* NULL: none */
    size_t n_connections;
    uint16_t port;
    bool is_paused;
    struct timeval iteration;            /* which one it is: the loop's cached time */
    unsigned n_in_iteration[BULK_KINDS]; /* what it has handled */
    char scratch[65536];                 /* read buffer */
};

static ln_listener *of(ln_connection *connection) {
    return (ln_listener *)(void *)connection->set;
}

/* ---- ends ------------------------------------------------------------------------------- */

static void pause_listener(ln_listener *listener) {
    event_del(listener->accepter);
    listener->is_paused = true;
}

static void retry_soon(ln_listener *listener) {
    static const struct timeval soon = {.tv_usec = RETRY_MS * 1000};
    event_add(listener->retry, &soon);
}

static void resume_listener(ln_listener *listener) {
    if (listener->is_paused && listener->n_connections < listener->set.limits.max_connections) {
        listener->is_paused = event_add(listener->accepter, NULL) != 0;
        if (listener->is_paused)
            retry_soon(listener);
    }
}

/* Whether this iteration of the event loop may handle one more of a kind. */
static bool may_handle(ln_listener *listener, int kind) {
    enum { MAX_PER_ITERATION = 64 };
    struct timeval iteration;
    event_base_gettimeofday_cached(listener->base, &iteration);
    if (iteration.tv_sec != listener->iteration.tv_sec ||
        iteration.tv_usec != listener->iteration.tv_usec) {
        listener->iteration = iteration;
        memset(listener->n_in_iteration, 0, sizeof listener->n_in_iteration);
    }
    return listener->n_in_iteration[kind]++ < MAX_PER_ITERATION;
}

static void free_connection(ln_connection *connection) {
    ln_connection_reset(connection);
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

/* Frees doomed connections, after their exchanges were given back to the hooks. */
static void on_reaper(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    static const struct timeval soon = {.tv_usec = 1000};
    ln_listener *listener = argument;
    while (listener->set.doomed != NULL) {
        if (!may_handle(listener, BULK_REAPED)) {
            event_add(listener->set.reaper, &soon);
            break;
        }
        ln_connection *connection = listener->set.doomed;
        listener->set.doomed = connection->next;
        ln_exchange *exchange = &connection->exchange;
        if (connection->is_active) {
            exchange->was_cut = true;
            if (connection->is_whole)
                listener->set.hooks.on_gone(listener->set.hooks.user, exchange);
            listener->set.hooks.on_end(listener->set.hooks.user, exchange);
        }
        free_connection(connection);
        listener->n_connections--;
    }
    resume_listener(listener);
}

/* ---- events of a connection ------------------------------------------------------------- */

static void on_timer(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_connection *connection = argument;
    if (!may_handle(of(connection), BULK_LATE))
        ln_connection_set_deadline(connection, 1);
    else if (connection->state == LN_CONNECTION_HEAD)
        ln_connection_refuse(connection, 408, "the head of the request did not come in time");
    else if (connection->state == LN_CONNECTION_BODY)
        ln_connection_refuse(connection, 408, "the body of the request did not come in time");
    else
        ln_connection_doom(connection);
}

static ssize_t read_some(ln_connection *connection, bool *wants_write) {
    ln_listener *listener = of(connection);
    *wants_write = false;
    if (connection->tls != NULL)
        return ln_tls_read(connection->tls, listener->scratch, sizeof listener->scratch,
                           wants_write);
    return recv(connection->fd, listener->scratch, sizeof listener->scratch, 0);
}

/* Handles what recv returned: bytes, the end of the stream, or an error. False when the connection
 * is not to be read any more. */
static bool take(ln_connection *connection, ssize_t n_bytes) {
    bool is_answered =
        connection->state == LN_CONNECTION_IDLE || connection->state == LN_CONNECTION_LINGER;
    if (n_bytes == 0 && is_answered && evbuffer_get_length(connection->out) > 0) {
        connection->state = LN_CONNECTION_LINGER; /* half closed: it may still read the rest */
        event_del(connection->read_event);
        return false;
    }
    if (n_bytes <= 0) {
        ln_connection_doom(connection);
        return false;
    }
    if (connection->state != LN_CONNECTION_LINGER) {
        ln_reader_feed(connection, of(connection)->scratch, (size_t)n_bytes);
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
    ln_reader_resume(connection);
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
    enum { MAX_READS = 8 }; /* TLS may hold several records; then others are served */
    for (int i = 0; i < MAX_READS; i++) {
        bool wants_write;
        ssize_t n_bytes = read_some(connection, &wants_write);
        if (n_bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wants_write && event_add(connection->write_event, NULL) != 0)
                ln_connection_doom(connection);
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
        ln_output_flush(connection);
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

static ln_connection *create_connection(ln_listener *listener, int fd) {
    ln_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->set = &listener->set;
    connection->fd = fd;
    connection->read_event =
        event_new(listener->base, fd, EV_READ | EV_PERSIST, on_readable, connection);
    connection->write_event = event_new(listener->base, fd, EV_WRITE, on_writable, connection);
    connection->timer = evtimer_new(listener->base, on_timer, connection);
    connection->out = evbuffer_new();
    if (listener->tls != NULL)
        connection->tls = ln_tls_stream_create(listener->tls, fd);
    if (connection->read_event != NULL && connection->write_event != NULL &&
        connection->timer != NULL && connection->out != NULL &&
        (listener->tls == NULL || connection->tls != NULL))
        return connection;
    connection->fd = -1; /* the caller closes it */
    free_connection(connection);
    return NULL;
}

static void accept_connection(ln_listener *listener, int fd, const struct sockaddr *address) {
    ln_connection *connection = create_connection(listener, fd);
    if (connection == NULL) {
        close(fd);
        return;
    }
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    describe_peer(connection, address);
    connection->next = listener->set.first;
    if (listener->set.first != NULL)
        listener->set.first->previous = connection;
    listener->set.first = connection;
    if (++listener->n_connections >= listener->set.limits.max_connections)
        pause_listener(listener);
    connection->is_late = listener->set.is_draining;
    /* with TLS the deadline of the first head includes the handshake */
    connection->is_timed = listener->tls != NULL || connection->is_late;
    ln_connection_set_deadline(connection, connection->is_timed ? listener->set.limits.head_ms
                                                                : listener->set.limits.idle_ms);
    if (event_add(connection->read_event, NULL) != 0) /* it would never be read */
        ln_connection_doom(connection);
}

static void on_acceptable(evutil_socket_t listen_fd, short what, void *argument) {
    (void)what;
    ln_listener *listener = argument;
    while (!listener->is_paused && may_handle(listener, BULK_ACCEPTED)) {
        struct sockaddr_storage address = {0};
        socklen_t n_bytes = sizeof address;
        int fd =
            accept4(listen_fd, (struct sockaddr *)&address, &n_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            accept_connection(listener, fd, (const struct sockaddr *)&address);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* no descriptors are left, say: the kernel would report it without end */
            pause_listener(listener);
            retry_soon(listener);
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

static ln_status read_port(int fd, uint16_t *port, ln_error *err) {
    struct sockaddr_storage address;
    socklen_t n_bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &n_bytes) != 0)
        return ln_fail(err, LINNET_ERR_IO, "cannot tell the port that the server listens at: %s",
                       strerror(errno));
    *port = ntohs(address.ss_family == AF_INET6
                      ? ((const struct sockaddr_in6 *)(const void *)&address)->sin6_port
                      : ((const struct sockaddr_in *)(const void *)&address)->sin_port);
    return LINNET_OK;
}

static ln_status open_listener(ln_listener *listener, const ln_http_address *address,
                               ln_error *err) {
    int fd = -1;
    listener->set.reaper = event_new(listener->base, -1, 0, on_reaper, listener);
    listener->retry = evtimer_new(listener->base, on_retry, listener);
    if (listener->set.reaper == NULL || listener->retry == NULL)
        return ln_fail_memory(err, "the server");
    if (address->certificate != NULL)
        LN_TRY(ln_tls_create(address->certificate, address->key, &listener->tls, err));
    LN_TRY(bind_socket(address, &fd, err));
    listener->listen_fd = fd;
    LN_TRY(read_port(fd, &listener->port, err));
    listener->accepter =
        event_new(listener->base, fd, EV_READ | EV_PERSIST, on_acceptable, listener);
    if (listener->accepter == NULL || event_add(listener->accepter, NULL) != 0)
        return ln_fail_memory(err, "the server");
    return LINNET_OK;
}

ln_status ln_listener_open(struct event_base *base, const ln_http_address *address,
                           const ln_http_limits *limits, const ln_http_hooks *hooks,
                           ln_listener **out, ln_error *err) {
    *out = NULL;
    ln_listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL)
        return ln_fail_memory(err, "the server");
    listener->base = base;
    listener->listen_fd = -1;
    listener->set.limits = *limits;
    listener->set.hooks = *hooks;
    if (getrandom(&listener->set.id_key, sizeof listener->set.id_key, 0) !=
        sizeof listener->set.id_key)
        listener->set.id_key = (uint64_t)time(NULL);
    ln_status status = open_listener(listener, address, err);
    if (status == LINNET_OK)
        *out = listener;
    else
        ln_listener_close(listener);
    return status;
}

void ln_listener_close(ln_listener *listener) {
    if (listener == NULL)
        return;
    while (listener->set.first != NULL)
        ln_connection_doom(listener->set.first);
    while (listener->set.doomed != NULL) {
        ln_connection *connection = listener->set.doomed;
        listener->set.doomed = connection->next;
        free_connection(connection);
    }
    if (listener->accepter != NULL)
        event_free(listener->accepter);
    if (listener->listen_fd >= 0)
        close(listener->listen_fd);
    if (listener->set.reaper != NULL)
        event_free(listener->set.reaper);
    if (listener->retry != NULL)
        event_free(listener->retry);
    ln_tls_destroy(listener->tls);
    free(listener);
}

uint16_t ln_listener_get_port(const ln_listener *listener) {
    return listener->port;
}

size_t ln_listener_count_connections(const ln_listener *listener) {
    return listener->n_connections;
}

bool ln_listener_is_busy(const ln_listener *listener) {
    for (const ln_connection *connection = listener->set.first; connection != NULL;
         connection = connection->next)
        if (!connection->is_late &&
            (connection->is_active || evbuffer_get_length(connection->out) > 0))
            return true;
    return listener->set.doomed != NULL;
}

void ln_listener_drain(ln_listener *listener) {
    listener->set.is_draining = true;
    for (ln_connection *connection = listener->set.first, *next; connection; connection = next) {
        next = connection->next;
        if (connection->state == LN_CONNECTION_IDLE && evbuffer_get_length(connection->out) == 0)
            ln_connection_doom(connection);
    }
}
