#include "server/http/output.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { LINGER_MS = 2000 };

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

/* Shuts down our side after the last response. The client may still read; what it sends is
 * discarded until it closes or LINGER_MS are over, since closing now would reset the connection. */
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

void ln_output_add(ln_connection *connection, const void *bytes, size_t n_bytes) {
    if (evbuffer_add(connection->out, bytes, n_bytes) != 0)
        ln_connection_doom(connection);
}

void ln_output_flush(ln_connection *connection) {
    bool had_progress = false;
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
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
        if (event_add(connection->write_event, NULL) != 0) {
            ln_connection_doom(connection);
            return;
        }
        bool is_reading =
            connection->state == LN_CONNECTION_HEAD || connection->state == LN_CONNECTION_BODY;
        if (!is_reading && (had_progress || !was_waiting))
            ln_connection_set_deadline(connection, connection->set->limits.unread_ms);
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
        ln_connection_set_deadline(connection, connection->set->limits.idle_ms);
    ln_connection_wake(connection);
}

/* Writes the line with the size of a chunk; returns its length. */
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

void ln_output_put_part(ln_connection *connection, const char *bytes, size_t n_bytes) {
    enum { SHORT_BYTES = 4096, SIZE_BYTES = 2 * sizeof n_bytes + 2 };
    char line[SIZE_BYTES], whole[SHORT_BYTES + SIZE_BYTES + 2];
    size_t n_line = connection->is_chunked ? put_size(line, n_bytes) : 0;
    size_t n_end = connection->is_chunked ? 2 : 0;
    if (connection->tls != NULL || n_bytes > SHORT_BYTES ||
        evbuffer_get_length(connection->out) > 0) {
        ln_output_add(connection, line, n_line);
        ln_output_add(connection, bytes, n_bytes);
        ln_output_add(connection, "\r\n", n_end);
        return;
    }
    memcpy(whole, line, n_line);
    memcpy(whole + n_line, bytes, n_bytes);
    memcpy(whole + n_line + n_bytes, "\r\n", n_end);
    size_t n_whole = n_line + n_bytes + n_end;
    ssize_t written = send(connection->fd, whole, n_whole, MSG_NOSIGNAL);
    size_t n_written = written > 0 ? (size_t)written : 0;
    if (n_written < n_whole)
        ln_output_add(connection, whole + n_written, n_whole - n_written);
}
